// SPDX-License-Identifier: Apache-2.0
#pragma once

// The HDF5 dataset of a slice: contiguous, so that its bytes lie in one piece at a known offset. Used
// inside checkpoints/ only.

#include "checkpoints/hdf5.hpp"
#include "checkpoints/records.hpp"

#include <string>

namespace evener::checkpoints::hdf5 {

/// Makes the dataset of `slice` in a file, with room for its data. Still open, and not an owner,
/// because HDF5 1.10 crashes later when something is closed that could not be written.
hid_t make_slice_dataset(File const& file, SliceData const& slice, std::string const& path);

/// Where it lies in the file of that name, without the digest.
SliceRecord record_of(hid_t dataset, SliceData const& slice, std::string const& file_name,
                      std::string const& path);

} // namespace evener::checkpoints::hdf5
