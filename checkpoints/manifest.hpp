// SPDX-License-Identifier: Apache-2.0
#pragma once

// manifest.json: the table of contents and the mark that a checkpoint is complete. Reading it
// trusts nothing: a Manifest that comes out of here tiles every tensor of every kind exactly once
// with slices that lie inside known files and do not overlap. Any text, however mutilated, gives
// either such a Manifest or a CheckpointError.

#include "checkpoints/records.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace evener::checkpoints {

inline constexpr std::string_view manifest_name = "manifest.json";

/// Throws CheckpointError naming `path` and the first fault found. Touches no file.
void validate(Manifest const& manifest, std::string const& path);

/// JSON text, one line per tensor, file and slice, sealed by its own digest (FORMAT.md, "The
/// seal"). Throws CheckpointError if a text is not UTF-8 or a number not finite.
std::string manifest_text(Manifest const& manifest, std::string const& path);
/// Inverse of manifest_text: checks the seal, parses and validates.
Manifest parse_manifest(std::string const& text, std::string const& path);
/// parse_manifest of `folder`/manifest.json; IoError if it cannot be read.
Manifest read_manifest(std::string const& folder);

/// The text with the seal made right again: for tools and tests that edit a manifest on purpose.
std::string sealed(std::string text);

/// A writer's result as text, to be sent to the rank that commits, and back.
std::string encode(WriterResult const& result);
WriterResult decode_writer_result(std::string const& text);

/// What is wrong with the file's presence or size in `folder`, as one line; empty: nothing.
std::string misfit(FileRecord const& file, std::string const& folder);
/// Data files of `manifest` that are missing in `folder` or have the wrong size, one line each.
std::vector<std::string> misfit_files(Manifest const& manifest, std::string const& folder);

} // namespace evener::checkpoints
