// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a template of slurm/ as a batch job, with the commands in fakes/ in the place of Slurm's.
// One object is one job with its run folder; each run() after the first is a restart.

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include <string>
#include <vector>

namespace evener::slurm_test {

class FakeSlurm {
  public:
    /// `script` in slurm/ ("evener.sbatch"), on two nodes; as a heterogeneous job a part of one
    /// node and one of two.
    explicit FakeSlurm(std::string script) : script_{std::move(script)} {}

    /// The launcher will do this (bash); $RUN is the run folder, which exists.
    void launch(std::string const& commands) const { write("launch", commands + "\n"); }
    /// Content of a file that a stand-in reads ("states", "ask", "mistake", "refuse").
    void write(std::string const& name, std::string const& text) const;
    /// What a stand-in noted ("launched", "controlled"), or a file of the run folder ("run/...").
    std::string noted(std::string const& name) const;

    /// Runs the template, with such variables besides (NAME=value).
    support::ProcessResult run(std::vector<std::string> const& variables = {});
    /// The same, and `signals` are sent to it in turn, half a second apart, once the launcher has
    /// made the file $FAKE/started.
    support::ProcessResult run_and_signal(std::vector<std::string> const& signals);

    /// A number of Slurm; another one is another job with the same run folder.
    int job = 7;

  private:
    support::ProcessResult run(std::vector<std::string> const& command,
                               std::vector<std::string> const& variables);

    std::string script_;
    support::TemporaryFolder folder_{"slurm-fake"};
    int restarts_ = -1;
    int job_of_restarts_ = 0;
};

} // namespace evener::slurm_test
