// SPDX-License-Identifier: Apache-2.0

// The loop over the streams, and the thread that runs it when nobody else does.

#include "runtime.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <thread>

namespace {
using evener::hostcuda::Operation;
}

struct CUstream_st {
    int device = 0;
    bool blocking = false; ///< the legacy stream waits for it
    std::uint64_t priority = 0;
    std::deque<Operation> queue;
};

namespace evener::hostcuda {
namespace {

enum class Step { advanced, waiting, nothing };

struct Streams {
    std::vector<CUstream_st*> all;
    std::uint64_t seed = hostcuda::seed(); ///< that `random` began with
    std::mt19937_64 random{seed + 1};
    std::uint64_t enqueued = 0;
    std::atomic<std::uint64_t> calls = 0; ///< of the runtime, so far
    CUstream_st* ahead = nullptr;         ///< see run_ahead
    int held_steps = 0;                   ///< how much longer the others are held up for it
};

Streams& streams() {
    static Streams& instance = *new Streams;
    return instance;
}

constexpr auto in_flight_pause = std::chrono::microseconds{50};

/// Random priorities, seldom changed, upset a program far more than a coin per step does: a stream
/// runs far ahead of another or not at all.
void draw_priorities(bool now) {
    Streams& s = streams();
    if (s.seed != seed()) {
        s.seed = seed();
        s.random.seed(s.seed + 1);
    }
    if (!shuffled())
        return;
    if (now || s.random() % 16 == 0)
        for (CUstream_st* stream : s.all)
            stream->priority = s.random();
}

/// Streams with something to do, the one to try first in front. In order of enqueueing when nothing
/// is shuffled.
std::vector<CUstream_st*> candidates() {
    std::vector<CUstream_st*> found;
    for (CUstream_st* stream : streams().all)
        if (!stream->queue.empty())
            found.push_back(stream);
    std::stable_sort(found.begin(), found.end(), [](CUstream_st* a, CUstream_st* b) {
        return shuffled() ? a->priority > b->priority
                          : a->queue.front().number < b->queue.front().number;
    });
    return found;
}

Outcome advance(CUstream_st& stream) {
    Operation& operation = stream.queue.front();
    if (operation.access == Access::none)
        return operation.advance();
    DeviceMemoryAccess const access{stream.device};
    return operation.advance();
}

/// The stream that runs ahead makes its step, while the others stand still; nothing: they may go on.
std::optional<Step> step_ahead() {
    Streams& s = streams();
    if (s.ahead == nullptr || --s.held_steps <= 0)
        return std::nullopt;
    if (s.ahead->queue.empty())
        return Step::waiting;
    bool const works = s.ahead->queue.front().access != Access::none;
    Outcome const outcome = advance(*s.ahead);
    if (outcome == Outcome::done)
        s.ahead->queue.pop_front();
    if (works || outcome == Outcome::blocked)
        s.ahead = nullptr;
    return outcome == Outcome::done ? Step::advanced : Step::waiting;
}

Step step() {
    if (std::optional<Step> const ahead = step_ahead())
        return *ahead;
    Step result = Step::nothing;
    for (CUstream_st* stream : candidates()) {
        Outcome const outcome = advance(*stream);
        if (outcome == Outcome::done) {
            stream->queue.pop_front();
            draw_priorities(false);
            return Step::advanced;
        }
        if (outcome == Outcome::in_flight)
            result = Step::waiting;
    }
    return result;
}

/// Lets other threads in, and other processes.
void pause_unlocked() {
    runtime_lock().unlock();
    std::this_thread::sleep_for(in_flight_pause);
    runtime_lock().lock();
}

/// A real device goes on while the host computes or waits for a message. When nothing was called for
/// EVENER_HOSTCUDA_PROGRESS_MS (50; 0: never) this thread makes the steps. The time is counted in
/// ticks of its own sleep, so that a process that was stopped meanwhile is not taken for a quiet
/// one.
class Progress {
  public:
    Progress() {
        char const* const text = std::getenv("EVENER_HOSTCUDA_PROGRESS_MS");
        limit_ = text ? std::atoi(text) / tick.count() : 5;
        if (limit_ > 0 || (text && std::atoi(text) > 0))
            thread_ = std::thread{[this] { run(); }};
    }
    ~Progress() {
        {
            std::lock_guard const lock{mutex_};
            stop_ = true;
        }
        wake_.notify_all();
        if (thread_.joinable())
            thread_.join();
    }
    Progress(Progress const&) = delete;
    Progress& operator=(Progress const&) = delete;

  private:
    static constexpr auto tick = std::chrono::milliseconds{10};

    void run() {
        std::uint64_t seen = 0;
        long quiet = 0;
        std::unique_lock lock{mutex_};
        while (!wake_.wait_for(lock, tick, [this] { return stop_; })) {
            std::uint64_t const calls = streams().calls;
            quiet = calls == seen ? quiet + 1 : 0;
            seen = calls;
            if (quiet < limit_)
                continue;
            lock.unlock();
            while (streams().calls == seen && step_alone()) {
            }
            lock.lock();
        }
    }

