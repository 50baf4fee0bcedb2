// SPDX-License-Identifier: Apache-2.0
#include "runtime/signals.hpp"

#include "runtime/step_state.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <csignal>

namespace evener::runtime {

namespace {

volatile std::sig_atomic_t exchange_wanted = 0;
volatile std::sig_atomic_t stop_wanted = 0;

extern "C" void want_exchange(int) {
    exchange_wanted = 1;
}

std::atomic<std::uint64_t*> termination_mark = nullptr;
static_assert(std::atomic<std::uint64_t*>::is_always_lock_free); // for the handler

extern "C" void want_stop(int) {
    stop_wanted = 1;
}

extern "C" void want_stop_marked(int) {
    stop_wanted = 1;
    if (std::uint64_t* const place = termination_mark.load())
        std::atomic_ref{*place}.store(
            std::bit_cast<std::uint64_t>(std::array{'T', 'E', 'R', 'M', ' ', ' ', ' ', ' '}));
}

void on_signal(int signal, void (*handler)(int), int flags) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART | flags;
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, nullptr);
}

} // namespace

void catch_signals() {
    on_signal(SIGUSR2, want_exchange, 0);
}

void catch_stop_signals() {
    on_signal(SIGUSR1, want_stop, 0);
    on_signal(SIGTERM, want_stop_marked, SA_RESETHAND);
    on_signal(SIGINT, want_stop, SA_RESETHAND);
}

void mark_termination_at(std::uint64_t* place) {
    termination_mark.store(place);
}

std::int64_t take_requests(int rank) {
    std::int64_t requests = 0;
    if (stop_wanted != 0)
        requests |= static_cast<std::int64_t>(Request::stop);
    if (exchange_wanted != 0) {
        exchange_wanted = 0;
        if (rank == 0)
            requests |= static_cast<std::int64_t>(Request::exchange_schedule);
    }
    return requests;
}

} // namespace evener::runtime
