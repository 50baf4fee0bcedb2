// SPDX-License-Identifier: Apache-2.0
#pragma once

// When a job must be over, and which step is the last that fits before: by what steps, validations
// and saves have taken so far. Rank 0 asks; the ranks agree in the step's scalar reduction.

#include "job/job.hpp"

#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <string>

namespace evener::runtime {

struct Deadline {
    std::chrono::steady_clock::time_point end;
};

struct DeadlineChoice {
    std::optional<Deadline> deadline;
    std::string line; ///< says which limit was taken and why; empty: there is nothing to say
};

/// The earlier one of 'run.time_limit', counted from `started`, and of the Slurm job's end.
/// `lookup` reads the environment (null: not set), `unix_now` is in seconds since 1970.
DeadlineChoice choose_deadline(job::Run const& run, std::chrono::steady_clock::time_point started,
                               std::function<char const*(char const*)> const& lookup,
                               double unix_now);

/// What comes with the step that begins now and with the one behind it.
struct StepsAhead {
    std::int64_t step = 0; ///< counted from 1
    bool saves = false;    ///< behind this step anyway, or one runs beside it
    bool validates = false;
    bool next_validates = false;
};

class TimeLimit {
  public:
    /// `state_bytes` of a checkpoint, by which the first save is estimated.
    TimeLimit(Deadline deadline, std::int64_t state_bytes);

    /// Seconds, of a step without what is noted apart.
    void note_step(double seconds) { note(steps_, seconds); }
    void note_validation(double seconds) { note(validations_, seconds); }
    void note_save(double seconds) { note(saves_, seconds); }

    /// Whether behind the step that begins `now` there is no time for another one and a save: then
    /// the words that say so.
    std::optional<std::string> last_step(StepsAhead const& ahead,
                                         std::chrono::steady_clock::time_point now) const;

  private:
    static void note(std::deque<double>& recent, double seconds);
    static double slowest(std::deque<double> const& recent);
    double save_seconds() const;

    Deadline deadline_;
    double estimated_save_;
    std::int64_t state_bytes_;
    std::deque<double> steps_; ///< the last ones
    std::deque<double> validations_;
    std::deque<double> saves_;
};

} // namespace evener::runtime
