// SPDX-License-Identifier: Apache-2.0
#pragma once

// The text of a run's status file: one line for each rank with what it does right now, of one width,
// so that a rank rewrites its own in place. The file outlives the ranks: the lines of a job that died
// say where it was.
//
//   rank      3 host node7                step         41 step     waits receive peer=1 ... at 1764509000.123
//
// Nodes begin at page boundaries (4096 bytes, filled up with zeros): on a network file system nodes
// that write to one page would undo each other's lines.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evener::runtime {

/// What a rank is at, beside the instructions of a pass.
enum class Phase : std::uint8_t {
    start,    ///< everything before the weights: devices, plan, programs
    load,     ///< weights and moments
    step,     ///< a training pass
    validate, ///< a validation's passes
    save,
    between, ///< passes: metrics, traces
    failed,  ///< it left with an error of its own, which it has printed
    end,
};
std::string_view name_of(Phase phase);
/// Whether the rank runs programs, in which something must move.
constexpr bool in_pass(Phase phase) {
    return phase == Phase::step || phase == Phase::validate;
}

/// Where the parts of a line stand, in bytes. Whole words of 8 are written at once; those behind
/// `position_end` by others than the thread that trains.
struct StatusLayout {
    static constexpr std::size_t rank = 5;
    static constexpr std::size_t host = 17;
    static constexpr std::size_t host_width = 20;
    static constexpr std::size_t step = 43;
    static constexpr std::size_t phase = 54;
    static constexpr std::size_t verb = 63;
    static constexpr std::size_t text = 69;
    static constexpr std::size_t text_width = 70;
    static constexpr std::size_t time = 143;
    static constexpr std::size_t position_end = 160;
    static constexpr std::size_t signal = 160; ///< "TERM" once the rank was told to end
    static constexpr std::size_t moved = 168;  ///< a count of what moves within an instruction
    static constexpr std::size_t alive =
        176; ///< a count that goes on while the process is not stopped
    static constexpr std::size_t width = 184;
    static constexpr std::size_t page = 4096;
};
using StatusText = std::array<char, StatusLayout::width>;

/// One line, read back.
struct StatusRecord {
    int rank = 0;
    std::string host;
    std::int64_t step = 0; ///< counted from 1
    Phase phase = Phase::start;
    std::string verb; ///< "in" an instruction, or "waits" for one; empty outside a pass
    std::string text; ///< of the instruction
    double time = 0;  ///< of the last change of what stands before, seconds since 1970
    bool told_to_end = false;
};

/// A line that stands at the start.
StatusText first_status_line(int rank, std::string_view host, double time);
/// Nothing where that is no line.
std::optional<StatusRecord> parse_status_line(std::string_view line);

/// Where each rank's line stands in the file, and the file's size: `node_of` names each rank's node.
struct StatusPlaces {
    std::vector<std::size_t> offsets; ///< by rank
    std::size_t bytes = 0;
};
StatusPlaces status_places(std::vector<int> const& node_of);

/// All lines of a file's content, by rank; those that are damaged are left out.
std::vector<StatusRecord> parse_status(std::string_view content);

/// "rank 3 (node7) in step 41 waits for receive peer=1 ..., since 12:00:03"; ranks that say the same
/// stand together. Empty for no records.
std::vector<std::string> describe(std::vector<StatusRecord> const& records);

/// The lines that say how a run ended which says nothing itself: empty where all ranks came to their
/// end, or one left with an error. Ranks that were told to end (a launcher does that when another
/// one died) stand behind those that were not.
std::vector<std::string> last_words(std::vector<StatusRecord> const& records);

} // namespace evener::runtime
