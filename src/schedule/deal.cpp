// SPDX-License-Identifier: Apache-2.0
#include "schedule/deal.hpp"

#include <algorithm>
#include <numeric>

namespace evener::schedule {

using program::Group;
using program::Plan;

namespace {

/// A member with a share.
struct Receiver {
    std::int32_t member = 0;
    double seconds = 0;     ///< of one microbatch
    std::int64_t count = 0; ///< that it is to get
    double finish = 0;      ///< of what it has got
};

std::vector<Receiver> receivers_of(Group const& group, std::vector<double> const& seconds) {
    std::vector<Receiver> receivers;
    for (std::size_t j = 0; j < group.ranks.size(); ++j)
        if (group.shares[j] > 0)
            receivers.push_back({static_cast<std::int32_t>(j), seconds[j], 0, 0});
    return receivers;
}

Deal by_finish(std::vector<Receiver> receivers, std::int64_t count) {
    Deal deal{"finish", {}};
    for (std::int64_t i = 0; i < count; ++i) {
        auto const first = std::ranges::min_element(
            receivers, {}, [](Receiver const& r) { return r.finish + r.seconds; });
        first->finish += first->seconds;
        deal.members.push_back(first->member);
    }
    return deal;
}

/// Numbers in proportion to the speeds, rounded down; the rest to the fastest.
void count_by_speed(std::vector<Receiver>& receivers, std::int64_t count) {
    double speed = 0;
    for (Receiver const& receiver : receivers)
        speed += 1 / receiver.seconds;
    std::int64_t given = 0;
    for (Receiver& receiver : receivers) {
        receiver.count = std::min(
            static_cast<std::int64_t>(static_cast<double>(count) / (receiver.seconds * speed)),
            count - given);
        given += receiver.count;
    }
    std::ranges::min_element(receivers, {}, &Receiver::seconds)->count += count - given;
}

Deal by_remaining(std::vector<Receiver> receivers, std::int64_t count) {
    count_by_speed(receivers, count);
    Deal deal{"remaining", {}};
    while (std::ssize(deal.members) < count) {
        std::ranges::stable_sort(receivers, std::ranges::greater{}, [](Receiver const& r) {
            return static_cast<double>(r.count) * r.seconds;
        });
        for (Receiver& receiver : receivers)
            if (receiver.count > 0) {
                --receiver.count;
                deal.members.push_back(receiver.member);
            }
    }
    return deal;
}

Deal in_blocks(std::vector<Receiver> receivers, Deal const& counts) {
    std::ranges::stable_sort(receivers, std::ranges::greater{}, &Receiver::seconds);
    Deal deal{"blocks", {}};
    for (Receiver const& receiver : receivers)
        deal.members.insert(
            deal.members.end(),
            static_cast<std::size_t>(std::ranges::count(counts.members, receiver.member)),
            receiver.member);
    return deal;
}

/// Seconds of all of the group's work on a whole microbatch, by member.
std::vector<double> seconds_of_members(Plan const& plan, program::Costs const& costs,
                                       std::size_t g) {
    std::vector<double> seconds;
    for (core::RankId const rank : plan.groups[g].ranks) {
        double sum = 0;
        for (std::size_t c = 0; c < plan.chunks.size(); ++c)
            if (plan.chunks[c].group.index() == g)
                sum +=
                    costs.chunks[rank.index()][c].forward + costs.chunks[rank.index()][c].backward;
        seconds.push_back(std::max(sum, 1e-12)); // free work has no speed
    }
    return seconds;
}

} // namespace

std::vector<Deal> static_deals(Group const& group, std::int64_t count,
                               std::vector<double> const& seconds) {
    EVENER_EXPECT(seconds.size() == group.ranks.size() && count >= 0);
    std::vector<Receiver> const receivers = receivers_of(group, seconds);
    std::vector<double> speeds(group.ranks.size());
    for (Receiver const& receiver : receivers)
        speeds[static_cast<std::size_t>(receiver.member)] = 1 / receiver.seconds;
    Deal const finish = by_finish(receivers, count);
    return {{"weights", program::deal_by_weights(group.shares, count)},
            {"speeds", program::deal_by_weights(speeds, count)},
            finish,
            by_remaining(receivers, count),
            in_blocks(receivers, finish)};
}

DealChoice choose_deals(Plan plan, program::Costs const& costs,
                        std::function<double(Plan const&)> const& evaluated) {
    DealChoice choice{std::move(plan), 0, {}};
    choice.seconds = evaluated(choice.plan);
    for (std::size_t g = 0; g < choice.plan.groups.size(); ++g) {
        Group& group = choice.plan.groups[g];
        if (group.dispatch != program::Dispatch::dealt || !group.deal.empty())
            continue;
        choice.tried.clear();
        std::vector<std::int32_t> best;
        for (Deal& deal : static_deals(group, choice.plan.microbatch_count(),
                                       seconds_of_members(choice.plan, costs, g))) {
            group.deal = std::move(deal.members);
            double const seconds = evaluated(choice.plan);
            choice.tried.emplace_back(deal.name, seconds);
            if (best.empty() || seconds < choice.seconds * (1 - 1e-12)) {
                best = group.deal;
                choice.seconds = seconds;
            }
        }
        group.deal = std::move(best);
    }
    return choice;
}

} // namespace evener::schedule
