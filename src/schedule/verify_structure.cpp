// SPDX-License-Identifier: Apache-2.0
// Ids, queues and waits: what must be sound before anything may be looked up.
#include "schedule/verify_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using core::RankId;
using program::Program;
using program::QueueKind;

namespace {

QueueKind queue_kind_of(program::Operation const& operation) {
    if (is<program::Send>(operation))
        return QueueKind::send;
    if (is<program::Receive>(operation))
        return QueueKind::receive;
    if (is<program::GatherParameters>(operation) || is<program::ReduceGradients>(operation) ||
        is<program::ReduceScalars>(operation))
        return QueueKind::collective;
    if (is<program::Fetch>(operation))
        return QueueKind::copy_in;
    if (is<program::Evict>(operation))
        return QueueKind::copy_out;
    return QueueKind::compute;
}

template <class Id>
bool inside(Id id, std::int64_t count) {
    return id.valid() && id.value < count;
}

bool same_shards(program::Bucket const& a, program::Bucket const& b) {
    return std::equal(a.shards.begin(), a.shards.end(), b.shards.begin(), b.shards.end(),
                      [](program::Shard const& x, program::Shard const& y) {
                          return x.owner == y.owner && x.elements == y.elements;
                      });
}

bool same_parameters(program::Bucket const& a, program::Bucket const& b) {
    return std::equal(a.parameters.begin(), a.parameters.end(), b.parameters.begin(),
                      b.parameters.end(),
                      [](program::BucketParameter const& x, program::BucketParameter const& y) {
                          return x.parameter == y.parameter && x.offset == y.offset &&
                                 x.rows == y.rows && x.cols == y.cols;
                      });
}

bool same(program::Bucket const& a, program::Bucket const& b) {
    return a.id == b.id && a.chunks == b.chunks && a.elements == b.elements &&
           a.holders == b.holders && a.members == b.members && a.types == b.types &&
           same_shards(a, b) && same_parameters(a, b);
}

/// The plan, the buckets and the number of programs; returns whether to go on.
bool check_set(Context& context) {
    program::ProgramSet const& set = context.set;
    for (std::string const& problem : program::plan_problems(set.plan, context.model))
        context.report(RankId{}, problem);
    if (!context.problems.empty())
        return false;
    context.buckets = program::make_buckets(set.plan, context.model);
    if (!std::equal(set.buckets.begin(), set.buckets.end(), context.buckets.begin(),
                    context.buckets.end(), same))
        context.report(RankId{}, "the buckets are not those that plan and model give");
    std::int64_t const ranks = set.plan.rank_count();
    if (std::ssize(set.programs) != ranks)
        context.report(RankId{}, fmt::format("there are {} programs for {} ranks",
                                             set.programs.size(), ranks));
    if (std::ssize(context.device_workspace_bytes) != ranks)
        context.report(RankId{}, fmt::format("there are {} device workspaces for {} ranks",
                                             context.device_workspace_bytes.size(), ranks));
    for (std::size_t r = 0; r < set.programs.size(); ++r)
        if (set.programs[r].rank.index() != r)
            context.report(
                RankId{static_cast<std::int64_t>(r)},
                fmt::format("program {} says it is of rank {}", r, set.programs[r].rank.value));
    return context.problems.empty();
}

void check_queues(Context& context, Program const& program) {
    for (std::size_t q = 0; q < program.queues.size(); ++q) {
        program::Queue const& queue = program.queues[q];
        std::string const name = fmt::format("queue {} ({}) on rank {}", q,
                                             program::name_of(queue.kind), program.rank.value);
        bool const link = queue.kind == QueueKind::send || queue.kind == QueueKind::receive;
        if (link != queue.peer.valid() ||
            (link &&
             (!inside(queue.peer, context.plan().rank_count()) || queue.peer == program.rank)))
            context.report(program.rank, fmt::format("{} has the peer {}", name, queue.peer.value));
        if (std::find(program.queues.begin(),
                      program.queues.begin() + static_cast<std::ptrdiff_t>(q),
                      queue) != program.queues.begin() + static_cast<std::ptrdiff_t>(q))
            context.report(program.rank, fmt::format("{} stands twice in the list", name));
    }
}

/// What a copy may move, and how it says whose.
void check_copy(Context& context, Place place, program::Copy const& copy) {
    using program::BufferKind;
    bool const fetch = is<program::Fetch>(context.at(place).operation);
    bool const of_microbatch = copy.kind == BufferKind::kept || copy.kind == BufferKind::inputs;
    bool const of_bucket =
        copy.kind == BufferKind::shards || copy.kind == BufferKind::reduced ||
        (fetch ? copy.kind == BufferKind::weights
               : copy.kind == BufferKind::gradients || copy.kind == BufferKind::updated);
    if (!of_microbatch && !of_bucket)
        return context.report(place, "moves what never moves this way");
    if (of_bucket ? !inside(copy.bucket, std::ssize(context.buckets)) || copy.chunk.valid() ||
                        copy.microbatch.valid()
                  : copy.bucket.valid())
        context.report(place, "must name a bucket that is there, and no chunk");
    if (of_microbatch && (!inside(copy.chunk, std::ssize(context.plan().chunks)) ||
                          !inside(copy.microbatch, context.plan().microbatch_count())))
        context.report(place, "the plan has no such chunk or microbatch");
    if (copy.slot < 0 || (copy.kind != BufferKind::weights && copy.slot != 0))
        context.report(place, fmt::format("has the residence {}", copy.slot));
}

void check_operation(Context& context, Place place, program::Operation const& operation) {
    program::Plan const& plan = context.plan();
    if (auto const* compute = compute_of(operation)) {
        if (!inside(compute->chunk, std::ssize(plan.chunks)) ||
            !inside(compute->microbatch, plan.microbatch_count()))
            context.report(place, "the plan has no such chunk or microbatch");
    }
    if (auto const* message = message_of(operation)) {
        if (!inside(message->peer, plan.rank_count()) || message->peer == place.rank)
            context.report(place, "there is no such peer");
        if (!inside(message->chunk, std::ssize(plan.chunks) - 1) ||
            !inside(message->microbatch, plan.microbatch_count()))
            context.report(place, "the plan has no such boundary or microbatch");
    }
    if (auto const* copy = copy_of(operation))
        check_copy(context, place, *copy);
    bool const has_bucket =
        is<program::GatherParameters>(operation) || is<program::ReduceGradients>(operation) ||
        is<program::MeasureGradients>(operation) || is<program::UpdateParameters>(operation);
    if (has_bucket && !inside(bucket_of(operation), std::ssize(context.buckets)))
        context.report(place, "there is no such bucket");
    std::vector<core::BucketId> clears = clears_of(operation);
    std::sort(clears.begin(), clears.end());
    for (core::BucketId const bucket : clears)
        if (!inside(bucket, std::ssize(context.buckets)))
            context.report(place,
                           fmt::format("clears bucket {}, which is not there", bucket.value));
    if (std::adjacent_find(clears.begin(), clears.end()) != clears.end())
        context.report(place, "clears a bucket twice");
}

void check_queue_of(Context& context, Place place, program::Instruction const& instruction) {
    Program const& program = context.program(place.rank);
    if (!inside(instruction.queue, std::ssize(program.queues)))
        return context.report(place, fmt::format("queue {} is not there", instruction.queue.value));
    program::Queue const& queue = program.queues[instruction.queue.index()];
    auto const* message = message_of(instruction.operation);
    if (queue.kind != queue_kind_of(instruction.operation))
        context.report(place, fmt::format("stands in a {} queue", program::name_of(queue.kind)));
    else if (message && (queue.peer != message->peer || queue.direction != message->direction))
        context.report(place, fmt::format("stands in the queue of rank {} {}", queue.peer.value,
                                          program::name_of(queue.direction)));
}

void check_instruction(Context& context, Place place, program::Instruction const& instruction) {
    check_operation(context, place, instruction.operation);
    check_queue_of(context, place, instruction);
    core::InstructionId previous;
    for (core::InstructionId const id : instruction.after) {
        if (!inside(id, place.instruction.value))
            context.report(place, fmt::format("waits for instruction {}, which is not before it "
                                              "in the list",
                                              id.value));
        if (id <= previous)
            context.report(place, fmt::format("waits for {} after {}; waits must ascend", id.value,
                                              previous.value));
        previous = id;
    }
    std::vector<core::BufferId> buffers;
    for (program::Use const& use : instruction.uses) {
        if (!inside(use.buffer, std::ssize(context.program(place.rank).buffers)))
            context.report(place,
                           fmt::format("uses buffer {}, which is not there", use.buffer.value));
        if (std::find(buffers.begin(), buffers.end(), use.buffer) != buffers.end())
            context.report(place, fmt::format("uses buffer {} twice", use.buffer.value));
        buffers.push_back(use.buffer);
    }
}

} // namespace

void check_structure(Context& context) {
    if (!check_set(context))
        return;
    context.prepare();
    for (Program const& program : context.set.programs)
        check_queues(context, program);
    for_each_instruction(context.set, [&](Place place, program::Instruction const& instruction) {
        check_instruction(context, place, instruction);
    });
}

} // namespace evener::schedule
