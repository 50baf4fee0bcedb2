// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/manifest.hpp"
#include "checkpoints/store.hpp"
#include "checkpoints/verify.hpp"

#include "app/checkpoint_path.hpp"
#include "app/commands.hpp"
#include "app/watching.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

namespace evener::app {

namespace {

void print_list(std::vector<checkpoints::CheckpointInfo> const& found) {
    for (checkpoints::CheckpointInfo const& info : found)
        fmt::print("{}  step {}  {} tokens\n", info.folder, info.manifest.state.step,
                   info.manifest.state.tokens_consumed);
}

void print_manifest(std::string const& folder, checkpoints::Manifest const& manifest) {
    checkpoints::TrainingState const& state = manifest.state;
    std::int64_t elements = 0;
    for (checkpoints::TensorInfo const& tensor : manifest.tensors)
        elements += tensor.rows() * tensor.row_elements();
    fmt::print("{}\nwritten by {}\nstep {}, {} samples, {} tokens, seed {}, optimizer {}\n", folder,
               manifest.creator, state.step, state.samples_consumed, state.tokens_consumed,
               state.seed, state.optimizer);
    fmt::print("{} parameters in {} tensors, {} kinds of state in {} slices of {} files\n",
               elements, manifest.tensors.size(), manifest.kinds.size(), manifest.slices.size(),
               manifest.data_files.size());
    for (auto const& [key, value] : manifest.model)
        fmt::print("  {} = {}\n", key, value);
    for (checkpoints::TensorInfo const& tensor : manifest.tensors)
        fmt::print("  {} [{}]\n", tensor.name, fmt::join(tensor.shape, ", "));
}

/// Prints what is wrong with a checkpoint; whether nothing is.
bool print_faults(std::string const& folder, std::vector<std::string> const& faults) {
    for (std::string const& fault : faults)
        fmt::print("{}: {}\n", folder, fault);
    if (faults.empty())
        fmt::print("{}: whole, every byte hashed\n", folder);
    return faults.empty();
}

core::ExitCode inspect_one(InspectOptions const& options) {
    if (options.verify)
        return print_faults(options.path, checkpoints::verify(options.path)) ? core::ExitCode::done
                                                                             : core::ExitCode::file;
    print_manifest(options.path, checkpoints::read_manifest(options.path));
    return core::ExitCode::done;
}

core::ExitCode inspect_run(InspectOptions const& options) {
    auto const candidates = checkpoints::candidates(options.path);
    if (candidates.empty()) {
        for (std::string const& line : positions(options.path))
            fmt::print("{}\n", line);
        checkpoint_of(options.path); // says that there is none
    }
    auto const found =
        checkpoints::list(options.path, checkpoints::Depth::sizes, [&](std::string const& line) {
            if (!options.verify) // which names all that is wrong
                fmt::print(stderr, "warning: {}\n", line);
        });
    print_list(found);
    for (std::string const& line : positions(options.path))
        fmt::print("{}\n", line);
    if (!options.verify && found.empty())
        throw core::CheckpointError{options.path, "none of its checkpoints is whole (see above); "
                                                  "'--verify' names every fault"};
    bool whole = true;
    if (options.verify)
        for (checkpoints::Candidate const& candidate : candidates)
            whole = print_faults(candidate.folder, checkpoints::faults_of(candidate)) && whole;
    return whole ? core::ExitCode::done : core::ExitCode::file;
}

} // namespace

core::ExitCode inspect(InspectOptions const& options) {
    refuse_file(options.path);
    std::error_code ignored;
    bool const one = std::filesystem::exists(
        std::filesystem::path{options.path} / checkpoints::manifest_name, ignored);
    return one ? inspect_one(options) : inspect_run(options);
}

} // namespace evener::app
