// SPDX-License-Identifier: Apache-2.0
#pragma once

// One line per event on stderr: `[   41.2s] r03 info  text`. `root` lines appear once per job (rank
// 0), `rank` lines on the rank they concern. Kernels never log.

#include <fmt/format.h>

#include <string_view>

namespace evener::core::log {

enum class Level { debug, info, warn, error };

/// Sets the rank shown and the lowest level printed; before the first call rank is 0, level info.
void configure(int rank, Level lowest);

void write(Level level, std::string_view text);
bool is_root();

template <class... Args>
void root(Level level, fmt::format_string<Args...> format, Args&&... args) {
    if (is_root())
        write(level, fmt::format(format, std::forward<Args>(args)...));
}

template <class... Args>
void rank(Level level, fmt::format_string<Args...> format, Args&&... args) {
    write(level, fmt::format(format, std::forward<Args>(args)...));
}

} // namespace evener::core::log
