// SPDX-License-Identifier: Apache-2.0
#include "schedule/lowering.hpp"

#include "schedule/dry_run.hpp"
#include "schedule/link_buffers.hpp"
#include "schedule/rank_lowering.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

namespace {

using program::ProgramSet;

struct AllBuffers {
    LinkBuffers receive;
    LinkBuffers send;
};

class Lowering {
  public:
    Lowering(program::Plan const& plan, model::Model const& model,
             program::Schedule const& schedule, LoweringOptions const& options)
        : plan_{plan}, model_{model}, schedule_{schedule}, options_{options},
          buckets_{program::make_buckets(plan, model)} {
        EVENER_EXPECT(std::ssize(options.device_workspace_bytes) == plan.rank_count());
        EVENER_EXPECT(options.memory_limit_bytes.empty() ||
                      std::ssize(options.memory_limit_bytes) == plan.rank_count());
    }

    ProgramSet run() const {
        AllBuffers const fewest = fewest_buffers();
        if (plan_.receive_buffers > 0)
            return fitting(fewest, fewest);
        AllBuffers wanted = fewest;
        wanted.receive.otherwise += 1; // one message can arrive while the one before is used
        wanted.send.otherwise += 1;    // ... or be made while the one before leaves
        for (auto& [link, count] : wanted.receive.counts)
            ++count;
        if (options_.costs == nullptr)
            return fitting(fewest, wanted);
        ProgramSet set = lower(wanted);
        ProgramSet const free = lower(without_limit());
        Simulation const best = simulate(free);
        if (simulate(set).seconds > best.seconds * (1 + 1e-6))
            wanted = at_least(wanted, counts_without_stall(free, best));
        return fitting(fewest, wanted);
    }

    std::vector<LinkNeed> needs() const {
        AllBuffers const fewest = fewest_buffers();
        ProgramSet const free = lower(without_limit());
        std::vector<LinkNeed> result;
        for (auto const& [link, count] : counts_without_stall(free, simulate(free)).receive)
            result.push_back({link.sender, link.receiver, link.direction, fewest.receive.of(link),
                              std::max(count, fewest.receive.of(link))});
        return result;
    }

  private:
    ProgramSet lower(AllBuffers const& buffers) const {
        ProgramSet set;
        set.kind = options_.kind;
        set.plan = plan_;
        set.buckets = buckets_;
        for (std::int64_t r = 0; r < plan_.rank_count(); ++r)
            set.programs.push_back(lower_rank(
                {plan_, model_, schedule_, options_, set.buckets, buffers.receive, buffers.send},
                core::RankId{r}));
        return set;
    }

    Simulation simulate(ProgramSet const& set) const {
        return schedule::simulate(set, program::instruction_seconds(*options_.costs, set),
                                  options_.costs->network);
    }

    AllBuffers without_limit() const {
        std::int64_t const all = plan_.microbatch_count() * std::ssize(plan_.chunks);
        return {{all, {}}, {all, {}}};
    }

    /// The smallest number of receive buffers of each link that cannot block, or the plan's. Links
    /// that are short together (several chunks per group make rings of them) grow together, which
    /// spreads what waits over their ranks.
    AllBuffers fewest_buffers() const {
        AllBuffers buffers;
        if (plan_.receive_buffers > 0)
            buffers.receive.otherwise = plan_.receive_buffers;
        for (;;) {
            std::vector<Link> const blocked = links_short_of_buffers(lower(buffers));
            if (blocked.empty())
                return buffers;
            if (plan_.receive_buffers > 0)
                throw core::ConfigError{fmt::format(
                    "'plan.receive_buffers' is {} (the schedule blocks with so few: rank {} cannot "
                    "receive from rank {}); leave it 0 to let evener choose",
                    plan_.receive_buffers, blocked.front().receiver.value,
                    blocked.front().sender.value)};
            for (Link const& link : blocked)
                buffers.receive.counts[link] = buffers.receive.of(link) + 1;
        }
    }

