// SPDX-License-Identifier: Apache-2.0
#pragma once

// The messages in flight of the transport thread. All are tested together by one call: each test of
// a single request would drive MPI's whole progress engine once more.

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace evener::comm {

/// The other end of a message.
struct Endpoint {
    MPI_Comm comm = MPI_COMM_NULL;
    int peer = 0;
    int tag = 0;
};

class Requests {
  public:
    using Slot = std::size_t;

    explicit Requests(bool synchronous_sends) : synchronous_{synchronous_sends} {}

    /// At most 2^31 - 1 bytes. Throws core::CommError.
    Slot send(std::byte const* data, std::int64_t bytes, Endpoint const& to);
    Slot receive(std::byte* data, std::int64_t bytes, Endpoint const& from);

    /// Lets MPI work and notes what has ended; whether anything has.
    bool test();
    std::size_t outstanding() const noexcept { return outstanding_; }

    /// True once when the message has ended: the slot is free afterwards. Throws core::CommError
    /// with the peer when it failed or a receive got fewer or more bytes than stated.
    bool take(Slot slot);

    /// Forgets all messages: receives are cancelled, sends left to MPI. After an error only.
    void abandon() noexcept;

  private:
    struct Message {
        enum class State : std::uint8_t { free, in_flight, ended };
        State state = State::free;
        bool receives = false;
        int peer = 0;
        int tag = 0;
        std::int64_t bytes = 0;    ///< stated
        std::int64_t received = 0; ///< of a receive that ended
        int error = MPI_SUCCESS;
    };

    Slot add(Message const& message);

    bool synchronous_;
    std::size_t outstanding_ = 0;
    std::vector<MPI_Request> requests_; ///< by slot; null where nothing is in flight
    std::vector<Message> messages_;     ///< by slot
    std::vector<Slot> free_;
    std::vector<int> indices_; ///< of MPI_Testsome
    std::vector<MPI_Status> statuses_;
};

} // namespace evener::comm
