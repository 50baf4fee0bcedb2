// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint's model to a Hugging Face folder and back, on one process, a block of rows at a time.
// Logical names are those of Hugging Face's Llama, so tensors keep their names.

#include "checkpoints/reader.hpp"
#include "checkpoints/store.hpp"
#include "io/hugging_face.hpp"
#include "job/job.hpp"

namespace evener::runtime {

struct ExportOptions {
    io::StoredType type = io::StoredType::float32;
    std::int64_t most_file_bytes = std::int64_t{5} << 30;
};

/// Writes the master weights (bfloat16: rounded to nearest). Throws core::IoError,
/// core::CheckpointError, core::ConfigError (see io::llama_config_text).
void export_model(checkpoints::CheckpointReader& checkpoint, std::string const& folder,
                  ExportOptions const& options);

struct Imported {
    checkpoints::CheckpointInfo checkpoint;
    std::vector<std::string> notes; ///< tensors that were left out, and why
};

/// Makes the folder's model the checkpoint of step 0 of the run folder `run`: weights alone, for
/// `model.init_from`, evaluate and sample. Its job.toml has the model's sizes; data and training
/// are examples. `sequence_length`: 0 = as config.json says. Throws core::IoError where a tensor is
/// missing, has another shape or is unknown.
Imported import_model(io::ModelFolder const& folder, std::string const& run,
                      std::int64_t sequence_length, std::string const& creator);

} // namespace evener::runtime
