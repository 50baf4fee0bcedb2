// SPDX-License-Identifier: Apache-2.0
#include "schedule/draw_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace evener::schedule {

namespace {

/// `colour` mixed with white.
std::string lighter(std::string_view colour, double white) {
    std::string mixed = "#";
    for (std::size_t i = 1; i < 7; i += 2) {
        int const value = std::stoi(std::string{colour.substr(i, 2)}, nullptr, 16);
        mixed +=
            fmt::format("{:02x}", static_cast<int>(std::lround(value + (255 - value) * white)));
    }
    return mixed;
}

/// How the second time differs from the first.
std::string difference(Measured const& first, Measured const& second) {
    double const change = second.usage.seconds - first.usage.seconds;
    if (first.usage.seconds == 0 || change == 0)
        return fmt::format("as {}", first.course.name);
    return fmt::format("{} ({}) {} than {}", time_text(std::abs(change)),
                       percent_text(std::abs(change), first.usage.seconds),
                       change < 0 ? "less" : "more", first.course.name);
}

/// About how wide a text of a sans-serif font is.
double text_width(std::string_view text, double size) {
    double width = 0;
    for (char const c : text)
        width += std::string_view{"fijlrt.,:' "}.find(c) != std::string_view::npos ? 0.3
                 : c == 'm' || c == 'w' || (c >= 'A' && c <= 'Z')                  ? 0.75
                                                                                   : 0.54;
    return width * size;
}

bool moves_copies(program::ProgramSet const& set) {
    for (program::Program const& program : set.programs)
        for (program::Queue const& queue : program.queues)
            if (queue.kind == program::QueueKind::copy_in ||
                queue.kind == program::QueueKind::copy_out)
                return true;
    return false;
}

class Picture {
  public:
    explicit Picture(Drawing const& drawing)
        : drawing_{drawing}, has_copies_{moves_copies(drawing.set)},
          layout_{std::ssize(drawing.set.programs), drawing.courses.size(), has_copies_},
          axis_{layout_} {
        EVENER_EXPECT(drawing.courses.size() == 1 || drawing.courses.size() == 2);
        Meetings const meetings = find_meetings(drawing.set);
        for (Course const& course : drawing.courses) {
            measured_.push_back({course, usage_of(drawing.set, course.timeline, meetings),
                                 under_way(drawing.set, course.timeline, meetings)});
            axis_.seconds = std::max(axis_.seconds, measured_.back().usage.seconds);
        }
        choose_numbers();
    }

    std::string draw() {
        double const left = 8;
        svg_.text(left, 26, drawing_.title, {17, "#111111", Anchor::start, true});
        double y = 26;
        if (!drawing_.note.empty())
            svg_.text(left, y += 18, drawing_.note, {11, quiet_text, Anchor::start, false});
        y = draw_legend(y + 20);
        for (std::size_t c = 0; c < measured_.size(); ++c) {
            y += 26;
            draw_heading(c, y);
            y += layout_.label_size() > 0 ? 24 : 10;
            y = draw_panel(c, y);
        }
        y = draw_memory_panel(y + 28);
        return svg_.finish(layout_.width, y + 8, drawing_.title);
    }

  private:
    /// The largest size at which the longest microbatch number fits into most boxes.
    void choose_numbers() {
        std::vector<double> widths;
        std::int32_t highest = 0;
        for (program::Program const& program : drawing_.set.programs)
            for (std::size_t i = 0; i < program.instructions.size(); ++i) {
                Facts const facts =
                    facts_of(drawing_.set, program.rank, program.instructions[i].operation);
                if (!is_computation(facts.paint) || !facts.microbatch.valid())
                    continue;
                highest = std::max(highest, facts.microbatch.value);
                for (Measured const& measured : measured_) {
                    program::Span const span =
                        measured.course.timeline.ranks[program.rank.index()][i];
                    widths.push_back(axis_.x(span.end) - axis_.x(span.start));
                }
            }
        if (widths.empty())
            return;
        auto const low = widths.begin() + std::ssize(widths) / 10;
        std::nth_element(widths.begin(), low, widths.end());
        double const width = text_width(fmt::to_string(highest), 1);
        double const size = std::min({11.0, 0.66 * layout_.compute_height, (*low - 1.5) / width});
        layout_.number_size = layout_.compute_height < 8 ? 0 : std::max(6.0, size);
        layout_.number_width = width * layout_.number_size;
    }

