// SPDX-License-Identifier: Apache-2.0
#pragma once

// One function per subcommand: from its options to an exit code. Each throws core::Error for bad
// input and lets main print it.

#include "core/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace evener::app {

struct PrepareOptions {
    std::vector<std::string> inputs;
    std::string output;
    double validation_fraction = 0.05;
    bool ngrams = false; ///< print the losses of n-gram tables for comparison
};
/// Where pictures go; empty: not wanted.
struct PictureFiles {
    std::string svg;
    std::string trace;
    std::string csv;

    bool wanted() const { return !svg.empty() || !trace.empty() || !csv.empty(); }
};
struct JobOptions {
    std::string job;
    std::vector<std::string> settings;
    std::int64_t ranks = 0; ///< 0 = not given
    std::string resume;     ///< empty = as the job says
    bool print_config = false;
    PictureFiles pictures; ///< of `plan`
};
struct ProfileOptions {
    JobOptions job;
    int steps = 5;      ///< measured with backwards whole, and as many in halves
    std::string output; ///< empty = profile.json in the run folder
};
struct EvaluateOptions {
    std::string run;
    std::vector<std::string> data;
    std::string format = "auto";
    std::int64_t context = 0; ///< 0 = the model's sequence length
    std::int64_t batch = 0;   ///< sequences of one pass; 0 = about 4096 tokens
};
struct SampleOptions {
    std::string run;
    std::string prompt;                 ///< text, for models on bytes
    std::vector<std::int32_t> tokens{}; ///< token ids instead, for any model
    std::int64_t count = 500;
    double temperature = 0.8;
    std::uint64_t seed = 1;
};
struct ExportOptions {
    std::string run;
    std::string output;
    std::string type = "float32"; ///< or bfloat16
    double file_gib = 5;          ///< largest file
};
struct ImportOptions {
    std::string folder;
    std::string output;
    std::int64_t sequence_length = 0; ///< 0 = as config.json says
};
struct InspectOptions {
    std::string path;
    bool verify = false;
};
/// Where there are several values, each is for a part of a heterogeneous job; empty = the template's.
struct TemplateOptions {
    std::string kind = "nodes"; ///< nodes, hetjob or mpirun
    std::string job;
    std::vector<std::string> nodes;
    std::vector<std::int64_t> tasks; ///< of a node
    std::vector<std::int64_t> cpus;  ///< of a task
    std::vector<std::string> time;
    std::string output; ///< empty = print it
};

core::ExitCode prepare(PrepareOptions const& options);
core::ExitCode check(JobOptions const& options);
core::ExitCode plan(JobOptions const& options);
core::ExitCode profile(ProfileOptions const& options);
core::ExitCode train(JobOptions const& options);
core::ExitCode evaluate(EvaluateOptions const& options);
core::ExitCode sample(SampleOptions const& options);
core::ExitCode inspect(InspectOptions const& options);
core::ExitCode export_run(ExportOptions const& options);
core::ExitCode import_folder(ImportOptions const& options);
core::ExitCode slurm_template(TemplateOptions const& options);

} // namespace evener::app
