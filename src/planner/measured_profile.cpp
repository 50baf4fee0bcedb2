// SPDX-License-Identifier: Apache-2.0
#include "planner/profile.hpp"
#include "schedule/happens_before.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::planner {

using core::LayerId;
using core::RankId;
using program::Measurement;
using program::ProgramSet;
using program::Span;
using program::Spent;

namespace {

double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    auto const middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

/// Median over the steps of seconds per amount; 0 where there was none.
template <class Pick>
double median_rate(std::vector<Measurement> const& steps, Pick const& pick) {
    std::vector<double> rates;
    for (Measurement const& step : steps)
        if (Spent const spent = pick(step); spent.amount > 0)
            rates.push_back(spent.seconds / spent.amount);
    return median(rates);
}

/// All layers of a kind on one rank in one step.
Spent of_kind(model::Model const& model, std::string const& kind, std::size_t rank,
              Spent program::LayerSpent::*phase, Measurement const& step) {
    Spent sum;
    for (std::int64_t l = 0; l < model.layer_count(); ++l)
        if (model.layer(LayerId{l}).kind() == kind)
            sum += step.ranks[rank].layers[static_cast<std::size_t>(l)].*phase;
    return sum;
}

std::map<std::string, LayerSeconds> layers_of(model::Model const& model, std::size_t rank,
                                              std::vector<Measurement> const& steps) {
    std::map<std::string, LayerSeconds> layers;
    for (std::int64_t l = 0; l < model.layer_count(); ++l) {
        std::string const kind{model.layer(LayerId{l}).kind()};
        auto const rate = [&](Spent program::LayerSpent::*phase) {
            return median_rate(steps, [&](Measurement const& step) {
                return of_kind(model, kind, rank, phase, step);
            });
        };
        LayerSeconds const seconds{rate(&program::LayerSpent::forward),
                                   rate(&program::LayerSpent::backward_input),
                                   rate(&program::LayerSpent::backward_weight)};
        if (seconds.sum() > 0)
            layers[kind] = seconds;
    }
    return layers;
}

/// Seconds and number of a rank's instructions of some kind, with what it says of their amount.
template <class Op, class Amount>
Spent of_instructions(ProgramSet const& set, std::size_t rank, Measurement const& step,
                      Amount const& amount) {
    Spent sum;
    auto const& list = set.programs[rank].instructions;
    for (std::size_t i = 0; i < list.size(); ++i)
        if (auto const* const op = std::get_if<Op>(&list[i].operation))
            sum += {step.timeline.ranks[rank][i].seconds(), amount(*op)};
    return sum;
}

/// What its computations took besides layers and copies, per computation.
Spent overhead(ProgramSet const& set, std::size_t rank, Measurement const& step) {
    auto const one = [](auto const&) { return 1.0; };
    Spent sum = of_instructions<program::Forward>(set, rank, step, one);
    sum += of_instructions<program::Backward>(set, rank, step, one);
    sum += of_instructions<program::BackwardInput>(set, rank, step, one);
    sum += of_instructions<program::BackwardWeight>(set, rank, step, one);
    sum.seconds -= step.ranks[rank].boundaries.seconds;
    for (program::LayerSpent const& layer : step.ranks[rank].layers)
        sum.seconds -=
            layer.forward.seconds + layer.backward_input.seconds + layer.backward_weight.seconds;
    sum.seconds = std::max(0.0, sum.seconds);
    return sum;
}

RankProfile profile_of_rank(ProgramSet const& set, model::Model const& model, std::size_t rank,
                            std::vector<Measurement> const& steps) {
    RankProfile profile;
    profile.layers = layers_of(model, rank, steps);
    profile.boundary_seconds_per_byte =
        median_rate(steps, [&](Measurement const& step) { return step.ranks[rank].boundaries; });
    profile.instruction_seconds =
        median_rate(steps, [&](Measurement const& step) { return overhead(set, rank, step); });
    auto const owned = [&](auto const& op) {
        return static_cast<double>(
            set.buckets[op.bucket.index()].shard_of(set.programs[rank].rank).size());
    };
    profile.measure_seconds_per_element = median_rate(steps, [&](Measurement const& step) {
        return of_instructions<program::MeasureGradients>(set, rank, step, owned);
    });
    profile.update_seconds_per_element = median_rate(steps, [&](Measurement const& step) {
        return of_instructions<program::UpdateParameters>(set, rank, step, owned);
    });
    return profile;
}

/// How much longer `a` takes than `b` for the kinds of layers that both have measured; 1 if none.
double ratio(RankProfile const& a, RankProfile const& b) {
    double of_a = 0;
    double of_b = 0;
    for (auto const& [kind, seconds] : a.layers)
        if (auto const found = b.layers.find(kind); found != b.layers.end()) {
            of_a += seconds.sum();
            of_b += found->second.sum();
        }
    return of_a > 0 && of_b > 0 ? of_a / of_b : 1;
}

/// Gives every rank every kind of layer that some rank has measured.
void complete(std::vector<RankProfile>& ranks) {
    std::vector<RankProfile> const measured = ranks;
    for (std::size_t r = 0; r < ranks.size(); ++r)
        for (RankProfile const& other : measured)
            for (auto const& [kind, seconds] : other.layers) {
                double const factor = ratio(measured[r], other);
                ranks[r].layers.try_emplace(kind, LayerSeconds{factor * seconds.forward,
                                                               factor * seconds.backward_input,
                                                               factor * seconds.backward_weight});
            }
    // A rank without shards has updated nothing; it is as fast as the mean of those that have.
    for (double RankProfile::*const member :
         {&RankProfile::measure_seconds_per_element, &RankProfile::update_seconds_per_element,
          &RankProfile::boundary_seconds_per_byte}) {
        std::vector<double> known;
        for (RankProfile const& rank : measured)
            if (rank.*member > 0)
                known.push_back(rank.*member);
        for (RankProfile& rank : ranks)
            if (rank.*member == 0)
                rank.*member = median(known);
    }
}

/// Seconds and bytes of the messages between two ranks for which the receiver waited: its compute
/// queue had nothing to do when they arrived.
using PairSamples = std::map<std::pair<RankId, RankId>, std::vector<std::pair<double, double>>>;

/// End of the last computation before the one that uses the message of a Receive.
double idle_since(ProgramSet const& set, program::Timeline const& timeline,
                  schedule::Place receive) {
    program::Program const& program = set.programs[receive.rank.index()];
    auto const& list = program.instructions;
    double end = 0;
    for (std::size_t i = receive.instruction.index() + 1; i < list.size(); ++i) {
        if (program.queues[list[i].queue.index()].kind != program::QueueKind::compute)
            continue;
        for (std::size_t j = i; j-- > 0;)
            if (program.queues[list[j].queue.index()].kind == program::QueueKind::compute) {
                end = timeline.ranks[receive.rank.index()][j].end;
                break;
            }
        break;
    }
    return end;
}

PairSamples samples_of(ProgramSet const& set, std::vector<Measurement> const& steps) {
    PairSamples samples;
    auto const meetings = schedule::find_meetings(set);
    for (Measurement const& step : steps)
        for (auto const& [send, receive] : meetings.messages) {
            Span const sent = step.timeline.ranks[send.rank.index()][send.instruction.index()];
            Span const received =
                step.timeline.ranks[receive.rank.index()][receive.instruction.index()];
            if (idle_since(set, step.timeline, receive) > received.end)
                continue;
            auto const& op = std::get<program::Send>(
                set.programs[send.rank.index()].instructions[send.instruction.index()].operation);
            samples[{send.rank, receive.rank}].push_back(
                {received.end - std::max(sent.start, received.start),
                 static_cast<double>(op.bytes)});
        }
    return samples;
}

/// What the run's messages say about wires.
void fit_wires(program::Network& network, PairSamples const& samples) {
    for (auto const& [pair, values] : samples) {
        std::int32_t const index = network.wire_between(pair.first, pair.second);
        if (index < 0)
            continue;
        program::Wire& wire = network.wires[static_cast<std::size_t>(index)];
        std::vector<double> rates;
        for (auto const& [seconds, bytes] : values)
            if (bytes > 0)
                rates.push_back(std::max(0.0, seconds - wire.latency_seconds) / bytes);
        if (!rates.empty())
            wire.seconds_per_byte = median(rates);
    }
}

} // namespace

Profile measured_profile(ProgramSet const& set, model::Model const& model,
                         std::vector<Measurement> const& steps, program::Network network) {
    EVENER_EXPECT(!steps.empty());
    Profile profile;
    for (std::size_t r = 0; r < set.programs.size(); ++r)
        profile.ranks.push_back(profile_of_rank(set, model, r, steps));
    complete(profile.ranks);
    fit_wires(network, samples_of(set, steps));
    profile.network = std::move(network);
    profile.source = fmt::format("{} steps under {}", steps.size(), set.plan.schedule);
    return profile;
}

} // namespace evener::planner
