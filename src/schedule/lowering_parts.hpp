// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts of a rank's lowering: messages over links, and buckets of parameters with all that is
// gathered, fetched, reduced, updated and evicted. Each adds its instructions to the same builder.
// Internal to this folder.

#include "model/chunk_layout.hpp"
#include "program/schedule.hpp"
#include "schedule/program_builder.hpp"
#include "schedule/rank_lowering.hpp"
#include "schedule/residences.hpp"

#include <functional>
#include <map>
#include <set>
#include <tuple>

namespace evener::schedule {

/// A rank's program while it is being lowered.
struct Draft {
    LoweringInput const& input;
    core::RankId rank;
    ProgramBuilder& build;
    /// The rank's work, without what it has no sequences of.
    std::vector<program::Work> const& items;

    bool train() const { return input.options.kind == program::ProgramKind::train; }
    program::Chunk const& chunk(core::ChunkId id) const { return input.plan.chunks[id.index()]; }
    /// Whether the item runs kernels.
    bool computes(program::Work const& work) const {
        return !train() || work.kind != program::WorkKind::forward ||
               program::forward_computes(input.plan, work.chunk);
    }
    core::InstructionId add_copy(program::Operation operation,
                                 std::set<core::InstructionId> const& after, program::Use from,
                                 program::Use to) const {
        bool const fetch = std::holds_alternative<program::Fetch>(operation);
        core::QueueId const queue = build.queue(
            {fetch ? program::QueueKind::copy_in : program::QueueKind::copy_out, {}, {}});
        return build.add(std::move(operation), queue, after, {from, to});
    }
};

/// What a computation waits for and uses, collected before it is added.
struct Pending {
    std::set<core::InstructionId> after;
    std::vector<program::Use> uses;
    std::vector<std::pair<program::Message, core::BufferId>> sends; ///< to add behind it
    std::vector<std::pair<Link, std::size_t>> freed;                ///< receive slots it frees
};

/// Actions for later: each when an item of the rank's work is over.
class Deferred {
  public:
    void add(std::size_t item, std::function<void()> action) {
        actions_.emplace(item, std::move(action));
    }
    /// What is due when `item` is over, in the order in which it was added.
    void run(std::size_t item) {
        while (!actions_.empty() && actions_.begin()->first <= item)
            take_first();
    }
    void run_all() {
        while (!actions_.empty())
            take_first();
    }

  private:
    void take_first() {
        std::function<void()> const action = std::move(actions_.begin()->second);
        actions_.erase(actions_.begin());
        action(); // may add others
    }

    std::multimap<std::size_t, std::function<void()>> actions_;
};

/// Sends and receives of a rank, and what its own chunks hand to each other.
class LinkLowering {
  public:
    explicit LinkLowering(Draft const& draft) : draft_{draft} {}

    /// The hidden states that chunk needs of the one before (forward), or the gradients of the one
    /// behind: `neighbour`.
    void take_input(Pending& pending, program::Direction direction, core::ChunkId neighbour,
                    program::Compute const& compute);
    void give_output(Pending& pending, program::Direction direction, core::ChunkId neighbour,
                     program::Compute const& compute);
    /// After the computation has been added as `id`: its sends, and the slots that it frees.
    void follow(Pending const& pending, core::InstructionId id);

  private:
    struct Piece {
        core::RankId peer;
        core::Range sequences;
    };
    struct Incoming {
        std::vector<core::BufferId> slots;
        std::vector<core::InstructionId> consumers; ///< of each message so far
        std::size_t count = 0;
        std::int64_t largest = 0;
    };
    struct Outgoing {
        std::vector<core::BufferId> slots;
        std::vector<core::InstructionId> sends; ///< all so far
        std::int64_t largest = 0;
    };

