// SPDX-License-Identifier: Apache-2.0
// All work of the plan is in the programs, once each, on the rank that the plan names; and all
// messages that it makes necessary.
#include "schedule/verify_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using core::BucketId;
using core::ChunkId;
using core::MicrobatchId;
using core::RankId;
using program::Bucket;
using program::Direction;
using program::Operation;

namespace {

/// Where each operation stands, by its name: names are unique within a sound set of programs.
using Places = std::map<std::string, std::vector<Place>>;

Places index_by_name(Context const& context) {
    Places places;
    for_each_instruction(context.set, [&](Place place, program::Instruction const&) {
        places[context.name(place)].push_back(place);
    });
    return places;
}

class WorkCheck {
  public:
    explicit WorkCheck(Context& context) : context_{context}, places_{index_by_name(context)} {}

    void run() {
        for (std::size_t c = 0; c < context_.plan().chunks.size(); ++c)
            for (std::int64_t m = 0; m < context_.plan().microbatch_count(); ++m)
                for (Part const& part :
                     context_.parts(ChunkId{static_cast<std::int64_t>(c)}, MicrobatchId{m}))
                    require_computes(part, ChunkId{static_cast<std::int64_t>(c)}, MicrobatchId{m});
        for (Bucket const& bucket : context_.buckets)
            require_bucket(bucket);
        for (program::Program const& program : context_.set.programs) {
            require(program.rank, program::ReduceScalars{});
            if (context_.train() && sees_targets(program.rank))
                require(program.rank, program::CountTokens{});
            for (Operation const& copy : wanted_copies(context_, program.rank))
                require(program.rank, copy);
        }
        // What was not required by now is too much.
        for (auto const& [name, places] : places_)
            for (Place const place : places)
                if (!message_of(context_.at(place).operation))
                    context_.report(place, "the plan asks for no such work of this rank");
    }

  private:
    /// Exactly one instruction of this name; it is then accounted for.
    void require(RankId rank, Operation const& operation) {
        std::string const name = name_of(rank, operation);
        auto const found = places_.find(name);
        if (found == places_.end())
            return context_.report(rank, fmt::format("{}: is missing", name));
        if (found->second.size() > 1)
            for (Place const place : found->second)
                context_.report(
                    place, fmt::format("stands {} times in the program", found->second.size()));
        for (Place const place : found->second) {
            check_compute(place);
            check_copy(place, operation);
        }
        places_.erase(found);
    }

    bool has(RankId rank, Operation const& operation) const {
        return places_.contains(name_of(rank, operation));
    }

    void check_compute(Place place) {
        Operation const& operation = context_.at(place).operation;
        program::Compute const* const op = compute_of(operation);
        if (!op)
            return;
        core::Range const sequences = context_.sequences(place.rank, op->chunk, op->microbatch);
        if (op->sequences != sequences)
            context_.report(place, fmt::format("computes the sequences {}:{} (the plan says {}:{})",
                                               op->sequences.begin, op->sequences.end,
                                               sequences.begin, sequences.end));
        core::Range const layers = context_.plan().chunks[op->chunk.index()].layers;
        if (op->layers != layers)
            context_.report(place, fmt::format("computes the layers {}:{} (the chunk has {}:{})",
                                               op->layers.begin, op->layers.end, layers.begin,
                                               layers.end));
        for (core::BucketId const id : clears_of(operation))
            if (!context_.buckets[id.index()].holds(place.rank) ||
                !context_.accumulates(operation, context_.buckets[id.index()]))
                context_.report(
                    place, fmt::format("clears bucket {}, to which it adds nothing", id.value));
        if (auto const* forward = std::get_if<program::Forward>(&operation))
            if (forward->evaluate == context_.train())
                context_.report(place, context_.train() ? "keeps nothing for its Backward"
                                                        : "keeps what nothing will read");
    }

    void check_copy(Place place, Operation const& wanted) {
        program::Copy const* const op = copy_of(context_.at(place).operation);
        if (op && op->bytes != copy_of(wanted)->bytes)
            context_.report(place, fmt::format("moves {} bytes (it must be {})", op->bytes,
                                               copy_of(wanted)->bytes));
    }

    void require_computes(Part const& part, ChunkId chunk, MicrobatchId microbatch) {
        program::Compute const op{chunk, context_.plan().chunks[chunk.index()].layers, microbatch,
                                  part.sequences};
        require(part.rank, program::Forward{op});
        if (!context_.train())
            return;
        if (context_.recomputes(chunk) &&
            context_.layout(chunk, part.sequences.size()).kept_bytes > 0)
            require(part.rank, program::Recompute{op});
        program::Backward const fused{op, {}};
        program::BackwardInput const input{op, {}};
        program::BackwardWeight const weight{op, {}};
        bool const any_split = has(part.rank, input) || has(part.rank, weight);
        if (has(part.rank, fused) || (!any_split && !context_.plan().split_backward)) {
            require(part.rank, fused); // with a split one beside it, that one is too much
        } else {
            require(part.rank, input);
            require(part.rank, weight);
        }
    }

