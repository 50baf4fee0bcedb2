// SPDX-License-Identifier: Apache-2.0
#pragma once

// File helpers shared by io/: descriptors that close themselves, whole-file reads, writes that are
// either complete or absent, and the lock that keeps a second job out of a run folder. Every
// failure is a core::IoError with the path and the system's reason.

#include "core/handle.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace evener::io {

struct FileDescriptorTraits {
    using Handle = int;
    static constexpr int null() noexcept { return -1; }
    static void close(int descriptor) noexcept;
};
using FileDescriptor = core::UniqueHandle<FileDescriptorTraits>;

/// Opens a regular file for reading and returns its size through `bytes`.
FileDescriptor open_for_reading(std::string const& path, std::int64_t& bytes);

/// The whole file as bytes.
std::string read_file(std::string const& path);

/// Replaces `path` by `content`: readers see the old file or the new one, never a part, also after
/// a power cut (temporary file in the same folder, fsync, rename, fsync of the folder).
void write_file_atomically(std::string const& path, std::string_view content);

/// Throws IoError for a device, a FIFO or a socket, which a rename would replace like a file.
void refuse_to_replace(std::string const& path);

/// Creates the folder and its parents; one that is there already is fine.
void create_folder(std::string const& path);

/// A file that appears under its name only when commit() returns; without commit() the temporary
/// file is removed. Devices, FIFOs and sockets are not replaced: IoError.
class AtomicFile {
  public:
    explicit AtomicFile(std::string path);
    AtomicFile(AtomicFile&& other) noexcept;
    AtomicFile& operator=(AtomicFile&&) = delete;
    ~AtomicFile();

    void append(std::span<std::byte const> data);
    /// Overwrites `data.size()` bytes from `offset` on; the end of the file does not move.
    void overwrite(std::int64_t offset, std::span<std::byte const> data);
    /// Makes the content durable and renames it to `path` (default: the constructor's).
    void commit();
    void commit_as(std::string const& path);
    std::string const& path() const noexcept { return path_; }

  private:
    std::string path_;
    std::string temporary_; // empty once committed or moved from
    FileDescriptor file_;
};

/// Holds a run folder for this process. The lock is a kernel lock (flock) on `FOLDER/lock`, so it
/// ends with the process, however that ends; the file's text (host, process id, start) only serves
/// the message. Where the file system has no locks, an exclusively created file takes its place:
/// one left by a dead process of this host is taken over, any other is refused with the remedy.
class RunFolderLock {
  public:
    enum class Method { automatic, exclusive_file };

    /// Creates the folder when it is absent. Throws core::IoError naming the holder.
    explicit RunFolderLock(std::string const& folder, Method method = Method::automatic);
    RunFolderLock(RunFolderLock&& other) noexcept;
    RunFolderLock& operator=(RunFolderLock&&) = delete;
    ~RunFolderLock();

  private:
    void lock_by_exclusive_file(std::string const& path);

    FileDescriptor file_;
    std::string exclusive_path_; // set where the file itself is the lock
};

namespace detail {

/// "No such file or directory" for the errno of a call that just failed.
std::string errno_text();
void write_all(int descriptor, std::string const& path, std::span<std::byte const> data);
std::string folder_of(std::string const& path);
void sync_folder(std::string const& folder);

} // namespace detail

} // namespace evener::io
