// SPDX-License-Identifier: Apache-2.0
#pragma once

// A cluster of fake hosts for one test program, by the scripts in bin/. It is gone with the object, and
// also when the program dies.

#include "support/process.hpp"

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace evener::testbed {

/// What this machine lacks for such parts ("hosts", "wan", "limits", "slurm"), in one line; "": nothing.
std::string missing(std::vector<std::string> const& parts);

class Cluster {
  public:
    /// `sites` as for hosts-up ("a:2" are hosts a1 and a2), `slots`: ranks of a host. `name` tells
    /// clusters of one program apart. Throws core::Error with what hosts-up said.
    Cluster(std::string_view name, std::vector<std::string> const& sites, int slots = 1);
    Cluster(Cluster const&) = delete;
    Cluster& operator=(Cluster const&) = delete;
    ~Cluster();

    /// A script of bin/ with its arguments.
    support::ProcessResult script(std::vector<std::string> const& words,
                                  std::chrono::seconds timeout = std::chrono::seconds{60}) const;
    /// The same; throws core::Error with what it said unless it ended well. Returns its output.
    std::string expect(std::vector<std::string> const& words,
                       std::chrono::seconds timeout = std::chrono::seconds{60}) const;

    /// Files of the cluster: hosts, statistics of links ("wan-a-b.stats"), logs ("slurm/log").
    std::filesystem::path const& state() const noexcept { return state_; }
    /// TESTBED_NAME=...
    std::string const& name() const noexcept { return name_; }

  private:
    std::string name_;
    std::filesystem::path state_;
    int slots_;
};

} // namespace evener::testbed
