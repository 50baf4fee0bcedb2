// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <chrono>
#include <cstdio>

namespace evener::core::log {

namespace {

struct State {
    int rank = 0;
    Level lowest = Level::info;
    std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

State& state() {
    static State instance;
    return instance;
}

std::string_view name_of(Level level) {
    switch (level) {
    case Level::debug:
        return "debug";
    case Level::info:
        return "info";
    case Level::warn:
        return "warn";
    case Level::error:
        return "error";
    }
    return "?";
}

} // namespace

void configure(int rank, Level lowest) {
    state().rank = rank;
    state().lowest = lowest;
}

bool is_root() {
    return state().rank == 0;
}

void write(Level level, std::string_view text) {
    if (level < state().lowest)
        return;
    std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - state().start;
    // One call per line, so that lines of several ranks do not mix inside.
    std::string const line = fmt::format("[{:8.1f}s] r{:02d} {:<5} {}\n", elapsed.count(),
                                         state().rank, name_of(level), text);
    std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace evener::core::log
