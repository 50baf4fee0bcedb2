// SPDX-License-Identifier: Apache-2.0
#pragma once

// One kind of pass on a device with a memory of its own: events that order its streams against each
// other and against the copies of the transport, and events that tell afterwards when instructions
// and layers ran, since the host only enqueues them.

#include "comm/board.hpp"
#include "comm/device_copies.hpp"
#include "program/measurement.hpp"
#include "runtime/executable.hpp"

namespace evener::runtime {

class DevicePass {
  public:
    /// `group`: of the devices that run the executable's collectives, or null.
    DevicePass(device::Device const& device, Executable const& executable, device::Group* group);

    comm::DeviceCopies& copies() { return copies_; }

    /// Nothing is in flight.
    void start();
    /// Around the calls of the instruction at a place of the issued list; `begin` makes its stream
    /// wait for what it waits for, which is published.
    void begin(std::size_t place);
    void end(std::size_t place);
    /// Behind a call on the compute stream, where its bin differs from the next one's.
    void mark(std::int32_t bin);
    /// Waits until the device is done, then gives the board the device's times and adds to `clock`,
    /// by bin, what the calls took.
    void finish(comm::Board& board, std::vector<program::Spent>& clock);

  private:
    void wait_for_device();

    struct Span {
        device::Event begin;
        device::Event end;
        bool used = false;
    };
    /// The time from the event before to this one belongs to the bin.
    struct Mark {
        device::Event event;
        std::int32_t bin = -1;
        device::Event const* since = nullptr;
    };

    device::Device const& device_;
    Executable const& executable_;
    comm::DeviceCopies copies_;
    device::Group* group_;
    device::Event zero_;
    device::Event last_of_stream_;
    std::chrono::steady_clock::time_point zero_time_;
    std::vector<Span> spans_; ///< by place in the issued list
    std::vector<Mark> marks_; ///< as many as calls, made before step 1
    std::size_t used_marks_ = 0;
    device::Event const* last_ = nullptr; ///< of the instruction at hand
};

} // namespace evener::runtime
