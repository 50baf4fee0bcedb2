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

/// The bytes of model.h5, made in memory: HDF5 does not meet a full disk here.
std::string model_view_image(Manifest const& manifest);

} // namespace evener::checkpoints
