// SPDX-License-Identifier: Apache-2.0
#include "runtime/file_readers.hpp"

#include <array>
#include <cstdint>

namespace evener::runtime {

FileReaders::FileReaders(std::vector<bool> const& sees) {
    std::vector<int> seeing;
    for (std::size_t rank = 0; rank < sees.size(); ++rank)
        if (sees[rank])
            seeing.push_back(static_cast<int>(rank));
    EVENER_EXPECT(!seeing.empty());
    std::size_t blind = 0;
    for (std::size_t rank = 0; rank < sees.size(); ++rank)
        readers_.push_back(sees[rank] ? static_cast<int>(rank) : seeing[blind++ % seeing.size()]);
}

bool FileReaders::all_see() const {
    for (int rank = 0; rank < static_cast<int>(readers_.size()); ++rank)
        if (!sees(rank))
            return false;
    return true;
}

std::vector<int> FileReaders::served_by(int rank) const {
    std::vector<int> served;
    for (int other = 0; other < static_cast<int>(readers_.size()); ++other)
        if (other != rank && reader_of(other) == rank)
            served.push_back(other);
    return served;
}

// In front of everything stands the length of a reason, 0 where bytes follow.
void send_bytes(comm::Communicator const& comm, std::span<std::byte const> bytes, int rank) {
    std::array<std::int64_t, 1> const length{0};
    comm.send(std::as_bytes(std::span{length}), rank);
    comm.send(bytes, rank);
}

void send_failure(comm::Communicator const& comm, std::string_view reason, int rank) {
    EVENER_EXPECT(!reason.empty());
    std::array<std::int64_t, 1> const length{static_cast<std::int64_t>(reason.size())};
    comm.send(std::as_bytes(std::span{length}), rank);
    comm.send(std::as_bytes(std::span{reason}), rank);
}

std::optional<std::string> receive_bytes(comm::Communicator const& comm, std::span<std::byte> bytes,
                                         int rank) {
    std::array<std::int64_t, 1> length{};
    comm.receive(std::as_writable_bytes(std::span{length}), rank);
    if (length[0] == 0) {
        comm.receive(bytes, rank);
        return std::nullopt;
    }
    std::string reason(static_cast<std::size_t>(length[0]), ' ');
    comm.receive(std::as_writable_bytes(std::span{reason}), rank);
    return reason;
}

} // namespace evener::runtime
