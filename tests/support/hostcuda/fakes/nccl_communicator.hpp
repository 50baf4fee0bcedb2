// SPDX-License-Identifier: Apache-2.0
#pragma once

// Communicators of the fake NCCL: which ranks of MPI_COMM_WORLD take part and by which tags they
// talk. Only point-to-point messages on MPI_COMM_WORLD are used, all of them non-blocking, with tags
// of the upper half; a program that sends with such tags itself cannot be tested with this fake.

#include "runtime.hpp"
#include <mpi.h>
#include <nccl.h>

namespace evener::hostcuda {

/// What a member still does to get ready; advance() is called until it returns true.
struct Joining {
    std::function<bool()> advance;
};

struct Communicator {
    int rank = 0;
    int size = 1;
    int device = 0;
    bool blocking = true;
    bool aborted = false;
    int tag = 0;                 ///< of data; the next one is for splits
    std::vector<int> world_rank; ///< of each member
    std::vector<int> process; ///< of each member, all on this machine; 0: not told (after a split)
    std::unique_ptr<Joining> joining;

    std::uint64_t issued = 0;  ///< operations put on streams
    std::uint64_t started = 0; ///< all members start them in this order, whatever the streams
    std::vector<std::function<void()>> unissued; ///< calls that returned ncclInProgress
    int polls_left = 0;                          ///< until they are issued

    std::string last_error;
};

/// Throws Fault when the process has no MPI with MPI_THREAD_MULTIPLE running.
void expect_mpi();

/// Non-blocking messages and the memory they need; kept for ever when abandoned under way.
class Messages {
  public:
    Messages();
    ~Messages();
    Messages(Messages const&) = delete;
    Messages& operator=(Messages const&) = delete;
    void send(std::vector<std::byte> bytes, int world_rank, int tag);
    /// The bytes are there once done() returned true.
    std::vector<std::byte> const& receive(std::size_t bytes, int world_rank, int tag);
    bool done();

  private:
    struct State;
    static std::vector<std::unique_ptr<State>>& abandoned();
    State& state();
    std::unique_ptr<State> state_;
};

ncclUniqueId make_unique_id();
/// Starts to join; the creator of the id must be a member.
std::shared_ptr<Communicator> join(ncclUniqueId const& id, int rank, int size);
/// The members of the same color, ordered by key; null for a negative color. Waits for all members.
std::shared_ptr<Communicator> split(Communicator& parent, int color, int key);
/// Goes on joining; true when the communicator is ready.
bool joined(Communicator& communicator);
void wait_until_joined(Communicator& communicator);
/// A member whose process has ended, as real members see by a connection that breaks; -1: none.
int missing_member(Communicator const& communicator);

} // namespace evener::hostcuda
