// SPDX-License-Identifier: Apache-2.0
#include "core/size_text.hpp"
#include "schedule/draw_parts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace evener::schedule {

namespace {

using program::Span;

constexpr double group_column = 8;
constexpr double bracket_column = 82;

/// A box of a row: colour by paint and, for computations, by tint.
struct Box {
    Span span;
    Paint paint = Paint::other;
    std::size_t order = 0; ///< of its chunk among the rank's
    std::int64_t microbatch = -1;
};

using Colour = std::pair<Paint, std::size_t>;

/// Merges neighbours that are narrower than the finest box: what is drawn has the colour of most of
/// them and covers all of them.
std::vector<Box> merge_small(std::vector<Box> const& boxes, Axis const& axis) {
    std::vector<Box> merged;
    double const finest = axis.seconds * axis.layout.finest / axis.layout.plot_width();
    for (std::size_t i = 0; i < boxes.size();) {
        if (boxes[i].span.seconds() >= finest) {
            merged.push_back(boxes[i++]);
            continue;
        }
        Box box = boxes[i];
        std::map<Colour, double> seconds;
        double const limit = box.span.start + finest;
        for (; i < boxes.size() && boxes[i].span.seconds() < finest && boxes[i].span.start < limit;
             ++i) {
            seconds[{boxes[i].paint, boxes[i].order}] += boxes[i].span.seconds();
            box.span.end = std::max(box.span.end, boxes[i].span.end);
        }
        std::tie(box.paint, box.order) =
            std::max_element(seconds.begin(), seconds.end(), [](auto const& a, auto const& b) {
                return a.second < b.second;
            })->first;
        box.microbatch = -1;
        bool const joins = !merged.empty() && merged.back().microbatch < 0 &&
                           merged.back().paint == box.paint && merged.back().order == box.order &&
                           box.span.start - merged.back().span.end < finest / 4;
        if (joins)
            merged.back().span.end = std::max(merged.back().span.end, box.span.end);
        else
            merged.push_back(box);
    }
    return merged;
}

/// One rank's band, `y` its upper edge.
class Band {
  public:
    Band(Svg& svg, Axis const& axis, program::ProgramSet const& set, Measured const& measured,
         core::RankId rank, double y)
        : svg_{svg}, axis_{axis}, layout_{axis.layout}, set_{set}, measured_{measured},
          program_{set.programs[rank.index()]}, chunks_{chunks_of(set.plan, rank)}, y_{y} {
        auto const& spans = measured.course.timeline.ranks[rank.index()];
        for (std::size_t i = 0; i < spans.size(); ++i)
            add(i, spans[i], measured.under_way[rank.index()][i]);
        for (std::vector<Box>& row : rows_)
            std::sort(row.begin(), row.end(),
                      [](Box const& a, Box const& b) { return a.span.start < b.span.start; });
    }

    void draw() {
        draw_idle();
        draw_computations();
        for (int row = 0; row < layout_.message_rows; ++row)
            draw_messages(rows_[static_cast<std::size_t>(row) + 1],
                          y_ + layout_.compute_height + (row + 0.5) * layout_.row_height);
    }

  private:
    void add(std::size_t i, Span span, Span under_way) {
        Facts const facts = facts_of(set_, program_.rank, program_.instructions[i].operation);
        if (is_computation(facts.paint)) {
            auto const order = std::find(chunks_.begin(), chunks_.end(), facts.chunk);
            bool const known = order != chunks_.end();
            rows_[0].push_back({span, facts.paint,
                                known ? static_cast<std::size_t>(order - chunks_.begin()) : 0,
                                facts.microbatch.value});
            return;
        }
        int const row = std::min(static_cast<int>(facts.paint), static_cast<int>(Paint::fetch)) -
                        static_cast<int>(Paint::send);
        if (layout_.message_rows > 0 && under_way.seconds() > 0)
            rows_[static_cast<std::size_t>(std::min(row, layout_.message_rows - 1)) + 1].push_back(
                {under_way, facts.paint, 0, -1});
    }

    double middle() const { return y_ + layout_.compute_height / 2; }