    /// False when nothing can be done right now.
    bool step_alone() {
        std::lock_guard const lock{runtime_lock()};
        if (fatal_code() != cudaSuccess)
            return false;
        try {
            return step() == Step::advanced;
        } catch (Fault const& fault) {
            remember(fault);
        } catch (std::exception const& error) {
            remember({cudaErrorLaunchFailure, Fault::Kind::fatal, error.what()});
        }
        return false;
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    bool stop_ = false;
    long limit_ = 5;
    std::thread thread_;
};

void start_progress() {
    static Progress progress;
}

} // namespace

void FairLock::lock() {
    std::unique_lock lock{mutex_};
    std::uint64_t const ticket = next_++;
    turn_.wait(lock, [&] { return serving_ == ticket; });
}

void FairLock::unlock() {
    {
        std::lock_guard const lock{mutex_};
        ++serving_;
    }
    turn_.notify_all();
}

FairLock& runtime_lock() {
    static FairLock& instance = *new FairLock;
    return instance;
}

Operation at_once(std::function<void()> body) {
    Operation operation;
    operation.advance = [body = std::move(body)] {
        body();
        return Outcome::done;
    };
    return operation;
}

cudaStream_t create_stream(unsigned flags) {
    Streams& s = streams();
    auto* const stream = new CUstream_st;
    stream->device = current_device();
    stream->blocking = !(flags & cudaStreamNonBlocking);
    stream->priority = s.random();
    s.all.push_back(stream);
    return stream;
}

namespace {

bool is_legacy(cudaStream_t stream) {
    return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

CUstream_st& legacy_stream(int device) {
    static auto& of_device = *new std::map<int, CUstream_st*>;
    CUstream_st*& stream = of_device[device];
    if (!stream)
        stream = create_stream(cudaStreamDefault);
    return *stream;
}

CUstream_st& known(cudaStream_t stream) {
    auto const& all = streams().all;
    if (std::find(all.begin(), all.end(), stream) == all.end())
        refuse_call(cudaErrorInvalidResourceHandle, "a stream that does not exist");
    return *stream;
}

} // namespace

void destroy_stream(cudaStream_t stream) {
    known(stream);
    run_until([=] { return empty(stream); });
    std::erase(streams().all, stream);
    if (streams().ahead == stream)
        streams().ahead = nullptr;
    delete stream;
}

int device_of(cudaStream_t stream) {
    return is_legacy(stream) ? current_device() : known(stream).device;
}

bool empty(cudaStream_t stream) {
    if (!is_legacy(stream))
        return known(stream).queue.empty();
    auto const& all = streams().all;
    return std::all_of(all.begin(), all.end(), [](CUstream_st const* one) {
        return one->queue.empty() || !one->blocking || one->device != current_device();
    });
}

void enqueue(cudaStream_t stream, Operation operation) {
    operation.number = ++streams().enqueued;
    if (is_legacy(stream)) {
        run_until([=] { return empty(stream); });
        CUstream_st& legacy = legacy_stream(current_device());
        legacy.queue.push_back(std::move(operation));
        run_until([&] { return legacy.queue.empty(); });
        return;
    }
    start_progress();
    known(stream).queue.push_back(std::move(operation));
}

void run_ahead(cudaStream_t stream) {
    constexpr int most_steps = 500; // the host may be waiting for another stream
    streams().ahead = &known(stream);
    streams().held_steps = most_steps;
}

void make_step() {
    step();
}

void give_way() {
    step();
    pause_unlocked();
}

void run_until(std::function<bool()> const& finished) {
    if (finished())
        return;
    draw_priorities(true);
    while (!finished()) {
        Step const result = step();
        if (result == Step::waiting)
            pause_unlocked();
        if (fatal_code() != cudaSuccess)
            throw Fault{fatal_code(), Fault::Kind::fatal, "an earlier operation failed"};
        if (result == Step::nothing && !finished())
            throw Fault{cudaErrorLaunchFailure, Fault::Kind::fatal,
                        "deadlock: every stream waits for an event that nothing will reach"};
    }
}

void finish_device(int device) {
    run_until([=] {
        auto const& all = streams().all;
        return std::all_of(all.begin(), all.end(), [=](CUstream_st const* stream) {
            return stream->device != device || stream->queue.empty();
        });
    });
}

bool in_use(Range range) {
    for (CUstream_st const* stream : streams().all)
        for (Operation const& operation : stream->queue)
            for (Range const& used : operation.pinned)
                if (used.begin < range.end && range.begin < used.end)
                    return true;
    return false;
}

void count_call() {
    ++streams().calls;
}

} // namespace evener::hostcuda
