// SPDX-License-Identifier: Apache-2.0
#include "schedule/generators.hpp"

#include "schedule/orders.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

namespace evener::schedule {

using program::Plan;

namespace {

enum class Placement { any, single, turns, v };

struct Generator {
    std::string_view name;
    Placement placement;
    Orders (*orders)(Plan const&);
};

constexpr std::array generators{
    Generator{"gpipe", Placement::any,
              [](Plan const& plan) { return forward_then_backward(plan, false); }},
    Generator{"1f1b", Placement::single,
              [](Plan const& plan) { return windowed(plan, Windowed::one_f_one_b, {}); }},
    Generator{"interleaved", Placement::turns, interleaved},
    Generator{"breadth_first", Placement::any,
              [](Plan const& plan) { return forward_then_backward(plan, true); }},
    Generator{"zb-h1", Placement::single,
              [](Plan const& plan) { return windowed(plan, Windowed::zb_h1, {}); }},
    Generator{"zb-h2", Placement::single,
              [](Plan const& plan) { return windowed(plan, Windowed::zb_h2, {}); }},
    Generator{"zb-v", Placement::v, zb_v},
};

constexpr auto names = [] {
    std::array<std::string_view, generators.size()> result;
    for (std::size_t i = 0; i < generators.size(); ++i)
        result[i] = generators[i].name;
    return result;
}();

Generator const* find(std::string_view name) {
    auto const found = std::ranges::find(generators, name, &Generator::name);
    return found == generators.end() ? nullptr : &*found;
}

/// Each of the first groups.size() chunks stands on a group of its own.
bool starts_on_all_groups(Plan const& plan) {
    std::size_t const p = plan.groups.size();
    std::vector<bool> seen(p);
    for (std::size_t c = 0; c < std::min(p, plan.chunks.size()); ++c)
        seen[plan.chunks[c].group.index()] = true;
    return std::ranges::count(seen, true) == static_cast<std::ptrdiff_t>(p);
}

bool in_turns(Plan const& plan) {
    std::size_t const p = plan.groups.size();
    if (!starts_on_all_groups(plan) || plan.chunks.size() % p != 0)
        return false;
    for (std::size_t c = p; c < plan.chunks.size(); ++c)
        if (plan.chunks[c].group != plan.chunks[c - p].group)
            return false;
    return true;
}

bool in_a_v(Plan const& plan) {
    std::size_t const p = plan.groups.size();
    if (!starts_on_all_groups(plan) || plan.chunks.size() != 2 * p)
        return false;
    for (std::size_t c = 0; c < p; ++c)
        if (plan.chunks[c].group != plan.chunks[2 * p - 1 - c].group)
            return false;
    return true;
}

program::Schedule named(std::string_view name, Orders orders) {
    return {std::string{name}, std::move(orders)};
}

} // namespace

std::span<std::string_view const> generator_names() {
    return names;
}

std::string generator_problem(Plan const& plan, std::string_view name) {
    Generator const* const generator = find(name);
    if (generator == nullptr)
        return fmt::format("schedule '{}' is not known; use one of \"{}\"", name,
                           fmt::join(names, "\", \""));
    auto const refused = [&](std::string_view needs, std::string_view remedy) {
        return fmt::format(
            "schedule '{}' needs {} (the plan has {} chunks for {} groups, on the "
            "groups {}); {}, or choose another 'plan.schedule'",
            name, needs, plan.chunks.size(), plan.groups.size(),
            [&] {
                std::vector<std::int32_t> groups;
                for (program::Chunk const& chunk : plan.chunks)
                    groups.push_back(chunk.group.value);
                return fmt::to_string(fmt::join(groups, " "));
            }(),
            remedy);
    };
    if (generator->placement == Placement::single && plan.chunks.size() != plan.groups.size())
        return refused("one chunk in each group", "set 'plan.chunks_per_group' to 1");
    if (generator->placement == Placement::turns && !in_turns(plan))
        return refused("the same number of chunks in each group, which take turns",
                       "set 'plan.placement' to \"round_robin\" and leave out 'plan.chunks'");
    if (generator->placement == Placement::v && !in_a_v(plan))
        return refused("two chunks in each group, from the first group to the last and back",
                       "set 'plan.chunks_per_group' to 2 and 'plan.placement' to \"v\"");
    return {};
}

program::Schedule generate(Plan const& plan, program::ProgramKind kind) {
    if (kind == program::ProgramKind::evaluate)
        return named("forward", forward_only(plan));
    if (std::string const problem = generator_problem(plan, plan.schedule); !problem.empty())
        throw core::ConfigError{problem};
    return named(plan.schedule, find(plan.schedule)->orders(plan));
}

program::Schedule generate_one_f_one_b(Plan const& plan, std::vector<std::int64_t> const& extra) {
    if (std::string const problem = generator_problem(plan, "1f1b"); !problem.empty())
        throw core::ConfigError{problem};
    return named("1f1b", windowed(plan, Windowed::one_f_one_b, extra));
}

} // namespace evener::schedule
