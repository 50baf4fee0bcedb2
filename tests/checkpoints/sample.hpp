// SPDX-License-Identifier: Apache-2.0
#pragma once

// A small training state for the tests: its values are a closed form of (salt, kind, name, index)
// that takes every bit pattern (NaNs with payload, denormals, infinities), cut into slices at
// random and spread over several writers.

#include "checkpoints/shared_file.hpp"
#include "checkpoints/store.hpp"
#include "checkpoints/writer.hpp"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace evener::checkpoints::sample {

std::vector<TensorInfo> tensors();
std::vector<std::string> kinds();
Description description(std::int64_t step);

/// The bits of rows [rows.begin, rows.end).
std::vector<float> values(std::uint64_t salt, std::string const& kind, TensorInfo const& tensor,
                          core::Range rows);

/// Writes all of it into `folder` with `writers` writers. Tensors of `infos`, cut by `seed`.
std::vector<WriterResult> write_slices(std::string const& folder, std::uint64_t salt,
                                       std::uint64_t seed, int writers,
                                       std::vector<TensorInfo> const& infos = tensors());

/// The same into one file by `writers` threads.
WriterResult write_shared_slices(std::string const& folder, std::uint64_t salt, std::uint64_t seed,
                                 int writers, std::vector<TensorInfo> const& infos = tensors());

/// A whole save: begin, write, commit. Returns the folder.
std::string save(std::string const& out, std::int64_t step, std::uint64_t salt = 0,
                 int writers = 2);

/// Expects every tensor in `folder` to have the bits of `salt`.
void expect_values(std::string const& folder, std::uint64_t salt);

/// The bits, for comparisons in which a NaN equals itself.
std::vector<std::uint32_t> bits(std::vector<float> const& values);

std::string slurp(std::filesystem::path const& path);
void spill(std::filesystem::path const& path, std::string const& text);

} // namespace evener::checkpoints::sample
