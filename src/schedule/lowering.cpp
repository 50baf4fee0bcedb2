// SPDX-License-Identifier: Apache-2.0
#include "schedule/lowering.hpp"

#include "schedule/dry_run.hpp"
#include "schedule/link_buffers.hpp"
#include "schedule/rank_lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace evener::schedule {

namespace {

using program::ProgramSet;

struct AllBuffers {
    LinkBuffers receive;
    LinkBuffers send;
};

/// Buckets whose last computation is over earlier on all their holders come first (as a part of each
/// rank's work); ties from the last chunk to the first. Any order would do that is the same on all
/// ranks, so that no two of them wait for each other.
std::vector<core::BucketId> reduction_order(program::Plan const& plan,
                                            program::Schedule const& schedule,
                                            std::vector<program::Bucket> const& buckets) {
    std::vector<double> chunk_ends(plan.chunks.size());
    for (std::vector<program::Work> const& works : schedule.ranks)
        for (std::size_t i = 0; i < works.size(); ++i) {
            double& end = chunk_ends[works[i].chunk.index()];
            end = std::max(end, static_cast<double>(i + 1) / static_cast<double>(works.size()));
        }
    auto const key = [&](program::Bucket const& bucket) {
        double end = 0;
        for (core::ChunkId const chunk : bucket.chunks)
            end = std::max(end, chunk_ends[chunk.index()]);
        return std::tuple{end, bucket.chunks.size() > 1, -bucket.chunks.front().value, bucket.id};
    };
    std::vector<core::BucketId> order;
    for (program::Bucket const& bucket : buckets)
        order.push_back(bucket.id);
    std::sort(order.begin(), order.end(), [&](core::BucketId a, core::BucketId b) {
        return key(buckets[a.index()]) < key(buckets[b.index()]);
    });
    return order;
}

class Lowering {
  public:
    Lowering(program::Plan const& plan, model::Model const& model,
             program::Schedule const& schedule, LoweringOptions const& options)
        : plan_{plan}, model_{model}, schedule_{schedule}, options_{options},
          buckets_{program::make_buckets(plan, model)}, reduction_order_{reduction_order(
                                                            plan, schedule, buckets_)} {
        EVENER_EXPECT(std::ssize(options.device_workspace_bytes) == plan.rank_count());
        EVENER_EXPECT(options.memory_limit_bytes.empty() ||
                      std::ssize(options.memory_limit_bytes) == plan.rank_count());
    }

    ProgramSet run() {
        choose_gradient_end();
        ProgramSet set = with_gradient_end();
        if (options_.costs == nullptr || gradient_end_ == GradientEnd::late ||
            !has_several_chunks() || plan_saves_memory())
            return set;
        // The first gradient that takes over memory waits for a reduction, which may cost time.
        try {
            gradient_end_ = GradientEnd::late;
            ProgramSet other = with_gradient_end();
            if (simulate(other).seconds < simulate(set).seconds * (1 - 1e-6))
                return other;
        } catch (core::ConfigError const&) { // it does not fit, or the user's buffers do not do
        }
        return set;
    }

    std::vector<LinkNeed> needs() {
        choose_gradient_end();
        AllBuffers const fewest = fewest_buffers();
        ProgramSet const free = lower(without_limit());
        std::vector<LinkNeed> result;
        for (auto const& [link, count] : counts_without_stall(free, simulate(free)).receive)
            result.push_back({link.sender, link.receiver, link.direction, fewest.receive.of(link),
                              std::max(count, fewest.receive.of(link))});
        return result;
    }

  private:
    ProgramSet with_gradient_end() const {
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

    /// Gradients end early unless ranks could then wait for each other in a ring: the members of a
    /// group may come to the ends of their chunks in different orders.
    void choose_gradient_end() {
        if (options_.kind == program::ProgramKind::train && has_several_chunks() &&
            !runs_to_end(lower(without_limit())))
            gradient_end_ = GradientEnd::late;
    }

    bool has_several_chunks() const { return plan_.chunks.size() > plan_.groups.size(); }

    /// Whether the user asked for less memory at the cost of time.
    bool plan_saves_memory() const {
        return plan_.interleaved_updates ||
               std::any_of(plan_.groups.begin(), plan_.groups.end(),
                           [](program::Group const& group) { return group.offload.any(); });
    }

    ProgramSet lower(AllBuffers const& buffers) const {
        ProgramSet set;
        set.kind = options_.kind;
        set.plan = plan_;
        set.buckets = buckets_;
        for (std::int64_t r = 0; r < plan_.rank_count(); ++r)
            set.programs.push_back(
                lower_rank({plan_, model_, schedule_, options_, set.buckets, reduction_order_,
                            buffers.receive, buffers.send, gradient_end_},
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

    std::string on_device(std::size_t rank) const {
        if (rank >= options_.device_names.size() || options_.device_names[rank].empty())
            return {};
        return fmt::format(" on '{}'", options_.device_names[rank]);
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
                 fmt::format("rank {} needs {:.1f} MiB{} (it may have {:.1f}): {}; {}", r,
                             mebibytes(table.total_bytes), on_device(r),
                             mebibytes(options_.memory_limit_bytes[r]), parts,
                             memory_levers(core::RankId{static_cast<std::int64_t>(r)}))});
        }
        if (!findings.empty())
            throw core::ConfigError{findings};
    }

    /// What could make the rank's arena smaller, in the words of the job; what is in use is left out.
    std::string memory_levers(core::RankId rank) const {
        bool const train = options_.kind == program::ProgramKind::train;
        std::string text = "use ";
        for (std::size_t g = 0; g < plan_.groups.size(); ++g) {
            program::Group const& group = plan_.groups[g];
            std::int64_t const member = program::member_of(group, rank);
            if (member < 0)
                continue;
            bool const keeps = std::any_of(plan_.chunks.begin(), plan_.chunks.end(),
                                           [&](program::Chunk const& chunk) {
                                               return chunk.group.index() == g && !chunk.recompute;
                                           });
            if (train && keeps)
                text += "'plan.recompute', ";
            bool const own =
                !group.own_memory.empty() && group.own_memory[static_cast<std::size_t>(member)];
            std::string const missing = missing_offload(group.offload, train);
            if (own && !missing.empty())
                text += fmt::format("[plan.offload] ({}), ", missing);
            if (group.ranks.size() > 1)
                text += "a smaller one of its group's 'shard_weights', ";
        }
        return text + "smaller microbatches, a schedule that holds fewer of them, or fewer layers "
                      "on this rank";
    }

    static std::string missing_offload(program::Offload const& offload, bool train) {
        std::string text;
        for (auto const& [missing, name] :
             {std::pair{!offload.parameters, "parameters"},
              std::pair{!offload.optimizer, "optimizer"},
              std::pair{train && !offload.activations, "activations"}})
            if (missing)
                text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
        return text;
    }

    static double mebibytes(std::int64_t bytes) { return static_cast<double>(bytes) / 1048576; }

    program::Plan const& plan_;
    model::Model const& model_;
    program::Schedule const& schedule_;
    LoweringOptions const& options_;
    std::vector<program::Bucket> buckets_;
    std::vector<core::BucketId> reduction_order_;
    GradientEnd gradient_end_ = GradientEnd::early;
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
