// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs one operation through a device table on buffers of the test's own: operands are described
// once (type, size, contents, who writes them) and can be laid out aligned or at odd addresses.
// Devices with a memory of their own get them by the table's copies.

#include "kernels/table.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace evener::kernels::test {

enum class Storage { float32, bfloat16, float64, int32, scalars };
enum class Role { input, output, updated }; ///< read; written; read and written

inline Storage storage_of(Element type) {
    return type == Element::float32 ? Storage::float32 : Storage::bfloat16;
}

/// Bytes of an element.
std::int64_t size_of(Storage storage);
/// Rounds to the nearest element, to even when two are as near.
void write(Storage storage, std::byte* at, double value);

struct Operand {
    Storage storage = Storage::float32;
    std::int64_t count = 0;
    Role role = Role::input;
    std::function<double(std::int64_t)> fill; ///< value of each element; of outputs: what was there
    int same_as = -1;                         ///< an earlier operand whose memory this one uses
    bool null = false;
};

struct Case {
    std::string name;
    OperationShape shape;
    std::vector<Operand> operands;   ///< in the order of the contract
    std::int64_t k = 1;              ///< terms in a sum, for the tolerance
    Element type = Element::float32; ///< whose rounding the results carry
    OptimizerScalars scalars;
};

/// For GoogleTest, which prints the bytes else.
inline void PrintTo(Case const& test, std::ostream* stream) {
    *stream << test.name;
}

/// Pseudo-random numbers in (-1, 1) that depend on (seed, index) alone.
std::function<double(std::int64_t)> noise(std::uint64_t seed, double scale = 1, double offset = 0);
/// Pseudo-random integers in [0, bound).
std::function<double(std::int64_t)> integers(std::uint64_t seed, std::int64_t bound);
std::function<double(std::int64_t)> constant(double value);

/// An opened device.
class OpenTable {
  public:
    OpenTable(DeviceTable const* table, int threads);
    ~OpenTable();
    OpenTable(OpenTable const&) = delete;
    OpenTable& operator=(OpenTable const&) = delete;

    DeviceTable const& table() const { return *table_; }
    Device* device() const { return device_; }

  private:
    DeviceTable const* table_;
    Device* device_ = nullptr;
};

/// Memory of the device, or where it has none of its own, of the process, on a cache line boundary.
/// Exactly as long as asked for, so that a sanitizer sees what is read or written beyond. Throws
/// std::runtime_error with the table's reason.
class Memory {
  public:
    enum class Kind { host, pinned, device };

    Memory(OpenTable const& open, Kind kind, std::int64_t bytes);
    Memory(Memory&& other) noexcept
        : open_{other.open_}, kind_{other.kind_}, begin_{std::exchange(other.begin_, nullptr)} {}
    ~Memory();

    std::byte* begin() const { return static_cast<std::byte*>(begin_); }

  private:
    OpenTable const* open_;
    Kind kind_;
    void* begin_ = nullptr;
};

/// An event of a device with a memory of its own; what fails throws std::runtime_error.
class TableEvent {
  public:
    explicit TableEvent(OpenTable const& open);
    TableEvent(TableEvent const&) = delete;
    TableEvent& operator=(TableEvent const&) = delete;
    ~TableEvent();

    Event* get() const { return event_; }
    void record(StreamKind stream) const;
    void hold_up(StreamKind stream) const; ///< until the record is reached
    bool is_done() const;
    void synchronize() const;

  private:
    OpenTable const& open_;
    Event* event_ = nullptr;
};

/// Copies on a stream of a device with a memory of its own. Throws std::runtime_error.
void copy(OpenTable const& open, StreamKind stream, void* dst, void const* src, std::int64_t bytes);

/// Releases what it prepared.
class PreparedOperation {
  public:
    PreparedOperation(OpenTable const& open, OperationShape const& shape);
    ~PreparedOperation();
    PreparedOperation(PreparedOperation const&) = delete;
    PreparedOperation& operator=(PreparedOperation const&) = delete;
    Prepared* get() const { return prepared_; } ///< null: refused, see `reason`

    std::int64_t workspace_bytes = 0;
    Reason reason;

  private:
    OpenTable const& open_;
    Prepared* prepared_ = nullptr;
};

enum class Addresses { aligned, odd }; ///< odd: one element past a cache line

/// Contents of each operand after the run, as numbers; empty for null and scalars. Throws
/// std::runtime_error with the reason when the table refuses.
std::vector<std::vector<double>> run(OpenTable const& table, Case const& test,
                                     Addresses addresses = Addresses::aligned);

/// The reason why the table refuses the shape; empty when it does not.
std::string refusal(OpenTable const& table, OperationShape const& shape);

/// The plug-in under test: EVENER_TEST_PLUGIN, or the host's of this build. Null when it cannot be
/// used on this machine, see why_unusable().
DeviceTable const* plugin_table();
/// "this CPU is below the level of the plug-in", or why there is no GPU.
std::string why_unusable();
/// EVENER_TEST_THREADS, or 2.
int test_threads();

char const* name_of(OperationKind kind);

} // namespace evener::kernels::test
