// SPDX-License-Identifier: Apache-2.0
#include "support/symbolic_executor.hpp"

#include "support/random_plan.hpp"
#include "support/symbolic_footprint.hpp"
#include "support/symbolic_memory.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <queue>
#include <tuple>

namespace evener::support {

using core::RankId;
using program::Bucket;
using program::Instruction;
using program::Message;
using program::Program;
using program::ProgramSet;

namespace {

/// Index of an instruction over all ranks.
using Node = std::size_t;

struct State {
    RankId rank;
    Instruction const* instruction = nullptr;
    Footprint print;
    std::vector<std::uint64_t> values; ///< read so far, by operand
    std::size_t reads_left = 0;
    bool start_planned = false, started = false, end_planned = false, ended = false;
    std::int64_t previous = -1; ///< in its queue
    bool overlaps = false;      ///< stands in a receive queue
    std::vector<Node> after;    ///< waits for
    std::vector<Node> wakes;    ///< to look at again when this starts or ends
    std::vector<Node> partners; ///< the other half of a message; all participants
    std::size_t partners_wanted = 0;
};

struct Step {
    double key = 0;
    std::uint64_t number = 0;
    Node node = 0;
    int what = 0; ///< -1 start, -2 end, else the operand to read

    bool operator>(Step const& other) const {
        return std::tie(key, number) > std::tie(other.key, other.number);
    }
};

using RankMemory = std::array<SymbolicMemory, space_count>; ///< by Space

class Run {
  public:
    Run(ProgramSet const& set, model::Model const& model, std::uint64_t seed)
        : set_{set}, footprints_{set, model}, random_{seed}, seed_{seed}, by_priority_{seed % 2 ==
                                                                                       1} {
        for (Program const& program : set.programs)
            add_program(program);
        meet();
        fill_memory();
    }

    SymbolicResult run() {
        for (Node node = 0; node < states_.size(); ++node)
            look_at(node);
        while (!agenda_.empty()) {
            Step const step = agenda_.top();
            agenda_.pop();
            if (!by_priority_)
                now_ = step.key;
            take(step);
        }
        for (State const& state : states_)
            result_.deadlock = result_.deadlock || !state.ended;
        if (!result_.deadlock)
            result_.hash = final_hash();
        return std::move(result_);
    }

  private:
    // --- set-up

    void add_program(Program const& program) {
        first_.push_back(states_.size());
        std::vector<std::int64_t> before(program.queues.size(), -1);
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            Instruction const& instruction = program.instructions[i];
            Node const node = states_.size();
            State& state = states_.emplace_back();
            state.rank = program.rank;
            state.instruction = &instruction;
            state.print =
                footprints_.of(program.rank, core::InstructionId{static_cast<std::int64_t>(i)});
            result_.faults.insert(result_.faults.end(), state.print.faults.begin(),
                                  state.print.faults.end());
            state.values.resize(state.print.operands.size());
            state.overlaps =
                program.queues[instruction.queue.index()].kind == program::QueueKind::receive;
            state.previous = before[instruction.queue.index()];
            before[instruction.queue.index()] = static_cast<std::int64_t>(node);
            for (core::InstructionId const id : instruction.after)
                state.after.push_back(first_.back() + id.index());
            for (Node const other : state.after)
                states_[other].wakes.push_back(node);
            if (state.previous >= 0)
                states_[static_cast<Node>(state.previous)].wakes.push_back(node);
            streams_.push_back({program.rank.value, instruction.queue.value});
        }
    }

    void meet() {
        using MessageKey = std::tuple<int, int, int, int, int>;
        std::map<MessageKey, std::pair<std::vector<Node>, std::vector<Node>>> messages;
        // (kind, bucket, round): a rank's k-th gather of a bucket meets the others' k-th
        std::map<std::tuple<int, int, int>, std::vector<Node>> collectives;
        std::map<std::tuple<int, int, int>, int> rounds;
        for (Node node = 0; node < states_.size(); ++node) {
            program::Operation const& operation = states_[node].instruction->operation;
            int const rank = states_[node].rank.value;
            auto const join = [&](int kind, int bucket, std::size_t wanted) {
                collectives[{kind, bucket, rounds[{kind, bucket, rank}]++}].push_back(node);
                states_[node].partners_wanted = wanted;
            };
            if (auto const* send = std::get_if<program::Send>(&operation))
                messages[key(*send, rank, send->peer.value)].first.push_back(node);
            else if (auto const* receive = std::get_if<program::Receive>(&operation))
                messages[key(*receive, receive->peer.value, rank)].second.push_back(node);
            else if (auto const* gather = std::get_if<program::GatherParameters>(&operation))
                join(0, gather->bucket.value, members(gather->bucket));
            else if (auto const* reduce = std::get_if<program::ReduceGradients>(&operation))
                join(1, reduce->bucket.value, members(reduce->bucket));
            else if (std::holds_alternative<program::ReduceScalars>(operation))
                join(2, -1, set_.programs.size());
        }
        for (auto const& [name, ends] : messages) {
            for (auto const* side : {&ends.first, &ends.second})
                for (Node const node : *side)
                    states_[node].partners_wanted = 2;
            for (std::size_t k = 0; k < std::min(ends.first.size(), ends.second.size()); ++k)
                introduce({ends.first[k], ends.second[k]});
        }
        for (auto const& [name, nodes] : collectives)
            introduce(nodes);
    }

