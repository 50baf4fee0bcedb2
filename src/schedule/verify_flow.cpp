// SPDX-License-Identifier: Apache-2.0
// Data flow: each instruction uses the buffers its work needs and no others, and finds in them what
// the right instruction wrote.
#include "schedule/verify_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using core::BucketId;
using core::ChunkId;
using core::InstructionId;
using core::MicrobatchId;
using core::RankId;
using program::Access;
using program::Bucket;
using program::Buffer;
using program::BufferKind;
using program::Direction;
using program::Memory;
using program::Operation;

namespace {

/// One use that an instruction must have. `slot` of the buffer does not count.
struct Need {
    Buffer buffer;
    Access access = Access::read;
    std::string from; ///< name of the instruction that must have written it; empty = any
};

bool fits(Buffer const& a, Buffer const& b) {
    return a.kind == b.kind && a.memory == b.memory && a.chunk == b.chunk &&
           a.microbatch == b.microbatch && a.bucket == b.bucket && a.peer == b.peer &&
           a.direction == b.direction;
}

/// Lists what one instruction needs.
class Needs {
  public:
    Needs(Context& context, Place place) : context_{context}, rank_{place.rank} {
        std::visit(*this, context.at(place).operation);
    }

    std::vector<Need> const& all() const { return all_; }

    void operator()(program::Forward const& op) {
        model::ChunkLayout const& layout = context_.layout(op.chunk, op.sequences.size());
        if (layout.has_input)
            add_input(op, Direction::forward);
        if (context_.computes_in_forward(op.chunk))
            add_kernels(op.chunk);
        if (!op.evaluate)
            add_saved(context_.saved_by_forward(op.chunk, op.sequences.size()), op, Access::write,
                      {});
        if (layout.has_output)
            add_output(op, Direction::forward);
    }
    void operator()(program::Recompute const& op) {
        add_saved(context_.saved_by_forward(op.chunk, op.sequences.size()), op, Access::read,
                  saver_name(op));
        add_kernels(op.chunk);
        add_saved({BufferKind::kept, context_.layout(op.chunk, op.sequences.size()).kept_bytes}, op,
                  Access::write, {});
    }
    void operator()(program::Backward const& op) { add_backward(op, op); }
    void operator()(program::BackwardInput const& op) { add_backward(op, op); }
    void operator()(program::BackwardWeight const& op) { add_backward(op, op); }
    void operator()(program::Send const& op) {
        bool const forward = op.direction == Direction::forward;
        std::string from;
        if (forward)
            from = name_of(rank_, program::Forward{{op.chunk, {}, op.microbatch, {}}});
        else
            from = backward_name(ChunkId{op.chunk.value + 1}, op.microbatch);
        all_.push_back({{.kind = BufferKind::sending, .peer = op.peer, .direction = op.direction},
                        Access::read,
                        from});
    }
    void operator()(program::Receive const& op) {
        all_.push_back({{.kind = BufferKind::received, .peer = op.peer, .direction = op.direction},
                        Access::write,
                        {}});
    }
    void operator()(program::GatherParameters const& op) {
        Bucket const& bucket = context_.buckets[op.bucket.index()];
        add_home(BufferKind::weights, bucket, Access::update);
        // Owners round their master weights to the other types where types differ.
        bool const mixed = std::adjacent_find(bucket.types.begin(), bucket.types.end(),
                                              std::not_equal_to<>{}) != bucket.types.end();
        if (mixed && !bucket.shard_of(rank_).empty())
            add_home(BufferKind::shards, bucket, Access::read);
    }
    void operator()(program::ReduceGradients const& op) {
        Bucket const& bucket = context_.buckets[op.bucket.index()];
        if (bucket.holds(rank_))
            add_bucket(BufferKind::gradients, op.bucket, Access::read);
        if (!bucket.shard_of(rank_).empty())
            add_bucket(BufferKind::reduced, op.bucket, Access::write);
    }
    void operator()(program::MeasureGradients const& op) { add_reduced(op.bucket); }
    void operator()(program::UpdateParameters const& op) {
        Bucket const& bucket = context_.buckets[op.bucket.index()];
        if (context_.offloads_reduced(rank_))
            add_bucket(BufferKind::reduced, op.bucket, Access::read,
                       copy_name<program::Fetch>(BufferKind::reduced, op.bucket));
        else
            add_reduced(op.bucket);
        add_bucket(BufferKind::shards, op.bucket, Access::update,
                   context_.offloads_optimizer(rank_)
                       ? copy_name<program::Fetch>(BufferKind::shards, op.bucket)
                       : std::string{});
        if (context_.offloads_weights(rank_, bucket))
            add_bucket(BufferKind::updated, op.bucket, Access::write);
        else
            add_bucket(BufferKind::weights, op.bucket, Access::update);
    }
    void operator()(program::Fetch const& op) {
        if (op.chunk.valid())
            return add_activations<program::Evict>(op, Memory::pinned, Memory::device);
        if (op.kind == BufferKind::reduced)
            add_pinned(op.kind, op.bucket, Access::read, evict_reduced_name(op.bucket));
        else
            add_pinned(op.kind, op.bucket, Access::read);
        add_bucket(op.kind, op.bucket, Access::write);
    }
    void operator()(program::Evict const& op) {
        if (op.chunk.valid()) {
            add_activations<program::Forward>(op, Memory::device, Memory::pinned);
        } else if (op.kind == BufferKind::updated) {
            add_bucket(op.kind, op.bucket, Access::read,
                       name_of(rank_, program::UpdateParameters{op.bucket}));
            add_pinned(BufferKind::weights, op.bucket, Access::update);
        } else if (op.kind == BufferKind::shards) {
            add_bucket(op.kind, op.bucket, Access::read,
                       copy_name<program::Fetch>(op.kind, op.bucket));
            add_pinned(op.kind, op.bucket, Access::update);
        } else {
            add_reduced(op.bucket);
            add_pinned(BufferKind::reduced, op.bucket, Access::write);
        }
    }
    void operator()(program::CountTokens const&) {}
    void operator()(program::ReduceScalars const&) {}

