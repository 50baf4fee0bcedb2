// SPDX-License-Identifier: Apache-2.0
#include "slurm/fake_slurm.hpp"

#include "support/paths.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace evener::slurm_test {

namespace {

std::filesystem::path const& sources() {
    static std::filesystem::path const path = support::source_root();
    return path;
}

/// What Slurm, and sbatch --export, tell a batch script.
std::vector<std::string> environment_of_slurm(bool heterogeneous) {
    if (!heterogeneous)
        return {"SLURM_JOB_NODELIST=n[1-2]", "SLURM_JOB_NUM_NODES=2", "RANKS_PER_NODE=3",
                "CORES_PER_RANK=5"};
    return {"SLURM_HET_SIZE=2",
            "SLURM_JOB_NODELIST_HET_GROUP_0=m1",
            "SLURM_JOB_NUM_NODES_HET_GROUP_0=1",
            "SLURM_NTASKS_PER_NODE_HET_GROUP_0=4",
            "SLURM_CPUS_PER_TASK_HET_GROUP_0=2",
            "SLURM_JOB_NODELIST_HET_GROUP_1=n[1-2]",
            "SLURM_JOB_NUM_NODES_HET_GROUP_1=2",
            "SLURM_NTASKS_PER_NODE_HET_GROUP_1=3",
            "SLURM_CPUS_PER_TASK_HET_GROUP_1=5"};
}

} // namespace

void FakeSlurm::write(std::string const& name, std::string const& text) const {
    std::ofstream{folder_ / name} << text;
}

std::string FakeSlurm::noted(std::string const& name) const {
    std::ifstream const file{folder_ / name};
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

support::ProcessResult FakeSlurm::run(std::vector<std::string> const& command,
                                      std::vector<std::string> const& variables) {
    restarts_ = job == job_of_restarts_ ? restarts_ + 1 : 0;
    job_of_restarts_ = job;
    std::filesystem::path const fakes = sources() / "tests/slurm/fakes";
    support::ProcessOptions options;
    options.folder = folder_.path();
    options.timeout = std::chrono::seconds{30};
    options.environment = environment_of_slurm(script_ == "hetjob.sbatch");
    for (std::string const& setting :
         {"FAKE=" + folder_.path().string(), "RUN=" + (folder_ / "run").string(),
          fmt::format("PATH={}:{}", fakes.string(), std::getenv("PATH")),
          "EVENER=" + (fakes / "evener").string(), std::string{"JOB=my.toml"},
          fmt::format("SLURM_JOB_ID={}", job), fmt::format("SLURM_RESTART_COUNT={}", restarts_)})
        options.environment.push_back(setting);
    options.environment.insert(options.environment.end(), variables.begin(), variables.end());
    return support::run_process(command, options);
}

support::ProcessResult FakeSlurm::run(std::vector<std::string> const& variables) {
    return run({"bash", (sources() / "slurm" / script_).string()}, variables);
}

support::ProcessResult FakeSlurm::run_and_signal(std::vector<std::string> const& signals) {
    std::string const commands =
        fmt::format("bash '{}' & job=$!\n"
                    "for i in {{1..500}}; do [[ ! -e $FAKE/started ]] || break; sleep 0.02; done\n"
                    "for signal in {}; do kill -s $signal $job; sleep 0.5; done\n"
                    "wait $job",
                    (sources() / "slurm" / script_).string(), fmt::join(signals, " "));
    return run({"bash", "-c", commands}, {});
}

} // namespace evener::slurm_test
