// SPDX-License-Identifier: Apache-2.0
// The order that makes a step's numbers right: gather, computations, reduction, norm, update.
#include "schedule/verify_context.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace evener::schedule {

using core::InstructionId;
using program::Bucket;
using program::BufferKind;

namespace {

class OrderCheck {
  public:
    OrderCheck(Context& context, HappensBefore const& before, core::RankId rank)
        : context_{context}, before_{before}, rank_{rank} {
        auto const& instructions = context.program(rank).instructions;
        for (std::size_t i = 0; i < instructions.size(); ++i) {
            InstructionId const id{static_cast<std::int64_t>(i)};
            program::Operation const& operation = instructions[i].operation;
            if (compute_of(operation))
                computes_.push_back(id);
            else if (is<program::ReduceScalars>(operation))
                scalars_.push_back(id);
            else if (is<program::CountTokens>(operation))
                counts_.push_back(id);
        }
    }

    void run() {
        for (Bucket const& bucket : context_.buckets)
            if (context_.is_member(bucket, rank_))
                check_bucket(bucket);
        for (InstructionId const count : counts_)
            for (InstructionId const scalars : scalars_)
                require(count, scalars, "adds its tokens");
        for (InstructionId const compute : computes_)
            if (gives_losses(context_.at({rank_, compute}).operation))
                for (InstructionId const scalars : scalars_)
                    require(compute, scalars, "adds its losses");
    }

  private:
    /// `a` must have ended when `b` starts, because b ...
    void require(InstructionId a, InstructionId b, std::string_view why) {
        if (!before_.ends_before_start(rank_, a, b))
            context_.report(Place{rank_, b},
                            fmt::format("may start before {} (instruction {}) has ended, but {}",
                                        context_.name({rank_, a}), a.value, why));
    }

    template <class Op>
    std::vector<InstructionId> find(Bucket const& bucket) const {
        std::vector<InstructionId> found;
        auto const& instructions = context_.program(rank_).instructions;
        for (std::size_t i = 0; i < instructions.size(); ++i)
            if (auto const* op = std::get_if<Op>(&instructions[i].operation))
                if (op->bucket == bucket.id)
                    found.push_back(InstructionId{static_cast<std::int64_t>(i)});
        return found;
    }

    template <class Op>
    std::vector<InstructionId> copies(Bucket const& bucket, BufferKind kind) const {
        std::vector<InstructionId> found = find<Op>(bucket);
        std::erase_if(found, [&](InstructionId id) {
            return copy_of(context_.at({rank_, id}).operation)->kind != kind;
        });
        return found;
    }

    void check_bucket(Bucket const& bucket) {
        check_weights(bucket);
        check_gradient(bucket);
        check_shards(bucket);
    }

    bool reads_weights(InstructionId id, Bucket const& bucket) const {
        program::Operation const& operation = context_.at({rank_, id}).operation;
        core::ChunkId const chunk = compute_of(operation)->chunk;
        return std::find(bucket.chunks.begin(), bucket.chunks.end(), chunk) !=
                   bucket.chunks.end() &&
               (!is<program::Forward>(operation) || context_.computes_in_forward(chunk));
    }

    /// Gathered, then read, then changed. Offloaded ones are read by fetches from where they lie
    /// between the steps, and changed there by an eviction.
    void check_weights(Bucket const& bucket) {
        bool const offloaded = context_.offloads_weights(rank_, bucket);
        std::vector<InstructionId> readers;
        if (offloaded)
            readers = copies<program::Fetch>(bucket, BufferKind::weights);
        else
            std::copy_if(computes_.begin(), computes_.end(), std::back_inserter(readers),
                         [&](InstructionId id) { return reads_weights(id, bucket); });
        auto const changes = offloaded ? copies<program::Evict>(bucket, BufferKind::updated)
                                       : find<program::UpdateParameters>(bucket);
        auto const gathers = find<program::GatherParameters>(bucket);
        for (InstructionId const reader : readers) {
            for (InstructionId const gather : gathers)
                require(gather, reader, "reads these weights");
            for (InstructionId const change : changes)
                require(reader, change, "changes the weights it reads");
        }
        for (InstructionId const gather : gathers)
            for (InstructionId const change : changes)
                require(gather, change, "changes the weights it distributes");
    }

    /// Whole, then reduced, then measured, and the norm of all before any update that it may clip.
    void check_gradient(Bucket const& bucket) {
        auto const reductions = find<program::ReduceGradients>(bucket);
        auto const measures = find<program::MeasureGradients>(bucket);
        auto const updates = find<program::UpdateParameters>(bucket);
        std::vector<InstructionId> readers = reductions;
        if (!context_.is_shared(bucket)) {
            readers = measures;
            readers.insert(readers.end(), updates.begin(), updates.end());
            auto const evictions = copies<program::Evict>(bucket, BufferKind::gradients);
            readers.insert(readers.end(), evictions.begin(), evictions.end());
        }
        check_sum(bucket, readers);
        for (InstructionId const measure : measures) {
            for (InstructionId const reduction : reductions)
                require(reduction, measure, "measures the reduced gradient");
            for (InstructionId const scalars : scalars_)
                require(measure, scalars, "adds its squares");
        }
        if (!context_.plan().interleaved_updates)
            for (InstructionId const update : updates)
                for (InstructionId const scalars : scalars_)
                    require(scalars, update, "clips by the norm");
    }

    /// What starts the gradient from zero, what adds to it, then what needs all of it.
    void check_sum(Bucket const& bucket, std::vector<InstructionId> const& readers) {
        std::vector<InstructionId> adds;
        std::vector<InstructionId> clears;
        for (InstructionId const compute : computes_) {
            program::Operation const& operation = context_.at({rank_, compute}).operation;
            if (!context_.accumulates(operation, bucket))
                continue;
            auto const& cleared = clears_of(operation);
            bool const first =
                std::find(cleared.begin(), cleared.end(), bucket.id) != cleared.end();
            (first ? clears : adds).push_back(compute);
        }
        for (InstructionId const clear : clears)
            for (InstructionId const add : adds)
                require(clear, add, "adds to the gradient that it starts from zero");
        adds.insert(adds.end(), clears.begin(), clears.end());
        for (InstructionId const reader : readers)
            for (InstructionId const add : adds)
                require(add, reader, "needs the whole gradient");
    }

    /// Master weights and moments go home with the step's update in them, and behind the gather
    /// that may read them there.
    void check_shards(Bucket const& bucket) {
        auto const updates = find<program::UpdateParameters>(bucket);
        auto const evictions = copies<program::Evict>(bucket, BufferKind::shards);
        for (InstructionId const eviction : evictions)
            for (InstructionId const update : updates)
                require(update, eviction, "takes home what it updates");
        for (InstructionId const gather : find<program::GatherParameters>(bucket))
            for (InstructionId const change :
                 context_.offloads_optimizer(rank_) ? evictions : updates)
                require(gather, change, "changes the master weights it rounds");
    }

    bool gives_losses(program::Operation const& operation) const {
        return compute_of(operation)->layers.end == context_.model.layer_count() &&
               (is<program::Backward>(operation) || is<program::BackwardInput>(operation) ||
                (is<program::Forward>(operation) && !context_.train()));
    }

    Context& context_;
    HappensBefore const& before_;
    core::RankId rank_;
    std::vector<InstructionId> computes_, scalars_, counts_;
};

} // namespace

void check_order(Context& context, HappensBefore const& before) {
    for (program::Program const& program : context.set.programs)
        OrderCheck{context, before, program.rank}.run();
}

} // namespace evener::schedule
