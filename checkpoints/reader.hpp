// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads any rows of any tensor, from whatever slices hold them. Nothing damaged is handed out: the
// structure of a data file is hashed before HDF5 sees it, and a slice before the first of its rows
// is used. One thread at a time (HDF5 is not safe for more everywhere).

#include "checkpoints/manifest.hpp"
#include "checkpoints/writer.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evener::checkpoints {

/// When a slice is hashed. `first_use`: always, which for rows that are a part of a slice reads the
/// whole slice once. `whole_reads`: only when all of it is asked for anyway; for many ranks that
/// each read a part after one of them ran verify().
enum class Check { first_use, whole_reads };

class CheckpointReader {
  public:
    /// Throws CheckpointError or IoError if the manifest is not valid or a data file is missing or
    /// has the wrong size. `folder` may have any name.
    explicit CheckpointReader(std::string folder, Check check = Check::first_use,
                              std::int64_t call_bytes = max_call_bytes);
    CheckpointReader(CheckpointReader&&) noexcept;
    CheckpointReader& operator=(CheckpointReader&&) noexcept;
    ~CheckpointReader();

    Manifest const& manifest() const noexcept { return manifest_; }
    std::string const& folder() const noexcept { return folder_; }
    /// Whether the checkpoint has a tensor of this kind and name.
    bool contains(std::string_view kind, std::string_view name) const;
    /// Throws CheckpointError if there is no tensor of that name.
    TensorInfo const& tensor(std::string_view name) const;

    /// Rows [rows.begin, rows.end) into dst[0, rows.size() * row_elements()), row-major. Throws
    /// CheckpointError if there is no such tensor or kind, or a slice is damaged; dst is then
    /// undefined.
    void read(std::string_view kind, std::string_view name, core::Range rows, float* dst);

    /// Content of job.toml, plan.toml or schedule.csv. Throws CheckpointError if it is missing or
    /// damaged.
    std::string text(std::string_view file) const;
    bool has_text(std::string_view file) const;

  private:
    using SliceIndex = std::size_t;

    hdf5::OpenFile const& open(std::string const& name);
    void read_slice(SliceIndex index, TensorInfo const& tensor, core::Range rows, float* dst);

    std::string folder_;
    Check check_;
    std::int64_t call_bytes_;
    Manifest manifest_;
    std::map<std::string, std::size_t, std::less<>> tensors_; ///< name -> place in the manifest
    std::map<std::pair<std::string, std::string>, std::vector<SliceIndex>>
        slices_;                ///< (kind, name) -> slices by first row
    std::vector<bool> checked_; ///< per slice
    std::map<std::string, std::unique_ptr<hdf5::OpenFile>> files_; ///< opened so far
    std::vector<float> scratch_;
};

} // namespace evener::checkpoints
