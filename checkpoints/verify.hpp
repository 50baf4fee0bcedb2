// SPDX-License-Identifier: Apache-2.0
#pragma once

// Proves a checkpoint whole: together the digests cover every byte of every file.

#include "checkpoints/manifest.hpp"

#include <string>
#include <vector>

namespace evener::checkpoints {

/// Hashes everything in `folder`. One line for each damaged or missing file or slice, by name;
/// empty = whole. Throws nothing a damaged checkpoint could cause.
std::vector<std::string> verify(std::string const& folder);

/// The same for the data files alone: what a resume needs.
std::vector<std::string> damaged_data(Manifest const& manifest, std::string const& folder);
/// The same for job.toml, plan.toml, schedule.csv and model.h5: what a resume can do without.
std::vector<std::string> damaged_side_files(Manifest const& manifest, std::string const& folder);

/// The same for some slices of the data file `name`, whatever else is in it.
std::vector<std::string> damaged_slices(std::vector<SliceRecord> const& slices,
                                        std::string const& folder, std::string const& name);

/// The same for one data file, as its writer described it; past the page cache where the system lets
/// us, so that what is compared was read from the disk.
std::vector<std::string> damaged_file(WriterResult const& written, std::string const& folder);

} // namespace evener::checkpoints
