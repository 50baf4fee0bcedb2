// SPDX-License-Identifier: Apache-2.0
#include "core/median.hpp"
#include "planner/profile.hpp"
#include "planner/work_effects.hpp"
#include "schedule/happens_before.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace evener::planner {

using core::LayerId;
using core::RankId;
using program::Measurement;
using program::ProgramSet;
using program::Span;
using program::Spent;
using program::WorkKind;

namespace {

using Runs = std::vector<CalibrationRun>;

/// Median over all steps of seconds per amount; 0 where there was none. `pick` gets a run's set and
/// a step.
template <class Pick>
double median_rate(Runs const& runs, Pick const& pick) {
    std::vector<double> rates;
    for (CalibrationRun const& run : runs)
        for (Measurement const& step : run.steps)
            if (Spent const spent = pick(run.set, step); spent.amount > 0)
                rates.push_back(spent.seconds / spent.amount);
    return core::median(rates);
}

/// The layers of each kind on one rank, with the backward whole and in halves; alone and not repeated.
class LayerRates {
  public:
    LayerRates(Runs const& runs, WorkEffects const& effects, model::Model const& model,
               std::size_t rank)
        : runs_{runs}, effects_{effects}, model_{model}, rank_{rank} {}

    LayerSeconds of(std::string const& kind) const {
        using program::LayerSpent;
        LayerSeconds seconds;
        auto const mean = [&](WorkKind work) { return effects_.mean(rank_, work); };
        seconds.forward = rate(kind, &LayerSpent::forward, Backward::any) / mean(WorkKind::forward);
        double const input =
            rate(kind, &LayerSpent::backward_input, Backward::fused) / mean(WorkKind::backward);
        double const weight =
            rate(kind, &LayerSpent::backward_weight, Backward::fused) / mean(WorkKind::backward);
        seconds.backward_input = rate(kind, &LayerSpent::backward_input, Backward::split) /
                                 mean(WorkKind::backward_input);
        seconds.backward_weight = rate(kind, &LayerSpent::backward_weight, Backward::split) /
                                  mean(WorkKind::backward_weight);
        seconds.backward = input + weight;
        if (seconds.backward == 0)
            seconds.backward = seconds.backward_input + seconds.backward_weight;
        if (seconds.backward_input + seconds.backward_weight == 0) {
            seconds.backward_input = input;
            seconds.backward_weight = weight;
        }
        return seconds;
    }

  private:
    enum class Backward : std::uint8_t { any, fused, split };

    double rate(std::string const& kind, Spent program::LayerSpent::*phase,
                Backward backward) const {
        return median_rate(runs_, [&](ProgramSet const& set, Measurement const& step) {
            Spent sum;
            if (backward != Backward::any &&
                (backward == Backward::split) != set.plan.split_backward)
                return sum;
            for (std::int64_t l = 0; l < model_.layer_count(); ++l)
                if (model_.layer(LayerId{l}).kind() == kind)
                    sum += step.ranks[rank_].layers[static_cast<std::size_t>(l)].*phase;
            return sum;
        });
    }

    Runs const& runs_;
    WorkEffects const& effects_;
    model::Model const& model_;
    std::size_t rank_;
};

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
    sum += of_instructions<program::Recompute>(set, rank, step, one);
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

RankProfile profile_of_rank(Runs const& runs, WorkEffects const& effects, model::Model const& model,
                            std::size_t rank) {
    RankProfile profile;
    LayerRates const rates{runs, effects, model, rank};
    for (std::int64_t l = 0; l < model.layer_count(); ++l) {
        std::string const kind{model.layer(LayerId{l}).kind()};
        if (LayerSeconds const seconds = rates.of(kind); seconds.sum() > 0)
            profile.layers[kind] = seconds;
    }
    profile.repeat = effects.repeat(rank);
    profile.contention = effects.contention(rank);
    profile.boundary_seconds_per_byte =
        median_rate(runs, [&](ProgramSet const&, Measurement const& step) {
            return step.ranks[rank].boundaries;
        });
    profile.instruction_seconds =
        median_rate(runs, [&](ProgramSet const& set, Measurement const& step) {
            return overhead(set, rank, step);
        });
    auto const owned_rate = [&]<class Op>(Op) {
        return median_rate(runs, [&](ProgramSet const& set, Measurement const& step) {
            return of_instructions<Op>(set, rank, step, [&](Op const& op) {
                return static_cast<double>(
                    set.buckets[op.bucket.index()].shard_of(set.programs[rank].rank).size());
            });
        });
    };
    profile.measure_seconds_per_element = owned_rate(program::MeasureGradients{});
    profile.update_seconds_per_element = owned_rate(program::UpdateParameters{});
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
                                                               factor * seconds.backward_weight,
                                                               factor * seconds.backward});
            }
    // A rank without shards has updated nothing; it is as fast as the mean of those that have.
    for (double RankProfile::*const member :
         {&RankProfile::measure_seconds_per_element, &RankProfile::update_seconds_per_element,
          &RankProfile::boundary_seconds_per_byte, &RankProfile::instruction_seconds}) {
        std::vector<double> known;
        for (RankProfile const& rank : measured)
            if (rank.*member > 0)
                known.push_back(rank.*member);
        for (RankProfile& rank : ranks)
            if (rank.*member == 0)
                rank.*member = core::median(known);
    }
}

