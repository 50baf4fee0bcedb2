// SPDX-License-Identifier: Apache-2.0
#include "mutants.hpp"

#include "schedule/happens_before.hpp"
#include "schedule/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace evener::schedule {

using core::InstructionId;
using program::BufferKind;
using program::Instruction;
using program::Program;
using program::ProgramSet;
using support::Random;

namespace {

/// A list in which old instruction `order[i]` stands at place i; waits follow, to the first copy.
void rebuild(Program& program, std::vector<std::size_t> const& order) {
    std::vector<std::int64_t> place(program.instructions.size(), -1);
    for (std::size_t i = order.size(); i-- > 0;)
        place[order[i]] = static_cast<std::int64_t>(i);
    std::vector<Instruction> list;
    for (std::size_t const old : order) {
        Instruction& instruction = list.emplace_back(program.instructions[old]);
        std::set<InstructionId> after;
        for (InstructionId const id : instruction.after)
            if (place[id.index()] >= 0)
                after.insert(InstructionId{place[id.index()]});
        instruction.after.assign(after.begin(), after.end());
    }
    program.instructions = std::move(list);
}

class Mutation {
  public:
    Mutation(ProgramSet const& sound, Random& random) : sound_{sound}, random_{random} {}

    Mutant make() {
        // Some draws find nothing to change (a wait of an instruction without waits): draw again.
        do {
            mutant_ = {sound_, {}, {}, {}};
            touched_.clear();
            rank_ = random_.index(sound_.programs.size());
            if (!program().instructions.empty())
                mutate();
        } while (mutant_.what.empty());
        for (std::size_t const i : touched_)
            add_names(sound_, i);
        return std::move(mutant_);
    }

  private:
    Program& program() { return mutant_.set.programs[rank_]; }
    core::RankId rank() const { return core::RankId{static_cast<std::int64_t>(rank_)}; }

    void mutate() {
        switch (random_.index(6)) {
        case 0:
            return mutate_list();
        case 1:
        case 2:
            return mutate_waits();
        case 3:
            return mutate_use();
        case 4:
            return mutate_operation();
        default:
            return mutate_bytes();
        }
    }

    void say(std::string what) { mutant_.what = std::move(what); }
    /// Copies and recomputations more often than their number would have it.
    std::size_t pick_instruction() {
        auto const& list = program().instructions;
        std::vector<std::size_t> levers;
        for (std::size_t i = 0; i < list.size(); ++i)
            if (std::holds_alternative<program::Fetch>(list[i].operation) ||
                std::holds_alternative<program::Evict>(list[i].operation) ||
                std::holds_alternative<program::Recompute>(list[i].operation))
                levers.push_back(i);
        std::size_t const i = !levers.empty() && random_.chance(30) ? random_.pick(levers)
                                                                    : random_.index(list.size());
        touched_ = {i};
        return i;
    }

    // --- instructions removed, duplicated, swapped

    void mutate_list() {
        std::vector<std::size_t> order(program().instructions.size());
        for (std::size_t i = 0; i < order.size(); ++i)
            order[i] = i;
        std::size_t const i = pick_instruction();
        switch (random_.index(4)) {
        case 0:
            order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
            say(fmt::format("rank {}: instruction {} removed", rank_, i));
            break;
        case 1: {
            auto const to = i + 1 + random_.index(order.size() - i);
            order.insert(order.begin() + static_cast<std::ptrdiff_t>(to), i);
            say(fmt::format("rank {}: instruction {} once more at {}", rank_, i, to));
            break;
        }
        default: {
            std::size_t const other =
                random_.chance(60) ? next_in_queue(i) : random_.index(order.size());
            if (other == i)
                return;
            touched_.push_back(other);
            if (random_.chance(25)) { // waits and buffers stay, only the work changes places
                std::swap(program().instructions[i].operation,
                          program().instructions[other].operation);
                return say(
                    fmt::format("rank {}: operations of {} and {} swapped", rank_, i, other));
            }
            std::swap(order[i], order[other]);
            say(fmt::format("rank {}: instructions {} and {} swapped", rank_, i, other));
        }
        }
        rebuild(program(), order);
    }

