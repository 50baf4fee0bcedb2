// SPDX-License-Identifier: Apache-2.0
#include "runtime/shared_loading.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::runtime {

namespace {

constexpr std::int64_t block_bytes = std::int64_t{16} << 20;

/// Calls use(block, its first element in the slice) for blocks of whole rows that cover the slice.
template <class Use>
void for_each_block(checkpoints::SliceData slice, Use const& use) {
    std::int64_t const row = checkpoints::TensorInfo{slice.name, slice.shape}.row_elements();
    std::int64_t const most = std::max<std::int64_t>(1, block_bytes / (4 * row));
    core::Range const all = slice.rows;
    for (std::int64_t begin = all.begin; begin < all.end; begin += most) {
        slice.rows = {begin, std::min(begin + most, all.end)};
        use(slice, (begin - all.begin) * row, slice.rows.size() * row);
    }
}

void serve(comm::Communicator const& world, int rank, Session const& session,
           checkpoints::CheckpointReader& reader, std::vector<std::string> const& kinds) {
    std::vector<float> values;
    for (checkpoints::SliceData const& slice :
         slices_of_rank(session.sets(), session.model(), core::RankId{rank}, kinds))
        for_each_block(
            slice, [&](checkpoints::SliceData const& block, std::int64_t, std::int64_t elements) {
                values.resize(static_cast<std::size_t>(elements));
                reader.read(block.kind, block.name, block.rows, values.data());
                send_bytes(world, std::as_bytes(std::span{values}), rank);
            });
}

void receive(comm::Communicator const& world, int reader, checkpoints::SliceData const& slice,
             float* dst) {
    for_each_block(
        slice, [&](checkpoints::SliceData const&, std::int64_t first, std::int64_t elements) {
            std::span<float> const part{dst + first, static_cast<std::size_t>(elements)};
            if (auto const reason = receive_bytes(world, std::as_writable_bytes(part), reader))
                throw core::CheckpointError{fmt::format("what rank {} reads", reader), *reason};
        });
}

} // namespace

void load_shared(comm::Communicator const& world, FileReaders const& readers, Session& session,
                 checkpoints::CheckpointReader* reader, Load what, bool adamw) {
    int const rank = world.rank();
    EVENER_EXPECT((reader != nullptr) == readers.sees(rank));
    if (reader == nullptr) {
        load_parameters(
            session,
            [&](checkpoints::SliceData const& slice, float* dst) {
                receive(world, readers.reader_of(rank), slice, dst);
            },
            what);
        return;
    }
    std::vector<int> const served = readers.served_by(rank);
    std::size_t done = 0;
    try {
        load_parameters(session, *reader, what);
        for (; done < served.size(); ++done)
            serve(world, served[done], session, *reader, loaded_kinds(what, adamw));
    } catch (core::Error const& error) {
        for (; done < served.size(); ++done)
            send_failure(world, error.what(), served[done]);
        throw;
    }
}

} // namespace evener::runtime
