// SPDX-License-Identifier: Apache-2.0
// The command line: options to a subcommand, an error to a message and an exit code.
#include "core/build_info.hpp"
#include "runtime/signals.hpp"

#include "app/commands.hpp"
#include "app/mpi_job.hpp"
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>

namespace {

using namespace evener;
using core::ExitCode;

using Command = std::function<ExitCode()>;

constexpr int most_ranks = 4096; // that this version has any hope to plan for

/// For CLI::Range lets NaN pass.
std::string finite(std::string const& text) {
    return std::isfinite(std::strtod(text.c_str(), nullptr))
               ? ""
               : fmt::format("'{}' is no finite number", text);
}

void add_prepare(CLI::App& cli, app::PrepareOptions& options, Command& command) {
    CLI::App* const sub =
        cli.add_subcommand("prepare", "Make token files from text (bytes as tokens)");
    sub->add_option("FILE", options.inputs, "Text files or patterns; - is standard input")
        ->required();
    sub->add_option("--output", options.output, "Folder for train.bin and val.bin")->required();
    sub->add_option("--validation-fraction", options.validation_fraction,
                    "Last part of the text to hold out (default 0.05)")
        ->check(finite);
    sub->add_flag("--ngrams", options.ngrams,
                  "Print the losses of 3-gram and 6-gram tables on the held-out part");
    sub->callback([&] { command = [&] { return app::prepare(options); }; });
}

void add_job_options(CLI::App* sub, app::JobOptions& options) {
    sub->add_option("JOB", options.job, "Job file (TOML); inputs/reference.toml lists all keys")
        ->required();
    sub->add_option("--set", options.settings, "table.key=value, over the file's value")
        ->take_all();
    sub->add_flag("--print-config", options.print_config, "Print the resolved job and end");
}

void add_job_commands(CLI::App& cli, app::JobOptions& options, Command& command) {
    CLI::App* const check = cli.add_subcommand("check", "Check a job without running it");
    add_job_options(check, options);
    check->add_option("--ranks", options.ranks, "Ranks the job will have")
        ->check(CLI::Range(1, most_ranks));
    check->callback([&] { command = [&] { return app::check(options); }; });

    CLI::App* const plan = cli.add_subcommand(
        "plan", "Print plan, memory and programs of a job without training (no mpirun needed)");
    add_job_options(plan, options);
    plan->add_option("--ranks", options.ranks, "Ranks the job will have")
        ->check(CLI::Range(1, most_ranks));
    plan->add_option("--svg", options.pictures.svg, "Draw the predicted training step as SVG");
    plan->add_option("--trace", options.pictures.trace,
                     "Write it as a Chrome trace (JSON), for ui.perfetto.dev");
    plan->add_option("--csv", options.pictures.csv, "Write it as a table of all instructions");
    plan->callback([&] { command = [&] { return app::plan(options); }; });

    CLI::App* const train = cli.add_subcommand("train", "Train (start it with mpirun or srun)");
    add_job_options(train, options);
    train->add_option("--resume", options.resume,
                      "auto (newest checkpoint of the run), never, or a checkpoint's path");
    train->callback([&] { command = [&] { return app::train(options); }; });
}

void add_profile(CLI::App& cli, app::ProfileOptions& options, Command& command) {
    CLI::App* const sub = cli.add_subcommand(
        "profile", "Measure layers and links in a few steps (start it with mpirun or srun)");
    add_job_options(sub, options.job);
    sub->add_option("--steps", options.steps,
                    "Steps measured with backwards whole, and as many with halves (default 5)")
        ->check(CLI::Range(1, 1000));
    sub->add_option("--output", options.output,
                    "File to write (default: profile.json in the run folder)");
    sub->callback([&] { command = [&] { return app::profile(options); }; });
}

void add_evaluate(CLI::App& cli, app::EvaluateOptions& options, Command& command) {
    CLI::App* const sub = cli.add_subcommand("evaluate", "Loss of a checkpoint on token files");
    sub->add_option("RUN", options.run, "Run folder (its newest checkpoint) or checkpoint")
        ->required();
    sub->add_option("--data", options.data, "Token files or patterns")->required();
    sub->add_option("--format", options.format, "auto, llmc, uint16, uint32 or megatron");
    sub->add_option("--context", options.context, "Let the model see only the last N tokens");
    sub->add_option("--batch", options.batch, "Sequences of one pass (default: 4096 tokens)");
    sub->callback([&] { command = [&] { return app::evaluate(options); }; });
}

void add_sample(CLI::App& cli, app::SampleOptions& options, Command& command) {
    CLI::App* const sub = cli.add_subcommand("sample", "Continue a text with a checkpoint");
    sub->add_option("RUN", options.run, "Run folder (its newest checkpoint) or checkpoint")
        ->required();
    CLI::Option_group* const prompt = sub->add_option_group("prompt");
    prompt->require_option(1);
    prompt->add_option("--prompt", options.prompt, "Text to continue (models on bytes)");
    prompt
        ->add_option("--prompt-tokens", options.tokens,
                     "Token ids to continue, as 1,2,3; the answer is token ids (any model)")
        ->delimiter(',');
    sub->add_option("--bytes,--tokens", options.count, "How many tokens to generate (default 500)");
    sub->add_option("--temperature", options.temperature,
                    "Divides the logits; 0 = always the likeliest (default 0.8)")
        ->check(finite);
    sub->add_option("--seed", options.seed, "Of the random choice (default 1)");
    sub->callback([&] { command = [&] { return app::sample(options); }; });
}

void add_inspect(CLI::App& cli, app::InspectOptions& options, Command& command) {
    CLI::App* const sub = cli.add_subcommand("inspect", "List a run's checkpoints, or one");
    sub->add_option("PATH", options.path, "Run folder or checkpoint")->required();
    sub->add_flag("--verify", options.verify, "Hash every byte again");
    sub->callback([&] { command = [&] { return app::inspect(options); }; });
}

void add_exchange(CLI::App& cli, app::ExportOptions& to, app::ImportOptions& from,
                  Command& command) {
    CLI::App* const out =
        cli.add_subcommand("export", "Write a checkpoint's model as a Hugging Face folder");
    out->add_option("RUN", to.run, "Run folder (its newest checkpoint) or checkpoint")->required();
    out->add_option("--output", to.output, "Folder for config.json and safetensors files")
        ->required();
    out->add_option("--type", to.type, "float32 (default, exact) or bfloat16 (rounded)")
        ->check(CLI::IsMember({"float32", "bfloat16"}));
    out->add_option("--file-gib", to.file_gib, "Largest size of a file in GiB (default 5)")
        ->check(finite)
        ->check(CLI::Range(0.001, 1e6));
    out->callback([&] { command = [&] { return app::export_run(to); }; });

    CLI::App* const in = cli.add_subcommand(
        "import", "Make a Hugging Face folder (Llama or Qwen2) a run's checkpoint of step 0");
    in->add_option("FOLDER", from.folder, "Folder with config.json and safetensors files")
        ->required();
    in->add_option("--output", from.output, "Run folder to make")->required();
    in->add_option("--sequence-length", from.sequence_length,
                   "Tokens of a sequence (default: max_position_embeddings)")
        ->check(CLI::Range(1, 1 << 24));
    in->callback([&] { command = [&] { return app::import_folder(from); }; });
}

void add_template(CLI::App& cli, app::TemplateOptions& options, Command& command) {
    CLI::App* const sub =
        cli.add_subcommand("template", "Print a batch script to submit a job with");
    sub->add_option("SCHEDULER", "slurm")->required()->check(CLI::IsMember({"slurm"}));
    sub->add_option("--kind", options.kind,
                    "nodes (of one kind, default), hetjob (of several kinds) or mpirun")
        ->check(CLI::IsMember({"nodes", "hetjob", "mpirun"}));
    sub->add_option("--job", options.job, "Job file that it trains");
    sub->add_option("--nodes", options.nodes, "N or MIN-MAX; of a hetjob one for each part: 2,1-8")
        ->delimiter(',');
    sub->add_option("--ntasks-per-node", options.tasks, "Ranks of a node; likewise")
        ->delimiter(',')
        ->check(CLI::Range(1, most_ranks));
    sub->add_option("--cpus-per-task", options.cpus, "Cores of a rank; likewise")
        ->delimiter(',')
        ->check(CLI::Range(1, 1 << 16));
    sub->add_option("--time", options.time, "Time limit, such as 04:00:00; likewise")
        ->delimiter(',');
    sub->add_option("--output", options.output, "File to write instead");
    sub->callback([&] { command = [&] { return app::slurm_template(options); }; });
}

} // namespace