    std::size_t next_in_queue(std::size_t i) {
        auto const& list = program().instructions;
        for (std::size_t k = i + 1; k < list.size(); ++k)
            if (list[k].queue == list[i].queue)
                return k;
        return i;
    }

    // --- waits removed, duplicated, swapped, retargeted

    void mutate_waits() {
        std::size_t const i = pick_instruction();
        auto& after = program().instructions[i].after;
        if (after.empty())
            return;
        std::size_t const w = random_.index(after.size());
        InstructionId const wait = after[w];
        touched_.push_back(wait.index());
        switch (random_.index(4)) {
        case 0:
        case 1:
            after.erase(after.begin() + static_cast<std::ptrdiff_t>(w));
            say(fmt::format("rank {}: instruction {} no longer waits for {}", rank_, i,
                            wait.value));
            break;
        case 2:
            after.insert(after.begin() + static_cast<std::ptrdiff_t>(w), wait);
            say(fmt::format("rank {}: instruction {} waits twice for {}", rank_, i, wait.value));
            break;
        default: {
            InstructionId const target{random_.integer(0, std::ssize(program().instructions) - 1)};
            if (target.index() >= i && random_.chance(80))
                return; // waits that look ahead are easily seen
            after.erase(after.begin() + static_cast<std::ptrdiff_t>(w));
            if (std::find(after.begin(), after.end(), target) == after.end())
                after.push_back(target);
            std::sort(after.begin(), after.end());
            touched_.push_back(target.index());
            if (target != wait)
                say(fmt::format("rank {}: instruction {} waits for {} in place of {}", rank_, i,
                                target.value, wait.value));
        }
        }
    }

    // --- uses of buffers

    void mutate_use() {
        std::size_t const i = pick_instruction();
        auto& uses = program().instructions[i].uses;
        if (uses.empty())
            return;
        std::size_t const u = random_.index(uses.size());
        program::Use& use = uses[u];
        std::int32_t const buffer = use.buffer.value;
        switch (random_.index(5)) {
        case 0:
            uses.erase(uses.begin() + static_cast<std::ptrdiff_t>(u));
            return say(fmt::format("rank {}: instruction {} no longer uses {}", rank_, i, buffer));
        case 1:
            use.last = !use.last;
            return say(
                fmt::format("rank {}: instruction {}: last use of {} flipped", rank_, i, buffer));
        case 2: {
            auto const access = static_cast<program::Access>(random_.index(3));
            if (access == use.access)
                return;
            use.access = access;
            return say(
                fmt::format("rank {}: instruction {}: other access to {}", rank_, i, buffer));
        }
        default: {
            core::BufferId const target = other_buffer(use.buffer);
            if (target == use.buffer)
                return;
            use.buffer = target;
            say(fmt::format("rank {}: instruction {} uses {} in place of {}", rank_, i,
                            target.value, buffer));
        }
        }
    }

    /// Mostly of the same kind: those are the mistakes that are hard to see.
    core::BufferId other_buffer(core::BufferId buffer) {
        auto const& buffers = program().buffers;
        std::vector<core::BufferId> candidates;
        bool const any = random_.chance(25);
        for (std::size_t b = 0; b < buffers.size(); ++b)
            if (b != buffer.index() && (any || buffers[b].kind == buffers[buffer.index()].kind))
                candidates.push_back(core::BufferId{static_cast<std::int64_t>(b)});
        return candidates.empty() ? buffer : random_.pick(candidates);
    }

    // --- what an instruction does

    void mutate_operation() {
        std::size_t const i = pick_instruction();
        Instruction& instruction = program().instructions[i];
        std::string const before = name_of(rank(), instruction.operation);
        if (random_.chance(10)) {
            core::QueueId const queue{random_.integer(0, std::ssize(program().queues) - 1)};
            if (queue == instruction.queue)
                return;
            instruction.queue = queue;
            return say(fmt::format("rank {}: instruction {} in queue {}", rank_, i, queue.value));
        }
        bool const changed =
            std::visit([&](auto& op) { return change(op); }, instruction.operation);
        if (!changed)
            return;
        std::string const now = name_of(rank(), instruction.operation);
        mutant_.names.push_back(now);
        say(fmt::format("rank {}: instruction {} ({}) is now {}", rank_, i, before, now));
    }

