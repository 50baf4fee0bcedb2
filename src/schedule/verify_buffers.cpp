// SPDX-License-Identifier: Apache-2.0
// Which buffers a rank must have, how large they are and where they lie.
#include "schedule/verify_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using core::BufferId;
using core::ChunkId;
using core::MicrobatchId;
using core::RankId;
using program::Bucket;
using program::Buffer;
using program::BufferKind;
using program::Direction;
using program::Memory;
using program::Program;

namespace {

constexpr std::int64_t alignment = 64;

/// All that identifies a buffer of a rank, besides the slot of one of a link.
using Key = std::tuple<BufferKind, Memory, ChunkId, MicrobatchId, core::BucketId, RankId, Direction,
                       std::int64_t>;

bool is_of_link(Buffer const& b) {
    return b.kind == BufferKind::received || b.kind == BufferKind::sending;
}

Key key_of(Buffer const& b) {
    return {b.kind,   b.memory, b.chunk,     b.microbatch,
            b.bucket, b.peer,   b.direction, is_of_link(b) ? 0 : b.slot};
}

class BufferCheck {
  public:
    BufferCheck(Context& context, Program const& program)
        : context_{context}, program_{program}, rank_{program.rank} {}

    void run() {
        expect_bucket_buffers();
        expect_compute_buffers();
        for (program::Operation const& copy : wanted_copies(context_, rank_))
            expect_copied(copy);
        for (std::size_t c = 0; c + 1 < context_.plan().chunks.size(); ++c)
            for (std::int64_t m = 0; m < context_.plan().microbatch_count(); ++m)
                expect_boundary(ChunkId{static_cast<std::int64_t>(c)}, MicrobatchId{m});
        compare();
        check_places(Memory::device, program_.arena_bytes);
        check_places(Memory::pinned, program_.pinned_bytes);
    }

  private:
    struct Wanted {
        Buffer buffer;
        std::vector<BufferId> found;
    };

    /// The largest of the sizes asked for counts.
    void expect(Buffer const& buffer) {
        if (buffer.bytes == 0)
            return;
        auto const [wanted, added] = wanted_.try_emplace(key_of(buffer), Wanted{buffer, {}});
        wanted->second.buffer.bytes = std::max(wanted->second.buffer.bytes, buffer.bytes);
    }

    /// Of one of the two memories it is said to lie in.
    static Memory pinned_if(bool offloaded) { return offloaded ? Memory::pinned : Memory::device; }

    void expect_bucket_buffers() {
        for (Bucket const& bucket : context_.buckets) {
            if (!context_.is_member(bucket, rank_))
                continue;
            std::int64_t const owned = bucket.shard_of(rank_).size();
            expect(
                {.kind = BufferKind::weights,
                 .memory = pinned_if(context_.offloads_weights(rank_, bucket)),
                 .persistent = true,
                 .bytes = bucket.weights_of(rank_).size() * core::bytes_of(bucket.type_of(rank_)),
                 .bucket = bucket.id});
            // Master weight and moments, float32 each.
            expect({.kind = BufferKind::shards,
                    .memory = pinned_if(context_.offloads_optimizer(rank_)),
                    .persistent = true,
                    .bytes = owned * 4 * (1 + context_.moments),
                    .bucket = bucket.id});
            if (!context_.train())
                continue;
            if (bucket.holds(rank_))
                expect({.kind = BufferKind::gradients,
                        .bytes = bucket.elements * 4,
                        .bucket = bucket.id});
            if (context_.is_shared(bucket))
                expect({.kind = BufferKind::reduced, .bytes = owned * 4, .bucket = bucket.id});
        }
    }

    void expect_compute_buffers() {
        std::int64_t workspace = 0;
        for (program::Instruction const& instruction : program_.instructions) {
            program::Compute const* const op = compute_of(instruction.operation);
            if (!op)
                continue;
            model::ChunkLayout const& layout =
                context_.layout(op->chunk, std::max<std::int64_t>(op->sequences.size(), 0));
            workspace =
                std::max(workspace, layout.of(pass_of(instruction.operation, op->chunk)).bytes);
            if (context_.train() && is<program::Forward>(instruction.operation)) {
                Context::Saved const saved = context_.saved_by_forward(op->chunk, layout.sequences);
                expect_activations(saved.kind, *op, saved.bytes);
            }
            if (is<program::Recompute>(instruction.operation))
                expect_activations(BufferKind::kept, *op, layout.kept_bytes);
            if (is<program::BackwardInput>(instruction.operation))
                expect_activations(BufferKind::kept_for_weights, *op,
                                   layout.kept_for_weights_bytes);
        }
        expect({.kind = BufferKind::workspace,
                .bytes = core::round_up(workspace, alignment) +
                         context_.device_workspace_bytes[rank_.index()]});
    }

