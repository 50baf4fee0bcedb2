// SPDX-License-Identifier: Apache-2.0
#include "core/build_info.hpp"
#include "runtime/model_exchange.hpp"

#include "app/commands.hpp"
#include <fmt/format.h>

namespace evener::app {

core::ExitCode import_folder(ImportOptions const& options) {
    io::ModelFolder const folder{options.folder};
    runtime::Imported const imported =
        runtime::import_model(folder, options.output, options.sequence_length,
                              fmt::format("evener {} ({}) import", core::version, core::commit()));
    for (std::string const& note : imported.notes)
        fmt::print("left out: {}\n", note);
    fmt::print("wrote {}; train from it with --set model.init_from={}\n",
               imported.checkpoint.folder, options.output);
    return core::ExitCode::done;
}

} // namespace evener::app
