// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pictures and tables of a pass for people and their tools: an SVG for the paper, a Chrome trace
// for Perfetto (ui.perfetto.dev) or chrome://tracing, a CSV for a spreadsheet. All three show the
// same programs and the same times, predicted or measured, or both beside each other.

#include "program/timeline.hpp"
#include "schedule/simulator.hpp"

#include <map>
#include <string>
#include <vector>

namespace evener::schedule {

/// One run of the programs: a prediction or a measurement.
struct Course {
    std::string name; ///< "predicted", "measured"
    program::Timeline const& timeline;
    std::vector<CriticalStep> critical_path = {}; ///< of a simulation; drawn as a line
};

struct Drawing {
    program::ProgramSet const& set;
    std::string title;
    std::vector<Course> courses; ///< one, or two: the second is compared with the first
    std::string note;            ///< what the times rest on; may be empty
    std::map<std::string, std::string> metadata{}; ///< further facts, kept in the trace
};

/// A band for each rank: computations by kind with their microbatches, messages below, idle time;
/// then memory over time against the arena; totals. With two courses one above the other on the
/// same axis. A line joins the computations that the length of a predicted pass depends on. Boxes
/// under a pixel are merged, so the size is bounded by ranks, not microbatches.
std::string draw_svg(Drawing const& drawing);

/// JSON object with `traceEvents`: one process per rank and course, one thread per queue, a
/// complete event per instruction, a flow from each Send to its Receive, a counter of the bytes in
/// use. Events of a thread may not overlap, so a receive is shown from the moment when it is the
/// first of its queue; its `posted` is when it started.
std::string draw_trace(Drawing const& drawing);

/// A header, then one line per instruction: rank, group, queue, kind, chunk, microbatch, peer,
/// bytes, start and end in seconds; with a second course also NAME_start and NAME_end of it.
/// Columns that an instruction does not have stay empty.
std::string draw_csv(Drawing const& drawing);

} // namespace evener::schedule
