// SPDX-License-Identifier: Apache-2.0
#include "schedule/exact.hpp"

#include "schedule/exact_branching.hpp"
#include "schedule/greedy.hpp"
#include "schedule/improve.hpp"

#include <algorithm>
#include <chrono>
#include <queue>

namespace evener::schedule {

using program::Schedule;
using program::WorkKind;

namespace {

using Clock = std::chrono::steady_clock;

class Search {
  public:
    /// `start` keeps the memory limits.
    Search(WorkGraph const& graph, Schedule start, Clock::time_point deadline)
        : graph_{graph}, lanes_{graph}, branching_{graph, lanes_}, deadline_{deadline} {
        result_.schedule = std::move(start);
        result_.seconds = evaluate(graph, result_.schedule).seconds;
        least_found_ = result_.seconds;
        Heads heads;
        result_.lower_bound = branching_.bounds().bound(nothing_decided(), heads);
        result_.lower_bound = std::max(result_.lower_bound, branching_.bounds().wire_bound(heads));
    }

    Exact run(std::size_t most) {
        for (std::size_t width = 100; !closed(); width *= 10) {
            bool const complete = pass(std::min(width, most));
            if (complete || Clock::now() >= deadline_ || width >= most)
                break;
        }
        result_.lower_bound = std::min(result_.lower_bound, result_.seconds);
        result_.closed = closed();
        return std::move(result_);
    }

    Schedule run_beam(std::size_t width) {
        if (!closed())
            pass(width);
        return std::move(result_.schedule);
    }

  private:
    bool closed() const { return result_.seconds <= result_.lower_bound * (1 + 1e-9); }

    Frontier nothing_decided() const { return branching_.bounds().nothing_decided(); }

    /// States that reach this end are no better than what is known.
    double limit() const { return least_found_ * (1 - 1e-9); }

    StateLayer& layer(std::size_t decided) { return layers_[decided % layers_.size()]; }

    /// Goes through all layers with at most `width` states in each; whether none were left out.
    bool pass(std::size_t width) {
        steps_.clear();
        layers_.assign(3, StateLayer{lanes_.lanes.size()});
        Frontier const start = nothing_decided();
        branching_.write_values(start, values_);
        layer(0).add(start.lanes, values_, {.bound = result_.lower_bound}, steps_, {-1, {}});
        double left_out = no_memory_limit; // least bound of what was not followed
        std::size_t const work = branching_.work_count();
        for (std::size_t decided = 0; decided < work; ++decided) {
            StateLayer& current = layer(decided);
            left_out = std::min(left_out, current.select(limit(), width));
            left_out = std::min(left_out, expand(current, decided));
            current.clear();
        }
        finish(layer(work));
        // What was not followed ends at left_out or later, all else at least_found_ or later.
        result_.lower_bound = std::max(result_.lower_bound, std::min(left_out, least_found_));
        return left_out == no_memory_limit;
    }

    void follow(std::size_t decided, State const& parent, Frontier const& child,
                ExactBranching::Next const& next) {
        State state;
        state.blocked = next.blocked;
        state.bound = std::max(next.bound, parent.bound);
        state.sum = next.bound_sum;
        branching_.write_values(child, values_);
        layer(decided + (next.decision.kind == WorkKind::backward ? 2 : 1))
            .add(child.lanes, values_, state, steps_, {parent.step, next.decision});
    }

    /// Follows the states of a layer; the least bound of those for which there was no time.
    double expand(StateLayer const& current, std::size_t decided) {
        double left_out = no_memory_limit;
        Frontier frontier = nothing_decided();
        for (State const& state : current.states()) {
            if (state.dropped)
                continue;
            if (Clock::now() >= deadline_) {
                left_out = std::min(left_out, state.bound);
                continue;
            }
            std::copy_n(current.counts(state), frontier.lanes.size(), frontier.lanes.begin());
            branching_.read_values(frontier, current.values(state));
            branching_.expand(frontier, state.blocked, limit(),
                              [&](Frontier const& child, ExactBranching::Next const& next) {
                                  follow(decided, state, child, next);
                              });
        }
        return left_out;
    }

