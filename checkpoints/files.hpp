// SPDX-License-Identifier: Apache-2.0
#pragma once

// POSIX file operations with errors that name the path and the remedy, and what makes a file safe:
// data synced, then the folder that names it. Used inside checkpoints/ only.

#include "checkpoints/digest.hpp"
#include "core/handle.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace evener::checkpoints::files {

/// Throws IoError: `'path': cannot ACTION (ERROR TEXT) REMEDY`, with a remedy where one is known.
[[noreturn]] void fail(std::string const& path, std::string_view action, int error);
/// What to do about an errno, with a leading blank; empty if nothing is known.
std::string remedy(int error);

struct DescriptorTraits {
    using Handle = int;
    static constexpr int null() { return -1; }
    static void close(int descriptor) noexcept;
};
using Descriptor = core::UniqueHandle<DescriptorTraits>;

Descriptor open_for_reading(std::string const& path);
/// Size of a regular file; nothing if there is none.
std::optional<std::int64_t> size_of(std::string const& path);
bool is_folder(std::string const& path);
/// Whether the name is taken, by whatever it is.
bool is_there(std::string const& path);
/// Names in a folder, sorted; empty if it does not exist.
std::vector<std::string> names_in(std::string const& folder);

/// Whole content. Throws IoError; a folder or a file over 1 GiB counts as unreadable.
std::string read_text(std::string const& path);
/// Writes `path`.tmp, syncs it, calls `before_rename` and renames it to `path`.
void write_text(std::string const& path, std::string_view text,
                std::function<void()> const& before_rename = {});

/// Adds the bytes [begin, end); false if the file ends before or cannot be read.
bool add_bytes(Hasher& hasher, Descriptor const& file, std::int64_t begin, std::int64_t end);

void make_folders(std::string const& path);
void make_folder(std::string const& path);
void rename(std::string const& from, std::string const& to);
/// Removes a file or a folder with all that is in it; fine if there is none.
void remove_tree(std::string const& path);
/// Cuts a file to nothing, if it is there.
void empty(std::string const& path) noexcept;
void sync_file(std::string const& path);
void sync_folder(std::string const& path);
/// Has the system begin to write the bytes [begin, end) out, so that a later sync finds less to do.
void begin_writing_out(Descriptor const& file, std::int64_t begin, std::int64_t end) noexcept;
/// Drops a synced file from the page cache, where the system can: the next read is from the disk.
void forget(std::string const& path);
/// Bytes a user without privileges can still write.
std::int64_t free_bytes(std::string const& folder);

} // namespace evener::checkpoints::files
