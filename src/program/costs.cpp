// SPDX-License-Identifier: Apache-2.0
#include "program/costs.hpp"

#include <algorithm>
#include <numeric>

namespace evener::program {

namespace {

template <class PerKind>
double of_kind(PerKind const& values, WorkKind kind) {
    switch (kind) {
    case WorkKind::forward:
        return values.forward;
    case WorkKind::backward:
        return values.backward;
    case WorkKind::backward_input:
        return values.backward_input;
    case WorkKind::backward_weight:
        return values.backward_weight;
    }
    return 0;
}

} // namespace

double ChunkSeconds::of(WorkKind kind) const {
    return of_kind(*this, kind);
}

double WorkFactors::of(WorkKind kind) const {
    return of_kind(*this, kind);
}

Network free_network(std::int64_t rank_count) {
    return {rank_count, {}, {}};
}

Network uniform_network(std::int64_t rank_count, Wire const& wire) {
    Network network{rank_count, {}, {}};
    for (std::int64_t src = 0; src < rank_count; ++src)
        for (std::int64_t dst = 0; dst < rank_count; ++dst) {
            if (src == dst) {
                network.routes.push_back(-1);
                continue;
            }
            network.routes.push_back(core::narrow<std::int32_t>(std::ssize(network.wires)));
            network.wires.push_back(wire);
        }
    return network;
}

Costs uniform_costs(Plan const& plan, ChunkSeconds const& seconds) {
    Costs costs;
    auto const ranks = static_cast<std::size_t>(plan.rank_count());
    costs.chunks.assign(ranks, std::vector<ChunkSeconds>(plan.chunks.size()));
    for (std::size_t c = 0; c < plan.chunks.size(); ++c)
        for (core::RankId const rank : plan.groups[plan.chunks[c].group.index()].ranks)
            costs.chunks[rank.index()][c] = seconds;
    costs.repeat.assign(ranks, {});
    costs.contention.assign(ranks, 0.0);
    costs.nodes.resize(ranks);
    std::iota(costs.nodes.begin(), costs.nodes.end(), 0);
    costs.measure_seconds_per_element.assign(ranks, 0.0);
    costs.update_seconds_per_element.assign(ranks, 0.0);
    costs.copies.assign(ranks, {});
    costs.network = free_network(plan.rank_count());
    return costs;
}

namespace {

/// Of a whole microbatch, the part that `sequences` are.
double part_of_whole(Plan const& plan, core::RankId rank, core::ChunkId chunk,
                     std::int64_t sequences) {
    Group const& group = plan.group_of(chunk);
    std::int64_t const member = member_of(group, rank);
    EVENER_EXPECT(member >= 0);
    std::int64_t whole = plan.microbatch_size;
    if (group.dispatch == Dispatch::shares)
        whole = largest_remainder(whole, group.shares)[static_cast<std::size_t>(member)];
    return whole > 0 ? static_cast<double>(sequences) / static_cast<double>(whole) : 1;
}

/// By what a computation takes longer with every other rank of the node at work.
double with_all_neighbours(Costs const& costs, core::RankId rank) {
    auto const on_node =
        std::count(costs.nodes.begin(), costs.nodes.end(), costs.nodes[rank.index()]);
    return 1 + costs.contention[rank.index()] * static_cast<double>(on_node - 1);
}

struct SecondsOf {
    Costs const& costs;
    ProgramSet const& set;
    core::RankId rank;

