// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a program as a user would and keeps what it said.

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace evener::support {

struct ProcessOptions {
    std::filesystem::path folder{};         ///< current folder of the program; empty: the caller's
    std::vector<std::string> environment{}; ///< NAME=value, added to the caller's
    std::chrono::seconds timeout{120};      ///< then the program and its children are ended
};

struct ProcessResult {
    int exit_code = -1; ///< 128 + N where signal N ended it
    bool timed_out = false;
    std::string output; ///< stdout
    std::string errors; ///< stderr
};

/// `command` is the program (searched in PATH) and its arguments; stdin is empty. 127: no such
/// program.
ProcessResult run_process(std::vector<std::string> const& command,
                          ProcessOptions const& options = {});

/// `command` in front of which stands mpirun for that many ranks, also with fewer cores than ranks.
std::vector<std::string> under_mpirun(int ranks, std::vector<std::string> const& command);

} // namespace evener::support
