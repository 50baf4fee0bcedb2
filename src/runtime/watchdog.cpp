// SPDX-License-Identifier: Apache-2.0
#include "runtime/watchdog.hpp"

#include "core/median.hpp"
#include "io/files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>

namespace evener::runtime {

namespace {

using Clock = std::chrono::steady_clock;
using Layout = StatusLayout;

constexpr std::size_t most_steps = 21; // whose median counts
constexpr double shortest_limit = 60;  // seconds
constexpr double steps_of_limit = 10;

bool same(StatusText const& a, StatusText const& b, std::size_t begin, std::size_t end) {
    return std::memcmp(a.data() + begin, b.data() + begin, end - begin) == 0;
}

/// Whether a rank in this phase has a watchdog, which shows that its process lives.
bool is_watched(Phase phase) {
    return phase == Phase::step || phase == Phase::validate || phase == Phase::save ||
           phase == Phase::between;
}

/// Whether the rank may be at work on something that shows nothing.
bool works_unseen(StatusText const& line) {
    auto const record = parse_status_line({line.data(), line.size()});
    return record && !in_pass(record->phase);
}

} // namespace

Watchdog::Watchdog(Status& status, WatchdogOptions options)
    : status_{status}, options_{std::move(options)}, seen_(status.nodes().size()) {
    // Signals are for the main thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread{[this] { watch(); }};
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() {
    {
        std::lock_guard const lock{mutex_};
        stop_ = true;
    }
    stopped_.notify_all();
    thread_.join();
}

void Watchdog::note_step(double seconds) {
    std::lock_guard const lock{mutex_};
    steps_.push_back(seconds);
    if (steps_.size() > most_steps)
        steps_.erase(steps_.begin());
}

double Watchdog::limit() const {
    if (options_.seconds > 0)
        return options_.seconds;
    std::vector<double> steps;
    {
        std::lock_guard const lock{mutex_};
        steps = steps_;
    }
    double const step =
        steps.empty() ? options_.predicted_step_seconds : core::median(std::move(steps));
    return std::max(shortest_limit, steps_of_limit * step);
}

void Watchdog::watch() {
    pthread_setname_np(pthread_self(), "watchdog");
    std::unique_lock lock{mutex_};
    auto before = Clock::now();
    while (!stop_) {
        lock.unlock();
        double const tick = std::clamp(limit() / 20, 0.05, 1.0);
        lock.lock();
        stopped_.wait_for(lock, std::chrono::duration<double>(tick), [this] { return stop_; });
        if (stop_)
            return;
        lock.unlock();
        auto const now = Clock::now();
        // More than asked for means that this process was stopped, or had no core.
        bool const ends =
            must_end(std::min(std::chrono::duration<double>(now - before).count(), 2 * tick));
        before = now;
        if (ends)
            end_job(limit());
        lock.lock();
    }
}

/// Whether something moved anywhere in the last `seconds`.
bool Watchdog::look(double seconds) {
    std::uint64_t const changes = status_.changes();
    std::uint64_t const moves = options_.moves ? options_.moves() : 0;
    bool const moved_here = changes != changes_ || moves != moves_;
    status_.beat(moves != moves_);
    changes_ = changes;
    moves_ = moves;
    bool moved = moved_here;
    if (!status_.sees_others())
        return moved;
    for (std::size_t r = 0; r < seen_.size(); ++r) {
        if (static_cast<int>(r) == status_.rank())
            continue;
        Seen& seen = seen_[r];
        StatusText const line = status_.line(static_cast<int>(r));
        bool const still = same(seen.line, line, 0, Layout::signal) &&
                           same(seen.line, line, Layout::moved, Layout::alive);
        bool const beats = !same(seen.line, line, Layout::alive, Layout::width);
        seen.unalive = beats ? 0 : seen.unalive + seconds;
        seen.line = line;
        moved = moved || !still;
    }
    return moved;
}

/// By how much longer than the limit this rank waits.
double Watchdog::patience(double limit) const {
    if (!status_.sees_others())
        return seen_.size() == 1 ? 1 : 10; // another one may be at work on something
    double result = 1;
    auto const node = [this](std::size_t r) { return status_.nodes()[r]; };
    for (std::size_t r = 0; r < seen_.size(); ++r) {
        if (static_cast<int>(r) == status_.rank())
            continue;
        bool const alive = seen_[r].unalive < limit;
        if (alive && works_unseen(seen_[r].line))
            return 10;
        if (!alive && node(r) != node(static_cast<std::size_t>(status_.rank())))
            result = 2;
    }
    return result;
}

/// Whether the process of a rank of this node was stopped, wherever it was.
bool Watchdog::lifeless(double limit) const {
    std::vector<int> const& nodes = status_.nodes();
    int const here = nodes[static_cast<std::size_t>(status_.rank())];
    for (std::size_t r = 0; r < seen_.size(); ++r) {
        Seen const& seen = seen_[r];
        auto const record = parse_status_line({seen.line.data(), seen.line.size()});
        if (nodes[r] == here && seen.unalive >= limit && record && is_watched(record->phase))
            return true;
    }
    return false;
}

bool Watchdog::must_end(double seconds) {
    still_ = look(seconds) ? 0 : still_ + seconds;
    double const limit = this->limit();
    if (still_ < limit)
        return false;
    return in_pass(status_.phase()) ? still_ >= limit * patience(limit) : lifeless(limit);
}

void Watchdog::end_job(double limit) {
    bool const first = !status_.sees_others() ||
                       io::FileDescriptor{open(claim_file(status_.file()).c_str(),
                                               O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644)}
                               .get() >= 0;
    if (!first) { // who is first ends the job, unless it was ended itself
        std::this_thread::sleep_for(std::chrono::seconds{10});
        options_.end_job({});
        return;
    }
    std::vector<std::string> lines{fmt::format("nothing has moved for {:.3g} s (the limit is "
                                               "{:.3g} s, 'run.watchdog_seconds'), so the job "
                                               "ends; where the ranks stand:",
                                               still_, limit)};
    std::vector<StatusRecord> records;
    std::size_t unseen = 0;
    for (std::size_t r = 0; r < seen_.size(); ++r) {
        if (!status_.sees_others() && static_cast<int>(r) != status_.rank()) {
            ++unseen;
            continue;
        }
        StatusText const line = status_.line(static_cast<int>(r));
        if (auto const record = parse_status_line({line.data(), line.size()}))
            records.push_back(*record);
    }
    for (StatusRecord const& record : records) {
        std::string line = describe({record}).front();
        auto const r = static_cast<std::size_t>(record.rank);
        if (record.rank != status_.rank() && seen_[r].unalive >= limit)
            line += ", and shows no life";
        lines.push_back(std::move(line));
    }
    if (unseen > 0)
        lines.push_back(fmt::format("{} other ranks are unseen (this node does not see '{}')",
                                    unseen, status_.file()));
    options_.end_job(lines);
}

} // namespace evener::runtime