    double draw_legend(double y) {
        std::set<Paint> used;
        std::size_t chunks = 1;
        for (program::Program const& program : drawing_.set.programs) {
            chunks = std::max(chunks, chunks_of(drawing_.set.plan, program.rank).size());
            for (program::Instruction const& instruction : program.instructions)
                used.insert(facts_of(drawing_.set, program.rank, instruction.operation).paint);
        }
        static constexpr std::string_view names[paint_count] = {
            "F forward",    "B input gradient",
            "F again",      "W weight gradient",
            "B+W backward", "other",
            "send",         "receive",
            "collective",   "fetch from pinned memory",
            "evict to it"};
        double x = 8;
        auto const entry = [&](std::string_view colour, std::string_view name) {
            svg_.rect(x, y - 9, 14, 10, colour);
            svg_.text(x + 19, y, name, {11, "#222222", Anchor::start, false});
            x += 19 + text_width(name, 11) + 16;
        };
        for (Paint const paint : used)
            entry(paints[static_cast<std::size_t>(paint)], names[static_cast<std::size_t>(paint)]);
        entry(idle_colour, "idle");
        entry(exposed_colour, has_copies_ ? "idle, waits for communication or copies"
                                          : "idle, waits for communication");
        bool const critical =
            std::any_of(measured_.begin(), measured_.end(), [](Measured const& measured) {
                return !measured.course.critical_path.empty();
            });
        if (critical) {
            svg_.line(x, y - 4, x + 16, y - 4, {critical_colour, 1.3, {}});
            svg_.text(x + 21, y, "critical path", {11, "#222222", Anchor::start, false});
            x += 21 + text_width("critical path", 11) + 16;
        }
        if (chunks > 1) {
            for (std::size_t order = 0; order < chunks; ++order, x += 15)
                svg_.rect(x, y - 9, 14, 10, tint(Paint::forward, order, chunks));
            svg_.text(x + 4, y, "chunks of a rank, first to last",
                      {11, "#222222", Anchor::start, false});
        }
        return y;
    }

    void draw_heading(std::size_t c, double y) {
        std::string const& name = measured_[c].course.name;
        svg_.text(8, y, name, {13, "#111111", Anchor::start, true});
        std::string text = to_string(measured_[c].usage);
        if (c > 0)
            text += "; " + difference(measured_[0], measured_[c]);
        svg_.text(layout_.plot_begin, y, text, {12, "#222222", Anchor::start, false});
    }

    double draw_panel(std::size_t c, double y) {
        double const bottom = y + static_cast<double>(drawing_.set.programs.size()) *
                                      (layout_.band_height() + layout_.band_gap);
        draw_grid(svg_, axis_, y - 4, bottom);
        draw_bands(svg_, axis_, drawing_.set, measured_[c], y);
        double const end = axis_.x(measured_[c].usage.seconds);
        svg_.line(end, y - 4, end, bottom, {"#444444", 1, "2 2"});
        return draw_axis(svg_, axis_, bottom);
    }

    double draw_memory_panel(double y) {
        svg_.text(8, y, "memory", {13, "#111111", Anchor::start, true});
        svg_.text(layout_.plot_begin, y,
                  measured_.size() > 1 ? fmt::format("bytes in use of each rank's arena, {}",
                                                     measured_[0].course.name)
                                       : "bytes in use of each rank's arena",
                  {12, "#222222", Anchor::start, false});
        y += 14;
        Svg curves;
        double const bottom =
            draw_memory(curves, axis_, drawing_.set, measured_[0].course.timeline, y);
        draw_grid(svg_, axis_, y - 4, bottom);
        svg_.append(curves);
        return draw_axis(svg_, axis_, bottom + 4);
    }

