// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the transport meets a device with a memory of its own. Messages and exchanges happen in
// pinned staging; what they send is copied out before they start, what they bring is copied in when
// they have ended. An instruction of such a rank is published when its work is enqueued; its event
// says when the device has done it. The compute stream waits for events, only the transport, which
// hands memory to MPI, asks for them.

#include "comm/tasks.hpp"
#include "device/group.hpp"

#include <atomic>
#include <string>
#include <utility>

namespace evener::comm {

/// Collectives among devices: their failure shows only to who asks.
struct GroupWatch {
    device::Group* group = nullptr; ///< outlives the copies; null: there are none
    /// By whom they are enqueued, in order, with words for messages.
    std::vector<std::pair<core::InstructionId, std::string>> collectives = {};
};

class DeviceCopies {
  public:
    /// Events for a program of so many instructions.
    DeviceCopies(device::Device const& device, std::size_t instructions, GroupWatch watch = {});

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

    /// A block of a message on its way out; gives its event back when it is taken.
    using Ticket = std::size_t;
    Ticket start_block_outward(DeviceCopy const& block);
    /// True once, when the block is in the staging; the ticket ends with it.
    bool take(Ticket ticket);
    /// A block that has come; the message's last one is noted by note().
    void start_block_inward(DeviceCopy const& block);

    bool watches_group() const noexcept { return watch_.group != nullptr; }
    /// Throws core::DeviceError with the collective at hand when a member of the group failed. True:
    /// the group is ready and somebody waits for that.
    bool check_group() const;
    /// Whether the compute thread waits for the group to be ready.
    void await_group(bool awaited) noexcept { group_awaited_ = awaited; }
    /// After an error, any thread: what waits for members that will not come ends.
    void abort_group() noexcept;

  private:
    struct Entry {
        device::Event event;
        bool noted = false;
        kernels::StreamKind stream = kernels::StreamKind::compute;
    };

    std::string collective_at_hand() const;

    device::Device const& device_;
    GroupWatch watch_;
    std::vector<Entry> entries_;            ///< by instruction
    std::atomic<std::size_t> enqueued_ = 0; ///< of the watched collectives, in this pass
    std::atomic<bool> group_awaited_ = false;
    std::vector<device::Event> block_events_; ///< as many as the first pass needs
    std::vector<Ticket> free_tickets_;
};

} // namespace evener::comm
