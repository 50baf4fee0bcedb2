// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ends a job in which nothing moves any more. A thread of each rank looks at its own rank and, in the
// status file, at all others. While its rank runs programs and nowhere an instruction begins, ends or
// gets a part of a message, time adds up; at the limit one rank prints where every rank stands.
//
// What may stand still for long is no hang:
// - Saving and what is done between passes: a slow disk looks the same. There only a rank of the same
//   node counts whose process itself stands still. Starting and loading are not watched.
// - A rank at work between passes (metrics on a slow disk, a search for a schedule), while others
//   wait for it in theirs: its process lives, so they wait ten times as long.
// - A rank of another node whose line never changes: the file system may not show it in time. Twice.
// - Long instructions: the limit is ten steps where that is more than a minute.
// - The whole job was stopped and continued: what the thread itself slept too long does not count.

#include "runtime/status.hpp"

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace evener::runtime {

struct WatchdogOptions {
    double seconds = 0; ///< 0: ten steps, at least 60 s
    double predicted_step_seconds = 0;
    std::function<std::uint64_t()> moves; ///< goes up with what moves within instructions
    /// Called once by a rank that has waited too long, with all positions or, when another rank has
    /// said them, with nothing. Does not return.
    std::function<void(std::vector<std::string> const& lines)> end_job;
};

class Watchdog {
  public:
    /// The thread stops with the object; `status` must outlive it.
    Watchdog(Status& status, WatchdogOptions options);
    Watchdog(Watchdog const&) = delete;
    Watchdog& operator=(Watchdog const&) = delete;
    ~Watchdog();

    /// How long a training step took.
    void note_step(double seconds);

    /// The file that the rank which prints makes.
    static std::string claim_file(std::string const& status_file) { return status_file + ".hang"; }

  private:
    struct Seen {
        StatusText line{};
        double unalive = 0; ///< seconds since the process showed that it lives
    };

    void watch();
    double limit() const;
    bool look(double seconds);
    double patience(double limit) const;
    bool lifeless(double limit) const;
    bool must_end(double seconds);
    void end_job(double limit);

    Status& status_;
    WatchdogOptions options_;
    std::vector<Seen> seen_; ///< by rank
    std::uint64_t changes_ = 0;
    std::uint64_t moves_ = 0;
    double still_ = 0;         ///< seconds in which nothing moved anywhere
    mutable std::mutex mutex_; ///< of the two below
    std::vector<double> steps_;
    bool stop_ = false;
    std::condition_variable stopped_;
    std::thread thread_;
};

} // namespace evener::runtime
