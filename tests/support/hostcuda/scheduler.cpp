// SPDX-License-Identifier: Apache-2.0

// Order of blocks and threads, the life of a fiber, and the loop over the blocks of a grid.

#include "scheduler.hpp"

#include "block.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

namespace evener::hostcuda {
namespace {

constexpr std::uint64_t reverse_seed = UINT64_MAX;

std::uint64_t& current_seed() {
    static std::uint64_t value = [] {
        char const* const text = std::getenv("EVENER_HOSTCUDA_SEED");
        return text ? std::strtoull(text, nullptr, 10) : 0;
    }();
    return value;
}

bool reversed() {
    return seed() == reverse_seed;
}

/// Called outside of Unseen too, by fibers that are done.
__attribute__((noinline, no_sanitize("thread"))) void jump(Fiber& from, Fiber& to) {
    grid().running = &to;
    switch_fiber(from, to);
}

/// Unwinds the fiber that found a fault; the others of the block stay where they are for ever.
struct Abandoned {};

/// The thread of the current fiber is done: parks the fiber and returns the one to go on with, or
/// null when this fiber itself runs the next thread.
Fiber* next_fiber() {
    Unseen const unseen;
    Grid& g = grid();
    Thread& done = *g.current;
    Fiber* const self = done.fiber;
    if (!done.copies.empty())
        fail("thread " + std::to_string(done.linear) + " exited without waiting for its cp.async");
    done.state = State::done;
    done.fiber = nullptr;
    --g.live;
    complete_without(done);
    Thread* const next = pick();
    if (!next && g.live)
        fail("deadlock: divergent barrier, no thread can proceed" + waiting_report());
#if !defined(EVENER_HOSTCUDA_TSAN)
    if (next && next->state == State::unstarted) {
        next->fiber = self;
        set_current(*next);
        return nullptr;
    }
#endif
    g.parked[self->pool].push_back(self);
    if (!next)
        return &g.main;
    if (!next->fiber)
        next->fiber = take_fiber();
    set_current(*next);
    return next->fiber;
}

/// Runs the current thread; returns the fiber to go on with, or null for this one.
Fiber* run_thread(Fiber& self) try {
    Grid& g = grid();
    acquire(&g.start_order);
    g.body(g.argument);
    release(&g.end_order);
    return next_fiber();
} catch (Abandoned const&) {
    Unseen const unseen;
    Grid& g = grid();
    g.parked[self.pool].push_back(&self);
    return &g.main;
}

void run_fiber() {
    enter_fiber();
    for (;;) {
        Fiber* const self = grid().running;
        if (Fiber* const next = run_thread(*self))
            jump(*self, *next);
    }
}

void start_block(std::uint64_t number) {
    Grid& g = grid();
    dim3 const size = g.launch.block;
    dim3 const blocks = g.launch.grid;
    auto const count = size.x * size.y * size.z;
    auto const plane = std::uint64_t{blocks.x} * blocks.y;
    blockIdx = make_uint3(static_cast<unsigned>(number % blocks.x),
                          static_cast<unsigned>(number / blocks.x % blocks.y),
                          static_cast<unsigned>(number / plane));
    g.statics.clear();
    g.static_bytes = 0;
    g.dynamic = poisoned_memory(g.launch.shared_bytes);
    g.threads.resize(count);
    g.order.resize(count);
    g.ready.clear();
    g.next_start = 0;
    g.live = count;
    g.at_barrier = 0;
    constexpr std::size_t slice = 96;
    g.block_order = g.order_objects + g.blocks * slice % (sizeof g.order_objects - slice);
    g.warps.assign((count + warp_size - 1) / warp_size, {});
    for (unsigned i = 0; i < count; ++i) {
        Thread& thread = g.threads[i];
        thread.index = make_uint3(i % size.x, i / size.x % size.y, i / (size.x * size.y));
        thread.linear = i;
        thread.fiber = nullptr;
        thread.state = State::unstarted;
        thread.barriers = thread.ordered_calls = 0;
        thread.copies.clear();
        thread.groups.clear();
        g.warps[i / warp_size].live |= 1u << (i % warp_size);
        g.order[i] = reversed() ? count - 1 - i : i;
    }
    if (shuffled())
        std::shuffle(g.order.begin(), g.order.end(), g.random);
    ++g.blocks;
#if defined(EVENER_HOSTCUDA_TSAN)
    // Here, since creating one from a fiber would order that fiber before it.
    g.pool = g.blocks & 1;
    for (Thread& thread : g.threads)
        thread.fiber = take_fiber();
#endif
}

std::vector<std::uint64_t> block_order(std::uint64_t count) {
    std::vector<std::uint64_t> order(count);
    for (std::uint64_t i = 0; i < count; ++i)
        order[i] = reversed() ? count - 1 - i : i;
    if (shuffled())
        std::shuffle(order.begin(), order.end(), grid().random);
    return order;
}

/// Marks the grid as running, and orders its end before what follows.
class Active {
  public:
    Active() {
        grid().active = true;
        release(&grid().start_order); // once: blocks stay unordered among themselves
    }
    ~Active() {
        grid().active = false;
        acquire(&grid().end_order);
    }
    Active(Active const&) = delete;
    Active& operator=(Active const&) = delete;
};

} // namespace

std::uint64_t seed() {
    return current_seed();
}

void set_seed(std::uint64_t value) {
    current_seed() = value;
}

int capability() {
    static int const value = [] {
        char const* const text = std::getenv("EVENER_HOSTCUDA_CAPABILITY");
        return text ? std::atoi(text) : 90;
    }();
    return value;
}

std::size_t shared_bytes_limit() {
    constexpr std::size_t kib = 1024;
    switch (capability()) {
    case 75:
        return 64 * kib;
    case 80:
    case 87:
        return 163 * kib;
    case 86:
    case 89:
    case 120:
        return 99 * kib;
    default:
        return 227 * kib;
    }
}

bool shuffled() {
    return seed() != 0 && !reversed();
}

Grid& grid() {
    static Grid& instance = *new Grid;
    return instance;
}

unsigned current_thread() {
    Unseen const unseen;
    return grid().current->linear;
}

void set_current(Thread& thread) {
    grid().current = &thread;
    thread.state = State::running;
    threadIdx = thread.index;
}

Fiber* take_fiber() {
    Grid& g = grid();
    auto& parked = g.parked[g.pool];
    if (parked.empty())
        return create_fiber(run_fiber, g.pool);
    Fiber* const fiber = parked.back();
    parked.pop_back();
    return fiber;
}

Thread* pick() {
    Grid& g = grid();
    std::size_t const unstarted = g.order.size() - g.next_start;
    bool from_ready = !g.ready.empty();
    if (from_ready && unstarted > 0 && shuffled())
        from_ready = g.random() % 4 != 0;
    if (from_ready) {
        if (shuffled())
            std::swap(g.ready[g.random() % g.ready.size()], g.ready.back());
        Thread* const thread = g.ready.back();
        g.ready.pop_back();
        return thread;
    }
    return unstarted > 0 ? &g.threads[g.order[g.next_start++]] : nullptr;
}

void make_ready(std::span<Thread* const> threads) {
    Grid& g = grid();
    auto const add = [&](Thread* thread) {
        thread->state = State::ready;
        g.ready.push_back(thread);
    };
    if (reversed())
        std::for_each(threads.begin(), threads.end(), add);
    else
        std::for_each(threads.rbegin(), threads.rend(), add);
}

void wait_current() {
    Grid& g = grid();
    Thread* const self = g.current;
    Thread* const next = pick();
    if (!next)
        fail("deadlock: divergent barrier, no thread can proceed" + waiting_report());
    if (next != self) {
        if (!next->fiber)
            next->fiber = take_fiber();
        Fiber* const to = next->fiber;
        set_current(*next);
        jump(*self->fiber, *to);
    }
    set_current(*self);
}

void fail(std::string const& what) {
    Grid& g = grid();
    if (!g.active)
        throw Error{what};
    g.error = "kernel '" + g.launch.kernel + "', block (" + std::to_string(blockIdx.x) + ", " +
              std::to_string(blockIdx.y) + ", " + std::to_string(blockIdx.z) + "): " + what;
    throw Abandoned{};
}

std::string refusal(Launch const& launch) {
    auto const& [name, blocks, block, shared_bytes] = launch;
    auto const threads = std::uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > 1024 || block.z > 64)
        return "blocks of " + std::to_string(threads) + " threads";
    if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0 || blocks.x > 0x7fffffffu ||
        blocks.y > 65535 || blocks.z > 65535)
        return "a grid of " + std::to_string(blocks.x) + " x " + std::to_string(blocks.y) + " x " +
               std::to_string(blocks.z) + " blocks";
    if (shared_bytes > shared_bytes_limit())
        return std::to_string(shared_bytes) + " bytes of shared memory (at most " +
               std::to_string(shared_bytes_limit()) + ")";
    return {};
}