    void expect_activations(BufferKind kind, program::Compute const& op, std::int64_t bytes) {
        expect({.kind = kind, .bytes = bytes, .chunk = op.chunk, .microbatch = op.microbatch});
    }

    /// The two ends of a copy, as far as they are there for it alone.
    void expect_copied(program::Operation const& operation) {
        program::Copy const& copy = *copy_of(operation);
        bool const fetch = is<program::Fetch>(operation);
        Buffer device{.kind = copy.kind,
                      .bytes = copy.bytes,
                      .chunk = copy.chunk,
                      .microbatch = copy.microbatch,
                      .bucket = copy.bucket,
                      .slot = copy.slot};
        // What came from the device comes back to another place.
        bool const returns = copy.kind == BufferKind::reduced || copy.chunk.valid();
        if (fetch)
            device.slot = returns ? 1 : copy.slot;
        if (fetch || copy.kind == BufferKind::updated)
            expect(device);
        if (fetch && returns) {
            Buffer home = device;
            home.memory = Memory::pinned;
            home.slot = 0;
            expect(home);
        }
    }

    model::ChunkPass pass_of(program::Operation const& operation, ChunkId chunk) const {
        if (is<program::Backward>(operation))
            return model::ChunkPass::backward;
        if (is<program::BackwardInput>(operation))
            return model::ChunkPass::backward_input;
        if (is<program::BackwardWeight>(operation))
            return model::ChunkPass::backward_weight;
        auto const* const forward = std::get_if<program::Forward>(&operation);
        if (forward && forward->evaluate)
            return model::ChunkPass::evaluate;
        return forward && context_.recomputes(chunk) ? model::ChunkPass::forward_dropping
                                                     : model::ChunkPass::forward;
    }

    /// What the rank sends, receives and hands over between `chunk` and the next.
    void expect_boundary(ChunkId chunk, MicrobatchId microbatch) {
        ChunkId const next{chunk.value + 1};
        core::Range const before = context_.sequences(rank_, chunk, microbatch);
        core::Range const after = context_.sequences(rank_, next, microbatch);
        for (Part const& part : context_.overlaps(next, microbatch, before))
            expect_crossing(chunk, microbatch, part, Direction::forward, BufferKind::sending);
        for (Part const& part : context_.overlaps(chunk, microbatch, after))
            if (part.rank != rank_)
                expect_crossing(chunk, microbatch, part, Direction::forward, BufferKind::received);
        if (!context_.train())
            return;
        for (Part const& part : context_.overlaps(chunk, microbatch, after))
            expect_crossing(chunk, microbatch, part, Direction::backward, BufferKind::sending);
        for (Part const& part : context_.overlaps(next, microbatch, before))
            if (part.rank != rank_)
                expect_crossing(chunk, microbatch, part, Direction::backward, BufferKind::received);
    }

    void expect_crossing(ChunkId chunk, MicrobatchId microbatch, Part const& part,
                         Direction direction, BufferKind kind) {
        std::int64_t const bytes = context_.message_bytes(chunk, part.sequences);
        if (part.rank == rank_)
            expect({.kind = BufferKind::handover,
                    .bytes = bytes,
                    .chunk = chunk,
                    .microbatch = microbatch,
                    .direction = direction});
        else
            expect({.kind = kind, .bytes = bytes, .peer = part.rank, .direction = direction});
    }

    void compare() {
        for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
            Buffer const& buffer = program_.buffers[b];
            BufferId const id{static_cast<std::int64_t>(b)};
            auto const found = wanted_.find(key_of(buffer));
            if (found == wanted_.end()) {
                if (buffer.bytes != 0)
                    context_.report(rank_, id, "is not asked for by the plan");
                continue;
            }
            found->second.found.push_back(id);
            if (buffer.bytes != found->second.buffer.bytes)
                context_.report(rank_, id,
                                fmt::format("has {} bytes (it needs {})", buffer.bytes,
                                            found->second.buffer.bytes));
            if (buffer.persistent != found->second.buffer.persistent)
                context_.report(rank_, id,
                                buffer.persistent ? "must not keep its content between programs"
                                                  : "must keep its content between programs");
        }
        for (auto const& [key, wanted] : wanted_)
            compare_count(wanted);
    }

