// SPDX-License-Identifier: Apache-2.0
#include "runtime/time_limit.hpp"

#include "core/size_text.hpp"
#include "job/duration.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace evener::runtime {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t most_recent = 20; // that an old slow step does not count for ever

// Of a disk that many nodes write to at once.
constexpr double first_save_bytes_per_second = 200e6;
constexpr double first_save_extra_seconds = 1;

Clock::duration ticks(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

std::optional<double> unix_seconds(char const* text) {
    std::int64_t value = 0;
    char const* const end = text + std::strlen(text);
    auto const [rest, error] = std::from_chars(text, end, value);
    if (error != std::errc{} || rest != end)
        return std::nullopt;
    return static_cast<double>(value);
}

/// The Slurm job's end in seconds from now, or nothing and the line that says why.
std::optional<double> slurm_seconds(std::function<char const*(char const*)> const& lookup,
                                    double unix_now, std::string& line) {
    char const* const job = lookup("SLURM_JOB_ID");
    char const* const text = lookup("SLURM_JOB_END_TIME");
    if (text == nullptr) {
        if (job != nullptr)
            line = fmt::format("Slurm does not tell when job {} ends (SLURM_JOB_END_TIME is not "
                               "set); give 'run.time_limit' to save in time",
                               job);
        return std::nullopt;
    }
    std::optional<double> const end = unix_seconds(text);
    if (end && *end > unix_now)
        return *end - unix_now;
    line = fmt::format("SLURM_JOB_END_TIME is '{}' ({}), so it counts for nothing; give "
                       "'run.time_limit' to save in time",
                       text, end ? "which is over" : "not seconds since 1970");
    return std::nullopt;
}

} // namespace

DeadlineChoice choose_deadline(job::Run const& run, Clock::time_point started,
                               std::function<char const*(char const*)> const& lookup,
                               double unix_now) {
    DeadlineChoice choice;
    std::optional<double> const slurm = slurm_seconds(lookup, unix_now, choice.line);
    auto const now = Clock::now();
    if (slurm) {
        choice.deadline = Deadline{now + ticks(*slurm)};
        choice.line = fmt::format("the Slurm job ends in {:.0f} s (SLURM_JOB_END_TIME)", *slurm);
    }
    std::optional<std::int64_t> const limit = job::parse_duration(run.time_limit);
    if (!limit)
        return choice;
    Clock::time_point const end = started + std::chrono::seconds{*limit};
    if (slurm && choice.deadline->end <= end) {
        choice.line += ", before 'run.time_limit'";
        return choice;
    }
    double const left = std::chrono::duration<double>(end - now).count();
    choice.deadline = Deadline{end};
    choice.line = fmt::format("the time limit ends in {:.0f} s ('run.time_limit'{})", left,
                              slurm ? ", before the Slurm job" : "");
    return choice;
}

TimeLimit::TimeLimit(Deadline deadline, std::int64_t state_bytes)
    : deadline_{deadline}, estimated_save_{first_save_extra_seconds +
                                           static_cast<double>(state_bytes) /
                                               first_save_bytes_per_second},
      state_bytes_{state_bytes} {}

void TimeLimit::note(std::deque<double>& recent, double seconds) {
    recent.push_back(seconds);
    if (recent.size() > most_recent)
        recent.pop_front();
}

double TimeLimit::slowest(std::deque<double> const& recent) {
    return recent.empty() ? 0 : *std::max_element(recent.begin(), recent.end());
}

double TimeLimit::save_seconds() const {
    return saves_.empty() ? estimated_save_ : slowest(saves_);
}

std::optional<std::string> TimeLimit::last_step(StepsAhead const& ahead,
                                                Clock::time_point now) const {
    double const left = std::chrono::duration<double>(deadline_.end - now).count();
    double const step = slowest(steps_);
    double const save = save_seconds();
    // A validation that was never measured is taken for a step.
    double const validation = validations_.empty() ? step : slowest(validations_);
    double const needed = 2 * step + (ahead.validates ? validation : 0) +
                          (ahead.next_validates ? validation : 0) + (ahead.saves ? save : 0) + save;
    double const margin = 1 + 0.25 * (step + save); // seconds, also to end MPI
    if (left > needed + margin)
        return std::nullopt;
    std::string const how =
        saves_.empty() ? fmt::format(" (estimated from {})", core::size_text(state_bytes_)) : "";
    return fmt::format("time limit in {:.3g} s, a step takes {:.3g} s and a save {:.3g} s{}: "
                       "saving and stopping at step {}",
                       left, step, save, how, ahead.step);
}

} // namespace evener::runtime