void run_grid(Launch const& launch, void (*body)(void*), void* argument) {
    Grid& g = grid();
    if (g.active)
        throw Error{"kernel '" + launch.kernel + "' launched from a kernel"};
    if (auto const reason = refusal(launch); !reason.empty())
        throw Error{"kernel '" + launch.kernel + "': invalid launch: " + reason};
    g.launch = launch;
    g.body = body;
    g.argument = argument;
    g.error.clear();
    blockDim = launch.block;
    gridDim = launch.grid;
    g.random.seed(seed() * 0x9e3779b97f4a7c15ull + ++g.launches);
    adopt_thread(g.main);
    auto const order = block_order(std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z);
    Active const active;
    for (std::uint64_t const number : order) {
        Unseen const unseen;
        start_block(number);
        Thread& first = *pick();
        if (!first.fiber)
            first.fiber = take_fiber();
        set_current(first);
        jump(g.main, *first.fiber);
        if (!g.error.empty())
            throw Error{g.error}; // the fibers of this block stay as they are
        if (g.static_bytes + launch.shared_bytes > shared_bytes_limit())
            throw Error{"kernel '" + launch.kernel + "': more than " +
                        std::to_string(shared_bytes_limit()) + " bytes of shared memory"};
    }
}

} // namespace evener::hostcuda
