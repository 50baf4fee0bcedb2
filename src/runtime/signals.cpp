// SPDX-License-Identifier: Apache-2.0
#include "runtime/signals.hpp"

#include "runtime/step_state.hpp"

#include <csignal>

namespace evener::runtime {

namespace {

volatile std::sig_atomic_t exchange_wanted = 0;

extern "C" void want_exchange(int) {
    exchange_wanted = 1;
}

} // namespace

void catch_signals() {
    struct sigaction action = {};
    action.sa_handler = want_exchange;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR2, &action, nullptr);
}

std::int64_t take_requests() {
    if (exchange_wanted == 0)
        return 0;
    exchange_wanted = 0;
    return static_cast<std::int64_t>(Request::exchange_schedule);
}

} // namespace evener::runtime