    void draw_idle() {
        std::string idle;
        add_bar(idle, axis_.x(0), axis_.x(measured_.usage.seconds), middle());
        svg_.bars(idle, layout_.compute_height, idle_colour);
        std::vector<Box> waits;
        for (Span const& span : measured_.usage.ranks[program_.rank.index()].exposed)
            waits.push_back({span, Paint::receive, 0, -1});
        std::string exposed;
        for (Box const& box : merge_small(waits, axis_))
            add_bar(exposed, axis_.x(box.span.start), axis_.x(box.span.end), middle());
        svg_.bars(exposed, layout_.compute_height, exposed_colour);
    }

    void draw_computations() {
        std::vector<Box> const boxes = merge_small(rows_[0], axis_);
        std::map<Colour, std::string> paths;
        for (Box const& box : boxes) {
            double const begin = axis_.x(box.span.start);
            double end = axis_.x(box.span.end);
            if (end - begin > 3) // a thin gap tells neighbours apart
                end -= 0.6;
            add_bar(paths[{box.paint, box.order}], begin, std::max(end, begin + 0.15), middle());
        }
        for (auto const& [colour, path] : paths)
            svg_.bars(path, layout_.compute_height,
                      tint(colour.first, colour.second, chunks_.size()));
        draw_numbers(boxes);
    }

    /// All of them or none of a width, so that they tell nothing by being there.
    void draw_numbers(std::vector<Box> const& boxes) {
        double const size = layout_.number_size;
        bool open = false;
        for (Box const& box : boxes) {
            double const width = axis_.x(box.span.end) - axis_.x(box.span.start);
            if (size == 0 || box.microbatch < 0 || width < layout_.number_width + 0.3)
                continue;
            if (!open)
                svg_.begin_texts({size, "#111111", Anchor::middle, false});
            open = true;
            svg_.plain_text((axis_.x(box.span.start) + axis_.x(box.span.end)) / 2,
                            middle() + 0.36 * size, fmt::to_string(box.microbatch));
        }
        if (open)
            svg_.end_group();
    }

    void draw_messages(std::vector<Box> const& row, double y) {
        std::array<std::string, paint_count> paths;
        for (Box const& box : merge_small(row, axis_)) {
            double const begin = axis_.x(box.span.start);
            add_bar(paths[static_cast<std::size_t>(box.paint)], begin,
                    std::max(axis_.x(box.span.end), begin + 0.4), y);
        }
        for (std::size_t p = 0; p < paint_count; ++p)
            svg_.bars(paths[p], layout_.row_height - (layout_.row_height > 2 ? 1 : 0), paints[p]);
    }