    static std::tuple<int, int, int, int, int> key(Message const& op, int src, int dst) {
        return {static_cast<int>(op.direction), op.chunk.value, op.microbatch.value, src, dst};
    }
    std::size_t members(core::BucketId bucket) const {
        return set_.buckets[bucket.index()].members.size();
    }

    void introduce(std::vector<Node> const& nodes) {
        for (Node const node : nodes) {
            states_[node].partners = nodes;
            states_[node].wakes.insert(states_[node].wakes.end(), nodes.begin(), nodes.end());
        }
    }

    std::uint64_t garbage(RankId rank, std::uint64_t what) const {
        return combine(combine(seed_, 0xdead),
                       combine(static_cast<std::uint64_t>(rank.value), what));
    }

    static std::uint64_t initial_shard(Bucket const& bucket, RankId rank) {
        return combine(combine(11, static_cast<std::uint64_t>(bucket.id.value)),
                       static_cast<std::uint64_t>(rank.value));
    }
    static std::uint64_t weights_from(std::uint64_t shard) { return combine(12, shard); }

    static std::size_t space_of(program::Buffer const& buffer) {
        return static_cast<std::size_t>(buffer.memory == program::Memory::device ? Space::device
                                                                                 : Space::pinned);
    }

    /// A step begins with right masters and right weights of the own shard; the rest is old.
    void fill_memory() {
        for (Program const& program : set_.programs) {
            memory_.push_back({SymbolicMemory{garbage(program.rank, 1)},
                               SymbolicMemory{garbage(program.rank, 3)},
                               SymbolicMemory{garbage(program.rank, 2)}});
            for (program::Buffer const& buffer : program.buffers) {
                if (!buffer.persistent || !buffer.bucket.valid() ||
                    buffer.bucket.index() >= set_.buckets.size())
                    continue;
                Bucket const& bucket = set_.buckets[buffer.bucket.index()];
                core::Range const own = bucket.shard_of(program.rank);
                if (own.empty())
                    continue;
                std::uint64_t const shard = initial_shard(bucket, program.rank);
                SymbolicMemory& home = memory_.back()[space_of(buffer)];
                if (buffer.kind == program::BufferKind::shards) {
                    home.write(buffer.offset, buffer.bytes, shard);
                } else if (buffer.kind == program::BufferKind::weights) {
                    auto const [from, bytes] = Footprints::weights_piece(bucket, program.rank, own);
                    home.write(buffer.offset + from, bytes, weights_from(shard));
                }
            }
        }
    }

    // --- time

    double uniform() { return static_cast<double>(random_.bits() >> 11) * 0x1p-53; }

    /// Either delays over four orders of magnitude, or a standing order of priorities of the
    /// streams that changes now and then: both bring out runs that equal delays never show.
    double next_key(Node node) {
        double& base = stream_bases_.try_emplace(streams_[node], uniform()).first->second;
        if (random_.chance(by_priority_ ? 3 : 1))
            base = uniform();
        if (by_priority_)
            return base + 0.05 * uniform();
        return now_ - std::log(1 - uniform()) * std::pow(10.0, 4 * base + 2 * uniform());
    }

    void plan(Node node, int what) { agenda_.push({next_key(node), numbers_++, node, what}); }

    // --- the rules

    bool may_start(State const& state) const {
        for (Node const other : state.after)
            if (!states_[other].ended)
                return false;
        if (state.previous < 0)
            return true;
        State const& previous = states_[static_cast<Node>(state.previous)];
        return state.overlaps ? previous.started : previous.ended;
    }

    bool may_end(State const& state) const {
        if (!state.started || state.reads_left > 0)
            return false;
        if (state.overlaps && state.previous >= 0 &&
            !states_[static_cast<Node>(state.previous)].ended)
            return false;
        if (state.partners.size() < state.partners_wanted)
            return false;
        bool const sends = std::holds_alternative<program::Send>(state.instruction->operation);
        for (Node const other : state.partners)
            if (!states_[other].started || (!sends && states_[other].reads_left > 0))
                return false;
        return true;
    }

