// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_exchange.hpp"

#include "app/checkpoint_path.hpp"
#include "app/commands.hpp"
#include <fmt/format.h>

namespace evener::app {

core::ExitCode export_run(ExportOptions const& options) {
    checkpoints::CheckpointReader checkpoint{checkpoint_of(options.run)};
    runtime::ExportOptions how;
    how.type = options.type == "bfloat16" ? io::StoredType::bfloat16 : io::StoredType::float32;
    how.most_file_bytes = static_cast<std::int64_t>(options.file_gib * (std::int64_t{1} << 30));
    runtime::export_model(checkpoint, options.output, how);
    fmt::print("wrote {} ({}) from {}\n", options.output, options.type, checkpoint.folder());
    return core::ExitCode::done;
}

} // namespace evener::app