  private:
    void add_bucket(BufferKind kind, BucketId bucket, Access access, std::string from = {}) {
        all_.push_back({{.kind = kind, .bucket = bucket}, access, std::move(from)});
    }
    void add_pinned(BufferKind kind, BucketId bucket, Access access, std::string from = {}) {
        all_.push_back(
            {{.kind = kind, .memory = Memory::pinned, .bucket = bucket}, access, std::move(from)});
    }
    /// Weights or shards where they stay between the steps.
    void add_home(BufferKind kind, Bucket const& bucket, Access access) {
        if (kind == BufferKind::weights ? context_.offloads_weights(rank_, bucket)
                                        : context_.offloads_optimizer(rank_))
            add_pinned(kind, bucket.id, access);
        else
            add_bucket(kind, bucket.id, access);
    }

    template <class Op>
    std::string copy_name(BufferKind kind, BucketId bucket) const {
        program::Copy copy;
        copy.kind = kind;
        copy.bucket = bucket;
        return name_of(rank_, Op{copy});
    }
    std::string evict_reduced_name(BucketId bucket) const {
        bool const shared = context_.is_shared(context_.buckets[bucket.index()]);
        return copy_name<program::Evict>(shared ? BufferKind::reduced : BufferKind::gradients,
                                         bucket);
    }

    /// A bucket with one member has no reduction: its gradient is whole already.
    void add_reduced(BucketId id) {
        bool const shared = context_.is_shared(context_.buckets[id.index()]);
        add_bucket(shared ? BufferKind::reduced : BufferKind::gradients, id, Access::read,
                   shared ? name_of(rank_, program::ReduceGradients{id}) : std::string{});
    }

    /// Weights (only a Fetch writes those that are offloaded) and workspace.
    void add_kernels(ChunkId chunk) {
        for (Bucket const& bucket : context_.buckets)
            if (std::find(bucket.chunks.begin(), bucket.chunks.end(), chunk) != bucket.chunks.end())
                add_bucket(BufferKind::weights, bucket.id, Access::read);
        all_.push_back({{.kind = BufferKind::workspace}, Access::write, {}});
    }