    template <class Tag>
    bool retarget(core::Id<Tag>& id, std::int64_t count) {
        core::Id<Tag> const old = id;
        id = core::Id<Tag>{random_.integer(0, std::max<std::int64_t>(count - 1, 0))};
        return id != old;
    }
    bool shift(core::Range& range) {
        (random_.chance(50) ? range.begin : range.end) += random_.chance(50) ? 1 : -1;
        return true;
    }
    bool change_compute(program::Compute& op) {
        switch (random_.index(4)) {
        case 0:
            return retarget(op.chunk, std::ssize(sound_.plan.chunks));
        case 1:
            return retarget(op.microbatch, sound_.plan.microbatch_count());
        case 2:
            return shift(op.layers);
        default:
            return shift(op.sequences);
        }
    }
    bool change_clears(program::Compute& op, std::vector<core::BucketId>& clears) {
        if (random_.chance(50))
            return change_compute(op);
        core::BucketId bucket;
        retarget(bucket, std::ssize(sound_.buckets));
        if (!clears.empty() && random_.chance(50))
            return clears.pop_back(), true;
        if (!clears.empty() && random_.chance(50))
            return retarget(clears.front(), std::ssize(sound_.buckets));
        clears.push_back(bucket);
        return true;
    }
    bool change_message(program::Message& op) {
        switch (random_.index(6)) {
        case 0:
            return retarget(op.peer, std::ssize(sound_.programs));
        case 1:
            return retarget(op.chunk, std::ssize(sound_.plan.chunks) - 1);
        case 2:
            return retarget(op.microbatch, sound_.plan.microbatch_count());
        case 3:
            op.direction = op.direction == program::Direction::forward
                               ? program::Direction::backward
                               : program::Direction::forward;
            return true;
        case 4:
            op.bytes += random_.chance(50) ? 4 : -4;
            return true;
        default:
            return shift(op.sequences);
        }
    }
    bool change_copy(program::Copy& op) {
        switch (random_.index(5)) {
        case 0:
            op.bytes += random_.chance(50) ? 4 : -4;
            return true;
        case 1: {
            auto const kind = static_cast<BufferKind>(random_.index(program::buffer_kind_count));
            bool const other = op.kind != kind;
            op.kind = kind;
            return other;
        }
        case 2:
            op.slot += random_.chance(50) ? 1 : -1;
            return true;
        default:
            if (op.bucket.valid())
                return retarget(op.bucket, std::ssize(sound_.buckets));
            return random_.chance(50) ? retarget(op.chunk, std::ssize(sound_.plan.chunks))
                                      : retarget(op.microbatch, sound_.plan.microbatch_count());
        }
    }
    bool change(program::Forward& op) {
        if (random_.chance(80))
            return change_compute(op);
        op.evaluate = !op.evaluate;
        return true;
    }
    bool change(program::Recompute& op) { return change_compute(op); }
    bool change(program::Backward& op) { return change_clears(op, op.clears); }
    bool change(program::BackwardInput& op) { return change_clears(op, op.clears); }
    bool change(program::BackwardWeight& op) { return change_clears(op, op.clears); }
    bool change(program::Send& op) { return change_message(op); }
    bool change(program::Receive& op) { return change_message(op); }
    bool change(program::Fetch& op) { return change_copy(op); }
    bool change(program::Evict& op) { return change_copy(op); }
    bool change(program::CountTokens&) { return false; }
    bool change(program::ReduceScalars&) { return false; }
    template <class Op>
    bool change(Op& op) {
        return retarget(op.bucket, std::ssize(sound_.buckets));
    }

    // --- byte counts

