// SPDX-License-Identifier: Apache-2.0
#include "runtime/delays.hpp"

#include "comm/transport.hpp"

#include <chrono>
#include <random>
#include <thread>

namespace evener::runtime {

void random_delay() {
    static std::optional<comm::RandomDelays> const delays =
        comm::TransportOptions::from_environment().random_delays;
    if (!delays || delays->max_microseconds == 0)
        return;
    thread_local std::mt19937_64 generator{delays->seed};
    std::uniform_int_distribution<std::int64_t> microseconds{0, delays->max_microseconds};
    std::this_thread::sleep_for(std::chrono::microseconds{microseconds(generator)});
}

} // namespace evener::runtime