    void add_saved(Context::Saved const& saved, program::Compute const& op, Access access,
                   std::string from) {
        if (saved.bytes > 0)
            all_.push_back({of_microbatch(saved.kind, op), access, std::move(from)});
    }

    /// Who put what a Forward left where its Backward or Recompute finds it.
    std::string saver_name(program::Compute const& op) {
        if (!context_.is_copied(rank_, op.chunk, op.microbatch))
            return name_of(rank_, program::Forward{op});
        program::Copy copy;
        copy.kind = context_.saved_by_forward(op.chunk, op.sequences.size()).kind;
        copy.chunk = op.chunk;
        copy.microbatch = op.microbatch;
        return name_of(rank_, program::Fetch{copy});
    }

    /// A copy of what a Forward left, which `From` of the same chunk and microbatch wrote.
    template <class From>
    void add_activations(program::Copy const& op, Memory from, Memory to) {
        Buffer buffer{
            .kind = op.kind, .memory = from, .chunk = op.chunk, .microbatch = op.microbatch};
        if constexpr (std::is_same_v<From, program::Evict>)
            all_.push_back({buffer, Access::read, name_of(rank_, From{op})});
        else
            all_.push_back(
                {buffer, Access::read, name_of(rank_, From{{op.chunk, {}, op.microbatch, {}}})});
        buffer.memory = to;
        all_.push_back({buffer, Access::write, {}});
    }

    static Buffer of_microbatch(BufferKind kind, program::Compute const& op,
                                Direction direction = Direction::forward) {
        return {
            .kind = kind, .chunk = op.chunk, .microbatch = op.microbatch, .direction = direction};
    }

    /// The computation of this rank that gives the input gradient of a chunk.
    std::string backward_name(ChunkId chunk, MicrobatchId microbatch) const {
        program::Compute const op{chunk, {}, microbatch, {}};
        if (context_.is_fused(rank_, chunk, microbatch))
            return name_of(rank_, program::Backward{op, {}});
        return name_of(rank_, program::BackwardInput{op, {}});
    }

    void add_input(program::Compute const& op, Direction direction) {
        bool const forward = direction == Direction::forward;
        ChunkId const neighbour{op.chunk.value + (forward ? -1 : 1)};
        ChunkId const boundary = forward ? neighbour : op.chunk;
        for (Part const& part : context_.overlaps(neighbour, op.microbatch, op.sequences)) {
            if (part.rank != rank_) {
                program::Message const message{part.rank, direction, boundary, op.microbatch,
                                               part.sequences};
                all_.push_back(
                    {{.kind = BufferKind::received, .peer = part.rank, .direction = direction},
                     Access::read,
                     name_of(rank_, program::Receive{message})});
                continue;
            }
            program::Compute const source{neighbour, {}, op.microbatch, {}};
            all_.push_back({{.kind = BufferKind::handover,
                             .chunk = boundary,
                             .microbatch = op.microbatch,
                             .direction = direction},
                            Access::read,
                            forward ? name_of(rank_, program::Forward{source})
                                    : backward_name(neighbour, op.microbatch)});
        }
    }

    void add_output(program::Compute const& op, Direction direction) {
        bool const forward = direction == Direction::forward;
        ChunkId const neighbour{op.chunk.value + (forward ? 1 : -1)};
        ChunkId const boundary = forward ? op.chunk : neighbour;
        for (Part const& part : context_.overlaps(neighbour, op.microbatch, op.sequences))
            if (part.rank == rank_)
                all_.push_back({{.kind = BufferKind::handover,
                                 .chunk = boundary,
                                 .microbatch = op.microbatch,
                                 .direction = direction},
                                Access::write,
                                {}});
            else
                all_.push_back(
                    {{.kind = BufferKind::sending, .peer = part.rank, .direction = direction},
                     Access::write,
                     {}});
    }

