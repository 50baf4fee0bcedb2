// SPDX-License-Identifier: Apache-2.0
#include "schedule/verify.hpp"

#include "schedule/verify_context.hpp"

#include <fmt/format.h>

namespace evener::schedule {

namespace {

void report_deadlock(Context& context, std::vector<Place> const& cycle) {
    for (std::size_t k = 0; k < cycle.size(); ++k)
        context.report(cycle[k],
                       fmt::format("deadlock: waits for {} (instruction {}), in a ring of {}",
                                   context.name(cycle[(k + 1) % cycle.size()]),
                                   cycle[(k + 1) % cycle.size()].instruction.value, cycle.size()));
}

} // namespace

std::vector<Problem> verify(program::ProgramSet const& set, model::Model const& model,
                            std::vector<std::int64_t> const& device_workspace_bytes,
                            std::int64_t moments) {
    Context context{set, model, device_workspace_bytes, moments};
    check_structure(context);
    if (!context.problems.empty())
        return std::move(context.problems);
    Meetings const meetings = find_meetings(set);
    check_work(context);
    check_messages(context, meetings);
    check_buffers(context);
    HappensBefore const before{set, meetings};
    if (!before.cycle().empty()) {
        report_deadlock(context, before.cycle());
        return std::move(context.problems);
    }
    check_order(context, before);
    Writers const writers = check_contents(context, before);
    check_flow(context, writers);
    return std::move(context.problems);
}

} // namespace evener::schedule
