// SPDX-License-Identifier: Apache-2.0
#include "schedule/dry_run.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using core::InstructionId;
using core::RankId;
using program::Instruction;
using program::QueueKind;

namespace {

struct MessageKey {
    RankId sender, receiver;
    program::Direction direction;
    core::ChunkId chunk;
    core::MicrobatchId microbatch;

    friend auto operator<=>(MessageKey const&, MessageKey const&) = default;
};

struct Event {
    bool started = false;
    bool ended = false;
};

struct QueueState {
    std::vector<InstructionId> list;
    std::size_t next_start = 0;
    std::size_t next_end = 0;
};

class DryRun {
  public:
    explicit DryRun(program::ProgramSet const& set) : set_{set} {
        for (program::Program const& program : set.programs) {
            auto& queues = queues_.emplace_back(program.queues.size());
            events_.emplace_back(program.instructions.size());
            for (std::size_t i = 0; i < program.instructions.size(); ++i) {
                InstructionId const id{static_cast<std::int64_t>(i)};
                queues[program.instructions[i].queue.index()].list.push_back(id);
                enter(program.rank, program.instructions[i], id);
            }
        }
    }

    bool run() {
        bool progress = true;
        while (progress) {
            progress = false;
            for (std::size_t r = 0; r < queues_.size(); ++r)
                for (std::size_t q = 0; q < queues_[r].size(); ++q)
                    while (advance(r, q))
                        progress = true;
        }
        for (auto const& queues : queues_)
            for (QueueState const& queue : queues)
                if (queue.next_end < queue.list.size())
                    return false;
        return true;
    }

    std::vector<Link> short_links() const {
        std::vector<Link> links;
        for (std::size_t r = 0; r < queues_.size(); ++r)
            for (std::size_t q = 0; q < queues_[r].size(); ++q) {
                QueueState const& queue = queues_[r][q];
                program::Queue const& kind = set_.programs[r].queues[q];
                if (kind.kind != QueueKind::receive || queue.next_start == queue.list.size())
                    continue;
                Link const link{kind.peer, RankId{static_cast<std::int64_t>(r)}, kind.direction};
                if (holds_up_a_send(r, queue, link))
                    links.push_back(link);
            }
        return links;
    }

    std::string first_blocked() const {
        for (std::size_t r = 0; r < queues_.size(); ++r)
            for (QueueState const& queue : queues_[r])
                if (queue.next_end < queue.list.size())
                    return fmt::format("rank {}: {}", r,
                                       to_string(instruction(r, queue.list[queue.next_end])));
        return {};
    }

  private:
    /// A message that is on its way belongs to one of the receives that have not started: the next,
    /// or a later one, where the receiver wants another message of the same sender first.
    bool holds_up_a_send(std::size_t r, QueueState const& queue, Link const& link) const {
        for (std::size_t i = queue.next_start; i < queue.list.size(); ++i) {
            auto const& op = std::get<program::Receive>(instruction(r, queue.list[i]).operation);
            auto const send = sends_.find(key(link, op));
            if (send != sends_.end() && event(op.peer.index(), send->second).started)
                return true;
        }
        return false;
    }

    static MessageKey key(Link const& link, program::Message const& op) {
        return {link.sender, link.receiver, op.direction, op.chunk, op.microbatch};
    }

    Instruction const& instruction(std::size_t rank, InstructionId id) const {
        return set_.programs[rank].instructions[id.index()];
    }
    Event const& event(std::size_t rank, InstructionId id) const {
        return events_[rank][id.index()];
    }

    /// Remembers who takes part in what.
    void enter(RankId rank, Instruction const& instruction, InstructionId id) {
        if (auto const* send = std::get_if<program::Send>(&instruction.operation))
            sends_[key({rank, send->peer, send->direction}, *send)] = id;
        else if (auto const* receive = std::get_if<program::Receive>(&instruction.operation))
            receives_[key({receive->peer, rank, receive->direction}, *receive)] = id;
        else if (int const number = collective(instruction); number >= 0)
            collectives_[number].push_back({rank, id});
    }

    /// Gathers, reductions and the scalars, numbered; -1 for anything else.
    static int collective(Instruction const& instruction) {
        if (auto const* op = std::get_if<program::GatherParameters>(&instruction.operation))
            return 2 * op->bucket.value + 1;
        if (auto const* op = std::get_if<program::ReduceGradients>(&instruction.operation))
            return 2 * op->bucket.value + 2;
        return std::holds_alternative<program::ReduceScalars>(instruction.operation) ? 0 : -1;
    }

    bool others_allow_end(std::size_t r, Instruction const& instruction) const {
        RankId const rank{static_cast<std::int64_t>(r)};
        if (auto const* op = std::get_if<program::Send>(&instruction.operation)) {
            auto const peer = receives_.find(key({rank, op->peer, op->direction}, *op));
            return peer != receives_.end() && event(op->peer.index(), peer->second).started;
        }
        if (auto const* op = std::get_if<program::Receive>(&instruction.operation)) {
            auto const peer = sends_.find(key({op->peer, rank, op->direction}, *op));
            return peer != sends_.end() && event(op->peer.index(), peer->second).started;
        }
        if (int const number = collective(instruction); number >= 0) {
            auto const& all = collectives_.at(number);
            return std::all_of(all.begin(), all.end(), [&](auto const& participant) {
                return event(participant.first.index(), participant.second).started;
            });
        }
        return true;
    }

    bool advance(std::size_t r, std::size_t q) {
        QueueState& queue = queues_[r][q];
        bool progress = false;
        bool const overlaps = set_.programs[r].queues[q].kind == QueueKind::receive;
        if (queue.next_start < queue.list.size() &&
            (overlaps || queue.next_end == queue.next_start)) {
            InstructionId const id = queue.list[queue.next_start];
            auto const& after = instruction(r, id).after;
            if (std::all_of(after.begin(), after.end(),
                            [&](InstructionId other) { return event(r, other).ended; })) {
                events_[r][id.index()].started = true;
                ++queue.next_start;
                progress = true;
            }
        }
        if (queue.next_end < queue.next_start) {
            InstructionId const id = queue.list[queue.next_end];
            if (others_allow_end(r, instruction(r, id))) {
                events_[r][id.index()].ended = true;
                ++queue.next_end;
                progress = true;
            }
        }
        return progress;
    }

    program::ProgramSet const& set_;
    std::vector<std::vector<QueueState>> queues_;
    std::vector<std::vector<Event>> events_;
    std::map<MessageKey, InstructionId> sends_;
    std::map<MessageKey, InstructionId> receives_;
    std::map<int, std::vector<std::pair<RankId, InstructionId>>> collectives_;
};

} // namespace

bool runs_to_end(program::ProgramSet const& set) {
    return DryRun{set}.run();
}

std::vector<Link> links_short_of_buffers(program::ProgramSet const& set) {
    DryRun run{set};
    if (run.run())
        return {};
    std::vector<Link> links = run.short_links();
    if (links.empty())
        throw core::ConfigError{
            fmt::format("the schedule blocks and more receive buffers do not help (first "
                        "instruction that cannot end: {}); choose another schedule",
                        run.first_blocked())};
    return links;
}

} // namespace evener::schedule
