// SPDX-License-Identifier: Apache-2.0
#include "schedule/orders.hpp"

#include <algorithm>

// Schedules of one chunk per group as two windows, counted in microbatches of the whole batch:
//
//   in flight   before its Forward of microbatch i a rank has done the Backward (of the input) of
//               all of its microbatches j <= i - in_flight
//   weights     behind BackwardInput of j it does BackwardWeight of all of its microbatches
//               <= j - delay; in the cool-down, when no forward is left, one after each
//               BackwardInput and the rest at the end
//
//               in_flight                                               delay
//   1F1B        own width + in_flight behind, rounded up to own widths  0
//   ZB-H1       the same                                                widths in front
//   ZB-H2       own width + 2 * widths behind                           2 * widths in front
//
// With widths of 1 the first is the usual p - r. The rounding: a rank that gets every d-th
// microbatch and is never idle fits whole turns of its own between Forward and Backward of one, so
// it must hold as many more as the stages behind keep it waiting for turns of d microbatches.
//
// Example: four stages, the third dealt to two ranks, 1F1B: in flight 6, 5, 4, 1, so that each of
// the two ranks holds two microbatches (with 3 in flight they would wait half of the time).
//
// No order blocks as long as in_flight never grows from a stage to the next: then whatever a stage
// wants to have done forward before the backward of j is not held back by the stages in front of
// it.

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using program::Plan;
using program::Work;
using program::WorkKind;

namespace {

struct Windows {
    std::int64_t in_flight = 1;
    std::int64_t delay = 0;
    bool split = false;
};

class WindowedOrder {
  public:
    WindowedOrder(ChunkId chunk, std::vector<MicrobatchId> const& mine, Windows const& windows)
        : chunk_{chunk}, mine_{mine}, windows_{windows} {}

    std::vector<Work> write(std::int64_t microbatch_count) {
        for (MicrobatchId const id : mine_) {
            backward_up_to(id.value - windows_.in_flight);
            add(WorkKind::forward, id);
        }
        backward_up_to(microbatch_count - windows_.in_flight);
        while (backwards_ < mine_.size()) {
            backward();
            if (weights_ < backwards_ && windows_.split)
                add(WorkKind::backward_weight, mine_[weights_++]);
        }
        while (windows_.split && weights_ < mine_.size())
            add(WorkKind::backward_weight, mine_[weights_++]);
        return std::move(order_);
    }

  private:
    void add(WorkKind kind, MicrobatchId id) { order_.push_back({kind, chunk_, id}); }

    void backward() {
        add(windows_.split ? WorkKind::backward_input : WorkKind::backward, mine_[backwards_++]);
    }

    void backward_up_to(std::int64_t microbatch) {
        while (backwards_ < mine_.size() && mine_[backwards_].value <= microbatch) {
            std::int64_t const due = mine_[backwards_].value - windows_.delay;
            backward();
            while (windows_.split && weights_ < backwards_ && mine_[weights_].value <= due)
                add(WorkKind::backward_weight, mine_[weights_++]);
        }
    }

    ChunkId chunk_;
    std::vector<MicrobatchId> const& mine_;
    Windows windows_;
    std::vector<Work> order_;
    std::size_t backwards_ = 0;
    std::size_t weights_ = 0;
};

} // namespace

Orders windowed(Plan const& plan, Windowed kind, std::vector<std::int64_t> const& extra) {
    EVENER_EXPECT(extra.empty() || extra.size() == plan.groups.size());
    std::vector<Stage> const stages = stages_of(plan);
    std::int64_t const total = total_width(stages);
    Orders orders(static_cast<std::size_t>(plan.rank_count()));
    std::int64_t behind = 0; // in flight in the stage behind, without what is extra
    std::int64_t least = 0;  // in flight there
    for (std::size_t s = stages.size(); s-- > 0;) {
        Stage const& stage = stages[s];
        behind = kind == Windowed::zb_h2 ? stage.width + 2 * (total - stage.in_front - stage.width)
                                         : stage.width + core::round_up(behind, stage.width);
        Windows windows;
        windows.in_flight = behind;
        if (!extra.empty())
            windows.in_flight += extra[plan.chunks[s].group.index()];
        windows.in_flight = least = std::max(windows.in_flight, least);
        windows.split = kind != Windowed::one_f_one_b || plan.split_backward;
        if (kind != Windowed::one_f_one_b)
            windows.delay = (kind == Windowed::zb_h2 ? 2 : 1) * stage.in_front;
        for (std::size_t member = 0; member < stage.group->ranks.size(); ++member)
            orders[stage.group->ranks[member].index()] =
                WindowedOrder{ChunkId{static_cast<std::int64_t>(s)}, stage.microbatches[member],
                              windows}
                    .write(plan.microbatch_count());
    }
    return orders;
}

} // namespace evener::schedule
