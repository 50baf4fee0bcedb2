// SPDX-License-Identifier: Apache-2.0
#pragma once

// model.h5: for people with h5py or HDFView. One virtual dataset per tensor and kind shows it
// whole, stitched from the slices in the data files beside it. HDF5 shows data it cannot find as
// the fill value without an error, so the fill value is NaN, and Evener itself never reads this
// file. Used inside checkpoints/ only.

#include "checkpoints/records.hpp"

#include <string>

namespace evener::checkpoints {

inline constexpr char const* model_view_name = "model.h5";

/// Writes and syncs `folder`/model.h5. Throws IoError.
void write_model_view(Manifest const& manifest, std::string const& folder);

} // namespace evener::checkpoints
