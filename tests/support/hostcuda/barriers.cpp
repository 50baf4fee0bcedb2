// SPDX-License-Identifier: Apache-2.0

// Where CUDA threads wait for each other: barriers of a block and collectives of a warp, and what is
// reported when they cannot go on.

#include "block.hpp"

#include <bit>
#include <cstdio>
#include <cstring>

namespace evener::hostcuda {
namespace {

bool same_name(char const* a, char const* b) {
    return a == b || std::strcmp(a, b) == 0;
}

bool same_barrier(Thread const& a, Thread const& b) {
    return a.location.line() == b.location.line() && same_name(a.operation, b.operation) &&
           same_name(a.location.file_name(), b.location.file_name());
}

/// All live threads are at a barrier.
void release_block() {
    Grid& g = grid();
    std::vector<Thread*> waiting;
    waiting.reserve(g.live);
    for (Thread& thread : g.threads) {
        if (thread.state == State::done && thread.barriers > 0)
            fail("divergent __syncthreads: a thread exited after taking part in earlier barriers "
                 "while others still wait" +
                 waiting_report());
        if (thread.state == State::at_barrier)
            waiting.push_back(&thread);
    }
    Thread const& first = *waiting.front();
    for (Thread const* thread : waiting)
        if (!same_barrier(*thread, first))
            fail("divergent __syncthreads: threads of one block wait at different barriers" +
                 waiting_report());
    if (first.resolve) {
        std::vector<void*> in;
        std::vector<void*> out;
        for (Thread const* thread : waiting) {
            in.push_back(thread->in);
            out.push_back(thread->out);
        }
        first.resolve(static_cast<unsigned>(waiting.size()), in.data(), out.data());
    }
    g.at_barrier = 0;
    make_ready(waiting);
}

/// Resolves the collective that `lane` of the warp waits in, if all its live lanes are there.
void complete_collective(unsigned warp_index, unsigned lane) {
    Grid& g = grid();
    Warp& warp = g.warps[warp_index];
    Thread const& one = g.threads[warp_index * warp_size + lane];
    unsigned const needed = one.mask & warp.live;
    if (needed & ~warp.waiting)
        return;
    Thread* lanes[warp_size];
    std::size_t count = 0;
    void* in[warp_size] = {};
    void* out[warp_size] = {};
    for (unsigned rest = needed; rest; rest &= rest - 1) {
        auto const i = static_cast<unsigned>(std::countr_zero(rest));
        Thread& other = g.threads[warp_index * warp_size + i];
        if (other.mask != one.mask || other.resolve != one.resolve ||
            !same_name(other.operation, one.operation))
            fail(std::string{"mismatched warp collective: "} + one.operation + " at " +
                 place(one.location) + " meets " + other.operation + " at " +
                 place(other.location) + " (or with another mask)" + waiting_report());
        in[i] = other.in;
        out[i] = other.out;
        lanes[count++] = &other;
    }
    if (one.resolve)
        one.resolve(needed, in, out);
    warp.waiting &= ~needed;
    make_ready({lanes, count});
}

/// The object that the current thread's next barrier releases and acquires.
char* next_barrier_order() {
    Unseen const unseen;
    Grid const& g = grid();
    return g.block_order + (g.current->barriers & 1);
}

/// The same of the next ordered collective of its warp.
char* next_warp_order() {
    Unseen const unseen;
    Grid const& g = grid();
    Thread& self = *g.current;
    return g.block_order + 2 + self.linear / warp_size * 2 + (self.ordered_calls++ & 1);
}

} // namespace

std::string place(Location const& location) {
    std::string const file = location.file_name();
    return file.substr(file.rfind('/') + 1) + ":" + std::to_string(location.line());
}

std::string waiting_report() {
    struct Group {
        unsigned threads = 0;
        unsigned first = 0;
    };
    std::map<std::string, Group> groups;
    for (Thread const& thread : grid().threads) {
        std::string what;
        if (thread.state == State::at_barrier) {
            what = std::string{thread.operation} + " at " + place(thread.location);
        } else if (thread.state == State::at_collective) {
            char mask[16];
            std::snprintf(mask, sizeof mask, "(0x%08x)", thread.mask);
            what = std::string{thread.operation} + mask + " at " + place(thread.location);
        } else if (thread.state == State::done) {
            what = "exited";
        } else {
            continue;
        }
        auto const [entry, fresh] = groups.try_emplace(what);
        if (fresh)
            entry->second.first = thread.linear;
        ++entry->second.threads;
    }
    std::string text;
    for (auto const& [what, group] : groups)
        text += "\n    " + std::to_string(group.threads) + " thread(s), first " +
                std::to_string(group.first) + ": " + what;
    return text;
}

void block_barrier(char const* operation, Location const& location, void* in, void* out,
                   Resolver resolve) {
    char* const order = next_barrier_order();
    release(order);
    {
        Unseen const unseen;
        Grid& g = grid();
        Thread& self = *g.current;
        self.operation = operation;
        self.location = location;
        self.in = in;
        self.out = out;
        self.resolve = resolve;
        self.state = State::at_barrier;
        ++self.barriers;
        if (++g.at_barrier == g.live)
            release_block();
        wait_current();
    }
    acquire(order);
}

void warp_collective(char const* operation, unsigned mask, void* in, void* out, Resolver resolve,
                     Location const& location, Memory memory) {
    bool const ordered = memory == Memory::ordered;
    char* const order = ordered ? next_warp_order() : nullptr;
    if (ordered)
        release(order);
    {
        Unseen const unseen;
        Grid& g = grid();
        Thread& self = *g.current;
        unsigned const warp = self.linear / warp_size;
        unsigned const lane = self.linear % warp_size;
        if (!(mask >> lane & 1))
            fail(std::string{operation} + " at " + place(location) +
                 ": the calling lane is not in its own mask");
        self.operation = operation;
        self.location = location;
        self.in = in;
        self.out = out;
        self.mask = mask;
        self.resolve = resolve;
        self.state = State::at_collective;
        g.warps[warp].waiting |= 1u << lane;
        complete_collective(warp, lane);
        wait_current();
    }
    if (ordered)
        acquire(order);
}

void complete_without(Thread const& exited) {
    Grid& g = grid();
    unsigned const index = exited.linear / warp_size;
    Warp& warp = g.warps[index];
    warp.live &= ~(1u << (exited.linear % warp_size));
    if (g.live > 0 && g.at_barrier == g.live) {
        release_block();
        return;
    }
    for (unsigned rest = warp.waiting; rest &= warp.waiting; rest &= rest - 1)
        complete_collective(index, static_cast<unsigned>(std::countr_zero(rest)));
}

} // namespace evener::hostcuda