    void mutate_bytes() {
        auto& buffers = program().buffers;
        std::size_t const b = random_.index(buffers.size());
        std::int64_t const step = 64 * random_.integer(1, 4) * (random_.chance(50) ? 1 : -1);
        switch (random_.index(6)) {
        case 0: {
            bool const device = program().pinned_bytes == 0 || random_.chance(50);
            (device ? program().arena_bytes : program().pinned_bytes) += step;
            auto const memory = device ? program::Memory::device : program::Memory::pinned;
            say(fmt::format("rank {}: {} memory larger by {}", rank_, program::name_of(memory),
                            step));
            return touch_all_of(memory);
        }
        case 5:
            if (program().pinned_bytes == 0 || random_.chance(50)) {
                buffers[b].slot += random_.chance(50) ? 1 : -1;
                say(fmt::format("rank {}: buffer {} has slot {}", rank_, b, buffers[b].slot));
            } else {
                buffers[b].memory = buffers[b].memory == program::Memory::device
                                        ? program::Memory::pinned
                                        : program::Memory::device;
                say(fmt::format("rank {}: buffer {} in {} memory", rank_, b,
                                program::name_of(buffers[b].memory)));
            }
            break;
        case 1:
        case 2:
            buffers[b].offset += random_.chance(10) ? 4 : step;
            say(fmt::format("rank {}: buffer {} moved to {}", rank_, b, buffers[b].offset));
            break;
        case 3:
            buffers[b].offset = random_.pick(buffers).offset;
            if (buffers[b] != sound_.programs[rank_].buffers[b])
                say(fmt::format("rank {}: buffer {} moved to {}", rank_, b, buffers[b].offset));
            break;
        default:
            buffers[b].bytes =
                std::max<std::int64_t>(0, buffers[b].bytes + (random_.chance(50) ? step
                                                              : step > 0         ? 4
                                                                                 : -4));
            if (buffers[b] != sound_.programs[rank_].buffers[b])
                say(fmt::format("rank {}: buffer {} has {} bytes", rank_, b, buffers[b].bytes));
        }
        touch_buffer(b);
    }

    void touch_buffer(std::size_t b) {
        touched_.clear();
        mutant_.names.push_back(fmt::format("buffer {}", b));
        auto const& list = sound_.programs[rank_].instructions;
        for (std::size_t i = 0; i < list.size(); ++i)
            for (program::Use const& use : list[i].uses)
                if (use.buffer.index() == b)
                    touched_.push_back(i);
    }

    /// Wherever the region ends it is a buffer of the same memory that says so.
    void touch_all_of(program::Memory memory) {
        touched_.clear();
        mutant_.names.push_back(fmt::format("{} memory", program::name_of(memory)));
    }

    // --- names

    /// Workspace and weights that stay are shared by too many to say anything.
    bool telling(Program const& program, core::BufferId buffer) const {
        program::Buffer const& b = program.buffers[buffer.index()];
        return b.kind != BufferKind::workspace && (b.kind != BufferKind::weights || !b.persistent);
    }

    bool related(Program const& program, std::size_t a, std::size_t b) const {
        Instruction const& x = program.instructions[a];
        Instruction const& y = program.instructions[b];
        auto const waits = [](Instruction const& one, std::size_t other) {
            return std::any_of(one.after.begin(), one.after.end(),
                               [&](InstructionId id) { return id.index() == other; });
        };
        if (waits(x, b) || waits(y, a))
            return true;
        for (program::Use const& use : x.uses)
            for (program::Use const& other : y.uses)
                if (use.buffer == other.buffer && telling(program, use.buffer))
                    return true;
        return false;
    }

    void add_names(ProgramSet const& set, std::size_t i) {
        Program const& program = set.programs[rank_];
        mutant_.names.push_back(name_of(rank(), program.instructions[i].operation));
        for (std::size_t other = 0; other < program.instructions.size(); ++other)
            if (related(program, i, other))
                mutant_.affected.push_back(name_of(rank(), program.instructions[other].operation));
        Place const here{rank(), InstructionId{static_cast<std::int64_t>(i)}};
        for (auto const& [send, receive] : find_meetings(set).messages)
            if (send == here || receive == here) {
                Place const other = send == here ? receive : send;
                mutant_.affected.push_back(
                    name_of(other.rank, set.programs[other.rank.index()]
                                            .instructions[other.instruction.index()]
                                            .operation));
            }
    }

    ProgramSet const& sound_;
    Random& random_;
    Mutant mutant_;
    std::size_t rank_ = 0;
    std::vector<std::size_t> touched_; ///< in the sound program
};

} // namespace

Mutant make_mutant(ProgramSet const& sound, Random& random) {
    return Mutation{sound, random}.make();
}

} // namespace evener::schedule
