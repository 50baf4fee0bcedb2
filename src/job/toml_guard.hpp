// SPDX-License-Identifier: Apache-2.0
#pragma once

// What toml++ 3.3 does not withstand is refused before it parses: names of very many parts (it
// frees nested tables by recursion and overflows the stack), and characters outside ASCII where it
// looks for white space (undefined behaviour): outside of strings, where TOML has none, and in
// strings of several lines, which no key of a job takes. Internal to src/job.

#include <optional>
#include <string>
#include <string_view>

namespace evener::job {

struct Refusal {
    int line = 1;
    int column = 1; ///< in characters
    std::string message;
};

std::optional<Refusal> refuse_toml(std::string_view text);

} // namespace evener::job
