// SPDX-License-Identifier: Apache-2.0
#include "runtime/save_fault.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace evener::runtime {

namespace {

constexpr char const* variable = "EVENER_FAULT";
constexpr std::string_view phase = "save.";
constexpr std::string_view action = "kill";

[[noreturn]] void refuse(std::string_view text) {
    throw core::ConfigError{
        fmt::format("{} is '{}' (it is save.POINT[:rank=R][:step=S]:kill) write "
                    "it so, such as save.write.sync:rank=0:step=4:kill",
                    variable, text)};
}

/// The number of a part such as "step=4"; nothing if it is none.
template <class T>
std::optional<T> number_in(std::string_view part, std::string_view key) {
    if (!part.starts_with(key))
        return std::nullopt;
    part.remove_prefix(key.size());
    T value{};
    auto const [rest, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || rest != part.data() + part.size() || value < 0)
        return std::nullopt;
    return value;
}

/// Cuts off what stands before the next ':'.
std::string_view next_part(std::string_view& rest) {
    auto const colon = std::min(rest.find(':'), rest.size());
    std::string_view const part = rest.substr(0, colon);
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    return part;
}

/// By world rank, ascending.
std::vector<int> ranks_that_pass(checkpoints::SavePoint point, SavePassers const& passers) {
    using enum checkpoints::SavePoint;
    if (point == write_flush && passers.one_file)
        return {};
    if (point >= write_start && point <= write_verified)
        return passers.writers;
    if (point != snapshot_start && point != snapshot_copied && point != results_start)
        return {passers.writers.front()};
    std::vector<int> all(static_cast<std::size_t>(passers.ranks));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

} // namespace

SaveFault parse_save_fault(std::string_view text) {
    std::string_view rest = text;
    std::string_view part = next_part(rest);
    auto const& names = checkpoints::save_point_names;
    auto const found =
        part.starts_with(phase) ? std::ranges::find(names, part.substr(phase.size())) : names.end();
    if (found == names.end())
        throw core::ConfigError{
            fmt::format("{} is '{}' (it begins with no known point) use 'save.' "
                        "and one of {}",
                        variable, text, fmt::join(names, ", "))};
    SaveFault fault{.point = static_cast<checkpoints::SavePoint>(found - names.begin())};
    while ((part = next_part(rest)) != action) {
        if (auto const rank = number_in<int>(part, "rank="))
            fault.rank = rank;
        else if (auto const step = number_in<std::int64_t>(part, "step="))
            fault.step = step;
        else
            refuse(text);
    }
    if (!rest.empty())
        refuse(text);
    return fault;
}

std::optional<SaveFault> save_fault_from_environment() {
    char const* const text = std::getenv(variable);
    if (text == nullptr)
        return std::nullopt;
    return parse_save_fault(text);
}

void require_passed(SaveFault const& fault, SavePassers const& passers) {
    std::vector<int> const ranks = ranks_that_pass(fault.point, passers);
    std::string_view const name =
        checkpoints::save_point_names[static_cast<std::size_t>(fault.point)];
    if (ranks.empty())
        throw core::ConfigError{fmt::format("{} names save.{} (no rank passes it where all writers "
                                            "fill one file) name another point",
                                            variable, name)};
    if (fault.rank && !std::ranges::binary_search(ranks, *fault.rank))
        throw core::ConfigError{fmt::format(
            "{} names rank {} (save.{} is passed by rank{} {} alone) "
            "name one that passes it, or none",
            variable, *fault.rank, name, ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "))};
}

checkpoints::AtPoint drill(std::optional<SaveFault> const& fault, int rank, std::int64_t step) {
    if (!fault || fault->rank.value_or(rank) != rank || fault->step.value_or(step) != step)
        return {};
    return [fatal = fault->point](checkpoints::SavePoint point) {
        if (point != fatal)
            return;
        std::string_view const name =
            checkpoints::save_point_names[static_cast<std::size_t>(point)];
        fmt::print(stderr, "planted: kill at save.{}\n", name);
        std::fflush(stderr);
        std::raise(SIGKILL);
    };
}

} // namespace evener::runtime
