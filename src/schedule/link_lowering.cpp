// SPDX-License-Identifier: Apache-2.0
// Messages of a rank: slots, receives posted ahead, sends behind the computation that fills them.
#include "schedule/lowering_parts.hpp"

#include <algorithm>

namespace evener::schedule {

using core::BufferId;
using core::ChunkId;
using core::InstructionId;
using program::Access;
using program::BufferKind;
using program::Direction;
using program::QueueKind;

namespace {

/// The earlier chunk of the boundary between a chunk and its neighbour.
ChunkId boundary_of(ChunkId chunk, ChunkId neighbour) {
    return std::min(chunk, neighbour);
}

} // namespace

/// Sequences of the neighbour chunk's ranks that overlap those of the computation.
std::vector<LinkLowering::Piece> LinkLowering::pieces(ChunkId neighbour,
                                                      program::Compute const& compute) const {
    std::vector<Piece> result;
    program::Plan const& plan = draft_.input.plan;
    program::Group const& group = plan.group_of(neighbour);
    for (std::size_t member = 0; member < group.ranks.size(); ++member) {
        core::Range const part = core::overlap(
            compute.sequences, program::sequences_of(plan, group, member, compute.microbatch));
        if (!part.empty())
            result.push_back({group.ranks[member], part});
    }
    return result;
}

program::Message LinkLowering::message(Piece const& piece, Direction direction, ChunkId neighbour,
                                       program::Compute const& compute) const {
    ChunkId const boundary = boundary_of(compute.chunk, neighbour);
    std::int64_t const bytes =
        model::boundary_bytes(draft_.input.model.config(), piece.sequences.size(),
                              draft_.input.plan.boundary_types[boundary.index()]);
    return {piece.peer, direction, boundary, compute.microbatch, piece.sequences, bytes};
}

void LinkLowering::take_input(Pending& pending, Direction direction, ChunkId neighbour,
                              program::Compute const& compute) {
    for (Piece const& piece : pieces(neighbour, compute))
        if (piece.peer == draft_.rank)
            pending.uses.push_back({handover_.at({direction, boundary_of(compute.chunk, neighbour),
                                                  compute.microbatch}),
                                    Access::read, true});
        else
            receive(pending, message(piece, direction, neighbour, compute));
}

void LinkLowering::receive(Pending& pending, program::Message const& op) {
    Link const link{op.peer, draft_.rank, op.direction};
    Incoming& incoming = incoming_[link];
    auto const slots = static_cast<std::size_t>(draft_.input.receive_buffers.of(link));
    std::size_t const slot = incoming.count % slots;
    if (incoming.slots.size() <= slot)
        incoming.slots.push_back(
            draft_.build.add_buffer({.kind = BufferKind::received,
                                     .peer = op.peer,
                                     .direction = op.direction,
                                     .slot = static_cast<std::int64_t>(slot)}));
    grow_link(incoming.slots, incoming.largest, op.bytes);
    std::set<InstructionId> after;
    if (incoming.count >= slots)
        after.insert(incoming.consumers[incoming.count - slots]);
    pending.after.insert(draft_.build.add(
        program::Receive{op}, draft_.build.queue({QueueKind::receive, op.peer, op.direction}),
        after, {{incoming.slots[slot], Access::write}}));
    pending.uses.push_back({incoming.slots[slot], Access::read, true});
    pending.freed.push_back({link, incoming.count});
    ++incoming.count;
}

void LinkLowering::give_output(Pending& pending, Direction direction, ChunkId neighbour,
                               program::Compute const& compute) {
    for (Piece const& piece : pieces(neighbour, compute)) {
        program::Message const op = message(piece, direction, neighbour, compute);
        if (piece.peer != draft_.rank) {
            send(pending, op);
            continue;
        }
        BufferId const buffer = draft_.build.add_buffer({.kind = BufferKind::handover,
                                                         .bytes = op.bytes,
                                                         .chunk = op.chunk,
                                                         .microbatch = op.microbatch,
                                                         .direction = direction});
        handover_[{direction, op.chunk, op.microbatch}] = buffer;
        pending.uses.push_back({buffer, Access::write});
    }
}

void LinkLowering::send(Pending& pending, program::Message const& op) {
    Link const link{draft_.rank, op.peer, op.direction};
    Outgoing& outgoing = outgoing_[link];
    auto const slots = static_cast<std::size_t>(draft_.input.send_buffers.of(link));
    std::size_t const slot = outgoing.sends.size() % slots;
    if (outgoing.slots.size() <= slot)
        outgoing.slots.push_back(
            draft_.build.add_buffer({.kind = BufferKind::sending,
                                     .peer = op.peer,
                                     .direction = op.direction,
                                     .slot = static_cast<std::int64_t>(slot)}));
    grow_link(outgoing.slots, outgoing.largest, op.bytes);
    if (outgoing.sends.size() >= slots)
        pending.after.insert(outgoing.sends[outgoing.sends.size() - slots]);
    pending.uses.push_back({outgoing.slots[slot], Access::write});
    pending.sends.push_back({op, outgoing.slots[slot]});
}

/// All buffers of a link are as large as its largest message.
void LinkLowering::grow_link(std::vector<BufferId> const& buffers, std::int64_t& largest,
                             std::int64_t bytes) {
    largest = std::max(largest, bytes);
    for (BufferId const buffer : buffers)
        draft_.build.buffer(buffer).bytes = largest;
}

void LinkLowering::follow(Pending const& pending, InstructionId id) {
    for (auto const& [link, index] : pending.freed) {
        auto& consumers = incoming_[link].consumers;
        if (consumers.size() <= index)
            consumers.resize(index + 1);
        consumers[index] = id;
    }
    for (auto const& [op, buffer] : pending.sends)
        outgoing_[{draft_.rank, op.peer, op.direction}].sends.push_back(draft_.build.add(
            program::Send{op}, draft_.build.queue({QueueKind::send, op.peer, op.direction}), {id},
            {{buffer, Access::read, true}}));
}

} // namespace evener::schedule