    /// Takes the best of the last layer.
    void finish(StateLayer const& last) {
        for (State const& state : last.states()) {
            if (state.dropped || state.bound >= least_found_)
                continue;
            least_found_ = state.bound;
            Schedule schedule = read_off(state.step);
            double const seconds = evaluate(graph_, schedule).seconds;
            if (seconds < result_.seconds) {
                result_.schedule = std::move(schedule);
                result_.seconds = seconds;
            }
        }
    }

    Schedule read_off(std::int32_t last) const {
        std::vector<Decision> decisions;
        for (std::int32_t i = last; steps_[static_cast<std::size_t>(i)].parent >= 0;
             i = steps_[static_cast<std::size_t>(i)].parent)
            decisions.push_back(steps_[static_cast<std::size_t>(i)].decision);
        std::reverse(decisions.begin(), decisions.end());
        Schedule schedule{"exact", {}};
        schedule.ranks.resize(static_cast<std::size_t>(graph_.rank_count));
        struct Done {
            std::int32_t forwards = 0;
            std::int32_t inputs = 0;
            std::queue<std::int32_t> weights; ///< places of weight halves to come
        };
        std::vector<Done> done(lanes_.lanes.size());
        for (Decision const& decision : decisions) {
            auto const index = static_cast<std::size_t>(decision.lane);
            Done& own = done[index];
            std::int32_t place = 0;
            if (decision.kind == WorkKind::forward) {
                place = own.forwards++;
            } else if (decision.kind == WorkKind::backward_weight) {
                place = own.weights.front();
                own.weights.pop();
            } else {
                place = own.inputs++;
                if (decision.kind == WorkKind::backward_input)
                    own.weights.push(place);
            }
            Cell const& cell = graph_.cells[static_cast<std::size_t>(
                lanes_.lanes[index].cells[static_cast<std::size_t>(place)])];
            schedule.ranks[cell.rank.index()].push_back(
                {decision.kind, cell.chunk, cell.microbatch});
        }
        return schedule;
    }

    WorkGraph const& graph_;
    WorkLanes lanes_;
    ExactBranching branching_;
    Clock::time_point deadline_;
    Exact result_;
    double least_found_ = 0; ///< end of the best known, without queues between ranks
    std::vector<StateLayer> layers_;
    std::vector<Step> steps_;
    std::vector<double> values_;
};

/// Blocked decisions are bits, four for each lane.
constexpr std::size_t most_lanes = 16;

} // namespace

Exact exact(WorkGraph const& graph, ExactOptions const& options) {
    if (WorkLanes{graph}.lanes.size() > most_lanes)
        throw core::ConfigError{"the exact search is for at most 16 pairs of rank and chunk (the "
                                "graph has more)"};
    auto const deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                             std::chrono::duration<double>(options.seconds));
    Schedule start = improve(graph, greedy(graph, {.work_budget = options.work_budget}),
                             {.work_budget = options.work_budget});
    start.name = "exact";
    return Search{graph, std::move(start), deadline}.run(static_cast<std::size_t>(options.states));
}

Schedule beam_search(WorkGraph const& graph, Schedule schedule, std::int64_t work_budget) {
    // A state costs its three or so branches, each of which goes through all work; several chunks
    // on a rank cost more of both.
    WorkLanes const lanes{graph};
    auto const work = 3.0 * static_cast<double>(graph.cells.size());
    double const turns = static_cast<double>(lanes.lanes.size()) /
                         static_cast<double>(std::max<std::int64_t>(graph.rank_count, 1));
    double const width = static_cast<double>(work_budget) / (3 * work * work * turns * turns);
    if (lanes.lanes.size() > most_lanes || width < 10)
        return schedule;
    return Search{graph, std::move(schedule), Clock::time_point::max()}.run_beam(
        static_cast<std::size_t>(std::min(width, 1000.0)));
}

} // namespace evener::schedule
