// SPDX-License-Identifier: Apache-2.0
#pragma once

// The device table: what a back-end plug-in offers. Plain structs, function pointers and error
// texts; no exception crosses it. A plug-in exports one function, `evener_device_table`, that
// returns a table which lives as long as the plug-in is loaded.
//
// Operations are prepared: `prepare` decides everything for one shape (implementation, layouts,
// workspace) and may refuse with a reason; `run` allocates nothing and cannot fail on shape.

#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/matmul.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rotary.hpp"
#include "kernels/swiglu.hpp"

#include <cstddef>

namespace evener::kernels {

/// Raised whenever a struct of the contracts changes its meaning.
inline constexpr std::uint32_t table_version = 3;

enum class OperationKind : std::uint32_t {
    matmul,
    rms_norm,
    rms_norm_backward,
    rms_norm_weight_gradient,
    rotary,
    attention,
    attention_backward,
    swiglu,
    swiglu_backward,
    embedding,
    embedding_gradient,
    cross_entropy,
    adamw,
    sgd,
    convert,
    clear,
    column_sums,
    segment_sums,
    sum_squares,
    count
};

/// One operation with its sizes. `kind` says which member of the union is meant.
struct OperationShape {
    OperationKind kind = OperationKind::clear;
    union {
        MatmulShape matmul;
        RmsNormShape rms_norm; ///< forward, backward and weight gradient
        RotaryShape rotary;
        AttentionShape attention; ///< forward and backward
        SwigluShape swiglu;       ///< forward and backward
        EmbeddingShape embedding; ///< forward and gradient
        CrossEntropyShape cross_entropy;
        OptimizerShape optimizer; ///< adamw and sgd
        ConvertShape convert;
        ClearShape clear;
        ColumnSumsShape column_sums;
        SegmentSumsShape segment_sums;
        SumSquaresShape sum_squares;
    };

    OperationShape() : clear{} {}
};

struct Device;   ///< an opened device; owned by the plug-in
struct Prepared; ///< a prepared operation; owned by the plug-in
struct Event;    ///< a point in a stream; owned by the plug-in
struct Group;    ///< devices that reduce and gather among themselves; owned by the plug-in

/// Where the plug-in writes why it refused or failed; always ends in a zero byte.
struct Reason {
    char text[512] = {};
};

struct DeviceOptions {
    int threads = 1; ///< of this process, for back ends that compute on the CPU
    int ordinal = 0; ///< which device, for back ends with several
};

/// What is known of a device before it is opened.
struct DeviceFacts {
    char name[128] = {};           ///< "NVIDIA H100 80GB HBM3"
    char bus_id[32] = {};          ///< "0000:3b:00.0", as hwloc spells it
    unsigned char uuid[16] = {};   ///< the same on every node and in every process
    std::int64_t memory_bytes = 0; ///< all of it
    int capability_major = 0;
    int capability_minor = 0;
    int driver_version = 0; ///< 1000 major + 10 minor
};

/// Streams run side by side; what is enqueued on one runs in order. Messages have streams of their own:
/// a copy of a program may wait on its stream for a collective, whose other members may wait for a
/// message of this rank.
enum class StreamKind : std::uint32_t {
    compute,
    copy_in,  ///< of programs
    copy_out, ///< likewise
    message_in,
    message_out,
    collective,
    count
};

/// Devices with a memory of their own: operands are addresses in it, or of pinned memory. Copies,
/// records and waits only enqueue. 0 = done; every other code comes with a reason. Any thread of
/// the process may call.
struct MemoryTable {
    /// Devices of this kind on this node that the process sees; -1 and a reason when that is
    /// unknown.
    int (*count_devices)(Reason* reason);
    int (*describe)(int ordinal, DeviceFacts* facts, Reason* reason);

    /// Device memory, aligned to 256 bytes, contents undefined. `bytes` > 0.
    int (*allocate)(Device* device, std::int64_t bytes, void** memory, Reason* reason);
    void (*deallocate)(Device* device, void* memory);
    /// Host memory that copies can use while the host goes on; operations may read and write it.
    int (*allocate_pinned)(Device* device, std::int64_t bytes, void** memory, Reason* reason);
    void (*deallocate_pinned)(Device* device, void* memory);
    int (*free_bytes)(Device* device, std::int64_t* bytes, Reason* reason);