    void compare_count(Wanted const& wanted) {
        if (wanted.found.empty())
            return context_.report(
                rank_,
                fmt::format("rank {} has no {} buffer in {} memory for chunk {} microbatch {} "
                            "bucket {} peer {} slot {}",
                            rank_.value, program::name_of(wanted.buffer.kind),
                            program::name_of(wanted.buffer.memory), wanted.buffer.chunk.value,
                            wanted.buffer.microbatch.value, wanted.buffer.bucket.value,
                            wanted.buffer.peer.value, wanted.buffer.slot));
        // A link may have any number of buffers at either end, all else there is once.
        std::vector<BufferId> taken(wanted.found.size());
        for (BufferId const id : wanted.found) {
            Buffer const& buffer = program_.buffers[id.index()];
            std::int64_t const slot = is_of_link(buffer) ? buffer.slot : 0;
            if (slot < 0 || slot >= std::ssize(taken))
                context_.report(rank_, id,
                                fmt::format("has the slot {} (there are {})", slot, taken.size()));
            else if (BufferId& other = taken[static_cast<std::size_t>(slot)]; other.valid())
                context_.report(rank_, id,
                                fmt::format("is one too many or has the wrong slot {}, like {}",
                                            buffer.slot, context_.name(rank_, other)));
            else
                other = id;
        }
    }

    void check_places(Memory memory, std::int64_t region_bytes) {
        std::int64_t end = 0;
        BufferId last;
        for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
            Buffer const& buffer = program_.buffers[b];
            BufferId const id{static_cast<std::int64_t>(b)};
            if (buffer.memory != memory)
                continue;
            if (buffer.bytes < 0 || buffer.offset < 0 || buffer.offset % alignment != 0 ||
                buffer.offset + buffer.bytes > region_bytes)
                context_.report(rank_, id,
                                fmt::format("lies at {} with {} bytes ({} memory has {}, offsets "
                                            "are multiples of {})",
                                            buffer.offset, buffer.bytes, program::name_of(memory),
                                            region_bytes, alignment));
            if (buffer.bytes > 0 && buffer.offset + buffer.bytes > end) {
                end = buffer.offset + buffer.bytes;
                last = id;
            }
        }
        if (region_bytes <= core::round_up(end, alignment))
            return;
        if (last.valid())
            context_.report(rank_, last,
                            fmt::format("is the last and ends at {} ({} memory is said to have {} "
                                        "bytes)",
                                        end, program::name_of(memory), region_bytes));
        else
            context_.report(rank_,
                            fmt::format("rank {} has {} bytes of {} memory without a buffer "
                                        "in it",
                                        rank_.value, region_bytes, program::name_of(memory)));
    }

    Context& context_;
    Program const& program_;
    RankId rank_;
    std::map<Key, Wanted> wanted_;
};

} // namespace

void check_buffers(Context& context) {
    for (Program const& program : context.set.programs)
        BufferCheck{context, program}.run();
}

std::vector<Problem> verify_persistent(program::ProgramSet const& a, program::ProgramSet const& b) {
    std::vector<Problem> problems;
    if (a.programs.size() != b.programs.size())
        return {{{}, {}, "the two sets of programs are for different numbers of ranks"}};
    using Place = std::pair<std::int64_t, std::int64_t>; // offset, bytes
    auto const places = [](Program const& program) {
        std::map<Key, Place> found;
        for (Buffer const& buffer : program.buffers)
            if (buffer.persistent)
                found[key_of(buffer)] = {buffer.offset, buffer.bytes};
        return found;
    };
    for (std::size_t r = 0; r < a.programs.size(); ++r)
        if (places(a.programs[r]) != places(b.programs[r]))
            problems.push_back({a.programs[r].rank,
                                {},
                                fmt::format("rank {} keeps its weights or shards at other places "
                                            "in training than in validation",
                                            r)});
    return problems;
}

} // namespace evener::schedule