    double compute(Compute const& op, WorkKind kind) const {
        return costs.chunks[rank.index()][op.chunk.index()].of(kind) *
               part_of_whole(set.plan, rank, op.chunk, op.sequences.size());
    }
    double owned(core::BucketId bucket) const {
        return static_cast<double>(set.buckets[bucket.index()].shard_of(rank).size());
    }
    CopyRates const& copies() const { return costs.copies[rank.index()]; }
    double operator()(Forward const& op) const {
        bool const computes = op.evaluate || forward_computes(set.plan, op.chunk);
        return computes ? compute(op, WorkKind::forward) : 0;
    }
    double operator()(Recompute const& op) const { return compute(op, WorkKind::forward); }
    double operator()(Backward const& op) const { return compute(op, WorkKind::backward); }
    double operator()(BackwardInput const& op) const {
        return compute(op, WorkKind::backward_input);
    }
    double operator()(BackwardWeight const& op) const {
        return compute(op, WorkKind::backward_weight);
    }
    double operator()(MeasureGradients const& op) const {
        return owned(op.bucket) * costs.measure_seconds_per_element[rank.index()];
    }
    double operator()(UpdateParameters const& op) const {
        return owned(op.bucket) * costs.update_seconds_per_element[rank.index()];
    }
    double operator()(Fetch const& op) const { return copies().in.seconds(op.bytes); }
    double operator()(Evict const& op) const { return copies().out.seconds(op.bytes); }
    template <class Op>
    double operator()(Op const&) const {
        return 0;
    }
};

} // namespace

bool forward_computes(Plan const& plan, core::ChunkId chunk) {
    return !plan.chunks[chunk.index()].recompute || chunk.value + 1 < std::ssize(plan.chunks);
}

double work_seconds(Costs const& costs, Plan const& plan, core::RankId rank, Work const& work) {
    Group const& group = plan.group_of(work.chunk);
    auto const member = static_cast<std::size_t>(member_of(group, rank));
    core::Range const sequences = sequences_of(plan, group, member, work.microbatch);
    ChunkSeconds const& chunk = costs.chunks[rank.index()][work.chunk.index()];
    double whole = chunk.of(work.kind);
    if (work.kind == WorkKind::forward && !forward_computes(plan, work.chunk))
        whole = 0;
    if ((work.kind == WorkKind::backward || work.kind == WorkKind::backward_input) &&
        plan.chunks[work.chunk.index()].recompute)
        whole += chunk.forward;
    return whole * with_all_neighbours(costs, rank) *
           part_of_whole(plan, rank, work.chunk, sequences.size());
}

std::optional<Work> work_of(Operation const& operation) {
    return std::visit(
        [](auto const& op) -> std::optional<Work> {
            using Op = std::decay_t<decltype(op)>;
            if constexpr (std::is_same_v<Op, Forward>)
                return Work{WorkKind::forward, op.chunk, op.microbatch};
            else if constexpr (std::is_same_v<Op, Backward>)
                return Work{WorkKind::backward, op.chunk, op.microbatch};
            else if constexpr (std::is_same_v<Op, BackwardInput>)
                return Work{WorkKind::backward_input, op.chunk, op.microbatch};
            else if constexpr (std::is_same_v<Op, BackwardWeight>)
                return Work{WorkKind::backward_weight, op.chunk, op.microbatch};
            else
                return std::nullopt;
        },
        operation);
}

bool computes_layers(Operation const& operation) {
    return work_of(operation) || std::holds_alternative<Recompute>(operation);
}

std::vector<bool> repeats(Program const& program) {
    std::vector<bool> result;
    std::optional<Work> before;
    for (Instruction const& instruction : program.instructions) {
        std::optional<Work> work = work_of(instruction.operation);
        if (work)
            work->microbatch = {};
        result.push_back(work && work == before);
        if (program.queues[instruction.queue.index()].kind == QueueKind::compute)
            before = work;
    }
    return result;
}

InstructionSeconds seconds_alone(Costs const& costs, ProgramSet const& set) {
    InstructionSeconds seconds;
    for (Program const& program : set.programs) {
        std::vector<double>& own = seconds.emplace_back();
        std::vector<bool> const repeated = repeats(program);
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            Operation const& operation = program.instructions[i].operation;
            own.push_back(std::visit(SecondsOf{costs, set, program.rank}, operation));
            if (repeated[i])
                own.back() *= costs.repeat[program.rank.index()].of(work_of(operation)->kind);
        }
    }
    return seconds;
}

InstructionSeconds instruction_seconds(Costs const& costs, ProgramSet const& set) {
    InstructionSeconds seconds = seconds_alone(costs, set);
    for (Program const& program : set.programs) {
        std::vector<double>& own = seconds[program.rank.index()];
        for (std::size_t i = 0; i < own.size(); ++i)
            if (computes_layers(program.instructions[i].operation))
                own[i] *= with_all_neighbours(costs, program.rank);
    }
    return seconds;
}

} // namespace evener::program
