// SPDX-License-Identifier: Apache-2.0
#include "schedule/improve.hpp"

#include "schedule/critical_work.hpp"
#include "schedule/greedy.hpp"
#include "schedule/memory_room.hpp"
#include "schedule/order_moves.hpp"
#include "schedule/work_bounds.hpp"

#include <algorithm>
#include <chrono>
#include <random>

namespace evener::schedule {

using program::Schedule;
using program::Work;
using program::WorkKind;

namespace {

using Order = std::vector<Work>;

class Improver {
  public:
    Improver(WorkGraph const& graph, Schedule schedule, ImproveOptions const& options)
        : graph_{graph}, moves_{graph}, random_{options.seed}, budget_{options.work_budget},
          deadline_{std::chrono::steady_clock::now()}, current_{std::move(schedule)} {
        limited_ = options.seconds < 1e9;
        if (limited_)
            deadline_ += std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                std::chrono::duration<double>(options.seconds));
        for (Order const& order : current_.ranks)
            work_ += std::ssize(order);
        run_ = evaluate(graph_, current_);
        EVENER_EXPECT(fits_memory(graph_, run_));
        path_ = critical_path(graph_, current_, run_);
        best_ = current_;
        best_seconds_ = run_.seconds;
        goal_ = lower_bound(graph_) * (1 + 1e-12);
    }

    Schedule run() {
        std::int64_t idle = 0; // tries since the walk last got faster
        while (best_seconds_ > goal_ && may_go_on()) {
            double const before = run_.seconds;
            idle = try_change(before) && run_.seconds < before ? 0 : idle + 1;
            if (run_.seconds < best_seconds_) {
                best_ = current_;
                best_seconds_ = run_.seconds;
            }
            if (idle == patience) {
                begin_walk();
                idle = 0;
            }
        }
        return std::move(best_);
    }

  private:
    /// Tries without improvement before another walk begins.
    static constexpr std::int64_t patience = 300;
    static constexpr std::int64_t most_shakes = 6;

    bool may_go_on() {
        return budget_ >= work_ && (!limited_ || std::chrono::steady_clock::now() < deadline_);
    }

    std::size_t below(std::size_t count) { return static_cast<std::size_t>(random_() % count); }

    /// 1 with probability 1/2, 2 with 1/4, and so on.
    std::size_t distance() {
        std::size_t steps = 1;
        while (random_() & 1)
            ++steps;
        return steps;
    }

    /// From the best, shaken; or from a list schedule under random rules.
    void begin_walk() {
        if (below(3) == 0) {
            budget_ -= work_;
            restore(list_schedule(graph_, random_rules()));
            return;
        }
        restore(best_);
        for (std::size_t i = 1 + below(most_shakes); i > 0 && may_go_on(); --i)
            try_change(no_memory_limit);
    }

    ListRules random_rules() {
        ListRules rules;
        rules.choice = static_cast<ListRules::Choice>(below(3));
        rules.weights = static_cast<ListRules::Weights>(below(3));
        rules.chunks = static_cast<ListRules::Chunks>(below(2));
        rules.run = std::int64_t{1} << below(4);
        rules.reserved = std::int64_t{1} << below(4);
        rules.patience = 0.25 * static_cast<double>(below(5));
        if (below(3) > 0)
            for (std::int64_t const window : windows_)
                rules.windows.push_back(window + static_cast<std::int64_t>(
                                                     below(static_cast<std::size_t>(window) + 2)));
        return rules;
    }

    void restore(Schedule const& schedule) {
        current_ = schedule;
        run_ = evaluate(graph_, current_);
        path_ = critical_path(graph_, current_, run_);
    }

    /// Makes one random change and keeps it if the schedule then takes at most `most` seconds.
    bool try_change(double most) {
        std::size_t const rank = change();
        if (rank == current_.ranks.size())
            return false;
        bool kept = false;
        if (moves_.fit_memory(core::RankId{static_cast<std::int64_t>(rank)},
                              current_.ranks[rank]) &&
            current_.ranks[rank] != before_) {
            budget_ -= work_;
            try {
                Evaluation run = evaluate(graph_, current_);
                kept = run.seconds <= most;
                if (kept)
                    run_ = std::move(run);
            } catch (core::ConfigError const&) { // the orders block
            }
        } else {
            budget_ -= std::ssize(before_);
        }
        if (kept)
            path_ = critical_path(graph_, current_, run_);
        else
            current_.ranks[rank] = std::move(before_);
        return kept;
    }

    /// Changes the order of one rank after a copy to before_; the rank, or their number = no
    /// change.
    std::size_t change() {
        Place const place = path_[below(path_.size())];
        std::size_t rank = place.rank;
        std::size_t index = place.index;
        std::size_t const what = below(8);
        if (what == 0) { // anywhere
            rank = below(current_.ranks.size());
            if (current_.ranks[rank].empty())
                return current_.ranks.size();
            index = below(current_.ranks[rank].size());
        }
        Order& order = current_.ranks[rank];
        before_ = order;
        bool changed = false;
        if (what == 1 && order[index].kind == WorkKind::backward)
            changed = OrderMoves::split(order, index, index + 1 + below(order.size() - index));
        else if (what == 1)
            changed = OrderMoves::fuse(order, index);
        else if (what % 2 == 0 && index > 0) // it comes earlier
            changed = OrderMoves::move(order, index, index - std::min(index, distance()));
        else if (index > 0) // what it waits for comes later
            changed = OrderMoves::move(order, index - 1,
                                       std::min(order.size() - 1, index - 1 + distance()));
        return changed ? rank : current_.ranks.size();
    }

    WorkGraph const& graph_;
    OrderMoves moves_;
    std::mt19937_64 random_;
    std::int64_t budget_;
    std::int64_t work_ = 0; ///< pieces of work of one evaluation
    bool limited_ = false;
    std::chrono::steady_clock::time_point deadline_;
    Schedule current_;
    Evaluation run_;
    std::vector<Place> path_;
    std::vector<std::int64_t> windows_ = full_windows(graph_);
    Order before_;
    Schedule best_;
    double best_seconds_ = 0;
    double goal_ = 0;
};

} // namespace

Schedule improve(WorkGraph const& graph, Schedule schedule, ImproveOptions const& options) {
    return Improver{graph, std::move(schedule), options}.run();
}

} // namespace evener::schedule
