// SPDX-License-Identifier: Apache-2.0
#include "comm/requests.hpp"

#include "comm/mpi_check.hpp"
#include "core/types.hpp"

#include <fmt/format.h>

namespace evener::comm {

Requests::Slot Requests::add(Message const& message) {
    if (free_.empty()) {
        free_.push_back(requests_.size());
        requests_.push_back(MPI_REQUEST_NULL);
        messages_.emplace_back();
        indices_.resize(requests_.size());
        statuses_.resize(requests_.size());
    }
    Slot const slot = free_.back();
    free_.pop_back();
    messages_[slot] = message;
    ++outstanding_;
    return slot;
}

Requests::Slot Requests::send(std::byte const* data, std::int64_t bytes, Endpoint const& to) {
    Slot const slot =
        add({Message::State::in_flight, false, to.peer, to.tag, bytes, 0, MPI_SUCCESS});
    auto const call = synchronous_ ? MPI_Issend : MPI_Isend;
    EVENER_MPI(
        call(data, core::narrow<int>(bytes), MPI_BYTE, to.peer, to.tag, to.comm, &requests_[slot]));
    return slot;
}

Requests::Slot Requests::receive(std::byte* data, std::int64_t bytes, Endpoint const& from) {
    Slot const slot =
        add({Message::State::in_flight, true, from.peer, from.tag, bytes, 0, MPI_SUCCESS});
    EVENER_MPI(MPI_Irecv(data, core::narrow<int>(bytes), MPI_BYTE, from.peer, from.tag, from.comm,
                         &requests_[slot]));
    return slot;
}

bool Requests::test() {
    if (outstanding_ == 0)
        return false;
    int ended = 0;
    int const code = MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &ended,
                                  indices_.data(), statuses_.data());
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS)
        EVENER_MPI(code);
    if (ended == MPI_UNDEFINED)
        return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(ended); ++i) {
        auto const slot = static_cast<Slot>(indices_[i]);
        Message& message = messages_[slot];
        message.state = Message::State::ended;
        if (code == MPI_ERR_IN_STATUS)
            message.error = statuses_[i].MPI_ERROR;
        int count = 0;
        if (message.receives && message.error == MPI_SUCCESS)
            EVENER_MPI(MPI_Get_count(&statuses_[i], MPI_BYTE, &count));
        message.received = count;
        requests_[slot] = MPI_REQUEST_NULL;
        --outstanding_;
    }
    return ended > 0;
}

bool Requests::take(Slot slot) {
    Message& message = messages_[slot];
    EVENER_EXPECT(message.state != Message::State::free);
    if (message.state == Message::State::in_flight)
        return false;
    message.state = Message::State::free;
    free_.push_back(slot);
    if (message.error != MPI_SUCCESS) {
        int error_class = MPI_ERR_OTHER;
        MPI_Error_class(message.error, &error_class);
        if (message.receives && error_class == MPI_ERR_TRUNCATE)
            throw core::CommError{
                error_class, message.peer,
                fmt::format("rank {} sent more than the {} bytes expected with tag {}",
                            message.peer, message.bytes, message.tag)};
        throw core::CommError{error_class, message.peer,
                              fmt::format("a message of {} bytes {} rank {} with tag {} failed: {}",
                                          message.bytes, message.receives ? "from" : "to",
                                          message.peer, message.tag, error_string(message.error))};
    }
    if (message.receives && message.received != message.bytes)
        throw core::CommError{
            MPI_ERR_COUNT, message.peer,
            fmt::format("rank {} sent {} bytes with tag {} instead of the {} bytes expected",
                        message.peer, message.received, message.tag, message.bytes)};
    return true;
}

void Requests::abandon() noexcept {
    for (std::size_t slot = 0; slot < requests_.size(); ++slot) {
        if (requests_[slot] == MPI_REQUEST_NULL)
            continue;
        if (messages_[slot].receives)
            MPI_Cancel(&requests_[slot]);
        MPI_Request_free(&requests_[slot]);
    }
    requests_.clear();
    messages_.clear();
    free_.clear();
    outstanding_ = 0;
}

} // namespace evener::comm
