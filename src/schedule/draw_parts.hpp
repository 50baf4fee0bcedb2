// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of the SVG picture: geometry, bands, memory curves. Internal to this folder.

#include "schedule/draw.hpp"
#include "schedule/draw_facts.hpp"
#include "schedule/svg.hpp"
#include "schedule/usage.hpp"

#include <string_view>
#include <vector>

namespace evener::schedule {

/// Colours that people with any colour vision tell apart; of the computations the order of the
/// enumeration is also that of their lightness, so a grey print keeps it. Dark text reads on all of
/// them but other, send and collective.
inline constexpr std::string_view paints[paint_count] = {"#9cc7ea", "#efae45", "#74a9d6", "#58b08c",
                                                         "#db7850", "#9a9a9a", "#8a63b8", "#b99bd8",
                                                         "#4d3878", "#8fcdb9", "#2f7f78"};
inline constexpr std::string_view idle_colour = "#eeeeee";
inline constexpr std::string_view exposed_colour = "#e2d5ef";
inline constexpr std::string_view critical_colour = "#161616";
inline constexpr std::string_view quiet_text = "#666666";
inline constexpr std::string_view grid_colour = "#dddddd";

/// `paint` of the chunk that is number `order` of the `count` chunks of a rank: the later the
/// lighter.
std::string tint(Paint paint, std::size_t order, std::size_t count);

/// Columns and heights, in pixels. Bands get lower as ranks get more.
struct Layout {
    double width = 1280;
    double plot_begin = 132; ///< where time 0 is
    double plot_end = 1104;
    double compute_height = 26;
    double row_height = 5; ///< of each row of messages
    int message_rows = 3;  ///< send, receive, collective, copies; 1: all in one row; 0: none
    double band_gap = 8;
    double finest = 1;       ///< boxes narrower than this are merged
    double number_size = 0;  ///< of microbatch numbers; 0: none
    double number_width = 0; ///< of the longest of them

    Layout(std::int64_t ranks, std::size_t courses, bool has_copies = false);
    double band_height() const { return compute_height + message_rows * row_height; }
    double plot_width() const { return plot_end - plot_begin; }
    /// Size of the texts beside a band; 0: it is too low for one.
    double label_size() const;
};

/// The time axis that all parts of a picture share.
struct Axis {
    Layout const& layout;
    double seconds = 0; ///< at plot_end

    double x(double time) const {
        return layout.plot_begin + (seconds > 0 ? time / seconds * layout.plot_width() : 0);
    }
    /// Round moments between 0 and `seconds`.
    std::vector<double> ticks() const;
};

/// A course with what was computed from it.
struct Measured {
    Course const& course;
    Usage usage;
    std::vector<std::vector<program::Span>> under_way;
};

/// A rank's chunks in model order.
std::vector<core::ChunkId> chunks_of(program::Plan const& plan, core::RankId rank);

/// Draws all ranks' bands from `y` on; returns where they end.
double draw_bands(Svg& svg, Axis const& axis, program::ProgramSet const& set,
                  Measured const& measured, double y);

/// Draws the memory curves of all ranks from `y` on; returns where they end.
double draw_memory(Svg& svg, Axis const& axis, program::ProgramSet const& set,
                   program::Timeline const& timeline, double y);

/// Lines at the ticks from `top` to `bottom`, to be drawn under what they measure.
void draw_grid(Svg& svg, Axis const& axis, double top, double bottom);
/// The axis with its numbers below `y`; returns where they end.
double draw_axis(Svg& svg, Axis const& axis, double y);

} // namespace evener::schedule
