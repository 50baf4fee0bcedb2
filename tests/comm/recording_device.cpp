// SPDX-License-Identifier: Apache-2.0
#include "recording_device.hpp"

#include <cstring>

namespace evener::comm {

using kernels::Device;
using kernels::Event;
using kernels::Reason;
using kernels::StreamKind;

namespace {

RecordingDevice* current = nullptr;

struct Mark {
    int records = 0; ///< enqueued
    int reached = 0; ///< passed by their stream
};
Mark& mark_of(Event* event) {
    return *reinterpret_cast<Mark*>(event);
}

} // namespace

struct RecordingTable {
    static Device* open(kernels::DeviceOptions const*, Reason*) {
        return reinterpret_cast<Device*>(current);
    }
    static void close(Device*) {}

    static int copy(Device*, StreamKind stream, void* dst, void const* src, std::int64_t bytes,
                    Reason*) {
        RecordingDevice& self = *current;
        std::lock_guard const lock{self.mutex_};
        self.streams_[static_cast<int>(stream)].push_back(
            {[&self, stream, dst, src, bytes] {
                 std::memcpy(dst, src, static_cast<std::size_t>(bytes));
                 self.made_.push_back({stream, dst, bytes});
             },
             true});
        return 0;
    }
    static int create_event(Device*, Event** event, Reason*) {
        *event = reinterpret_cast<Event*>(new Mark);
        return 0;
    }
    static void destroy_event(Device*, Event* event) { delete &mark_of(event); }
    static int record(Device*, Event* event, StreamKind stream, Reason*) {
        std::lock_guard const lock{current->mutex_};
        int const number = ++mark_of(event).records;
        current->streams_[static_cast<int>(stream)].push_back(
            {[event, number] { mark_of(event).reached = number; }, false});
        return 0;
    }
    static int query(Device*, Event* event, Reason*) {
        std::lock_guard const lock{current->mutex_};
        current->advance();
        return mark_of(event).reached == mark_of(event).records ? 0 : 1;
    }
};

RecordingDevice::RecordingDevice() {
    current = this;
}

RecordingDevice::~RecordingDevice() {
    current = nullptr;
}

kernels::DeviceTable const& RecordingDevice::table() const {
    static kernels::MemoryTable const memory = [] {
        kernels::MemoryTable table{};
        table.copy = RecordingTable::copy;
        table.create_event = RecordingTable::create_event;
        table.destroy_event = RecordingTable::destroy_event;
        table.record = RecordingTable::record;
        table.query = RecordingTable::query;
        return table;
    }();
    static kernels::DeviceTable const table = [] {
        kernels::DeviceTable made{};
        made.version = kernels::table_version;
        made.kind = made.description = "recording";
        made.open = RecordingTable::open;
        made.close = RecordingTable::close;
        made.memory = &memory;
        return made;
    }();
    return table;
}

void RecordingDevice::allow(std::int64_t copies) {
    std::lock_guard const lock{mutex_};
    allowed_ = copies;
}

std::vector<RecordedCopy> RecordingDevice::made() const {
    std::lock_guard const lock{mutex_};
    return made_;
}

void RecordingDevice::work() {
    std::lock_guard const lock{mutex_};
    advance();
}

void RecordingDevice::advance() {
    for (auto& stream : streams_) {
        if (stream.empty() || (stream.front().copies && allowed_ == 0))
            continue;
        allowed_ -= stream.front().copies ? 1 : 0;
        stream.front().run();
        stream.pop_front();
    }
}

} // namespace evener::comm
