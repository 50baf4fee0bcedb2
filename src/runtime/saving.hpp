// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints of a running job, written beside the training. At a step boundary the ranks of a node
// copy their slices into the node's snapshot; one thread per writer writes the data file from it;
// when no rank's thread is at work any more, rank 0's thread commits. That they are is told by a bit
// in the steps' scalar reduction, so that waiting costs no message of its own. Every phase ends in
// agreement: one rank's error is the same message on all.
//
// Threads call no MPI. HDF5 is not thread-safe: whoever else in the process uses it waits before
// (wait()).

#include "checkpoints/store.hpp"
#include "comm/communicator.hpp"
#include "runtime/background_task.hpp"
#include "runtime/parameters.hpp"
#include "runtime/save_fault.hpp"
#include "runtime/writers.hpp"

#include <chrono>
#include <memory>
#include <optional>

namespace evener::runtime {

/// A save that has ended well.
struct SavedCheckpoint {
    std::string folder;
    std::int64_t step = 0;
    double seconds = 0;                    ///< from the step boundary to the commit's agreement
    double beside_seconds = 0;             ///< of these, not taken from the training
    std::vector<std::string> deleted = {}; ///< folders of old checkpoints; known on rank 0
};

/// Data files: one per writer, or one that all of them fill.
enum class DataFiles { per_writer, shared };

/// The ranks of a job, and which of them may write.
struct SavingRanks {
    comm::Communicator const& world;
    comm::Communicator const& node; ///< those that share this one's memory, in order of world rank
    std::vector<bool> may_write = {}; ///< see the run folder, by world rank; empty: all do
    DataFiles files = DataFiles::per_writer;
};

/// What decides who writes what, for slices of `kinds`. Collective.
Savers savers_of(SavingRanks const& ranks, program::ProgramSet const& set,
                 model::Model const& model, std::vector<std::string> const& kinds);

class Saver {
  public:
    /// Collective. Allocates the node's snapshot. Rank 0, which commits, must be one that may write.
    Saver(SavingRanks const& ranks, Session const& session, std::vector<std::string> kinds);

    /// Collective, with no save running. Makes the folder, takes the snapshot and starts the
    /// writers. `description` matters on rank 0; its kinds and tensors are filled in. All functions
    /// that are collective throw core::AgreedError on every rank, with the words of the rank that
    /// failed; the save is then gone.
    void start(std::string const& out, checkpoints::Description description,
               checkpoints::Retention retention);

    /// Whether a save was started and has not ended; the same on all ranks.
    bool active() const { return save_.has_value(); }
    /// Request bits of this rank for a step: while its thread is at work, which any thread may ask.
    std::int64_t requests() const;
    /// Collective, at the end of that step, whose reduction gave `requests`: goes on with the save
    /// where no rank was at work. The checkpoint when it has ended.
    std::optional<SavedCheckpoint> advance(std::int64_t requests);
    /// Collective. The same, but waits until the save has ended; nothing where none is active.
    std::optional<SavedCheckpoint> finish();
    /// Until this rank's thread is idle.
    void wait() const { task_.wait(); }

    /// start() and finish().
    SavedCheckpoint save(std::string const& out, checkpoints::Description description,
                         checkpoints::Retention retention);

  private:
    struct Save {
        std::string out;
        std::string folder; ///< of the data files
        checkpoints::Description description;
        checkpoints::Retention retention;
        checkpoints::AtPoint at;
        /// In a shared file, of the slices of this writer.
        std::vector<checkpoints::SliceRecord> places = {};
        std::chrono::steady_clock::time_point begin;
        bool committing = false;               ///< else: writing
        std::vector<std::string> deleted = {}; ///< by the thread that commits
    };

    bool writes() const { return writer_->rank == world_.rank(); }
    SavePassers passers() const;
    void take_snapshot();
    void copy_slices(std::byte* dst);
    void receive_slices();
    void make_shared_file();
    std::string write(std::atomic<bool> const& unwanted);
    checkpoints::WriterResult write_own_file(std::atomic<bool> const& unwanted) const;
    checkpoints::WriterResult write_shared_file(std::atomic<bool> const& unwanted) const;
    std::string commit(std::vector<std::string> const& results);
    std::optional<SavedCheckpoint> next_phase();
    void together(bool active, std::function<void()> const& work);

    comm::Communicator const& world_;
    DataFiles files_;
    Session const& session_;
    std::vector<std::string> kinds_;
    Savers savers_;
    std::vector<Writer> writers_;
    Writer const* writer_ = nullptr;               ///< of this rank's slices
    std::unique_ptr<comm::SharedMemory> snapshot_; ///< none on a node without a writer
    std::vector<checkpoints::SliceData> slices_;   ///< of the snapshot, on its writer
    std::optional<SaveFault> fault_;
    std::optional<Save> save_;
    double blocked_seconds_ = 0; ///< that this rank's main thread spent on the save
    BackgroundTask task_;        ///< last: it reads all of the above
};

} // namespace evener::runtime