/// Seconds and bytes of messages between two ranks.
using PairSamples = std::map<std::pair<RankId, RankId>, std::vector<std::pair<double, double>>>;

/// Computations around the messages of one rank.
class Neighbours {
  public:
    Neighbours(program::Program const& program, std::vector<Span> const& spans)
        : program_{program}, spans_{spans} {}

    bool computes(std::size_t i) const {
        return program_.queues[program_.instructions[i].queue.index()].kind ==
               program::QueueKind::compute;
    }
    /// End of what made the message that a Send takes away: it stands before it in the list.
    double made(std::size_t send) const {
        std::size_t i = send;
        while (!computes(--i)) {
        }
        return spans_[i].end;
    }
    /// The computation that waits for a Receive: the next in the list.
    std::size_t consumer(std::size_t receive) const {
        std::size_t i = receive;
        while (!computes(++i)) {
        }
        return i;
    }
    double start(std::size_t i) const { return spans_[i].start; }
    /// When the rank had nothing else to do any more before computation `i`: the one before has
    /// ended, and so have the other instructions that it waits for.
    double idle_before(std::size_t i, std::size_t except) const {
        double since = 0;
        for (core::InstructionId const id : program_.instructions[i].after)
            if (id.index() != except)
                since = std::max(since, spans_[id.index()].end);
        for (std::size_t j = i; j-- > 0;)
            if (computes(j))
                return std::max(since, spans_[j].end);
        return since;
    }

  private:
    program::Program const& program_;
    std::vector<Span> const& spans_;
};

/// Of the messages that nothing but the way to their receiver held back: the sender sent at once,
/// and the receiver had posted its Receive and was idle.
PairSamples samples_of(Runs const& runs) {
    PairSamples samples;
    for (CalibrationRun const& run : runs) {
        auto const meetings = schedule::find_meetings(run.set);
        for (Measurement const& step : run.steps)
            for (auto const& [send, receive] : meetings.messages) {
                std::size_t const s = send.instruction.index();
                std::size_t const r = receive.instruction.index();
                auto const& sent = step.timeline.ranks[send.rank.index()];
                auto const& received = step.timeline.ranks[receive.rank.index()];
                Neighbours const sender{run.set.programs[send.rank.index()], sent};
                Neighbours const receiver{run.set.programs[receive.rank.index()], received};
                double const made = sender.made(s);
                std::size_t const consumer = receiver.consumer(r);
                if (received[r].start > made || receiver.idle_before(consumer, r) > made)
                    continue;
                auto const& op = std::get<program::Send>(
                    run.set.programs[send.rank.index()].instructions[s].operation);
                samples[{send.rank, receive.rank}].push_back(
                    {receiver.start(consumer) - made, static_cast<double>(op.bytes)});
            }
    }
    return samples;
}

/// What the run's messages say about wires. The bandwidth stays; what a message took beyond it is
/// latency, unless that were less than none.
void fit_wires(program::Network& network, PairSamples const& samples) {
    for (auto const& [pair, values] : samples) {
        std::int32_t const index = network.wire_between(pair.first, pair.second);
        if (index < 0)
            continue;
        program::Wire& wire = network.wires[static_cast<std::size_t>(index)];
        std::vector<double> seconds;
        std::vector<double> bytes;
        for (auto const& [taken, size] : values) {
            seconds.push_back(taken);
            bytes.push_back(size);
        }
        double const latency = core::median(seconds) - core::median(bytes) * wire.seconds_per_byte;
        if (latency < 0 && core::median(bytes) > 0)
            wire.seconds_per_byte = std::max(0.0, core::median(seconds)) / core::median(bytes);
        wire.latency_seconds = std::max(0.0, latency);
    }
}

} // namespace

Profile measured_profile(std::vector<CalibrationRun> const& runs, model::Model const& model,
                         std::vector<int> const& nodes, program::Network network) {
    EVENER_EXPECT(!runs.empty() && nodes.size() == runs.front().set.programs.size());
    Profile profile;
    WorkEffects const effects{runs, nodes};
    std::size_t steps = 0;
    for (CalibrationRun const& run : runs)
        steps += run.steps.size();
    for (std::size_t r = 0; r < nodes.size(); ++r) {
        profile.ranks.push_back(profile_of_rank(runs, effects, model, r));
        profile.ranks.back().node = nodes[r];
    }
    complete(profile.ranks);
    fit_wires(network, samples_of(runs));
    profile.network = std::move(network);
    profile.model = model_facts(model);
    profile.source = fmt::format("{} steps under {}", steps, runs.front().set.plan.schedule);
    return profile;
}

} // namespace evener::planner
