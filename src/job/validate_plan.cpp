// SPDX-License-Identifier: Apache-2.0
#include "job/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace evener::job {

namespace {

/// One weight per rank, and not all zero.
void check_weights(std::string const& group_name, std::string_view key, std::size_t ranks,
                   std::vector<double> const& weights, Findings& findings) {
    std::string const name = fmt::format("{}.{}", group_name, key);
    std::string const ranks_name = group_name + ".ranks";
    if (weights.size() != ranks)
        findings.add_about({name, ranks_name},
                           fmt::format("'{}' has {} weights (the group has {} ranks); give one "
                                       "weight per rank, or none for equal ones",
                                       name, weights.size(), ranks));
    else if (std::ranges::all_of(weights, [](auto weight) { return weight == 0.0; }))
        findings.add_about({name, ranks_name},
                           fmt::format("'{}' are all 0; give at least one rank a part", name));
}

void check_group(Group const& group, std::string const& name, Findings& findings) {
    if (group.ranks.empty()) {
        findings.add_about({name + ".ranks"},
                           fmt::format("'{}.ranks' is not given; list the group's ranks, such as "
                                       "ranks = [0, 1] or \"0-1\"",
                                       name));
        return;
    }
    check_weights(name, "shares", group.ranks.size(), group.shares, findings);
    check_weights(name, "shard_weights", group.ranks.size(), group.shard_weights, findings);
}

/// Every rank stands in exactly one group, once.
void check_ranks(Plan const& plan, ParseOptions const& options, Findings& findings) {
    std::map<std::int64_t, std::size_t> group_of;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
        std::string const name = fmt::format("plan.groups[{}].ranks", g);
        if (findings.is_broken(name))
            return;
        for (core::RankId const rank : plan.groups[g].ranks) {
            if (options.ranks > 0 && rank.value >= options.ranks) {
                findings.add(name,
                             fmt::format("'{}' names rank {} (the job has {} ranks); use 0 to "
                                         "{}, or start more ranks",
                                         name, rank.value, options.ranks, options.ranks - 1));
                return;
            }
            auto const [found, is_new] = group_of.try_emplace(rank.value, g);
            if (!is_new) {
                findings.add(name, fmt::format("'{}' names rank {} (it is in plan.groups[{}] "
                                               "already); put every rank in one group, once",
                                               name, rank.value, found->second));
                return;
            }
        }
    }
    if (group_of.empty())
        return;
    std::int64_t const last = options.ranks > 0 ? options.ranks - 1 : group_of.rbegin()->first;
    std::int64_t missing = 0;
    while (group_of.contains(missing))
        ++missing;
    if (missing <= last)
        findings.add_about(
            {"plan.groups"},
            fmt::format("'plan.groups' leave out rank {} (ranks run from 0 to {}); put "
                        "every rank in one group (a share of 0 is allowed)",
                        missing, last));
}

void check_layers(Plan const& plan, Model const& model, Findings& findings) {
    std::int64_t held = 0;
    for (Group const& group : plan.groups)
        held += std::clamp<std::int64_t>(group.layers, 0, 1'000'000);
    std::int64_t const wanted = layer_count(model);
    if (held != wanted && model.layers > 0)
        findings.add_about(
            {"plan.groups", "model.layers", "model.preset"},
            fmt::format("'plan.groups' hold {} layers (the model's list has {}: "
                        "embedding, {} attention, {} feed-forward, head); make their "
                        "'layers' add up to {}",
                        held, wanted, model.layers, model.layers, wanted));
}

} // namespace

void validate_plan(Plan const& plan, Model const* model, ParseOptions const& options,
                   Findings& findings) {
    if (plan.groups.empty())
        return;
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
        check_group(plan.groups[g], fmt::format("plan.groups[{}]", g), findings);
    check_ranks(plan, options, findings);
    if (model != nullptr)
        check_layers(plan, *model, findings);
}

} // namespace evener::job