    void look_at(Node node) {
        State& state = states_[node];
        if (!state.start_planned && may_start(state)) {
            state.start_planned = true;
            plan(node, -1);
        } else if (!state.end_planned && may_end(state)) {
            state.end_planned = true;
            plan(node, -2);
        }
    }

    void take(Step const& step) {
        State& state = states_[step.node];
        if (step.what == -1)
            start(step.node);
        else if (step.what == -2)
            end(step.node);
        else
            read(state, static_cast<std::size_t>(step.what));
        look_at(step.node);
        for (Node const other : state.wakes)
            look_at(other);
    }

    SymbolicMemory& memory(State const& state, Operand const& operand) {
        return memory_[state.rank.index()][static_cast<std::size_t>(operand.space)];
    }
    void write(State const& state, Operand const& operand, std::uint64_t value) {
        memory(state, operand).write(operand.offset, operand.bytes, value);
    }
    /// Never the same in two runs.
    std::uint64_t poison() { return combine(combine(seed_, 0xbad), numbers_++); }

    static bool is_input(Operand const& operand) {
        return operand.role == Role::input || operand.role == Role::recalled;
    }
    static bool is_read(Operand const& operand) {
        return is_input(operand) || operand.role == Role::change ||
               (operand.role == Role::gradient && !operand.clears);
    }

    void start(Node node) {
        State& state = states_[node];
        state.started = true;
        for (std::size_t k = 0; k < state.print.operands.size(); ++k) {
            Operand const& operand = state.print.operands[k];
            if (is_read(operand)) {
                ++state.reads_left;
                plan(node, static_cast<int>(k));
            } else if (operand.role == Role::scratch) {
                state.values[k] = poison();
                write(state, operand, state.values[k]);
            } else {
                write(state, operand, poison());
            }
        }
    }

    void read(State& state, std::size_t k) {
        Operand const& operand = state.print.operands[k];
        state.values[k] = memory(state, operand).read(operand.offset, operand.bytes);
        if (!is_input(operand))
            write(state, operand, poison());
        --state.reads_left;
    }

    void end(Node node) {
        State& state = states_[node];
        state.ended = true;
        program::Operation const& operation = state.instruction->operation;
        if (std::holds_alternative<program::Receive>(operation))
            end_receive(state);
        else if (std::holds_alternative<program::GatherParameters>(operation))
            end_gather(state);
        else if (std::holds_alternative<program::ReduceGradients>(operation) ||
                 std::holds_alternative<program::ReduceScalars>(operation))
            end_sum(state);
        else if (std::holds_alternative<program::UpdateParameters>(operation))
            end_update(state);
        else if (std::holds_alternative<program::Fetch>(operation) ||
                 std::holds_alternative<program::Evict>(operation))
            end_copy(state);
        else
            end_compute(state);
    }

    void end_receive(State& state) {
        State const& sender =
            states_[state.partners[0] == static_cast<Node>(&state - states_.data())
                        ? state.partners[1]
                        : state.partners[0]];
        auto const& sent = std::get<program::Send>(sender.instruction->operation);
        auto const& received = std::get<program::Receive>(state.instruction->operation);
        if (sent.bytes != received.bytes || sent.sequences != received.sequences)
            result_.faults.push_back(
                fmt::format("rank {} receives another message than rank {} sent", state.rank.value,
                            sender.rank.value));
        for (Operand const& operand : state.print.operands)
            write(state, operand, sender.values.empty() ? 0 : sender.values.front());
    }

    /// Every owner's piece to everyone who has a place for it.
    void end_gather(State& state) {
        Bucket const& bucket =
            set_.buckets[std::get<program::GatherParameters>(state.instruction->operation)
                             .bucket.index()];
        std::vector<std::uint64_t> pieces;
        for (program::Shard const& shard : bucket.shards)
            if (bucket.holds(state.rank) || shard.owner == state.rank)
                for (Node const other : state.partners)
                    if (states_[other].rank == shard.owner)
                        pieces.push_back(piece(states_[other], bucket));
        std::size_t next = 0;
        for (Operand const& operand : state.print.operands) {
            if (operand.role == Role::input && Footprints::has_mixed_types(bucket))
                continue; // the masters
            if (operand.role == Role::output && next < pieces.size())
                write(state, operand, pieces[next]);
            ++next;
        }
    }

    static std::uint64_t piece(State const& owner, Bucket const& bucket) {
        for (std::size_t k = 0; k < owner.print.operands.size(); ++k)
            if (owner.print.operands[k].role == Role::input)
                return Footprints::has_mixed_types(bucket) ? weights_from(owner.values[k])
                                                           : owner.values[k];
        return 0;
    }

