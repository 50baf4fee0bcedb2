// SPDX-License-Identifier: Apache-2.0
#include "runtime/saving.hpp"

#include "checkpoints/manifest.hpp"
#include "checkpoints/shared_file.hpp"
#include "checkpoints/verify.hpp"
#include "checkpoints/writer.hpp"
#include "core/log.hpp"
#include "runtime/step_state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace evener::runtime {

namespace {

using checkpoints::SavePoint;

std::int64_t bytes_of(checkpoints::SliceData const& slice) {
    std::int64_t elements = slice.rows.size();
    for (std::size_t i = 1; i < slice.shape.size(); ++i)
        elements *= slice.shape[i];
    return 4 * elements;
}

/// Adds the time of its scope.
class Stopwatch {
  public:
    explicit Stopwatch(double& seconds) : seconds_{seconds} {}
    Stopwatch(Stopwatch const&) = delete;
    Stopwatch& operator=(Stopwatch const&) = delete;
    ~Stopwatch() {
        seconds_ +=
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    }

  private:
    double& seconds_;
    std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Where the slices of `source` begin in the snapshot of `writer`.
std::int64_t offset_of(Writer const& writer, Savers const& savers, int source) {
    std::int64_t offset = 0;
    for (int const rank : writer.sources) {
        if (rank == source)
            break;
        offset += savers.bytes[static_cast<std::size_t>(rank)];
    }
    return offset;
}

} // namespace

Savers savers_of(SavingRanks const& ranks, program::ProgramSet const& set,
                 model::Model const& model, std::vector<std::string> const& kinds) {
    Savers savers;
    savers.may_write = ranks.may_write;
    savers.node = comm::lowest_of_nodes(ranks.world, ranks.node);
    for (int rank = 0; rank < ranks.world.size(); ++rank) {
        std::int64_t bytes = 0;
        for (checkpoints::SliceData const& slice :
             slices_of_rank(set, model, core::RankId{rank}, kinds))
            bytes += bytes_of(slice);
        savers.bytes.push_back(bytes);
    }
    return savers;
}

Saver::Saver(SavingRanks const& ranks, Session const& session, std::vector<std::string> kinds)
    : world_{ranks.world}, files_{ranks.files}, session_{session}, kinds_{std::move(kinds)},
      savers_{savers_of(ranks, session.sets(), session.model(), kinds_)}, writers_{assign_writers(
                                                                              savers_)},
      writer_{&writers_[writer_of(writers_, world_.rank())]}, fault_{
                                                                  save_fault_from_environment()} {
    EVENER_EXPECT(writers_.front().rank == 0);
    if (fault_)
        require_passed(*fault_, passers());
    int const node = savers_.node[static_cast<std::size_t>(world_.rank())];
    if (savers_.node[static_cast<std::size_t>(writer_->rank)] != node)
        return;
    snapshot_ = std::make_unique<comm::SharedMemory>(ranks.node, writer_->bytes);
    if (writes()) {
        std::memset(snapshot_->bytes().data(), 0, snapshot_->bytes().size()); // pages exist now
        std::byte const* data = snapshot_->bytes().data();
        for (int const source : writer_->sources)
            for (checkpoints::SliceData& slice :
                 slices_of_rank(session.sets(), session.model(), core::RankId{source}, kinds_)) {
                slice.data = reinterpret_cast<float const*>(data);
                data += bytes_of(slice);
                slices_.push_back(std::move(slice));
            }
    }
    snapshot_->synchronize();
}

SavePassers Saver::passers() const {
    SavePassers passers{
        .writers = {}, .ranks = world_.size(), .one_file = files_ == DataFiles::shared};
    for (Writer const& writer : writers_)
        passers.writers.push_back(writer.rank);
    return passers;
}

/// Does the work where it is due and turns its exception into words that all ranks throw.
void Saver::together(bool active, std::function<void()> const& work) {
    std::string failure;
    bool ok = true;
    try {
        if (active)
            work();
    } catch (core::Error const& error) {
        failure = error.what();
        ok = false;
    }
    comm::Agreement const agreement = comm::agree(world_, ok, failure);
    if (agreement.ok)
        return;
    if (world_.rank() == 0)
        checkpoints::abandon(save_->out, save_->description.state.step);
    save_.reset();
    throw core::AgreedError{core::ExitCode::file, agreement.message};
}

void Saver::start(std::string const& out, checkpoints::Description description,
                  checkpoints::Retention retention) {
    EVENER_EXPECT(!save_);
    description.kinds = kinds_;
    description.tensors = tensors_of(session_.model());
    std::int64_t const step = description.state.step;
    save_ = Save{.out = out,
                 .folder = {},
                 .description = std::move(description),
                 .retention = retention,
                 .at = drill(fault_, world_.rank(), step),
                 .begin = std::chrono::steady_clock::now()};
    blocked_seconds_ = 0;
    Stopwatch const stopwatch{blocked_seconds_};
    std::string folder;
    together(world_.rank() == 0, [&] {
        checkpoints::Description const& what = save_->description;
        folder = checkpoints::begin(out, step, checkpoints::payload_bytes(what.tensors, what.kinds),
                                    save_->at);
    });
    save_->folder = world_.broadcast(folder);
    if (files_ == DataFiles::shared)
        make_shared_file();
    checkpoints::pass(save_->at, SavePoint::snapshot_start);
    take_snapshot();
    checkpoints::pass(save_->at, SavePoint::snapshot_copied);
    if (writes())
        task_.start([this](std::atomic<bool> const& unwanted) { return write(unwanted); });
}

void Saver::take_snapshot() {
    auto const r = static_cast<std::size_t>(world_.rank());
    if (!snapshot_) { // staged whole: the writer takes a rank's slices as one message
        std::vector<std::byte> staged(static_cast<std::size_t>(savers_.bytes[r]));
        copy_slices(staged.data());
        world_.send(staged, writer_->rank);
        return;
    }
    copy_slices(snapshot_->bytes().data() + offset_of(*writer_, savers_, world_.rank()));
    if (writes())
        receive_slices();
    snapshot_->synchronize();
}

void Saver::copy_slices(std::byte* dst) {
    auto const addresses = slice_addresses(session_, kinds_);
    auto const slices =
        slices_of_rank(session_.sets(), session_.model(), core::RankId{world_.rank()}, kinds_);
    for (std::size_t i = 0; i < slices.size(); ++i) {
        std::int64_t const bytes = bytes_of(slices[i]);
        session_.download(dst, addresses[i], bytes);
        dst += bytes;
    }
}

/// Of the ranks of other nodes.
void Saver::receive_slices() {
    int const node = savers_.node[static_cast<std::size_t>(world_.rank())];
    for (int const source : writer_->sources) {
        auto const r = static_cast<std::size_t>(source);
        if (savers_.node[r] != node)
            world_.receive(snapshot_->bytes().subspan(
                               static_cast<std::size_t>(offset_of(*writer_, savers_, source)),
                               static_cast<std::size_t>(savers_.bytes[r])),
                           source);
    }
}

/// HDF5's structure with room for the slices of all writers, one after the other; rank 0 makes it.
void Saver::make_shared_file() {
    std::string encoded;
    together(world_.rank() == 0, [&] {
        std::vector<checkpoints::SliceData> all;
        for (Writer const& writer : writers_)
            for (int const source : writer.sources)
                for (checkpoints::SliceData& slice : slices_of_rank(
                         session_.sets(), session_.model(), core::RankId{source}, kinds_))
                    all.push_back(std::move(slice));
        encoded = checkpoints::encode(checkpoints::make_shared_file(save_->folder, all));
    });
    auto const places = checkpoints::decode_writer_result(world_.broadcast(encoded)).slices;
    std::size_t first = 0;
    for (Writer const* writer = writers_.data(); writer != writer_; ++writer)
        for (int const source : writer->sources)
            first += slices_of_rank(session_.sets(), session_.model(), core::RankId{source}, kinds_)
                         .size();
    auto const begin = places.begin() + static_cast<std::ptrdiff_t>(first);
    save_->places.assign(begin, begin + static_cast<std::ptrdiff_t>(slices_.size()));
}

/// In the background: the slices of the snapshot. Returns the encoded result; nothing when it is not
/// wanted any more.
std::string Saver::write(std::atomic<bool> const& unwanted) {
    bool const shared = files_ == DataFiles::shared;
    checkpoints::WriterResult const result =
        shared ? write_shared_file(unwanted) : write_own_file(unwanted);
    if (unwanted)
        return "";
    auto const faults =
        shared ? checkpoints::damaged_slices(result.slices, save_->folder, result.file.name)
               : checkpoints::damaged_file(result, save_->folder);
    if (!faults.empty())
        throw core::CheckpointError{
            save_->folder, fmt::format("{} (read back after it was written) the file system or its "
                                       "disk is faulty: choose another 'out'",
                                       faults.front())};
    checkpoints::pass(save_->at, SavePoint::write_verified);
    return checkpoints::encode(result);
}

checkpoints::WriterResult Saver::write_own_file(std::atomic<bool> const& unwanted) const {
    checkpoints::SliceWriter file{save_->folder, static_cast<int>(writer_ - writers_.data()),
                                  checkpoints::max_call_bytes, save_->at};
    for (checkpoints::SliceData const& slice : slices_) {
        if (unwanted)
            return {};
        file.write(slice);
    }
    return file.finish();
}

checkpoints::WriterResult Saver::write_shared_file(std::atomic<bool> const& unwanted) const {
    checkpoints::pass(save_->at, SavePoint::write_start);
    checkpoints::SharedFileWriter file{save_->folder};
    checkpoints::WriterResult result;
    result.file.name = checkpoints::data_file_name(0);
    for (std::size_t i = 0; i < slices_.size(); ++i) {
        if (unwanted)
            return {};
        if (i > 0)
            checkpoints::pass(save_->at, SavePoint::write_slice);
        result.slices.push_back(file.write(slices_[i], save_->places[i]));
    }
    checkpoints::pass(save_->at, SavePoint::write_sync);
    file.finish();
    checkpoints::pass(save_->at, SavePoint::write_synced);
    return result;
}

/// In the background of rank 0. Returns a warning or nothing.
std::string Saver::commit(std::vector<std::string> const& results) {
    Save& save = *save_;
    std::vector<checkpoints::WriterResult> writers;
    for (Writer const& writer : writers_)
        writers.push_back(
            checkpoints::decode_writer_result(results[static_cast<std::size_t>(writer.rank)]));
    if (files_ == DataFiles::shared) {
        std::vector<checkpoints::SliceRecord> slices;
        for (checkpoints::WriterResult const& writer : writers)
            slices.insert(slices.end(), writer.slices.begin(), writer.slices.end());
        writers = {checkpoints::finish_shared_file(save.folder, std::move(slices))};
    }
    checkpoints::confirm(checkpoints::commit(
        save.out, save.description, writers, save.at,
        [](std::string const& line) { core::log::rank(core::log::Level::warn, "{}", line); }));
    try {
        save.deleted = checkpoints::prune(save.out, save.retention, save.at);
    } catch (core::Error const& error) { // the new one is safe; old ones only take space
        return error.what();
    }
    return "";
}

std::int64_t Saver::requests() const {
    return task_.running() ? static_cast<std::int64_t>(Request::save_running) : 0;
}

std::optional<SavedCheckpoint> Saver::advance(std::int64_t requests) {
    if (!save_ || asks_for(requests, Request::save_running))
        return std::nullopt;
    return next_phase();
}

std::optional<SavedCheckpoint> Saver::finish() {
    std::optional<SavedCheckpoint> saved;
    while (save_)
        saved = next_phase();
    return saved;
}

/// Takes what the threads made: after the writing starts the commit, after the commit ends the save.
std::optional<SavedCheckpoint> Saver::next_phase() {
    Save& save = *save_;
    std::string result;
    {
        Stopwatch const stopwatch{blocked_seconds_};
        if (!save.committing)
            checkpoints::pass(save.at, SavePoint::results_start);
        together(true, [&] { result = task_.take(); });
        if (!save.committing) {
            std::vector<std::string> const results = world_.all_gather(result);
            save.committing = true;
            if (world_.rank() == 0)
                task_.start([this, results](std::atomic<bool> const&) { return commit(results); });
            return std::nullopt;
        }
    }
    if (!result.empty())
        core::log::root(core::log::Level::warn, "old checkpoints stay: {}", result);
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - save.begin;
    std::int64_t const step = save.description.state.step;
    SavedCheckpoint const saved{fmt::format("{}/{}", save.out, checkpoints::step_folder_name(step)),
                                step, seconds.count(), seconds.count() - blocked_seconds_,
                                save.deleted};
    save_.reset();
    return saved;
}

SavedCheckpoint Saver::save(std::string const& out, checkpoints::Description description,
                            checkpoints::Retention retention) {
    start(out, std::move(description), retention);
    return finish().value();
}

} // namespace evener::runtime
