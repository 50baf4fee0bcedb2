// SPDX-License-Identifier: Apache-2.0
#pragma once

// The transport thread. Between `start` and the return of `finish` it calls MPI, and only calls that
// return at once (Isend, Issend, Irecv, Testsome); outside it is parked and the main thread may call
// MPI. It never enters OpenMP. While nothing moves it sleeps, so that it costs a rank with one core
// next to nothing. The compute thread helps where it would only wait for this one to wake up: it
// takes a turn under the transport's lock when it publishes something, and turns for some time before
// it sleeps in `wait_until`.

#include "comm/board.hpp"
#include "comm/device_copies.hpp"
#include "comm/tasks.hpp"

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace evener::comm {

/// Random waits before a task starts and before it is published, to shake the order of events.
struct RandomDelays {
    std::uint64_t seed = 0;
    std::int64_t max_microseconds = 0;
};

struct TransportOptions {
    bool synchronous_sends = false; ///< a send ends only after its receive has started
    std::optional<RandomDelays> random_delays;
    /// Longer messages are cut; both ends need the same. Blocks of a device with a memory of its own
    /// overlap: its copies, the sends and the receives.
    std::int64_t message_block_bytes = std::int64_t{4} << 20;
    std::int64_t exchange_block_bytes = std::int64_t{4} << 20; ///< of reductions and gathers

    /// EVENER_SYNCHRONOUS_SENDS=1 and EVENER_RANDOM_DELAYS=seed:max_microseconds. Throws
    /// core::ConfigError when a value is not of that form.
    static TransportOptions from_environment();
};

class Transport {
  public:
    /// Collective over `world`: makes the communicators (one per direction, one for reductions and
    /// gathers, one for scalars) and the parked thread. Throws core::CommError.
    explicit Transport(MPI_Comm world, TransportOptions const& options = {});
    Transport(Transport const&) = delete;
    Transport& operator=(Transport const&) = delete;
    /// Stops a running pass (its board fails) and the thread.
    ~Transport();

    /// The largest tag a task may have.
    std::int64_t max_tag() const noexcept;

    /// Allocates the staging blocks that these queues need; `start` does it too, but after step 1
    /// nothing should be allocated. Bytes held afterwards.
    std::int64_t prepare(std::span<TransportQueue const> queues);

    /// Begins a pass and returns at once; the queues and the board must live until finish, or,
    /// where an exception unwinds, longer than the transport (declare them before it). Throws
    /// core::ContractViolation for a tag, size or pointer that cannot be.
    /// `copies`: of a device with a memory of its own, else null.
    void start(std::span<TransportQueue const> queues, Board& board,
               DeviceCopies* copies = nullptr);

    /// By the thread that runs the pass: the instruction has ended; starts what waited for it. Throws
    /// what a task throws.
    void publish(core::InstructionId id);
    /// By the same thread: until `ready`, a function of what is done on the board of the pass (see
    /// Board::wait_until); helps meanwhile. Throws the board's failure.
    void wait_until(std::function<bool()> const& ready);

    /// Waits until all tasks of the pass have ended. Throws what made the board fail: for the
    /// transport's own errors a core::CommError that names instruction, peer and tag.
    void finish();

    /// Goes up whenever a task begins or ends or a part of a message has passed. By any thread.
    std::uint64_t moves() const noexcept;

  private:
    class Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace evener::comm
