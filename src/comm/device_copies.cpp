// SPDX-License-Identifier: Apache-2.0
#include "comm/device_copies.hpp"

#include <algorithm>

namespace evener::comm {

using kernels::StreamKind;

DeviceCopies::DeviceCopies(device::Device const& device, std::size_t instructions)
    : device_{device}, entries_(instructions) {
    for (Entry& entry : entries_)
        entry.event = device_.make_event();
}

void DeviceCopies::reset() {
    for (Entry& entry : entries_)
        entry.noted = false;
}

void DeviceCopies::note(core::InstructionId id, StreamKind stream) {
    Entry& entry = entries_[id.index()];
    device_.record(entry.event, stream);
    entry.stream = stream;
    entry.noted = true;
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
        device_.copy(StreamKind::copy_out, copy.dst, copy.src, copy.bytes);
    device_.record(entries_[task.id.index()].event, StreamKind::copy_out);
}

bool DeviceCopies::outward_done(Task const& task) const {
    return task.outward.empty() || device_.done(entries_[task.id.index()].event);
}

void DeviceCopies::start_inward(Task const& task) {
    if (task.inward.empty())
        return;
    for (DeviceCopy const& copy : task.inward)
        device_.copy(StreamKind::copy_in, copy.dst, copy.src, copy.bytes);
    note(task.id, StreamKind::copy_in);
}

} // namespace evener::comm
