// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.hpp"

#include "comm/communicator.hpp"
#include "comm/queue_runner.hpp"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <deque>
#include <thread>
#include <utility>

namespace evener::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// How the thread rests while nothing moves. While the compute thread works, a message is of no use
/// before it ends, and its end wakes this thread: looking now and then only keeps transfers moving
/// that need both ends. Looks cost about 5 us each of the core that the compute thread works on.
/// While it waits the core is free: first this thread only gives its core away, then it sleeps for
/// an eighth of the time that the other has waited, so that a message is seen late by an eighth of
/// its waiting time at most.
class Rest {
  public:
    void moved() { resting_ = false; }
    /// How long to sleep now; 0: yield only.
    std::chrono::nanoseconds next(bool compute_waits) {
        auto const now = Clock::now();
        if (!resting_ || compute_waits != compute_waited_) {
            resting_ = true;
            compute_waited_ = compute_waits;
            since_ = now;
        }
        std::chrono::nanoseconds const rested = now - since_;
        if (!compute_waits)
            return std::clamp<std::chrono::nanoseconds>(rested / 4, shortest, longest);
        if (rested < yield_for)
            return std::chrono::nanoseconds{0};
        return std::min(rested / 8, longest_awaited);
    }

  private:
    static constexpr std::chrono::nanoseconds yield_for = std::chrono::microseconds{30};
    static constexpr std::chrono::nanoseconds shortest = std::chrono::microseconds{100};
    static constexpr std::chrono::nanoseconds longest = std::chrono::microseconds{300};
    static constexpr std::chrono::nanoseconds longest_awaited = std::chrono::microseconds{100};
    bool resting_ = false;
    bool compute_waited_ = false;
    Clock::time_point since_;
};

bool needs_staging(TransportQueue const& queue) {
    return std::any_of(queue.tasks.begin(), queue.tasks.end(), [](Task const& task) {
        return std::holds_alternative<ReduceTask>(task.work) ||
               std::holds_alternative<GatherTask>(task.work);
    });
}

/// Asks the scheduler to let this thread run soon when it wakes, for short times. With the usual
/// slice of some milliseconds it would wait that long for a core that the compute thread uses, and
/// as long again whenever it gives the core away. Linux 6.12 and newer take it from anybody; others
/// refuse or ignore it, which changes nothing.
void ask_for_short_slices() {
    struct { // struct sched_attr of <linux/sched/types.h>, which does not go with <sched.h>
        std::uint32_t size = 48;
        std::uint32_t policy = SCHED_OTHER;
        std::uint64_t flags = 0;
        std::int32_t nice = 0;
        std::uint32_t priority = 0;
        std::uint64_t runtime = 100'000; // ns, the least that is taken
        std::uint64_t deadline = 0;
        std::uint64_t period = 0;
    } attributes;
    static_assert(sizeof attributes == 48);
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    syscall(SYS_sched_setattr, 0, &attributes, 0U);
}

std::int64_t tag_limit(MPI_Comm comm) {
    int* value = nullptr;
    int found = 0;
    EVENER_MPI(MPI_Comm_get_attr(comm, MPI_TAG_UB, &value, &found));
    return found != 0 ? *value : 32767; // what the standard promises
}

} // namespace

class Transport::Impl {
  public:
    Impl(MPI_Comm world, TransportOptions const& options)
        : options_{options}, max_tag_{tag_limit(world)}, forward_{Communicator::duplicate(world)},
          backward_{Communicator::duplicate(world)}, blocks_{Communicator::duplicate(world)},
          scalars_{Communicator::duplicate(world)}, requests_{options.synchronous_sends},
          context_{requests_,
                   forward_.rank(),
                   forward_.size(),
                   {forward_.get(), backward_.get()},
                   blocks_.get(),
                   scalars_.get(),
                   options.message_block_bytes,
                   options.exchange_block_bytes},
          delays_{options.random_delays, forward_.rank()} {
        EVENER_EXPECT(options.message_block_bytes > 0 && options.exchange_block_bytes > 0 &&
                      options.exchange_block_bytes % 4 == 0);
        start_thread();
    }

