// SPDX-License-Identifier: Apache-2.0
#pragma once

// Schedules as text, to look at, edit and keep: CSV, one row per rank from rank 0, cells in the
// order of work.
//
//   # schedule 1f1b
//   F0.0,F0.1,BW0.0,BW0.1
//   F1.0,B1.0,F1.1,W1.0,,BW1.1
//
// A cell is F (forward), B (input gradient), W (weight gradient) or BW (both), the chunk, a dot and
// the microbatch. Commas, semicolons, blanks and tabs separate cells; empty cells mean nothing.
// Empty lines and lines that start with # are no rows; the row of a rank without work is a comma.

#include "program/schedule.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evener::program {

/// Line and column of a cell; both count from 1.
struct TextPlace {
    int line = 0;
    int column = 0;
};

struct ScheduleText {
    std::string file;
    Schedule schedule;                          ///< name: what "# schedule" says, or "file"
    std::vector<int> lines;                     ///< of each row
    std::vector<std::vector<TextPlace>> places; ///< [row][position in the order]
};

/// Throws core::ConfigError with the places of the cells that are none (the first 20). Whether the
/// schedule is one of a plan is another question: schedule::read_schedule asks it.
ScheduleText parse_schedule(std::string_view text, std::string const& file);

/// What parse_schedule() reads back equal.
std::string print_schedule(Schedule const& schedule);

/// `F0.3`; nothing where the text is no cell.
std::optional<Work> parse_work(std::string_view text);

} // namespace evener::program
