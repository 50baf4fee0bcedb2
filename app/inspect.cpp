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

} // namespace

core::ExitCode inspect(InspectOptions const& options) {
    namespace fs = std::filesystem;
    std::error_code ignored;
    bool const one = fs::exists(fs::path{options.path} / checkpoints::manifest_name, ignored);
    bool whole = true;
    std::vector<std::string> folders;
    if (one) {
        folders.push_back(options.path);
        if (!options.verify)
            print_manifest(options.path, checkpoints::read_manifest(options.path));
    } else {
        auto const found = checkpoints::list(options.path, checkpoints::Depth::sizes,
                                             [&](std::string const& line) {
                                                 fmt::print(stderr, "warning: {}\n", line);
                                                 whole = false;
                                             });
        if (found.empty())
            checkpoint_of(options.path); // says why there is none
        print_list(found);
        for (std::string const& line : positions(options.path))
            fmt::print("{}\n", line);
        for (checkpoints::CheckpointInfo const& info : found)
            folders.push_back(info.folder);
    }
    if (!options.verify)
        return core::ExitCode::done;
    for (std::string const& folder : folders) {
        std::vector<std::string> const problems = checkpoints::verify(folder);
        for (std::string const& problem : problems)
            fmt::print("{}: {}\n", folder, problem);
        if (problems.empty())
            fmt::print("{}: whole, every byte hashed\n", folder);
        whole = whole && problems.empty();
    }
    return whole ? core::ExitCode::done : core::ExitCode::file;
}

} // namespace evener::app
