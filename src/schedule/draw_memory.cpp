// SPDX-License-Identifier: Apache-2.0
#include "core/size_text.hpp"
#include "schedule/draw_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace evener::schedule {

namespace {

using program::MemoryPoint;

constexpr LineStyle arena_line{"#b5352a", 1, "4 3"};
constexpr std::string_view curve_colour = "#3f6489";
constexpr std::string_view area_colour = "#d5e1ee";

/// Ranks up to which each has a curve of its own; more are laid over each other.
constexpr std::size_t most_separate = 12;

/// Curves laid over each other at most.
constexpr std::size_t most_together = 64;

/// A step function as a path. Of the points within one finest column only the highest and the last
/// are kept.
std::string curve(std::vector<MemoryPoint> const& points, Axis const& axis, double bottom,
                  double bytes_per_pixel) {
    auto const height = [&](std::int64_t bytes) {
        return coordinate(bottom - static_cast<double>(bytes) / bytes_per_pixel);
    };
    std::string path = fmt::format("M{} {}", coordinate(axis.x(0)), height(0));
    std::string at = height(0);
    auto const go = [&](double x, std::int64_t bytes) {
        std::string const level = height(bytes);
        if (level == at)
            return;
        path += fmt::format("H{}V{}", coordinate(x), level);
        at = level;
    };
    for (std::size_t i = 0; i < points.size();) {
        double const x = axis.x(points[i].seconds);
        std::size_t last = i;
        std::int64_t highest = points[i].bytes;
        while (last + 1 < points.size() &&
               axis.x(points[last + 1].seconds) < x + axis.layout.finest / 2)
            highest = std::max(highest, points[++last].bytes);
        go(x, highest);
        go(axis.x(points[last].seconds), points[last].bytes);
        i = last + 1;
    }
    return path;
}

/// From blue-violet over green to yellow, in steps that look equal, for rank 0 to the last.
std::string rank_colour(double place) {
    static constexpr int stops[][3] = {
        {68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {214, 190, 30}};
    double const position = std::clamp(place, 0.0, 1.0) * 4;
    auto const below = static_cast<std::size_t>(std::min(3.0, position));
    double const part = position - static_cast<double>(below);
    int mixed[3];
    for (int c = 0; c < 3; ++c)
        mixed[c] = static_cast<int>(
            std::lround((1 - part) * stops[below][c] + part * stops[below + 1][c]));
    return fmt::format("#{:02x}{:02x}{:02x}", mixed[0], mixed[1], mixed[2]);
}

struct Curves {
    std::vector<std::vector<MemoryPoint>> points; ///< by rank
    std::vector<double> peaks;
    double arena = 0; ///< the largest of all ranks, or the highest peak where it is higher
};

Curves curves_of(program::ProgramSet const& set, program::Timeline const& timeline) {
    Curves curves;
    for (program::Program const& program : set.programs) {
        auto& points = curves.points.emplace_back(
            program::memory_over_time(program, timeline.ranks[program.rank.index()]));
        double peak = 0;
        for (MemoryPoint const& point : points)
            peak = std::max(peak, static_cast<double>(point.bytes));
        curves.peaks.push_back(peak);
        curves.arena = std::max({curves.arena, peak, static_cast<double>(program.arena_bytes)});
    }
    return curves;
}

double draw_separate(Svg& svg, Axis const& axis, program::ProgramSet const& set,
                     Curves const& curves, double y) {
    double const height = curves.points.size() <= 6 ? 40 : 28;
    Layout const& layout = axis.layout;
    for (std::size_t r = 0; r < curves.points.size(); ++r) {
        double const bottom = y + height;
        double const scale = curves.arena > 0 ? curves.arena / height : 1;
        std::string const path = curve(curves.points[r], axis, bottom, scale);
        double const end = axis.x(curves.points[r].empty() ? 0 : curves.points[r].back().seconds);
        svg.path(fmt::format("{}H{}V{}Z", path, coordinate(end), coordinate(bottom)), area_colour,
                 {area_colour, 0.01, {}});
        svg.path(path, "none", {curve_colour, 1.1, {}});
        svg.line(layout.plot_begin, bottom, layout.plot_end, bottom, {"#aaaaaa", 0.8, {}});
        auto const arena = static_cast<double>(set.programs[r].arena_bytes);
        if (arena > 0)
            svg.line(layout.plot_begin, bottom - arena / scale, layout.plot_end,
                     bottom - arena / scale, arena_line);
        svg.text(layout.plot_begin - 6, bottom - height / 2 + 4, fmt::format("rank {}", r),
                 {11, quiet_text, Anchor::end, false});
        svg.text(layout.plot_end + 10, bottom - height / 2 - 1,
                 "peak " + core::size_text(curves.peaks[r], 3),
                 {10, "#222222", Anchor::start, false});
        svg.text(layout.plot_end + 10, bottom - height / 2 + 11,
                 "arena " + core::size_text(arena, 3),
                 {10, arena_line.stroke, Anchor::start, false});
        y = bottom + 9;
    }
    return y - 9;
}

double draw_together(Svg& svg, Axis const& axis, Curves const& curves, double y) {
    constexpr double height = 150;
    Layout const& layout = axis.layout;
    double const bottom = y + height;
    double const scale = curves.arena > 0 ? curves.arena / height : 1;
    std::size_t const count = curves.points.size();
    auto const colour = [&](std::size_t r) {
        return rank_colour(static_cast<double>(r) / static_cast<double>(count - 1));
    };
    std::size_t const every = (count + most_together - 1) / most_together;
    for (std::size_t r = 0; r < count; r += every) {
        auto const first = curves.peaks.begin() + static_cast<std::ptrdiff_t>(r);
        auto const last =
            curves.peaks.begin() + static_cast<std::ptrdiff_t>(std::min(count, r + every));
        auto const fullest =
            static_cast<std::size_t>(std::max_element(first, last) - curves.peaks.begin());
        svg.path(curve(curves.points[fullest], axis, bottom, scale), "none",
                 {colour(fullest), 0.7, {}});
    }
    svg.line(layout.plot_begin, bottom, layout.plot_end, bottom, {"#aaaaaa", 0.8, {}});
    svg.line(layout.plot_begin, y, layout.plot_end, y, arena_line);
    for (double const part : {0.0, 0.5, 1.0})
        svg.text(layout.plot_begin - 6, bottom - part * height + 4,
                 core::size_text(part * curves.arena, 3), {10, quiet_text, Anchor::end, false});
    svg.text(layout.plot_end + 10, y + 4, "largest arena",
             {10, arena_line.stroke, Anchor::start, false});
    if (every > 1)
        svg.text(layout.plot_end + 10, bottom - 6, fmt::format("of {} ranks the fullest", every),
                 {10, quiet_text, Anchor::start, false});
    for (std::size_t step = 0; step < 5; ++step) {
        std::size_t const r = step * (count - 1) / 4;
        double const at = y + 30 + 16 * static_cast<double>(step);
        svg.line(layout.plot_end + 10, at, layout.plot_end + 28, at, {colour(r), 2.5, {}});
        svg.text(layout.plot_end + 34, at + 4,
                 fmt::format("rank {}: {}", r, core::size_text(curves.peaks[r], 3)),
                 {10, "#222222", Anchor::start, false});
    }
    return bottom;
}

} // namespace

double draw_memory(Svg& svg, Axis const& axis, program::ProgramSet const& set,
                   program::Timeline const& timeline, double y) {
    Curves const curves = curves_of(set, timeline);
    if (curves.points.empty())
        return y;
    return curves.points.size() <= most_separate ? draw_separate(svg, axis, set, curves, y)
                                                 : draw_together(svg, axis, curves, y);
}

} // namespace evener::schedule
