// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a checkpoint is made of, as plain data: tensors with logical names and global shapes, slices
// (runs of whole rows of one tensor of one kind), files, and the state of the training. Nothing
// here names a rank, a stage or a device: that is why any plan can read what any other plan wrote.

#include "checkpoints/digest.hpp"
#include "core/types.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace evener::checkpoints {

/// Version of the format described in FORMAT.md; a reader refuses any other.
inline constexpr int format_version = 1;

/// Kinds of state. `parameters` (master weights) is in every checkpoint that training can go on
/// from (a record of gradients has only its own kind), the others as the optimizer needs them; every
/// kind in a checkpoint holds every tensor.
inline constexpr std::string_view kind_parameters = "parameters";
inline constexpr std::string_view kind_moment1 = "moment1";
inline constexpr std::string_view kind_moment2 = "moment2";

/// Short texts by key. Numbers are written so that they read back to the bit ("{}" of fmt does).
using KeyValues = std::map<std::string, std::string>;

/// A tensor of the model: logical name (letters, digits, `_ . -`), global shape (every extent >=
/// 1).
struct TensorInfo {
    std::string name;
    std::vector<std::int64_t> shape;

    std::int64_t rows() const { return shape.front(); }
    /// Elements of one row: the product of all extents but the first.
    std::int64_t row_elements() const;
    std::int64_t row_bytes() const { return 4 * row_elements(); }
    friend bool operator==(TensorInfo const&, TensorInfo const&) = default;
};

/// One slice to write: rows [rows.begin, rows.end) of a tensor. `data` holds them row-major,
/// float32, rows.size() * row_elements() values, and is not owned.
struct SliceData {
    std::string kind;
    std::string name;
    std::vector<std::int64_t> shape; ///< of the whole tensor
    core::Range rows;
    float const* data = nullptr;
};

/// One slice as it lies in a file.
struct SliceRecord {
    std::string kind;
    std::string name;
    core::Range rows;
    std::string file;        ///< name of the data file in the checkpoint's folder
    std::int64_t offset = 0; ///< byte in that file where the contiguous data begins
    std::int64_t bytes = 0;  ///< 4 * rows.size() * row_elements()
    Digest digest;           ///< XXH3-128 of these bytes (little-endian float32)

    /// Path of the HDF5 dataset: `/parameters/model.norm.weight/rows-0-64`.
    std::string dataset() const;
    friend bool operator==(SliceRecord const&, SliceRecord const&) = default;
};

/// One file. The digest of a data file covers every byte that belongs to no slice (the HDF5
/// structure), so that slices and frame together cover the file once; other files are hashed whole.
struct FileRecord {
    std::string name;
    std::int64_t bytes = 0;
    Digest digest;

    friend bool operator==(FileRecord const&, FileRecord const&) = default;
};

/// What one writer hands to the rank that commits.
struct WriterResult {
    FileRecord file;
    std::vector<SliceRecord> slices;

    friend bool operator==(WriterResult const&, WriterResult const&) = default;
};

/// State of the training besides tensors. Random numbers are counter-based and the sample order is
/// a pure function, so a step and a seed stand for all of both.
struct TrainingState {
    std::int64_t step = 0; ///< optimizer steps done
    std::int64_t samples_consumed = 0;
    std::int64_t tokens_consumed = 0;
    std::uint64_t seed = 0;
    std::string data_fingerprint;
    std::string optimizer;
    double loss_scale = 1.0;
    std::int64_t nonfinite_steps = 0; ///< steps skipped because loss or gradient was not finite
    KeyValues extra;                  ///< anything else a later version wants back

    friend bool operator==(TrainingState const&, TrainingState const&) = default;
};

/// The content of manifest.json.
struct Manifest {
    std::string creator; ///< program and version, for people
    TrainingState state;
    KeyValues model; ///< keys that decide whether the tensors fit a job: `hidden_size`, ...
    std::vector<std::string> kinds;
    std::vector<TensorInfo> tensors;
    std::vector<FileRecord> data_files;
    std::vector<FileRecord> side_files; ///< job.toml, plan.toml, schedule.csv, model.h5
    std::vector<SliceRecord> slices;

    friend bool operator==(Manifest const&, Manifest const&) = default;
};

/// The dataset of a slice in its data file.
std::string dataset_path(std::string_view kind, std::string_view name, core::Range rows);
/// `data-0003.h5` for writer 3.
std::string data_file_name(int writer);
/// Bytes of all tensors of all kinds: what a checkpoint takes on disk, up to HDF5's few kilobytes.
std::int64_t payload_bytes(std::vector<TensorInfo> const& tensors,
                           std::vector<std::string> const& kinds);

/// What makes two models different, one line each: `hidden_size is 512 in the checkpoint, 256 in
/// the job`. Empty when they are the same model.
std::vector<std::string> differences(KeyValues const& checkpoint, KeyValues const& job);

} // namespace evener::checkpoints
