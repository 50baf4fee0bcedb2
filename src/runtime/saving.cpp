// SPDX-License-Identifier: Apache-2.0
#include "runtime/saving.hpp"

#include "checkpoints/manifest.hpp"
#include "checkpoints/writer.hpp"
#include "core/log.hpp"

#include <algorithm>
#include <cstring>

namespace evener::runtime {

namespace {

std::int64_t bytes_of(checkpoints::SliceData const& slice) {
    std::int64_t elements = slice.rows.size();
    for (std::size_t i = 1; i < slice.shape.size(); ++i)
        elements *= slice.shape[i];
    return 4 * elements;
}

} // namespace

Saver::Saver(comm::MpiSession const& mpi, Session const& session, std::vector<std::string> kinds)
    : mpi_{mpi}, session_{session}, kinds_{std::move(kinds)} {
    std::int64_t const mine = mpi.rank();
    for (auto const& ranks :
         comm::all_gather_values(mpi.node(), std::span<std::int64_t const>{&mine, 1}))
        node_ranks_.push_back(static_cast<int>(ranks.front()));
    // Nodes are numbered by their lowest rank.
    std::int64_t const leader = node_ranks_.front();
    std::vector<std::int64_t> leaders;
    for (auto const& ranks :
         comm::all_gather_values(mpi.world(), std::span<std::int64_t const>{&leader, 1}))
        leaders.push_back(ranks.front());
    std::sort(leaders.begin(), leaders.end());
    leaders.erase(std::unique(leaders.begin(), leaders.end()), leaders.end());
    writer_ = static_cast<int>(std::find(leaders.begin(), leaders.end(), leader) - leaders.begin());
    for (int const rank : node_ranks_)
        for (checkpoints::SliceData const& slice :
             slices_of_rank(session.sets(), session.model(), core::RankId{rank}, kinds_))
            snapshot_bytes_ += bytes_of(slice);
    if (node_ranks_.size() == 1)
        snapshot_bytes_ = 0;
    else {
        snapshot_ = std::make_unique<comm::SharedMemory>(mpi.node(), snapshot_bytes_);
        if (mpi.node().rank() == 0) // the pages exist before the first step
            std::memset(snapshot_->bytes().data(), 0, snapshot_->bytes().size());
        snapshot_->synchronize();
    }
}

void Saver::agree(bool ok, std::string const& message) const {
    comm::Agreement const agreement = comm::agree(mpi_.world(), ok, message);
    if (!agreement.ok)
        throw core::AgreedError{core::ExitCode::file, agreement.message};
}

void Saver::copy_to_snapshot() {
    if (!snapshot_)
        return;
    std::int64_t offset = 0;
    for (int const rank : node_ranks_) {
        auto const slices =
            slices_of_rank(session_.sets(), session_.model(), core::RankId{rank}, kinds_);
        std::vector<float const*> addresses;
        if (rank == mpi_.rank())
            addresses = slice_addresses(session_, kinds_);
        for (std::size_t i = 0; i < slices.size(); ++i) {
            std::int64_t const bytes = bytes_of(slices[i]);
            if (rank == mpi_.rank())
                session_.download(snapshot_->bytes().data() + offset, addresses[i], bytes);
            offset += bytes;
        }
    }
    snapshot_->synchronize();
}

checkpoints::WriterResult Saver::write(std::string const& folder) {
    checkpoints::SliceWriter writer{folder, writer_};
    std::int64_t offset = 0;
    for (int const rank : node_ranks_) {
        auto slices = slices_of_rank(session_.sets(), session_.model(), core::RankId{rank}, kinds_);
        std::vector<float const*> addresses;
        std::vector<float> values; // of one slice, where the device has a memory of its own
        if (!snapshot_)
            addresses = slice_addresses(session_, kinds_);
        for (std::size_t i = 0; i < slices.size(); ++i) {
            if (snapshot_) {
                slices[i].data = reinterpret_cast<float const*>(snapshot_->bytes().data() + offset);
            } else if (!session_.reaches(addresses[i])) {
                values.resize(static_cast<std::size_t>(bytes_of(slices[i])) / 4);
                session_.download(values.data(), addresses[i], bytes_of(slices[i]));
                slices[i].data = values.data();
            } else {
                slices[i].data = addresses[i];
            }
            offset += bytes_of(slices[i]);
            writer.write(slices[i]);
        }
    }
    return writer.finish();
}

void Saver::save(std::string const& out, checkpoints::Description description, int keep) {
    bool const root = mpi_.rank() == 0;
    std::int64_t const step = description.state.step;
    description.kinds = kinds_;
    description.tensors = tensors_of(session_.model());
    // Each phase: work where it is due, then agreement; `guarded` turns an exception into words.
    std::string failure;
    auto const guarded = [&](bool active, auto&& work) {
        failure.clear();
        try {
            if (active)
                work();
        } catch (core::Error const& error) {
            failure = error.what();
        }
        try {
            agree(failure.empty(), failure);
        } catch (core::Error const&) {
            if (root)
                checkpoints::abandon(out, step);
            throw;
        }
    };
    std::string folder;
    guarded(root, [&] {
        folder = checkpoints::begin(
            out, step, checkpoints::payload_bytes(description.tensors, description.kinds));
    });
    folder = mpi_.world().broadcast(folder);
    copy_to_snapshot();
    std::string encoded;
    guarded(mpi_.node().rank() == 0, [&] { encoded = checkpoints::encode(write(folder)); });
    std::vector<std::string> const results = mpi_.world().all_gather(encoded);
    guarded(root, [&] {
        std::vector<checkpoints::WriterResult> writers;
        for (std::string const& text : results)
            if (!text.empty())
                writers.push_back(checkpoints::decode_writer_result(text));
        checkpoints::commit(out, description, writers);
    });
    if (root && keep > 0) {
        try {
            checkpoints::prune(out, keep);
        } catch (core::Error const& error) { // the new one is safe; old ones only take space
            core::log::root(core::log::Level::warn, "old checkpoints stay: {}", error.what());
        }
    }
}

} // namespace evener::runtime
