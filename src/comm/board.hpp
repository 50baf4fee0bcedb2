// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which instructions of one rank's program have ended, shared by its compute and its transport
// thread. What a thread wrote before `publish` is seen by one that finds the instruction done. A
// failure of either thread is a state of the board, so that the other never waits for ever.

#include "core/ids.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

namespace evener::comm {

/// When an instruction ran, in seconds since the board was reset.
struct InstructionTimes {
    double start = 0;
    double end = 0;
};

class Board {
  public:
    explicit Board(std::size_t instructions);

    /// Nothing done, no failure, time zero is now. No other thread may use the board meanwhile.
    void reset();

    std::size_t size() const noexcept { return entries_.size(); }
    bool done(core::InstructionId id) const noexcept;
    bool done(std::span<core::InstructionId const> ids) const noexcept;

    /// Notes the start time.
    void start(core::InstructionId id) noexcept;
    /// Marks it ended and wakes all who wait.
    void publish(core::InstructionId id);
    /// The same but for those in wait_for_change.
    void mark(core::InstructionId id);

    /// Sleeps until the instruction has ended. Throws the failure if there is one. That somebody
    /// begins to wait is a change too: the transport looks closer then.
    void wait(core::InstructionId id);
    void wait(std::span<core::InstructionId const> ids);
    /// The same until `ready`, a function of what is done on the board, says so; it is called with a
    /// lock held and must not call the board but for done().
    void wait_until(std::function<bool()> const& ready);
    /// Whether a thread sleeps in wait: its core is free.
    bool awaited() const noexcept { return waiting_.load(std::memory_order_relaxed) > 0; }

    /// The first failure counts. Wakes all who wait.
    void fail(std::exception_ptr error);
    bool failed() const noexcept { return failed_.load(std::memory_order_acquire); }
    void rethrow_failure();

    /// A change of something that the board does not know.
    void touch();
    /// Those in wait_until look again: something that it does not know may be ready.
    void nudge();
    /// Counts publications, failures, beginnings of waits and touches.
    std::uint64_t changes() const noexcept { return changes_.load(std::memory_order_acquire); }
    /// Sleeps until changes() is no longer `seen`, or for `limit` where given.
    void wait_for_change(std::uint64_t seen,
                         std::optional<std::chrono::nanoseconds> limit = std::nullopt);

    /// What was measured elsewhere replaces the times of an instruction that is done.
    void set_times(core::InstructionId id, InstructionTimes const& times);
    /// Of an instruction that is done.
    InstructionTimes times(core::InstructionId id) const;
    /// When it was last reset.
    std::chrono::steady_clock::time_point zero() const noexcept { return zero_; }

  private:
    using Clock = std::chrono::steady_clock;
    struct Entry {
        std::atomic<bool> done = false;
        Clock::time_point start;
        Clock::time_point end;
    };

    std::vector<Entry> entries_;
    Clock::time_point zero_;
    std::atomic<std::uint64_t> changes_ = 0;
    std::atomic<bool> failed_ = false;
    std::atomic<int> waiting_ = 0;
    std::exception_ptr failure_; ///< under mutex_
    std::mutex mutex_;
    std::condition_variable ended_;   ///< for those in wait
    std::condition_variable changed_; ///< for those in wait_for_change
};

} // namespace evener::comm
