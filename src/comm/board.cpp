// SPDX-License-Identifier: Apache-2.0
#include "comm/board.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <utility>

namespace evener::comm {

Board::Board(std::size_t instructions) : entries_(instructions), zero_{Clock::now()} {}

void Board::reset() {
    for (Entry& entry : entries_)
        entry.done.store(false, std::memory_order_relaxed);
    failed_.store(false, std::memory_order_relaxed);
    failure_ = nullptr;
    zero_ = Clock::now();
}

bool Board::done(core::InstructionId id) const noexcept {
    return entries_[id.index()].done.load(std::memory_order_acquire);
}

bool Board::done(std::span<core::InstructionId const> ids) const noexcept {
    return std::all_of(ids.begin(), ids.end(), [this](auto id) { return done(id); });
}

void Board::start(core::InstructionId id) noexcept {
    entries_[id.index()].start = Clock::now();
}

void Board::publish(core::InstructionId id) {
    mark(id);
    changed_.notify_all();
}

void Board::mark(core::InstructionId id) {
    EVENER_EXPECT(id.valid() && id.index() < entries_.size() && !done(id));
    Entry& entry = entries_[id.index()];
    entry.end = Clock::now();
    entry.done.store(true, std::memory_order_release);
    {
        // Under the mutex, so that a waiter is either before its look or asleep when we wake.
        std::lock_guard const lock{mutex_};
        changes_.fetch_add(1, std::memory_order_release);
    }
    ended_.notify_all();
}

void Board::wait_until(std::function<bool()> const& ready) {
    if (!failed() && !ready()) {
        std::unique_lock lock{mutex_};
        ++waiting_;
        changes_.fetch_add(1, std::memory_order_release);
        changed_.notify_all();
        ended_.wait(lock, [&] { return failed() || ready(); });
        --waiting_;
    }
    if (failed())
        rethrow_failure();
}

void Board::wait(core::InstructionId id) {
    wait_until([this, id] { return done(id); });
}

void Board::wait(std::span<core::InstructionId const> ids) {
    wait_until([this, ids] { return done(ids); });
}

void Board::fail(std::exception_ptr error) {
    {
        std::lock_guard const lock{mutex_};
        if (failed())
            return;
        failure_ = std::move(error);
        failed_.store(true, std::memory_order_release);
        changes_.fetch_add(1, std::memory_order_release);
    }
    ended_.notify_all();
    changed_.notify_all();
}

void Board::nudge() {
    { std::lock_guard const lock{mutex_}; } // who looked before it sleeps by now
    ended_.notify_all();
}

void Board::touch() {
    {
        std::lock_guard const lock{mutex_};
        changes_.fetch_add(1, std::memory_order_release);
    }
    changed_.notify_all();
}

void Board::rethrow_failure() {
    std::unique_lock lock{mutex_};
    if (!failed())
        return;
    std::exception_ptr const failure = failure_;
    lock.unlock();
    std::rethrow_exception(failure);
}

void Board::wait_for_change(std::uint64_t seen, std::optional<std::chrono::nanoseconds> limit) {
    std::unique_lock lock{mutex_};
    auto const changed = [&] { return changes() != seen; };
    if (limit)
        changed_.wait_for(lock, *limit, changed);
    else
        changed_.wait(lock, changed);
}

void Board::set_times(core::InstructionId id, InstructionTimes const& times) {
    EVENER_EXPECT(done(id));
    Entry& entry = entries_[id.index()];
    auto const point = [this](double seconds) {
        return zero_ +
               std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
    };
    entry.start = point(times.start);
    entry.end = point(times.end);
}

InstructionTimes Board::times(core::InstructionId id) const {
    EVENER_EXPECT(done(id));
    Entry const& entry = entries_[id.index()];
    auto const seconds = [this](Clock::time_point time) {
        return std::chrono::duration<double>(time - zero_).count();
    };
    return {seconds(entry.start), seconds(entry.end)};
}

} // namespace evener::comm
