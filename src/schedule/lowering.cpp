// SPDX-License-Identifier: Apache-2.0
#include "schedule/lowering.hpp"

#include "schedule/dry_run.hpp"
#include "schedule/rank_lowering.hpp"

#include <fmt/format.h>

namespace evener::schedule {

namespace {

program::ProgramSet lower_all(program::Plan const& plan, model::Model const& model,
                              program::Schedule const& schedule, LoweringOptions const& options,
                              ReceiveSlots const& slots) {
    program::ProgramSet set;
    set.kind = options.kind;
    set.plan = plan;
    set.buckets = program::make_buckets(plan, model);
    for (std::int64_t r = 0; r < plan.rank_count(); ++r)
        set.programs.push_back(
            lower_rank({plan, model, schedule, options, set.buckets, slots}, core::RankId{r}));
    return set;
}

} // namespace

program::ProgramSet lower(program::Plan const& plan, model::Model const& model,
                          program::Schedule const& schedule, LoweringOptions const& options) {
    EVENER_EXPECT(std::ssize(options.device_workspace_bytes) == plan.rank_count());
    // The smallest number of receive buffers of each link that cannot block ...
    ReceiveSlots slots;
    slots.common = plan.receive_buffers > 0 ? plan.receive_buffers : 1;
    for (;;) {
        program::ProgramSet set = lower_all(plan, model, schedule, options, slots);
        std::vector<Link> const blocked = links_short_of_buffers(set);
        if (blocked.empty()) {
            if (plan.receive_buffers > 0)
                return set;
            break;
        }
        if (plan.receive_buffers > 0)
            throw core::ConfigError{fmt::format(
                "'plan.receive_buffers' is {} (the schedule blocks with so few: rank {} cannot "
                "receive from rank {}); leave it 0 to let evener choose",
                plan.receive_buffers, blocked.front().receiver.value,
                blocked.front().sender.value)};
        for (Link const& link : blocked)
            ++slots.extra[link];
    }
    // ... and one more, so that a message can arrive while the one before is being used.
    slots.common += 1;
    return lower_all(plan, model, schedule, options, slots);
}

} // namespace evener::schedule