    Svg& svg_;
    Axis const& axis_;
    Layout const& layout_;
    program::ProgramSet const& set_;
    Measured const& measured_;
    program::Program const& program_;
    std::vector<core::ChunkId> chunks_;
    double y_;
    std::array<std::vector<Box>, 5> rows_; ///< computations, then rows of messages and copies
};

std::string layers_text(program::Plan const& plan, core::GroupId group) {
    std::string text;
    std::int64_t chunks = 0;
    for (program::Chunk const& chunk : plan.chunks)
        if (chunk.group == group) {
            text += fmt::format("{}{}", text.empty() ? "" : ", ", chunk.layers.begin);
            if (chunk.layers.size() > 1)
                text += fmt::format("–{}", chunk.layers.end - 1);
            ++chunks;
        }
    bool const one = chunks == 1 && text.find("–") == std::string::npos;
    return chunks > 2 ? fmt::format("{} chunks", chunks)
                      : fmt::format("{} {}", one ? "layer" : "layers", text);
}

/// Names of groups and ranks left of the bands.
void draw_labels(Svg& svg, Axis const& axis, program::ProgramSet const& set, double top) {
    Layout const& layout = axis.layout;
    double const pitch = layout.band_height() + layout.band_gap;
    double const size = layout.label_size();
    std::size_t const every =
        size > 0 ? 1 : static_cast<std::size_t>(std::ceil(9 / pitch)); // labels that fit
    double const rank_size = size > 0 ? size : 8;
    for (std::size_t r = 0; r < set.programs.size(); r += every)
        svg.text(layout.plot_begin - 6,
                 top + static_cast<double>(r) * pitch + layout.compute_height / 2 +
                     0.36 * rank_size,
                 size >= 10 ? fmt::format("rank {}", r) : fmt::to_string(r),
                 {rank_size, quiet_text, Anchor::end, false});
    double free_from = top - 20;
    bool const brackets = set.plan.groups.size() < set.programs.size();
    for (std::size_t g = 0; g < set.plan.groups.size(); ++g) {
        auto const& ranks = set.plan.groups[g].ranks;
        if (ranks.empty())
            continue;
        auto const [first, last] = std::minmax_element(ranks.begin(), ranks.end());
        double const begin = top + static_cast<double>(first->index()) * pitch;
        double const end = top + static_cast<double>(last->index()) * pitch + layout.band_height();
        if (brackets)
            svg.line(bracket_column, begin, bracket_column, end, {"#888888", 1.2, {}});
        double const text_size = std::min(11.0, std::max(8.0, layout.compute_height * 0.7));
        bool const two_lines = end - begin >= 24;
        double const base = (begin + end) / 2 + (two_lines ? -1 : 0.36 * text_size);
        if (base - text_size < free_from)
            continue;
        svg.text(group_column, base, fmt::format("group {}", g),
                 {text_size, "#222222", Anchor::start, text_size > 8});
        if (two_lines)
            svg.text(group_column, base + 11,
                     layers_text(set.plan, core::GroupId{static_cast<std::int64_t>(g)}),
                     {9, quiet_text, Anchor::start, false});
        free_from = base + (two_lines ? 12 : 0);
    }
}

/// Busy share, exposed communication and peak memory right of the bands, where they fit.
void draw_figures(Svg& svg, Axis const& axis, Measured const& measured, double top) {
    Layout const& layout = axis.layout;
    double const size = std::min(10.0, layout.label_size());
    if (size <= 0)
        return;
    constexpr double columns[] = {46, 104, 168};
    static constexpr std::string_view heads[] = {"busy", "exposed", "peak"};
    for (std::size_t c = 0; c < 3; ++c)
        svg.text(layout.plot_end + columns[c], top - 6, heads[c],
                 {10, quiet_text, Anchor::end, false});
    double y = top + layout.compute_height / 2 + 0.36 * size;
    for (RankUsage const& rank : measured.usage.ranks) {
        std::string const values[] = {percent_text(rank.busy_seconds, measured.usage.seconds),
                                      percent_text(rank.exposed_seconds, measured.usage.seconds),
                                      core::size_text(static_cast<double>(rank.peak_bytes), 3)};
        for (std::size_t c = 0; c < 3; ++c)
            svg.text(layout.plot_end + columns[c], y, values[c],
                     {size, "#222222", Anchor::end, false});
        y += layout.band_height() + layout.band_gap;
    }
}

/// Joins the computations of the critical path, near the upper edge of the bands.
void draw_critical_path(Svg& svg, Axis const& axis, program::ProgramSet const& set,
                        std::vector<CriticalStep> const& steps, double top) {
    Layout const& layout = axis.layout;
    double const pitch = layout.band_height() + layout.band_gap;
    double const inset = std::min(2.5, layout.compute_height / 4);
    std::string path;
    for (CriticalStep const& step : steps) {
        program::Program const& program = set.programs[step.place.rank.index()];
        program::Instruction const& instruction =
            program.instructions[step.place.instruction.index()];
        if (program.queues[instruction.queue.index()].kind != program::QueueKind::compute)
            continue;
        double const y = top + static_cast<double>(step.place.rank.index()) * pitch + inset;
        path += fmt::format("{}{} {}L{} {}", path.empty() ? "M" : "L",
                            coordinate(axis.x(step.span.start)), coordinate(y),
                            coordinate(axis.x(step.span.end)), coordinate(y));
    }
    if (path.empty())
        return;
    svg.path(path, "none", {"#ffffff", 2.6, {}});
    svg.path(path, "none", {critical_colour, 1.3, {}});
}

} // namespace

double draw_bands(Svg& svg, Axis const& axis, program::ProgramSet const& set,
                  Measured const& measured, double y) {
    draw_labels(svg, axis, set, y);
    draw_figures(svg, axis, measured, y);
    double const top = y;
    for (program::Program const& program : set.programs) {
        Band{svg, axis, set, measured, program.rank, y}.draw();
        y += axis.layout.band_height() + axis.layout.band_gap;
    }
    draw_critical_path(svg, axis, set, measured.course.critical_path, top);
    return y - axis.layout.band_gap;
}

} // namespace evener::schedule
