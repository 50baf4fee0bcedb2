// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include "core/types.hpp"

#include <utility>

namespace evener::comm {

namespace {

constexpr std::int64_t block_bytes = std::int64_t{512} << 20; ///< MPI counts are ints

void broadcast_bytes(MPI_Comm comm, std::byte* data, std::int64_t bytes, int root) {
    for (std::int64_t done = 0; done < bytes; done += block_bytes)
        EVENER_MPI(MPI_Bcast(data + done, static_cast<int>(std::min(block_bytes, bytes - done)),
                             MPI_BYTE, root, comm));
}

constexpr std::int64_t message_bytes = std::int64_t{4} << 20;
constexpr int message_tag = 1;

/// Starts `post(begin, count, request)` for each block of a message and waits for all.
template <class Post>
void in_blocks(std::size_t bytes, Post const& post) {
    auto const size = static_cast<std::int64_t>(bytes);
    std::vector<MPI_Request> requests;
    for (std::int64_t done = 0; done < size; done += message_bytes)
        post(done, static_cast<int>(std::min(message_bytes, size - done)),
             &requests.emplace_back(MPI_REQUEST_NULL));
    EVENER_MPI(
        MPI_Waitall(core::narrow<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
}

template <class T>
std::vector<T> reduce(MPI_Comm comm, std::vector<T> values, MPI_Datatype type, MPI_Op op) {
    EVENER_MPI(MPI_Allreduce(MPI_IN_PLACE, values.data(), core::narrow<int>(values.size()), type,
                             op, comm));
    return values;
}

} // namespace

void CommunicatorTraits::close(Handle handle) noexcept {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended == 0)
        MPI_Comm_free(&handle);
}

Communicator::Communicator(MPI_Comm owned) : handle_{owned} {
    EVENER_MPI(MPI_Comm_set_errhandler(owned, MPI_ERRORS_RETURN));
    EVENER_MPI(MPI_Comm_rank(owned, &rank_));
    EVENER_MPI(MPI_Comm_size(owned, &size_));
}

Communicator Communicator::duplicate(MPI_Comm comm) {
    MPI_Comm owned = MPI_COMM_NULL;
    EVENER_MPI(MPI_Comm_dup(comm, &owned));
    return Communicator{owned};
}

Communicator Communicator::of_node(MPI_Comm comm) {
    int rank = 0;
    EVENER_MPI(MPI_Comm_rank(comm, &rank));
    MPI_Comm owned = MPI_COMM_NULL;
    EVENER_MPI(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &owned));
    return Communicator{owned};
}

Communicator Communicator::split(MPI_Comm comm, int color) {
    MPI_Comm owned = MPI_COMM_NULL;
    EVENER_MPI(MPI_Comm_split(comm, color, 0, &owned));
    return Communicator{owned};
}

void Communicator::barrier() const {
    EVENER_MPI(MPI_Barrier(get()));
}

std::vector<std::byte> Communicator::broadcast(std::span<std::byte const> bytes, int root) const {
    auto size = static_cast<std::int64_t>(bytes.size());
    EVENER_MPI(MPI_Bcast(&size, 1, MPI_INT64_T, root, get()));
    std::vector<std::byte> all(static_cast<std::size_t>(size));
    if (rank_ == root)
        all.assign(bytes.begin(), bytes.end());
    broadcast_bytes(get(), all.data(), size, root);
    return all;
}

std::string Communicator::broadcast(std::string_view text, int root) const {
    auto const all = broadcast(std::as_bytes(std::span{text}), root);
    return {reinterpret_cast<char const*>(all.data()), all.size()};
}

std::vector<std::string> Communicator::all_gather(std::string_view text) const {
    int const mine = core::narrow<int>(text.size());
    std::vector<int> sizes(static_cast<std::size_t>(size_));
    EVENER_MPI(MPI_Allgather(&mine, 1, MPI_INT, sizes.data(), 1, MPI_INT, get()));
    std::vector<int> offsets(sizes.size());
    std::int64_t total = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        offsets[i] = core::narrow<int>(total);
        total += sizes[i];
    }
    std::string whole(static_cast<std::size_t>(total), '\0');
    EVENER_MPI(MPI_Allgatherv(text.data(), mine, MPI_BYTE, whole.data(), sizes.data(),
                              offsets.data(), MPI_BYTE, get()));
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < sizes.size(); ++i)
        texts.push_back(
            whole.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(sizes[i])));
    return texts;
}

std::vector<double> Communicator::all_sum(std::vector<double> values) const {
    return reduce(get(), std::move(values), MPI_DOUBLE, MPI_SUM);
}
std::vector<double> Communicator::all_max(std::vector<double> values) const {
    return reduce(get(), std::move(values), MPI_DOUBLE, MPI_MAX);
}
std::vector<double> Communicator::all_min(std::vector<double> values) const {
    return reduce(get(), std::move(values), MPI_DOUBLE, MPI_MIN);
}
std::vector<std::int64_t> Communicator::all_sum(std::vector<std::int64_t> values) const {
    return reduce(get(), std::move(values), MPI_INT64_T, MPI_SUM);
}
std::vector<std::int64_t> Communicator::all_max(std::vector<std::int64_t> values) const {
    return reduce(get(), std::move(values), MPI_INT64_T, MPI_MAX);
}
std::vector<std::int64_t> Communicator::all_min(std::vector<std::int64_t> values) const {
    return reduce(get(), std::move(values), MPI_INT64_T, MPI_MIN);
}

void Communicator::send(std::span<std::byte const> bytes, int peer) const {
    in_blocks(bytes.size(), [&](std::int64_t begin, int count, MPI_Request* request) {
        EVENER_MPI(
            MPI_Isend(bytes.data() + begin, count, MPI_BYTE, peer, message_tag, get(), request));
    });
}

void Communicator::receive(std::span<std::byte> bytes, int peer) const {
    in_blocks(bytes.size(), [&](std::int64_t begin, int count, MPI_Request* request) {
        EVENER_MPI(
            MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, peer, message_tag, get(), request));
    });
}

std::vector<int> lowest_of_nodes(Communicator const& world, Communicator const& node) {
    std::vector<std::int64_t> const lowest = node.all_min(std::vector<std::int64_t>{world.rank()});
    std::vector<int> result;
    for (auto const& rank : all_gather_values(world, std::span{lowest}))
        result.push_back(static_cast<int>(rank.front()));
    return result;
}

Agreement agree(Communicator const& comm, bool ok, std::string_view message) {
    std::int64_t const mine = ok ? comm.size() : comm.rank();
    auto const first = static_cast<int>(comm.all_min(std::vector<std::int64_t>{mine})[0]);
    if (first == comm.size())
        return {};
    return {false, first, comm.broadcast(message, first)};
}

} // namespace evener::comm
