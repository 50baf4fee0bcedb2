// SPDX-License-Identifier: Apache-2.0
#include "program/schedule_text.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace evener::program {

namespace {

constexpr std::string_view separators = ",; \t";
constexpr std::string_view name_mark = "# schedule ";
constexpr std::size_t most_findings = 20;
constexpr std::int32_t most = 999'999'999; ///< of chunks and microbatches

/// A number at the start of `text`, which loses it.
std::optional<std::int32_t> take_number(std::string_view& text) {
    std::int32_t value = 0;
    if (text.starts_with('-'))
        return std::nullopt;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value > most)
        return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
}

class Reader {
  public:
    explicit Reader(std::string const& file) {
        result_.file = file;
        result_.schedule.name = "file";
    }

    void line(std::string_view text) {
        ++line_;
        if (text.ends_with('\r'))
            text.remove_suffix(1);
        if (text.starts_with('#')) {
            if (text.starts_with(name_mark))
                result_.schedule.name = text.substr(name_mark.size());
            return;
        }
        if (text.find_first_not_of(" \t") == std::string_view::npos)
            return;
        result_.lines.push_back(line_);
        auto& order = result_.schedule.ranks.emplace_back();
        auto& places = result_.places.emplace_back();
        std::size_t begin = text.find_first_not_of(separators);
        while (begin != std::string_view::npos) {
            std::size_t const end = std::min(text.find_first_of(separators, begin), text.size());
            std::string_view const cell = text.substr(begin, end - begin);
            TextPlace const place{line_, static_cast<int>(begin) + 1};
            if (auto const work = parse_work(cell)) {
                order.push_back(*work);
                places.push_back(place);
            } else if (findings_.size() < most_findings) {
                findings_.push_back(
                    {{result_.file, place.line, place.column},
                     fmt::format("'{}' is no cell of a schedule; write F, B, W or BW, the chunk, a "
                                 "dot and the microbatch, such as F0.3",
                                 cell.substr(0, 40))});
            }
            begin = text.find_first_not_of(separators, end);
        }
    }

    ScheduleText take() {
        if (!findings_.empty())
            throw core::ConfigError{std::move(findings_)};
        if (result_.schedule.ranks.empty())
            throw core::ConfigError{
                {core::Finding{{result_.file, 0, 0},
                               "the schedule has no rows; write one row of cells, such as "
                               "F0.0,BW0.0, for each rank"}}};
        return std::move(result_);
    }

  private:
    ScheduleText result_;
    std::vector<core::Finding> findings_;
    int line_ = 0;
};

} // namespace

std::optional<Work> parse_work(std::string_view text) {
    Work work;
    if (text.starts_with("BW"))
        work.kind = WorkKind::backward;
    else if (text.starts_with('F'))
        work.kind = WorkKind::forward;
    else if (text.starts_with('B'))
        work.kind = WorkKind::backward_input;
    else if (text.starts_with('W'))
        work.kind = WorkKind::backward_weight;
    else
        return std::nullopt;
    text.remove_prefix(work.kind == WorkKind::backward ? 2 : 1);
    auto const chunk = take_number(text);
    if (!chunk || !text.starts_with('.'))
        return std::nullopt;
    text.remove_prefix(1);
    auto const microbatch = take_number(text);
    if (!microbatch || !text.empty())
        return std::nullopt;
    work.chunk = core::ChunkId{*chunk};
    work.microbatch = core::MicrobatchId{*microbatch};
    return work;
}

ScheduleText parse_schedule(std::string_view text, std::string const& file) {
    Reader reader{file};
    if (text.starts_with("\xef\xbb\xbf"))
        text.remove_prefix(3); // the mark that some editors put before UTF-8
    while (!text.empty()) {
        std::size_t const end = std::min(text.find('\n'), text.size());
        reader.line(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return reader.take();
}

std::string print_schedule(Schedule const& schedule) {
    std::string text = fmt::format("{}{}\n", name_mark, schedule.name);
    for (std::vector<Work> const& order : schedule.ranks) {
        for (std::size_t i = 0; i < order.size(); ++i)
            text += (i > 0 ? "," : "") + to_string(order[i]);
        text += order.empty() ? ",\n" : "\n";
    }
    return text;
}

} // namespace evener::program