    static AllBuffers at_least(AllBuffers buffers, BufferCounts const& counts) {
        for (auto const& [link, count] : counts.receive)
            buffers.receive.counts[link] = std::max(count, buffers.receive.of(link));
        for (auto const& [link, count] : counts.send)
            buffers.send.counts[link] = std::max(count, buffers.send.of(link));
        return buffers;
    }

    /// Ranks whose arena is larger than they may have.
    std::vector<bool> too_large(ProgramSet const& set) const {
        std::vector<bool> result(set.programs.size());
        for (std::size_t r = 0; r < options_.memory_limit_bytes.size(); ++r)
            result[r] = set.programs[r].arena_bytes > options_.memory_limit_bytes[r];
        return result;
    }

    /// As many of the wanted buffers as fit: where a rank's memory does not suffice, the links that
    /// end at it (or begin, for send buffers) give up half of what they have above the fewest until
    /// it does.
    ProgramSet fitting(AllBuffers const& fewest, AllBuffers wanted) const {
        for (;;) {
            ProgramSet set = lower(wanted);
            std::vector<bool> const large = too_large(set);
            bool changed = false;
            auto const halve = [&](LinkBuffers& buffers, LinkBuffers const& floor,
                                   Link const& link) {
                std::int64_t const above = buffers.of(link) - floor.of(link);
                if (above > 0) {
                    buffers.counts[link] = floor.of(link) + above / 2;
                    changed = true;
                }
            };
            for (program::Program const& program : set.programs) {
                if (!large[program.rank.index()])
                    continue;
                for (program::Queue const& queue : program.queues)
                    if (queue.kind == program::QueueKind::receive)
                        halve(wanted.receive, fewest.receive,
                              {queue.peer, program.rank, queue.direction});
                    else if (queue.kind == program::QueueKind::send)
                        halve(wanted.send, fewest.send,
                              {program.rank, queue.peer, queue.direction});
            }
            if (changed)
                continue;
            refuse_if_too_large(set, large);
            return set;
        }
    }

    void refuse_if_too_large(ProgramSet const& set, std::vector<bool> const& large) const {
        std::vector<core::Finding> findings;
        for (std::size_t r = 0; r < large.size(); ++r) {
            if (!large[r])
                continue;
            program::MemoryTable const table = program::memory_table(set.programs[r]);
            std::string parts;
            for (int kind = 0; kind < program::buffer_kind_count; ++kind)
                if (table.bytes[kind] > 0)
                    parts += fmt::format("{}{} {:.1f}", parts.empty() ? "" : ", ",
                                         program::name_of(static_cast<program::BufferKind>(kind)),
                                         mebibytes(table.bytes[kind]));
            findings.push_back(
                {{},
                 fmt::format("rank {} needs {:.1f} MiB (it may have {:.1f}): {}; use smaller "
                             "microbatches, a schedule that holds fewer of them, or fewer layers "
                             "on this rank",
                             r, mebibytes(table.total_bytes),
                             mebibytes(options_.memory_limit_bytes[r]), parts)});
        }
        if (!findings.empty())
            throw core::ConfigError{findings};
    }

    static double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576; }

    program::Plan const& plan_;
    model::Model const& model_;
    program::Schedule const& schedule_;
    LoweringOptions const& options_;
    std::vector<program::Bucket> buckets_;
};

} // namespace

ProgramSet lower(program::Plan const& plan, model::Model const& model,
                 program::Schedule const& schedule, LoweringOptions const& options) {
    return Lowering{plan, model, schedule, options}.run();
}

std::vector<LinkNeed> link_needs(program::Plan const& plan, model::Model const& model,
                                 program::Schedule const& schedule,
                                 LoweringOptions const& options) {
    EVENER_EXPECT(options.costs != nullptr);
    return Lowering{plan, model, schedule, options}.needs();
}

} // namespace evener::schedule
