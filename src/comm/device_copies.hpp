// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the transport meets a device with a memory of its own. Messages and exchanges happen in
// pinned staging; what they send is copied out before they start, what they bring is copied in when
// they have ended. An instruction of such a rank is published when its work is enqueued; its event
// says when the device has done it. The compute stream waits for events, only the transport, which
// hands memory to MPI, asks for them.

#include "comm/tasks.hpp"
#include "device/device.hpp"

namespace evener::comm {

class DeviceCopies {
  public:
    /// Events for a program of so many instructions.
    DeviceCopies(device::Device const& device, std::size_t instructions);

    /// Before a pass, when nothing is in flight.
    void reset();

    /// The instruction's work so far is enqueued on `stream`. Before it is published.
    void note(core::InstructionId id, kernels::StreamKind stream);
    /// Whether the device has done these, which are published.
    bool done(std::span<core::InstructionId const> ids) const;
    /// What is enqueued on `stream` from now on starts after these, which are published.
    void wait(kernels::StreamKind stream, std::span<core::InstructionId const> ids) const;

    /// Enqueues a task's outward copies; its instructions in `after` are done.
    void start_outward(Task const& task);
    bool outward_done(Task const& task) const;
    /// Enqueues its inward copies and notes the instruction.
    void start_inward(Task const& task);

  private:
    struct Entry {
        device::Event event;
        bool noted = false;
        kernels::StreamKind stream = kernels::StreamKind::compute;
    };

    device::Device const& device_;
    std::vector<Entry> entries_; ///< by instruction
};

} // namespace evener::comm
