// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes one data file: every slice a contiguous float32 dataset named by logical name and rows.
// One writer per node; several writers of one checkpoint share nothing but the folder. The file
// counts only after finish() and the commit; a writer that dies leaves a `.tmp` folder for begin()
// to remove.

#include "checkpoints/records.hpp"
#include "checkpoints/save_points.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace evener::checkpoints {

namespace hdf5 {
struct OpenFile;
}

/// No call into HDF5 moves more than this.
inline constexpr std::int64_t max_call_bytes = std::int64_t{512} << 20;

class SliceWriter {
  public:
    /// Makes `folder`/data-NNNN.h5 (NNNN = `writer`), replacing one that is there. Throws IoError.
    SliceWriter(std::string const& folder, int writer, std::int64_t call_bytes = max_call_bytes,
                AtPoint at = {});
    SliceWriter(SliceWriter&&) noexcept;
    SliceWriter& operator=(SliceWriter&&) = delete;
    /// Without finish() before, the file is emptied.
    ~SliceWriter();

    /// Appends one slice; the data may be reused on return. Slices over 2 GiB are fine. Throws
    /// IoError (disk full, read-only, ...), after which the file is lost.
    SliceRecord write(SliceData const& slice);

    /// Flushes, closes and syncs the file to the disk. No write() after it.
    WriterResult finish();

  private:
    void give_up() noexcept;

    std::string path_;
    std::int64_t call_bytes_;
    AtPoint at_;
    std::unique_ptr<hdf5::OpenFile> file_;
    WriterResult result_;
};

} // namespace evener::checkpoints