    void require_bucket(Bucket const& bucket) {
        for (RankId const rank : bucket.members) {
            bool const owns = !bucket.shard_of(rank).empty();
            if (context_.is_shared(bucket))
                require(rank, program::GatherParameters{bucket.id});
            if (!context_.train())
                continue;
            if (context_.is_shared(bucket))
                require(rank, program::ReduceGradients{bucket.id});
            if (owns) {
                require(rank, program::MeasureGradients{bucket.id});
                require(rank, program::UpdateParameters{bucket.id});
            }
            if (bucket.holds(rank))
                check_clears(bucket, rank);
        }
    }

    /// Exactly one instruction of a holder starts the bucket's gradient from zero.
    void check_clears(Bucket const& bucket, RankId rank) {
        Place first{rank, {}};
        std::vector<Place> clearing;
        auto const& instructions = context_.program(rank).instructions;
        for (std::size_t i = 0; i < instructions.size(); ++i) {
            Place const place{rank, core::InstructionId{static_cast<std::int64_t>(i)}};
            auto const& clears = clears_of(instructions[i].operation);
            bool const adds = context_.accumulates(instructions[i].operation, bucket);
            if (adds && !first.instruction.valid())
                first = place;
            if (adds && std::find(clears.begin(), clears.end(), bucket.id) != clears.end())
                clearing.push_back(place);
        }
        if (clearing.size() > 1)
            for (Place const place : clearing)
                context_.report(place, fmt::format("clears bucket {}, as another instruction does",
                                                   bucket.id.value));
        if (clearing.empty() && first.instruction.valid())
            context_.report(first, fmt::format("nothing clears bucket {}; the first that adds to "
                                               "it must",
                                               bucket.id.value));
    }

    bool sees_targets(RankId rank) const {
        ChunkId const last{std::ssize(context_.plan().chunks) - 1};
        for (std::int64_t m = 0; m < context_.plan().microbatch_count(); ++m)
            if (!context_.sequences(rank, last, MicrobatchId{m}).empty())
                return true;
        return false;
    }

    Context& context_;
    Places places_;
};

struct Expected {
    RankId rank;
    program::Operation operation;
    int count = 0;
};

/// The sends and receives that the overlaps of neighbouring chunks make necessary, by name.
std::map<std::string, Expected> expected_messages(Context const& context) {
    std::map<std::string, Expected> expected;
    auto const add = [&](RankId rank, Operation operation) {
        expected.emplace(name_of(rank, operation), Expected{rank, std::move(operation)});
    };
    for (std::size_t c = 0; c + 1 < context.plan().chunks.size(); ++c)
        for (std::int64_t m = 0; m < context.plan().microbatch_count(); ++m) {
            ChunkId const chunk{static_cast<std::int64_t>(c)};
            MicrobatchId const microbatch{m};
            for (Part const& from : context.parts(chunk, microbatch))
                for (Part const& to :
                     context.overlaps(ChunkId{chunk.value + 1}, microbatch, from.sequences)) {
                    if (from.rank == to.rank)
                        continue;
                    program::Message message{
                        to.rank,    Direction::forward, chunk,
                        microbatch, to.sequences,       context.message_bytes(chunk, to.sequences)};
                    add(from.rank, program::Send{message});
                    message.peer = from.rank;
                    add(to.rank, program::Receive{message});
                    if (!context.train())
                        continue;
                    message.direction = Direction::backward;
                    add(to.rank, program::Send{message});
                    message.peer = to.rank;
                    add(from.rank, program::Receive{message});
                }
        }
    return expected;
}

} // namespace

void check_work(Context& context) {
    WorkCheck{context}.run();
}

void check_messages(Context& context, Meetings const& meetings) {
    std::map<std::string, Expected> expected = expected_messages(context);
    for_each_instruction(context.set, [&](Place place, program::Instruction const& instruction) {
        program::Message const* const message = message_of(instruction.operation);
        if (!message)
            return;
        auto const found = expected.find(context.name(place));
        if (found == expected.end())
            return context.report(place, "the plan asks for no such message");
        if (++found->second.count > 1)
            context.report(place, "stands more than once in the program");
        program::Message const& right = *message_of(found->second.operation);
        if (message->sequences != right.sequences)
            context.report(place, fmt::format("carries the sequences {}:{} (it must be {}:{})",
                                              message->sequences.begin, message->sequences.end,
                                              right.sequences.begin, right.sequences.end));
        if (message->bytes != right.bytes)
            context.report(place, fmt::format("has {} bytes (its sequences take {})",
                                              message->bytes, right.bytes));
    });
    for (auto const& [name, wanted] : expected)
        if (wanted.count == 0)
            context.report(wanted.rank, fmt::format("{}: is missing", name));
    for (Place const place : meetings.unmatched)
        context.report(place, is<program::Send>(context.at(place).operation)
                                  ? "nothing receives it"
                                  : "nothing is sent for it");
}

} // namespace evener::schedule
