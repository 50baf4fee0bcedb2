// SPDX-License-Identifier: Apache-2.0
#pragma once

// One data file for all writers (`checkpoint.layout = "shared"`). One process makes HDF5's structure
// with room for every slice; then any number of processes put the bytes of their slices where they
// belong, with plain writes, as contiguous datasets lie in one piece at a known offset. So nothing is
// collective, and no process waits for another between the first call and the last:
//
//   one: make_shared_file -> all: SharedFileWriter ... finish -> one: finish_shared_file
//
// The file system must show one process's writes of other bytes of a file to all (POSIX; not NFS, where
// two nodes that write in one page may lose bytes: there, one file per node is safe).

#include "checkpoints/files.hpp"
#include "checkpoints/records.hpp"
#include "checkpoints/writer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace evener::checkpoints {

/// Makes `folder`/data-0000.h5 with room for `slices` (their data is not looked at) and returns where
/// each lies, in the same order, without digests. Throws IoError.
WriterResult make_shared_file(std::string const& folder, std::vector<SliceData> const& slices);

class SharedFileWriter {
  public:
    /// Opens the file that make_shared_file made in `folder`. Throws IoError.
    explicit SharedFileWriter(std::string const& folder, std::int64_t call_bytes = max_call_bytes);

    /// Puts the slice where `place` says that it lies, and returns `place` with its digest. Throws
    /// IoError (disk full, ...).
    SliceRecord write(SliceData const& slice, SliceRecord place);
    /// Syncs what was written to the disk. No write() after it.
    void finish();

  private:
    std::string path_;
    std::int64_t call_bytes_;
    files::Descriptor file_;
};

/// When all have finished: `slices` are all slices with their digests. Throws IoError if the file was
/// cut.
WriterResult finish_shared_file(std::string const& folder, std::vector<SliceRecord> slices);

} // namespace evener::checkpoints
