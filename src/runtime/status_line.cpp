// SPDX-License-Identifier: Apache-2.0
#include "runtime/status_line.hpp"

#include "core/error.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <ctime>
#include <map>
#include <set>

namespace evener::runtime {

namespace {

using Layout = StatusLayout;

constexpr std::array<std::string_view, 8> phase_names{"start", "load",    "step",   "validate",
                                                      "save",  "between", "failed", "end"};

std::string_view part(std::string_view line, std::size_t begin, std::size_t length) {
    std::string_view text = line.substr(begin, length);
    std::size_t const first = text.find_first_not_of(' ');
    if (first == std::string_view::npos)
        return {};
    return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

template <class T>
bool read(std::string_view text, T& value) {
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size();
}

std::string rank_runs(std::vector<int> const& ranks) {
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
        std::size_t last = i;
        while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1)
            ++last;
        text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
        if (last > i)
            text += fmt::format("{}{}", last == i + 1 ? ", " : "-", ranks[last]);
        i = last + 1;
    }
    return text;
}

/// What a rank is at, in words behind its name.
std::string position(StatusRecord const& record) {
    switch (record.phase) {
    case Phase::start:
        return "at the start";
    case Phase::load:
        return "loading";
    case Phase::save:
        return fmt::format("saving step {}", record.step);
    case Phase::between:
        return fmt::format("behind step {}", record.step);
    case Phase::failed:
        return "left with an error";
    case Phase::end:
        return "at the end";
    case Phase::step:
    case Phase::validate:
        break;
    }
    std::string text = fmt::format(
        "in {} {}", record.phase == Phase::step ? "step" : "the validation of step", record.step);
    if (!record.text.empty())
        text += (record.verb == "waits" ? ", waits for " : ", ") + record.text;
    return text;
}

std::string clock(double time) {
    auto const seconds = static_cast<std::time_t>(time);
    std::tm local{};
    localtime_r(&seconds, &local);
    return fmt::format("{:%F %T}", local);
}

} // namespace

std::string_view name_of(Phase phase) {
    return phase_names[static_cast<std::size_t>(phase)];
}

StatusText first_status_line(int rank, std::string_view host, double time) {
    host = host.substr(0, Layout::host_width);
    std::string const line = fmt::format(
        "rank {:>6} host {:<20} step {:>10} {:<8} {:<5} {:<70} at {:>14.3f}   {:8}{:07} {:07}\n",
        rank, host, 0, name_of(Phase::start), "", "", time, "", 0, 0);
    StatusText text{};
    EVENER_ENSURE(line.size() == text.size());
    std::copy(line.begin(), line.end(), text.begin());
    return text;
}

std::optional<StatusRecord> parse_status_line(std::string_view line) {
    StatusRecord record;
    if (line.size() != Layout::width || line.back() != '\n' || line.substr(0, 5) != "rank ")
        return std::nullopt;
    auto const phase = std::find(phase_names.begin(), phase_names.end(),
                                 part(line, Layout::phase, Layout::verb - Layout::phase));
    if (!read(part(line, Layout::rank, 6), record.rank) ||
        !read(part(line, Layout::step, 10), record.step) ||
        !read(part(line, Layout::time, 14), record.time) || phase == phase_names.end())
        return std::nullopt;
    record.phase = static_cast<Phase>(phase - phase_names.begin());
    record.host = part(line, Layout::host, Layout::host_width);
    record.verb = part(line, Layout::verb, Layout::text - Layout::verb);
    record.text = part(line, Layout::text, Layout::text_width);
    record.told_to_end = part(line, Layout::signal, 8) == "TERM";
    return record;
}

StatusPlaces status_places(std::vector<int> const& node_of) {
    StatusPlaces places;
    places.offsets.resize(node_of.size());
    for (int const node : std::set<int>{node_of.begin(), node_of.end()}) {
        for (std::size_t rank = 0; rank < node_of.size(); ++rank)
            if (node_of[rank] == node) {
                places.offsets[rank] = places.bytes;
                places.bytes += Layout::width;
            }
        places.bytes = (places.bytes + Layout::page - 1) / Layout::page * Layout::page;
    }
    return places;
}

std::vector<StatusRecord> parse_status(std::string_view content) {
    std::vector<StatusRecord> records;
    for (std::size_t at = 0; at + Layout::width <= content.size();) {
        if (content[at] == '\0') {
            at = (at / Layout::page + 1) * Layout::page;
            continue;
        }
        if (auto const record = parse_status_line(content.substr(at, Layout::width)))
            records.push_back(*record);
        at += Layout::width;
    }
    std::sort(records.begin(), records.end(),
              [](StatusRecord const& a, StatusRecord const& b) { return a.rank < b.rank; });
    return records;
}

std::vector<std::string> describe(std::vector<StatusRecord> const& records) {
    struct Same {
        std::vector<int> ranks;
        std::vector<std::string> hosts;
        double since = 0; ///< the latest change
    };
    std::vector<std::string> order; // of first appearance
    std::map<std::string, Same> groups;
    for (StatusRecord const& record : records) {
        std::string const words = position(record) + (record.told_to_end ? ", told to end" : "");
        auto const [found, is_new] = groups.try_emplace(words);
        if (is_new)
            order.push_back(words);
        Same& same = found->second;
        same.ranks.push_back(record.rank);
        if (std::find(same.hosts.begin(), same.hosts.end(), record.host) == same.hosts.end())
            same.hosts.push_back(record.host);
        same.since = std::max(same.since, record.time);
    }
    std::vector<std::string> lines;
    for (std::string const& words : order) {
        Same const& same = groups.at(words);
        lines.push_back(fmt::format("rank{} {} ({}) {}, since {}",
                                    same.ranks.size() == 1 ? "" : "s", rank_runs(same.ranks),
                                    fmt::join(same.hosts, ", "), words, clock(same.since)));
    }
    return lines;
}

std::vector<std::string> last_words(std::vector<StatusRecord> const& records) {
    std::vector<StatusRecord> silent;
    std::vector<StatusRecord> told;
    for (StatusRecord const& record : records) {
        if (record.phase == Phase::failed)
            return {};
        if (record.phase != Phase::end)
            (record.told_to_end ? told : silent).push_back(record);
    }
    std::vector<std::string> lines = describe(silent);
    for (std::string& line : describe(told))
        lines.push_back(std::move(line));
    return lines;
}

} // namespace evener::runtime