    /// Between any two of device and pinned memory.
    int (*copy)(Device* device, StreamKind stream, void* dst, void const* src, std::int64_t bytes,
                Reason* reason);

    int (*create_event)(Device* device, Event** event, Reason* reason);
    void (*destroy_event)(Device* device, Event* event);
    int (*record)(Device* device, Event* event, StreamKind stream, Reason* reason);
    /// What is enqueued on `stream` from now on starts after the event's last record.
    int (*wait)(Device* device, StreamKind stream, Event* event, Reason* reason);
    /// 0: all before the event's last record is done; 1: not yet; else an error. An event that was
    /// never recorded is done.
    int (*query)(Device* device, Event* event, Reason* reason);
    int (*synchronize)(Device* device, Event* event, Reason* reason);
    /// Between two recorded events that are done.
    int (*elapsed)(Device* device, Event* begin, Event* end, double* seconds, Reason* reason);
};

inline constexpr std::int64_t group_id_bytes = 128;

/// One member's part of a group's buffer: elements [begin, end) of it.
struct GroupPart {
    int owner = 0; ///< rank in the group
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Collectives among the devices of a group, one process each; enqueued on the collective stream.
/// All members make the same calls in the same order. Any thread may call.
struct GroupTable {
    /// Of the library, which is opened by the first call of this table: major * 10000 + minor * 100
    /// + patch. Members of a group need equal ones.
    int (*library_version)(int* version, Reason* reason);
    /// Made by one member, given to all by the caller: group_id_bytes bytes.
    int (*make_id)(void* id, Reason* reason);
    /// Returns at once; `ready` says when the group may be used.
    int (*create)(Device* device, void const* id, int rank, int size, Group** group,
                  Reason* reason);
    /// 0: ready, without errors, and all of the last call is on the stream; 1: not yet; else an error
    /// of any member.
    int (*ready)(Group* group, Reason* reason);
    /// 0: all is on the stream; 1: some of it is not yet, and the next call or an event behind it must
    /// come after `ready` said 0. Each owner's `reduced` (its parts alone, one after the other) becomes
    /// the sum of all members' `gradient`, float32.
    int (*reduce)(Group* group, float const* gradient, float* reduced, GroupPart const* parts,
                  int part_count, Reason* reason);
    /// Returns as `reduce`. Every member's `weights` gets each owner's part, in place.
    int (*gather)(Group* group, void* weights, Element type, GroupPart const* parts, int part_count,
                  Reason* reason);
    /// Ends what is in flight without waiting for other members; the group is gone.
    void (*abort)(Group* group);
    /// Collective.
    void (*destroy)(Group* group);
};

struct DeviceTable {
    std::uint32_t version;   ///< table_version the plug-in was built with
    char const* build_id;    ///< must equal the executable's
    char const* kind;        ///< "host", "reference", "cuda"
    char const* description; ///< one line for the start table: level, libraries and versions

    /// Null and a reason when the device cannot be used. Host back ends: once per process at a
    /// time.
    Device* (*open)(DeviceOptions const* options, Reason* reason);
    void (*close)(Device* device);

    /// Whether operations can compute in this type at all (speed is measured, not asked).
    bool (*supports)(Device* device, Element type);

    /// Null and a reason when no implementation takes this shape. `workspace_bytes` is what run
    /// needs.
    Prepared* (*prepare)(Device* device, OperationShape const* shape, std::int64_t* workspace_bytes,
                         Reason* reason);
    void (*release)(Device* device, Prepared* prepared);

    /// Host back ends return when the result is there; devices with a memory of their own enqueue on
    /// the compute stream. `workspace` is aligned to 64 bytes. 0 = done.
    int (*run)(Device* device, Prepared* prepared, void* const* operands, void* workspace,
               Reason* reason);

    MemoryTable const* memory; ///< null: operands are the process's own memory
    GroupTable const* group;   ///< null: no collectives among devices
};

/// Type of the one exported symbol, `extern "C" DeviceTable const* evener_device_table()`.
using DeviceTableFunction = DeviceTable const* (*)();
inline constexpr char const* device_table_symbol = "evener_device_table";

} // namespace evener::kernels
