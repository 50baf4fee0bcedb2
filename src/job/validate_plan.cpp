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

void check_deal(Group const& group, std::string const& group_name, Findings& findings) {
    std::string const name = group_name + ".deal";
    if (group.deal.empty())
        return;
    if (group.dispatch != Dispatch::dealt)
        findings.add_about({name, group_name + ".dispatch"},
                           fmt::format("'{}' is given, but '{}.dispatch' is \"shares\" (which "
                                       "divides every microbatch); set it to \"dealt\"",
                                       name, group_name));
    for (core::RankId const rank : group.deal)
        if (std::ranges::find(group.ranks, rank) == group.ranks.end()) {
            findings.add_about({name, group_name + ".ranks"},
                               fmt::format("'{}' names rank {} (it is not in the group); deal "
                                           "microbatches to the group's ranks",
                                           name, rank.value));
            return;
        }
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
    check_deal(group, name, findings);
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
                                         "{}, start more ranks, or set 'plan.on_mismatch' to "
                                         "\"replan\"",
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
                        "every rank in one group (a share of 0 is allowed){}",
                        missing, last,
                        missing > group_of.rbegin()->first
                            ? ", start fewer ranks, or set 'plan.on_mismatch' to \"replan\""
                            : ""));
}

void check_layers(Plan const& plan, Model const& model, Findings& findings) {
    std::int64_t held = 0;
    for (Group const& group : plan.groups)
        held += std::clamp<std::int64_t>(group.layers, 0, 1'000'000);
    for (Chunk const& chunk : plan.chunks)
        held += std::clamp<std::int64_t>(chunk.layers, 0, 1'000'000);
    std::string_view const holders = plan.chunks.empty() ? "plan.groups" : "plan.chunks";
    std::int64_t const wanted = layer_count(model);
    if (held != wanted && model.layers > 0)
        findings.add_about(
            {holders, "model.layers", "model.preset"},
            fmt::format("'{}' hold {} layers (the model's list has {}: "
                        "embedding, {} attention, {} feed-forward, head); make their "
                        "'layers' add up to {}",
                        holders, held, wanted, model.layers, model.layers, wanted));
}

/// Layers stand with the groups or in chunks of their own.
void check_chunks(Plan const& plan, Findings& findings) {
    if (plan.groups.empty() && !plan.chunks.empty())
        findings.add_about({"plan.chunks"}, "'plan.chunks' are given without 'plan.groups' (whose "
                                            "ranks hold them); list the groups, too");
    if (plan.groups.empty())
        return;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
        std::string const name = fmt::format("plan.groups[{}].layers", g);
        std::int64_t const layers = plan.groups[g].layers;
        if (plan.chunks.empty() && layers > 0 && layers < plan.chunks_per_group)
            findings.add_about({name, "plan.chunks_per_group"},
                               fmt::format("'{}' is {} (each group has {} chunks, and a chunk at "
                                           "least one layer); lower 'plan.chunks_per_group'",
                                           name, layers, plan.chunks_per_group));
        if (!plan.chunks.empty() && layers != 0)
            findings.add_about({name, "plan.chunks"},
                               fmt::format("'{}' is {}, but 'plan.chunks' say which layers the "
                                           "groups hold; leave one of them out",
                                           name, layers));
    }
    if (plan.chunks.empty())
        return;
    if (plan.chunks_per_group != 1)
        findings.add_about({"plan.chunks_per_group", "plan.chunks"},
                           fmt::format("'plan.chunks_per_group' is {}, but 'plan.chunks' list the "
                                       "chunks; leave one of them out",
                                       plan.chunks_per_group));
    std::vector<bool> used(plan.groups.size());
    for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
        std::int64_t const group = plan.chunks[c].group;
        std::string const name = fmt::format("plan.chunks[{}].group", c);
        if (group < 0 || group >= std::ssize(plan.groups)) {
            findings.add_about({name, "plan.groups"},
                               fmt::format("'{}' is {} (there are {} groups); use 0 to {}", name,
                                           group, plan.groups.size(), plan.groups.size() - 1));
            return;
        }
        used[static_cast<std::size_t>(group)] = true;
    }
    if (auto const idle = std::ranges::find(used, false); idle != used.end())
        findings.add_about({"plan.chunks", "plan.groups"},
                           fmt::format("'plan.chunks' leave out group {} (each group needs a "
                                       "chunk); give it one, or drop the group",
                                       idle - used.begin()));
}

/// Schedules that are written for one placement of chunks.
void check_schedule(Plan const& plan, Findings& findings) {
    if (!plan.schedule_file.empty() || !plan.chunks.empty())
        return; // the order is known later
    bool const single = plan.schedule == Schedule::one_f_one_b ||
                        plan.schedule == Schedule::zb_h1 || plan.schedule == Schedule::zb_h2;
    if (single && plan.chunks_per_group != 1)
        findings.add_about({"plan.schedule", "plan.chunks_per_group"},
                           fmt::format("'plan.schedule' is \"{}\" (for one chunk per group), but "
                                       "'plan.chunks_per_group' is {}; set that to 1, or choose "
                                       "another schedule",
                                       name_of(plan.schedule), plan.chunks_per_group));
    bool const in_a_v = plan.placement == Placement::v || plan.groups.size() == 1;
    if (plan.schedule == Schedule::zb_v && (plan.chunks_per_group != 2 || !in_a_v))
        findings.add_about({"plan.schedule", "plan.chunks_per_group", "plan.placement"},
                           "'plan.schedule' is \"zb-v\" (for two chunks per group, from the first "
                           "to the last and back); set 'plan.chunks_per_group' to 2 and "
                           "'plan.placement' to \"v\", or choose another schedule");
    if (plan.schedule == Schedule::interleaved && plan.chunks_per_group > 1 &&
        plan.placement == Placement::v && plan.groups.size() != 1)
        findings.add_about({"plan.schedule", "plan.placement"},
                           "'plan.schedule' is \"interleaved\" (for chunks in turns), but "
                           "'plan.placement' is \"v\"; set that to \"round_robin\", or choose "
                           "another schedule");
}

} // namespace

void validate_deals(Plan const& plan, Train const& train, Findings& findings) {
    if (train.microbatch_size < 1)
        return;
    std::int64_t const microbatches =
        (train.batch_size + train.microbatch_size - 1) / train.microbatch_size;
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
        std::string const name = fmt::format("plan.groups[{}].deal", g);
        auto const dealt = std::ssize(plan.groups[g].deal);
        if (dealt != 0 && dealt != microbatches)
            findings.add_about({name, "train.microbatch_size", "train.batch_size"},
                               fmt::format("'{}' deals {} microbatches (a batch has {}); name one "
                                           "rank for each, or leave it out",
                                           name, dealt, microbatches));
    }
}

void validate_plan(Plan const& plan, Model const* model, ParseOptions const& options,
                   Findings& findings) {
    check_chunks(plan, findings);
    check_schedule(plan, findings);
    if (plan.groups.empty())
        return;
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
        check_group(plan.groups[g], fmt::format("plan.groups[{}]", g), findings);
    check_ranks(plan, options, findings);
    if (model != nullptr)
        check_layers(plan, *model, findings);
}

} // namespace evener::job