    /// The sum of what all participants read; addition commutes, so order within a queue is free.
    void end_sum(State& state) {
        std::uint64_t sum = 0;
        bool const gradients =
            std::holds_alternative<program::ReduceGradients>(state.instruction->operation);
        for (Node const other : state.partners)
            for (std::size_t k = 0; k < states_[other].print.operands.size(); ++k)
                if (states_[other].print.operands[k].role == Role::input)
                    sum += gradients ? states_[other].values[k]
                                     : combine(states_[other].print.operands[k].label,
                                               states_[other].values[k]);
        for (Operand const& operand : state.print.operands)
            if (operand.role == Role::output)
                write(state, operand, sum);
    }

    void end_update(State& state) {
        std::uint64_t const shard = inputs_hash(state, true);
        for (Operand const& operand : state.print.operands)
            if (operand.role == Role::change)
                write(state, operand, shard);
            else if (operand.role == Role::output)
                write(state, operand, weights_from(shard));
    }

    void end_copy(State& state) {
        for (Operand const& operand : state.print.operands)
            if (operand.role == Role::output)
                write(state, operand, state.values.front());
    }

    void end_compute(State& state) {
        for (std::size_t k = 0; k < state.print.operands.size(); ++k) {
            Operand const& operand = state.print.operands[k];
            if (operand.role == Role::scratch)
                scratch_intact(state, k);
        }
        std::uint64_t const inputs = inputs_hash(state, false);
        for (std::size_t k = 0; k < state.print.operands.size(); ++k) {
            Operand const& operand = state.print.operands[k];
            std::uint64_t const value = combine(inputs, operand.label);
            if (operand.role == Role::gradient)
                write(state, operand, (operand.clears ? 0 : state.values[k]) + value);
            else if (operand.role == Role::saved)
                write(state, operand, inputs_sum(state, [](Operand const& o) { return o.saved; }));
            else if (operand.role == Role::output || operand.role == Role::change)
                write(state, operand, value);
        }
    }

    void scratch_intact(State const& state, std::size_t k) {
        Operand const& operand = state.print.operands[k];
        if (memory(state, operand).read(operand.offset, operand.bytes) != state.values[k] &&
            operand.bytes > 0)
            result_.faults.push_back(
                fmt::format("the workspace of rank {} was written to", state.rank.value));
    }

    template <class Test>
    static std::uint64_t inputs_sum(State const& state, Test const& counts) {
        std::uint64_t sum = 0;
        for (std::size_t k = 0; k < state.print.operands.size(); ++k) {
            Operand const& operand = state.print.operands[k];
            if (operand.role == Role::recalled)
                sum += state.values[k];
            else if (is_read(operand) && operand.role != Role::gradient && counts(operand))
                sum += combine(operand.label, state.values[k]);
        }
        return sum;
    }

    std::uint64_t inputs_hash(State const& state, bool with_changes) const {
        return combine(state.print.operation, inputs_sum(state, [&](Operand const& operand) {
                           return with_changes || operand.role == Role::input;
                       }));
    }

    std::uint64_t final_hash() const {
        std::uint64_t hash = 0;
        for (Program const& program : set_.programs) {
            RankMemory const& memory = memory_[program.rank.index()];
            hash = combine(hash, memory[static_cast<std::size_t>(Space::scalars)].read(
                                     ScalarAddresses::sums, 1));
            // By kind and bucket: the same for programs that keep them elsewhere.
            std::map<std::pair<program::BufferKind, core::BucketId>, std::uint64_t> kept;
            for (program::Buffer const& buffer : program.buffers)
                if (buffer.persistent)
                    kept[{buffer.kind, buffer.bucket}] =
                        memory[space_of(buffer)].read(buffer.offset, buffer.bytes);
            for (auto const& [name, value] : kept)
                hash = combine(hash, value);
        }
        return hash;
    }

    ProgramSet const& set_;
    Footprints footprints_;
    Random random_;
    std::uint64_t seed_;
    bool by_priority_;
    SymbolicResult result_;
    std::vector<State> states_;
    std::vector<Node> first_;
    std::vector<std::pair<int, int>> streams_; ///< (rank, queue) of each node
    std::map<std::pair<int, int>, double> stream_bases_;
    std::vector<RankMemory> memory_;
    std::priority_queue<Step, std::vector<Step>, std::greater<>> agenda_;
    std::uint64_t numbers_ = 0;
    double now_ = 0;
};

} // namespace

SymbolicResult run_symbolic(ProgramSet const& set, model::Model const& model, std::uint64_t seed) {
    return Run{set, model, seed}.run();
}

} // namespace evener::support