    template <class Op>
    void add_backward(program::Compute const& compute, Op const& op) {
        constexpr bool fused = std::is_same_v<Op, program::Backward>;
        constexpr bool weights_only = std::is_same_v<Op, program::BackwardWeight>;
        model::ChunkLayout const& layout = context_.layout(compute.chunk, compute.sequences.size());
        if (!weights_only && layout.has_output)
            add_input(compute, Direction::backward);
        add_kernels(compute.chunk);
        add_saved({BufferKind::kept, layout.kept_bytes}, compute, Access::read,
                  context_.recomputes(compute.chunk) ? name_of(rank_, program::Recompute{compute})
                                                     : saver_name(compute));
        if (!fused && layout.kept_for_weights_bytes > 0)
            all_.push_back({of_microbatch(BufferKind::kept_for_weights, compute),
                            weights_only ? Access::read : Access::write,
                            weights_only ? name_of(rank_, program::BackwardInput{compute, {}})
                                         : std::string{}});
        if (!weights_only && layout.has_input)
            add_output(compute, Direction::backward);
        for (Bucket const& bucket : context_.buckets)
            if (bucket.holds(rank_) && context_.accumulates(op, bucket)) {
                bool const first =
                    std::find(op.clears.begin(), op.clears.end(), bucket.id) != op.clears.end();
                add_bucket(BufferKind::gradients, bucket.id,
                           first ? Access::write : Access::update);
            }
    }

    Context& context_;
    RankId rank_;
    std::vector<Need> all_;
};

std::string describe(Need const& need) {
    static constexpr char const* verbs[] = {"write", "read", "update"};
    Buffer const& buffer = need.buffer;
    std::string text = fmt::format("{} a {}{} buffer", verbs[static_cast<std::size_t>(need.access)],
                                   buffer.memory == Memory::pinned ? "pinned " : "",
                                   program::name_of(buffer.kind));
    if (buffer.chunk.valid())
        text +=
            fmt::format(" of chunk {} microbatch {}", buffer.chunk.value, buffer.microbatch.value);
    if (buffer.bucket.valid())
        text += fmt::format(" of bucket {}", buffer.bucket.value);
    if (buffer.peer.valid())
        text +=
            fmt::format(" of rank {} {}", buffer.peer.value, program::name_of(buffer.direction));
    return text;
}

void check_uses(Context& context, Place place, std::vector<InstructionId> const& writers) {
    program::Instruction const& instruction = context.at(place);
    std::vector<Need> needs = Needs{context, place}.all();
    for (std::size_t u = 0; u < instruction.uses.size(); ++u) {
        program::Use const& use = instruction.uses[u];
        Buffer const& buffer = context.program(place.rank).buffers[use.buffer.index()];
        auto const need = std::find_if(needs.begin(), needs.end(), [&](Need const& n) {
            return fits(n.buffer, buffer) && n.access == use.access;
        });
        if (need == needs.end()) {
            context.report(place, fmt::format("has no business with {} or must use it otherwise",
                                              context.name(place.rank, use.buffer)));
            continue;
        }
        InstructionId const writer = writers[u];
        if (!need->from.empty() && writer.valid() &&
            context.name({place.rank, writer}) != need->from)
            context.report(place, fmt::format("finds in {} what {} (instruction {}) wrote; it "
                                              "needs that of {}",
                                              context.name(place.rank, use.buffer),
                                              context.name({place.rank, writer}), writer.value,
                                              need->from));
        needs.erase(need);
    }
    for (Need const& need : needs)
        context.report(place, fmt::format("does not {}", describe(need)));
}

} // namespace

void check_flow(Context& context, Writers const& writers) {
    std::set<Place> read; // whose content somebody uses
    for_each_instruction(context.set, [&](Place place, program::Instruction const&) {
        auto const& own = writers[place.rank.index()][place.instruction.index()];
        check_uses(context, place, own);
        for (InstructionId const writer : own)
            if (writer.valid() && writer != place.instruction)
                read.insert({place.rank, writer});
    });
    for_each_instruction(context.set, [&](Place place, program::Instruction const& instruction) {
        if (is<program::Fetch>(instruction.operation) && !read.contains(place))
            context.report(place, "fetches what nothing uses");
    });
}

} // namespace evener::schedule
