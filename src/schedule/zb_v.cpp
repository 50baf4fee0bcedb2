// SPDX-License-Identifier: Apache-2.0
#include "schedule/orders.hpp"

#include <algorithm>

// ZB-V (Qi et al. 2024): each stage holds two chunks, on the way to the last stage and on the way
// back, and keeps as much as 1F1B does on its first stage. The textbook order is made for at least
// 2 p - 1 microbatches; those that are not there are left out.
//
// Groups to which microbatches are dealt: the order is made for P stages of width 1, P the sum of
// the widths, and run with unit times. A group d wide stands for d stages in a row; its rank does
// each of its microbatches when that would enter the row: chunk on the way out at the row's first
// stage, on the way back at its last, backwards mirrored. Sorting by these times keeps every
// dependency, so nothing can block; with widths of 1 it gives back the textbook order.

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using program::Plan;
using program::Work;
using program::WorkKind;

namespace {

/// The order of stage r of p. Chunk 0 is the one on the way out, chunk 1 the one on the way back.
class StageOrder {
  public:
    StageOrder(std::int64_t r, std::int64_t p, std::int64_t m) : r_{r}, p_{p}, m_{m} {}

    std::vector<Work> write() {
        repeat(2 * (p_ - r_) - 1, [&] { forward(0); });
        repeat(r_, [&] { forward(1), forward(0); });
        repeat(p_ - r_, [&] { forward(1), input(1), weight(1); });
        while (forwards_[1] < forwards_[0] || forwards_[0] < m_) {
            if (forwards_[0] < m_)
                forward(0);
            input(0), weight(0);
            forward(1), input(1), weight(1);
        }
        repeat(r_, [&] { input(0), input(1); });
        repeat(p_ - r_, [&] { input(0), weight(0); });
        repeat(inputs_[1] - weights_[1], [&] { weight(1); });
        repeat(inputs_[0] - weights_[0], [&] { weight(0); });
        return std::move(order_);
    }

  private:
    template <class Step>
    static void repeat(std::int64_t times, Step step) {
        for (std::int64_t i = 0; i < times; ++i)
            step();
    }
    void forward(int chunk) { add(WorkKind::forward, chunk, forwards_[chunk]); }
    void input(int chunk) { add(WorkKind::backward_input, chunk, inputs_[chunk]); }
    void weight(int chunk) { add(WorkKind::backward_weight, chunk, weights_[chunk]); }
    void add(WorkKind kind, int chunk, std::int64_t& next) {
        order_.push_back({kind, ChunkId{chunk}, MicrobatchId{next++}});
    }

    std::int64_t r_, p_, m_;
    std::int64_t forwards_[2] = {}, inputs_[2] = {}, weights_[2] = {};
    std::vector<Work> order_;
};

/// When each piece of work starts, with unit times and free messages: [stage][chunk][kind][id].
class UnitRun {
  public:
    explicit UnitRun(std::int64_t p, std::int64_t m) : p_{p}, m_{m} {
        ends_.assign(static_cast<std::size_t>(p * 2 * 3 * m), 0);
        Orders orders;
        for (std::int64_t r = 0; r < p; ++r)
            orders.push_back(StageOrder{r, p, m}.write());
        std::vector<std::size_t> next(orders.size());
        std::vector<std::int64_t> free(orders.size());
        for (bool progress = true; progress;) {
            progress = false;
            for (std::size_t r = 0; r < orders.size(); ++r)
                for (; next[r] < orders[r].size(); ++next[r], progress = true) {
                    Work const& work = orders[r][next[r]];
                    std::int64_t const ready = ready_at(static_cast<std::int64_t>(r), work);
                    if (ready < 0)
                        break;
                    free[r] = std::max(free[r], ready) + 1;
                    end(static_cast<std::int64_t>(r), work.chunk.value, work.kind,
                        work.microbatch.value) = free[r];
                }
        }
        for (std::size_t r = 0; r < orders.size(); ++r)
            EVENER_ENSURE(next[r] == orders[r].size());
    }

    std::int64_t start(std::int64_t r, Work const& work) {
        return end(r, work.chunk.value, work.kind, work.microbatch.value) - 1;
    }

  private:
    /// End of a piece of work; 0 = not yet.
    std::int64_t& end(std::int64_t r, std::int64_t chunk, WorkKind kind, std::int64_t id) {
        std::int64_t const k = kind == WorkKind::forward          ? 0
                               : kind == WorkKind::backward_input ? 1
                                                                  : 2;
        return ends_[static_cast<std::size_t>(((r * 2 + chunk) * 3 + k) * m_ + id)];
    }
    /// -1 while something that it waits for has no end.
    std::int64_t ready_at(std::int64_t r, Work const& work) {
        std::int64_t const id = work.microbatch.value;
        std::int64_t const place = work.chunk.value == 0 ? r : 2 * p_ - 1 - r; // in the model
        auto const at = [&](std::int64_t other, WorkKind kind) {
            std::int64_t const stage = std::min(other, 2 * p_ - 1 - other);
            std::int64_t const found = end(stage, other < p_ ? 0 : 1, kind, id);
            return found > 0 ? found : -1;
        };
        if (work.kind == WorkKind::backward_weight)
            return at(place, WorkKind::backward_input);
        if (work.kind == WorkKind::forward)
            return place > 0 ? at(place - 1, WorkKind::forward) : 0;
        std::int64_t const own = at(place, WorkKind::forward);
        std::int64_t const next = place + 1 < 2 * p_ ? at(place + 1, WorkKind::backward_input) : 0;
        return own < 0 || next < 0 ? -1 : std::max(own, next);
    }

    std::int64_t p_, m_;
    std::vector<std::int64_t> ends_;
};

} // namespace

Orders zb_v(Plan const& plan) {
    std::vector<Stage> const stages = stages_of(plan);
    std::int64_t const p = total_width(stages);
    UnitRun run{p, std::max(plan.microbatch_count(), 2 * p - 1)};
    Orders orders(static_cast<std::size_t>(plan.rank_count()));
    for (std::size_t s = 0; s < stages.size(); ++s) {
        Stage const& stage = stages[s];
        std::int64_t const first = stage.in_front;
        std::int64_t const last = stage.in_front + stage.width - 1;
        std::int64_t const chunks[] = {static_cast<std::int64_t>(s),
                                       std::ssize(plan.chunks) - 1 - static_cast<std::int64_t>(s)};
        for (std::size_t member = 0; member < stage.group->ranks.size(); ++member) {
            std::vector<std::pair<std::int64_t, Work>> timed;
            for (MicrobatchId const id : stage.microbatches[member])
                for (std::int64_t chunk = 0; chunk < 2; ++chunk)
                    for (WorkKind const kind :
                         {WorkKind::forward, WorkKind::backward_input, WorkKind::backward_weight}) {
                        bool const enters_first = (chunk == 0) == (kind == WorkKind::forward);
                        timed.push_back(
                            {run.start(enters_first ? first : last, {kind, ChunkId{chunk}, id}),
                             {kind, ChunkId{chunks[chunk]}, id}});
                    }
            std::ranges::stable_sort(timed, {}, &std::pair<std::int64_t, Work>::first);
            for (auto const& [start, work] : timed)
                orders[stage.group->ranks[member].index()].push_back(work);
        }
    }
    return orders;
}

} // namespace evener::schedule
