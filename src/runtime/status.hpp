// SPDX-License-Identifier: Apache-2.0
#pragma once

// The rank's own line of `out/status`, in memory mapped from the file, so that the last word survives
// however the process ends. Where a rank does not see the file, or somebody cuts it short, it keeps its
// line in memory alone.
// A change is some 20 stores: no system call, no allocation.

#include "comm/mpi_session.hpp"
#include "io/mapping_guard.hpp"
#include "runtime/status_line.hpp"

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace evener::runtime {

/// An instruction's words, made once.
using StatusWords = std::array<char, StatusLayout::text_width>;
StatusWords status_words(std::string_view text);

class Status {
  public:
    /// Collective. Rank 0 writes a new `file`, the others look for it. Where it cannot be written,
    /// rank 0 warns and all keep their lines in memory.
    Status(comm::MpiSession const& mpi, std::string const& file);
    Status(Status const&) = delete;
    Status& operator=(Status const&) = delete;
    /// Writes the phase `end`, or `failed` while an exception unwinds.
    ~Status();

    /// By the thread that trains. `step` counts from 1.
    void enter(Phase phase, std::int64_t step) noexcept;
    void runs(StatusWords const& words) noexcept { write("in   ", words); }
    void waits(StatusWords const& words) noexcept { write("waits", words); }

    /// By any thread.
    Phase phase() const noexcept { return phase_.load(std::memory_order_relaxed); }
    /// Goes up with every change of the position.
    std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_relaxed); }
    /// By the watchdog: the process lives, and whether something moved within an instruction.
    void beat(bool moved) noexcept;

    std::string const& file() const noexcept { return file_; }
    bool sees_others() const noexcept { return sees_others_ && !guard_.lost(); }
    int rank() const noexcept { return rank_; }
    std::vector<int> const& nodes() const noexcept { return node_of_; }
    /// A line as it is now; only the own one where the rank does not see the others.
    StatusText line(int rank) const noexcept;

  private:
    bool map(std::string const& content);
    void write(char const (&verb)[6], StatusWords const& words) noexcept;
    void publish() noexcept;

    std::string file_;
    int rank_;
    std::vector<int> node_of_; ///< lowest rank of each rank's node
    StatusPlaces places_;
    std::span<std::uint64_t> mapped_; ///< the whole file
    io::MappingGuard guard_;
    bool said_lost_ = false;
    std::vector<std::uint64_t> memory_; ///< the own line, without a file
    std::uint64_t* line_ = nullptr;     ///< the own one
    bool sees_others_ = false;
    std::int64_t step_ = 0;
    alignas(8) StatusText text_{};            ///< the own position, as written last
    std::atomic<Phase> phase_ = Phase::start; ///< for the watchdog
    std::atomic<std::uint64_t> changes_ = 0;
    std::uint64_t moves_ = 0; ///< of the watchdog
    std::uint64_t beats_ = 0;
    int exceptions_; ///< unwinding when it was made
};

/// The lines of the status file of a run that nobody trains now; empty where there is none.
std::vector<StatusRecord> read_status(std::string const& file);

} // namespace evener::runtime
