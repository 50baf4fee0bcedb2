// SPDX-License-Identifier: Apache-2.0
#include "comm/device_copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace evener::comm {

using kernels::StreamKind;

DeviceCopies::DeviceCopies(device::Device const& device, std::size_t instructions, GroupWatch watch)
    : device_{device}, watch_{std::move(watch)}, entries_(instructions) {
    for (Entry& entry : entries_)
        entry.event = device_.make_event();
}

void DeviceCopies::reset() {
    for (Entry& entry : entries_)
        entry.noted = false;
    enqueued_ = 0;
    free_tickets_.resize(block_events_.size());
    std::iota(free_tickets_.begin(), free_tickets_.end(), Ticket{0});
}

void DeviceCopies::note(core::InstructionId id, StreamKind stream) {
    Entry& entry = entries_[id.index()];
    device_.record(entry.event, stream);
    entry.stream = stream;
    entry.noted = true;
    if (stream == StreamKind::collective)
        ++enqueued_;
}

bool DeviceCopies::done(std::span<core::InstructionId const> ids) const {
    return std::all_of(ids.begin(), ids.end(), [&](core::InstructionId id) {
        Entry const& entry = entries_[id.index()];
        return !entry.noted || device_.done(entry.event);
    });
}

void DeviceCopies::wait(StreamKind stream, std::span<core::InstructionId const> ids) const {
    for (core::InstructionId const id : ids) {
        Entry const& entry = entries_[id.index()];
        if (entry.noted && entry.stream != stream) // a stream runs in order by itself
            device_.wait(stream, entry.event);
    }
}

void DeviceCopies::start_outward(Task const& task) {
    if (task.outward.empty())
        return;
    for (DeviceCopy const& copy : task.outward)
        device_.copy(StreamKind::message_out, copy.dst, copy.src, copy.bytes);
    device_.record(entries_[task.id.index()].event, StreamKind::message_out);
}

bool DeviceCopies::outward_done(Task const& task) const {
    return task.outward.empty() || device_.done(entries_[task.id.index()].event);
}

void DeviceCopies::start_inward(Task const& task) {
    if (task.inward.empty())
        return;
    for (DeviceCopy const& copy : task.inward)
        device_.copy(StreamKind::message_in, copy.dst, copy.src, copy.bytes);
    note(task.id, StreamKind::message_in);
}

DeviceCopies::Ticket DeviceCopies::start_block_outward(DeviceCopy const& block) {
    if (free_tickets_.empty()) {
        free_tickets_.push_back(block_events_.size());
        block_events_.push_back(device_.make_event());
    }
    Ticket const ticket = free_tickets_.back();
    free_tickets_.pop_back();
    device_.copy(StreamKind::message_out, block.dst, block.src, block.bytes);
    device_.record(block_events_[ticket], StreamKind::message_out);
    return ticket;
}

bool DeviceCopies::take(Ticket ticket) {
    if (!device_.done(block_events_[ticket]))
        return false;
    free_tickets_.push_back(ticket);
    return true;
}

void DeviceCopies::start_block_inward(DeviceCopy const& block) {
    device_.copy(StreamKind::message_in, block.dst, block.src, block.bytes);
}

bool DeviceCopies::check_group() const {
    if (watch_.group == nullptr)
        return false;
    try {
        return watch_.group->ready() && group_awaited_;
    } catch (core::DeviceError const& error) {
        throw core::DeviceError{error.device_code(), error.fatal(),
                                collective_at_hand() + error.what()};
    }
}

/// "instruction 17 (reduce bucket=1): " of the first that is enqueued and not done.
std::string DeviceCopies::collective_at_hand() const {
    std::size_t const count = std::min<std::size_t>(enqueued_, watch_.collectives.size());
    for (auto const& [id, name] : std::span{watch_.collectives}.first(count)) {
        try {
            if (device_.done(entries_[id.index()].event))
                continue;
        } catch (core::DeviceError const&) { // a device that failed does not tell
        }
        return fmt::format("instruction {} ({}): ", id.value, name);
    }
    return "";
}

void DeviceCopies::abort_group() noexcept {
    if (watch_.group != nullptr)
        watch_.group->abort();
}

} // namespace evener::comm