    std::vector<Piece> pieces(core::ChunkId neighbour, program::Compute const& compute) const;
    program::Message message(Piece const& piece, program::Direction direction,
                             core::ChunkId neighbour, program::Compute const& compute) const;
    void receive(Pending& pending, program::Message const& op);
    void send(Pending& pending, program::Message const& op);
    void grow_link(std::vector<core::BufferId> const& buffers, std::int64_t& largest,
                   std::int64_t bytes);

    Draft const& draft_;
    std::map<Link, Incoming> incoming_;
    std::map<Link, Outgoing> outgoing_;
    std::map<std::tuple<program::Direction, core::ChunkId, core::MicrobatchId>, core::BufferId>
        handover_;
};

/// The buckets that a rank is a member of.
class BucketLowering {
  public:
    BucketLowering(Draft const& draft, core::QueueId compute, core::QueueId collective);

    void gather();
    /// What has to be on its way when the item starts.
    void before_item(std::size_t item);
    /// `last`: no other instruction of this item reads them.
    void use_weights(Pending& pending, std::size_t item, bool last);
    /// The instruction that is added next accumulates; the buckets that it starts from zero.
    std::vector<core::BucketId> use_gradients(Pending& pending, program::Work const& work);
    /// Reductions, interleaved updates and evictions that are due.
    void after_item(std::size_t item);
    /// The same for all that is left.
    void after_items();

    /// Squares of the gradients that are on the device still, behind all computations.
    void measure();
    /// What the first update needs, ahead of the scalars that it waits for.
    void fetch_for_update();
    void update(core::InstructionId scalars);

    /// The last one added to the compute queue by this part, if any.
    core::InstructionId last_compute() const { return last_compute_; }

  private:
    struct State {
        program::Bucket const* bucket = nullptr;
        bool shared = false; ///< has other members
        bool holds = false;
        bool weights_offloaded = false;
        std::int64_t owned = 0;    ///< elements of the shard
        std::size_t last_item = 0; ///< that computes with it, where it holds it
        /// In the middle of the run of a chunk that the last one ends. Interleaved updates fetch the
        /// shard's state there: before, it would keep other copies waiting for the memory that the
        /// bucket updated last still takes.
        std::size_t shards_item = 0;
        // Buffers of the device at hand, and what has its home in pinned memory.
        core::BufferId weights, shards, gradients, reduced;
        core::BufferId weights_home, shards_home, reduced_home;
        std::int64_t residences = 0;   ///< of the weights so far
        std::size_t residence_end = 0; ///< last item of the residence at hand
        core::InstructionId gathered, arrived, last_gradient, reduction, measurement, reduced_left;
        std::set<core::InstructionId> fetched; ///< for the update
        bool weights_awaited = false;          ///< a computation waited for them
        bool updated = false;
    };

    bool is_early() const { return draft_.input.gradient_end == GradientEnd::early; }
    void add_state(program::Bucket const& bucket);
    void add_buffers(State& state);
    bool reads(State const& state, core::ChunkId chunk) const;
    bool has_offloaded_weights(core::ChunkId chunk) const;
    bool accumulates(State const& state, program::Work const& work) const;
    void fetch_weights(State& state, Residence const& residence);
    void reduce_complete(std::size_t item);
    void reduce(State& state);
    void end_gradient(State& state, std::size_t item);
    void measure(State& state);
    void evict_gradient(State& state);
    void fetch_shards(State& state);
    void fetch_gradient(State& state);
    void fetch_for_update(State& state);
    void update(State& state, std::set<core::InstructionId> after);
    std::vector<State*> in_reduction_order();
    std::vector<State*> updates_left();

    Draft const& draft_;
    core::QueueId compute_, collective_;
    program::Offload offload_;
    std::vector<State> states_; ///< ascending buckets
    std::vector<std::size_t> reduction_order_;
    std::size_t next_reduction_ = 0;
    std::vector<Residence> residences_;
    std::size_t next_residence_ = 0;
    Deferred deferred_;
    core::InstructionId last_compute_;
};

} // namespace evener::schedule