int main(int argc, char** argv) {
    runtime::catch_signals(); // a signal that comes early must not end the job
    CLI::App cli{"Evener trains transformers on unequal hardware.\n"
                 "A first run: scripts/quickstart.sh. A job: evener check JOB.toml, then\n"
                 "mpirun -n 4 evener train JOB.toml",
                 "evener"};
    cli.set_version_flag("--version", fmt::format("evener {} ({}, {}, {}, build {})", core::version,
                                                  core::commit(), core::compiler, core::build_type,
                                                  EVENER_BUILD_ID));
    cli.require_subcommand(1);
    app::PrepareOptions prepare;
    app::JobOptions job;
    app::ProfileOptions profile;
    app::EvaluateOptions evaluate;
    app::SampleOptions sample;
    app::InspectOptions inspect;
    app::ExportOptions to;
    app::ImportOptions from;
    app::TemplateOptions script;
    Command command;
    add_prepare(cli, prepare, command);
    add_job_commands(cli, job, command);
    add_profile(cli, profile, command);
    add_evaluate(cli, evaluate, command);
    add_sample(cli, sample, command);
    add_inspect(cli, inspect, command);
    add_exchange(cli, to, from, command);
    add_template(cli, script, command);
    try {
        cli.parse(argc, argv);
    } catch (CLI::ParseError const& error) {
        int const shown = cli.exit(error); // prints help, version or what is wrong
        return shown == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
    }
    return app::run_guarded(command);
}