    ~Impl() {
        if (board_ != nullptr)
            board_->fail(std::make_exception_ptr(
                core::CommError{MPI_ERR_OTHER, -1, "the transport was taken down during a pass"}));
        {
            std::lock_guard const lock{mutex_};
            stop_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }

    std::int64_t max_tag() const noexcept { return max_tag_; }
    std::uint64_t moves() const noexcept { return moves_.load(std::memory_order_relaxed); }

    std::int64_t prepare(std::span<TransportQueue const> queues) {
        auto const needed =
            static_cast<std::size_t>(std::count_if(queues.begin(), queues.end(), needs_staging));
        while (staging_.size() < needed)
            staging_.emplace_back(options_.exchange_block_bytes);
        std::int64_t bytes = 0;
        for (Staging const& staging : staging_)
            bytes += staging.bytes();
        return bytes;
    }

    void start(std::span<TransportQueue const> queues, Board& board, DeviceCopies* copies) {
        EVENER_EXPECT(board_ == nullptr);
        for (TransportQueue const& queue : queues)
            for (Task const& task : queue.tasks) {
                EVENER_EXPECT(task.id.valid() && task.id.index() < board.size());
                check(task, context_, max_tag_);
            }
        prepare(queues);
        runners_.clear();
        std::size_t staging = 0;
        for (TransportQueue const& queue : queues)
            runners_.emplace_back(context_, delays_,
                                  needs_staging(queue) ? &staging_[staging++] : nullptr, copies,
                                  queue, board);
        board_ = &board;
        copies_ = copies;
        finishing_ = false;
        {
            std::lock_guard const lock{mutex_};
            working_ = true;
        }
        changed_.notify_all();
    }

    void publish(core::InstructionId id) {
        EVENER_EXPECT(board_ != nullptr);
        board_->mark(id);
        if (!help())
            board_->touch();
    }

    /// Takes turns while something moves, a few at most; false: the thread has one.
    bool help() {
        std::unique_lock const lock{turn_, std::try_to_lock};
        if (!lock.owns_lock())
            return false;
        if (board_->failed())
            return true;
        Turn turn{true, false};
        for (int turns = 0; turns < most_turns && turn.moved && !turn.ended; ++turns)
            turn = advance();
        // What is left is the thread's, which may sleep for good.
        if (turn.moved || turn.ended || (sleeps_for_good_ && must_look()))
            board_->touch();
        return true;
    }

    void wait_until(std::function<bool()> const& ready) {
        EVENER_EXPECT(board_ != nullptr);
        if (ready())
            return;
        helped_.store(true, std::memory_order_relaxed);
        auto const until = Clock::now() + help_for;
        while (!ready() && !board_->failed() && Clock::now() < until) {
            help();
            sched_yield();
        }
        helped_.store(false, std::memory_order_relaxed);
        board_->wait_until(ready);
    }

    void finish() {
        EVENER_EXPECT(board_ != nullptr);
        finishing_ = true;
        board_->touch();
        {
            std::unique_lock lock{mutex_};
            changed_.wait(lock, [this] { return !working_; });
        }
        std::exchange(board_, nullptr)->rethrow_failure();
    }

  private:
    /// What one turn found.
    struct Turn {
        bool moved = false;
        bool ended = false;
    };

    /// Enough to start a send, to see it end and to find nothing more.
    static constexpr int most_turns = 4;
    /// How long a waiting thread helps before it sleeps.
    static constexpr std::chrono::microseconds help_for{5000};
    /// How long the transport thread sleeps meanwhile.
    static constexpr std::chrono::milliseconds help_rest{1};

    Turn advance();
    void start_thread();
    void serve();
    void run_pass();
    bool watches_group() const;
    bool must_look() const;
    void wait_for_something(std::uint64_t seen, bool look, Rest& rest);

    TransportOptions options_;
    std::int64_t max_tag_;
    Communicator forward_;
    Communicator backward_;
    Communicator blocks_;
    Communicator scalars_;
    Requests requests_;
    ExchangeContext context_;
    Delays delays_;
    std::vector<Staging> staging_; ///< one per queue that needs it
    std::deque<QueueRunner> runners_;

    std::mutex turn_;                  ///< of MPI, the runners and the next member, inside a pass
    bool sleeps_for_good_ = false;     ///< the thread had nothing to look for
    std::atomic<bool> helped_ = false; ///< the compute thread takes turns for some time
    Board* board_ = nullptr;           ///< from start to finish; of the main thread while parked
    DeviceCopies* copies_ = nullptr;   ///< likewise; null where the device computes in host memory

    std::atomic<std::uint64_t> moves_ = 0; ///< written by who has the turn
    std::atomic<bool> finishing_ = false;  ///< the other thread enqueues nothing more
    std::mutex mutex_;                     ///< of the two flags
    std::condition_variable changed_;
    bool working_ = false;
    bool stop_ = false;
    std::thread thread_;
};

void Transport::Impl::start_thread() {
    // Signals are for the main thread.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread{[this] { serve(); }};
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Transport::Impl::serve() {
    pthread_setname_np(pthread_self(), "transport");
    prctl(PR_SET_TIMERSLACK, 1000UL); // ns; by default sleeps last 50 us longer than asked
    ask_for_short_slices();
    std::unique_lock lock{mutex_};
    for (;;) {
        changed_.wait(lock, [this] { return working_ || stop_; });
        if (!working_)
            return;
        lock.unlock();
        run_pass();
        lock.lock();
        working_ = false;
        changed_.notify_all();
    }
}

Transport::Impl::Turn Transport::Impl::advance() {
    Turn turn{requests_.test(), true};
    for (QueueRunner& runner : runners_) {
        turn.moved |= runner.advance();
        turn.ended &= runner.ended();
    }
    if (turn.moved)
        moves_.store(moves() + 1, std::memory_order_relaxed);
    return turn;
}

void Transport::Impl::run_pass() {
    Rest rest;
    std::unique_lock lock{turn_};
    try {
        while (!board_->failed()) {
            // Read first: a publication after this line ends the wait below at once.
            std::uint64_t const seen = board_->changes();
            Turn const turn = advance();
            if (turn.ended && (!watches_group() || finishing_))
                return;
            if (turn.moved) {
                rest.moved();
                continue;
            }
            if (copies_ != nullptr && copies_->check_group())
                board_->nudge();
            bool const look = must_look();
            sleeps_for_good_ = !look;
            lock.unlock();
            wait_for_something(seen, look, rest);
            lock.lock();
            sleeps_for_good_ = false;
        }
    } catch (...) {
        board_->fail(std::current_exception());
    }
    if (copies_ != nullptr)
        copies_->abort_group(); // the other thread may be held up by a device that waits
    requests_.abandon();
    runners_.clear();
}

/// A group of devices is asked for errors as long as the other thread enqueues: a device that waits
/// for a member that is gone may hold it up in any call.
bool Transport::Impl::watches_group() const {
    return copies_ != nullptr && copies_->watches_group();
}

/// Whether something may happen that is no change of the board.
bool Transport::Impl::must_look() const {
    return watches_group() || requests_.outstanding() > 0 ||
           std::any_of(runners_.begin(), runners_.end(), [](auto const& r) { return r.delayed(); });
}

void Transport::Impl::wait_for_something(std::uint64_t seen, bool look, Rest& rest) {
    if (!look) {
        board_->wait_for_change(seen);
        rest.moved();
        return;
    }
    if (helped_.load(std::memory_order_relaxed)) {
        board_->wait_for_change(seen, help_rest);
        return;
    }
    auto const time = rest.next(board_->awaited());
    if (time.count() == 0)
        sched_yield();
    else
        board_->wait_for_change(seen, time);
}

Transport::Transport(MPI_Comm world, TransportOptions const& options)
    : impl_{std::make_unique<Impl>(world, options)} {}

Transport::~Transport() = default;

std::int64_t Transport::max_tag() const noexcept {
    return impl_->max_tag();
}

std::int64_t Transport::prepare(std::span<TransportQueue const> queues) {
    return impl_->prepare(queues);
}

void Transport::start(std::span<TransportQueue const> queues, Board& board, DeviceCopies* copies) {
    impl_->start(queues, board, copies);
}

std::uint64_t Transport::moves() const noexcept {
    return impl_->moves();
}

void Transport::publish(core::InstructionId id) {
    impl_->publish(id);
}

void Transport::wait_until(std::function<bool()> const& ready) {
    impl_->wait_until(ready);
}

void Transport::finish() {
    impl_->finish();
}

} // namespace evener::comm