    Drawing const& drawing_;
    bool has_copies_;
    Layout layout_;
    Axis axis_;
    std::vector<Measured> measured_;
    Svg svg_;
};

} // namespace

std::string tint(Paint paint, std::size_t order, std::size_t count) {
    double const white =
        count > 1 ? 0.6 * static_cast<double>(order) / static_cast<double>(count - 1) : 0;
    return lighter(paints[static_cast<std::size_t>(paint)], white);
}

Layout::Layout(std::int64_t ranks, std::size_t courses, bool has_copies) {
    auto const bands = static_cast<double>(ranks) * static_cast<double>(courses);
    auto const set = [&](double compute, double row, int rows, double gap) {
        compute_height = compute;
        row_height = row;
        message_rows = rows;
        band_gap = gap;
    };
    if (bands > 160)
        set(4, 0, 0, 1);
    else if (bands > 80)
        set(6, 2, 1, 1);
    else if (bands > 40)
        set(10, 3, 1, 2);
    else if (bands > 20)
        set(14, 3, 3, 4);
    else if (bands > 10)
        set(20, 4, 3, 6);
    if (has_copies && message_rows == 3)
        message_rows = 4;
    finest = std::max(1.0, bands / 128); // keeps the size of the file in bounds
}

double Layout::label_size() const {
    double const pitch = band_height() + band_gap;
    return pitch >= 14 ? std::min(11.0, 0.6 * pitch) : 0;
}

std::vector<double> Axis::ticks() const {
    if (seconds <= 0)
        return {0};
    double const rough = seconds / 10;
    double const power = std::pow(10, std::floor(std::log10(rough)));
    double step = power;
    for (double const factor : {1.0, 2.0, 5.0, 10.0})
        if (factor * power <= rough * 1.5)
            step = factor * power;
    std::vector<double> moments;
    for (int i = 0; i * step <= seconds * (1 + 1e-9); ++i)
        moments.push_back(i * step);
    return moments;
}

std::vector<core::ChunkId> chunks_of(program::Plan const& plan, core::RankId rank) {
    std::vector<core::ChunkId> chunks;
    core::GroupId const group = group_of(plan, rank);
    for (std::size_t c = 0; c < plan.chunks.size(); ++c)
        if (plan.chunks[c].group == group)
            chunks.push_back(core::ChunkId{static_cast<std::int64_t>(c)});
    return chunks;
}

void draw_grid(Svg& svg, Axis const& axis, double top, double bottom) {
    for (double const moment : axis.ticks())
        svg.line(axis.x(moment), top, axis.x(moment), bottom, {grid_colour, 0.6, {}});
}

double draw_axis(Svg& svg, Axis const& axis, double y) {
    std::vector<double> const moments = axis.ticks();
    TimeUnit const unit = time_unit(axis.seconds);
    double const step = moments.size() > 1 ? moments[1] * unit.per_second : 1;
    int const digits = std::max(0, static_cast<int>(-std::floor(std::log10(step) + 1e-9)));
    svg.line(axis.layout.plot_begin, y, axis.layout.plot_end, y, {"#444444", 0.8, {}});
    for (double const moment : moments) {
        double const x = axis.x(moment);
        svg.line(x, y, x, y + 4, {"#444444", 0.8, {}});
        svg.text(x, y + 15, fmt::format("{:.{}f}", moment * unit.per_second, digits),
                 {10, "#222222", Anchor::middle, false});
    }
    svg.text(axis.layout.plot_begin - 14, y + 15, fmt::format("time in {}", unit.name),
             {10, quiet_text, Anchor::end, false});
    return y + 18;
}

std::string draw_svg(Drawing const& drawing) {
    return Picture{drawing}.draw();
}

} // namespace evener::schedule
