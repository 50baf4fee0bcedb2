// SPDX-License-Identifier: Apache-2.0
#include "runtime/slow_ranks.hpp"

#include "core/median.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::runtime {

namespace {

double median_of(std::vector<RankSeconds> const& seconds, double RankSeconds::*member) {
    std::vector<double> values;
    for (RankSeconds const& one : seconds)
        values.push_back(one.*member);
    return core::median(std::move(values));
}

} // namespace

ComputePrediction compute_prediction(program::ProgramSet const& set,
                                     program::Timeline const& predicted, std::string source,
                                     bool measured) {
    ComputePrediction result{{}, std::move(source), measured ? 1.5 : 3.0};
    for (std::size_t r = 0; r < set.programs.size(); ++r) {
        program::Program const& program = set.programs[r];
        double seconds = 0;
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            program::Queue const& queue = program.queues[program.instructions[i].queue.index()];
            if (queue.kind == program::QueueKind::compute)
                seconds += predicted.ranks[r][i].seconds();
        }
        result.seconds.push_back(seconds);
    }
    return result;
}

std::vector<int> slow_ranks(std::vector<RankSeconds> const& measured,
                            ComputePrediction const& prediction) {
    std::vector<int> slow;
    auto const ratio = [&](std::size_t r) { return measured[r].compute / prediction.seconds[r]; };
    for (std::size_t r = 0; r < measured.size(); ++r) {
        if (prediction.seconds[r] <= 0)
            continue; // it has nothing to compute
        std::vector<double> others;
        for (std::size_t other = 0; other < measured.size(); ++other)
            if (other != r && prediction.seconds[other] > 0)
                others.push_back(ratio(other));
        double const usual = core::median(others);
        double const lost = measured[r].compute - usual * prediction.seconds[r];
        if (usual > 0 && ratio(r) > prediction.factor * usual && lost > 0.1 * measured[r].step)
            slow.push_back(static_cast<int>(r));
    }
    return slow;
}

SlowRanks::SlowRanks(ComputePrediction prediction, std::vector<std::string> hosts)
    : prediction_{std::move(prediction)}, hosts_{std::move(hosts)} {
    seconds_.reserve(steps);
}

void SlowRanks::note(double compute_seconds, double step_seconds) {
    seconds_.push_back({compute_seconds, step_seconds});
}

std::string SlowRanks::compare(comm::Communicator const& world) {
    RankSeconds const mine{median_of(seconds_, &RankSeconds::compute),
                           median_of(seconds_, &RankSeconds::step)};
    seconds_.clear();
    std::vector<RankSeconds> measured;
    for (auto const& rank : comm::all_gather_values(world, std::span<RankSeconds const>{&mine, 1}))
        measured.push_back(rank.front());
    std::vector<int> const slow = slow_ranks(measured, prediction_);
    std::string text;
    auto const now = std::chrono::steady_clock::now();
    auto const named_lately = [&](int rank) {
        auto const last = named_.find(rank);
        return last != named_.end() && now - last->second < std::chrono::minutes{10};
    };
    for (int const rank : slow)
        if (!slow_.contains(rank) && !named_lately(rank)) {
            named_[rank] = now;
            auto const r = static_cast<std::size_t>(rank);
            text +=
                fmt::format("{}rank {} ({}) computes for {:.3g} ms of a step, predicted {:.3g} ms",
                            text.empty() ? "" : "; ", rank, hosts_[r], 1e3 * measured[r].compute,
                            1e3 * prediction_.seconds[r]);
        }
    slow_ = {slow.begin(), slow.end()};
    if (text.empty())
        return {};
    return fmt::format(
        "{} (more than {:g} times as far off as the others, by {}); the others wait for "
        "it, so look for what else runs there, or plan anew with 'evener profile'",
        text, prediction_.factor, prediction_.source);
}

} // namespace evener::runtime
