// SPDX-License-Identifier: Apache-2.0
#include "io/files.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

namespace evener::io {

using core::IoError;

namespace detail {

std::string errno_text() {
    return std::error_code{errno, std::generic_category()}.message();
}

void write_all(int descriptor, std::string const& path, std::span<std::byte const> data) {
    while (!data.empty()) {
        ssize_t const written = ::write(descriptor, data.data(), data.size());
        if (written < 0) {
            if (errno == EINTR)
                continue;
            throw IoError{path, fmt::format("cannot be written ({})", errno_text())};
        }
        data = data.subspan(static_cast<std::size_t>(written));
    }
}

std::string folder_of(std::string const& path) {
    std::string const folder = std::filesystem::path{path}.parent_path().string();
    return folder.empty() ? std::string{"."} : folder;
}

void sync_folder(std::string const& folder) {
    FileDescriptor const descriptor{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (descriptor.get() < 0)
        throw IoError{folder, fmt::format("cannot be opened ({})", errno_text())};
    // Some network file systems cannot sync a folder (EINVAL); there the rename is all we can do.
    if (::fsync(descriptor.get()) != 0 && errno != EINVAL)
        throw IoError{folder, fmt::format("cannot be synced ({})", errno_text())};
}

} // namespace detail

void FileDescriptorTraits::close(int descriptor) noexcept {
    ::close(descriptor);
}

FileDescriptor open_for_reading(std::string const& path, std::int64_t& bytes) {
    // O_NONBLOCK: opening a FIFO without a writer must not hang before we can refuse it.
    FileDescriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    if (file.get() < 0)
        throw IoError{path, fmt::format("cannot be opened ({})", detail::errno_text())};
    struct stat status {};
    if (::fstat(file.get(), &status) != 0)
        throw IoError{path, fmt::format("cannot be examined ({})", detail::errno_text())};
    if (!S_ISREG(status.st_mode))
        throw IoError{path, S_ISDIR(status.st_mode) ? "is a folder, not a file"
                                                    : "is not a regular file"};
    bytes = status.st_size;
    return file;
}

std::string read_file(std::string const& path) {
    std::int64_t bytes = 0;
    FileDescriptor const file = open_for_reading(path, bytes);
    std::string content;
    // Files of /proc report size 0, so read until the end and take the size as a hint only.
    content.reserve(static_cast<std::size_t>(bytes));
    char buffer[1 << 16];
    for (;;) {
        ssize_t const count = ::read(file.get(), buffer, sizeof buffer);
        if (count == 0)
            return content;
        if (count < 0 && errno != EINTR)
            throw IoError{path, fmt::format("cannot be read ({})", detail::errno_text())};
        if (count > 0)
            content.append(buffer, static_cast<std::size_t>(count));
    }
}

void write_file_atomically(std::string const& path, std::string_view content) {
    AtomicFile file{path};
    file.append(std::as_bytes(std::span{content}));
    file.commit();
}

void create_folder(std::string const& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error)
        throw IoError{path, fmt::format("cannot be created as a folder ({})", error.message())};
    if (!std::filesystem::is_directory(path, error))
        throw IoError{path, "is not a folder"};
}

void refuse_to_replace(std::string const& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode))
        throw IoError{path, "is no regular file, and a file would take its place; name another"};
}

AtomicFile::AtomicFile(std::string path) : path_{std::move(path)} {
    refuse_to_replace(path_);
    static std::atomic<unsigned> count{0};
    do { // a left-over of a crashed process with our id is stepped over, not reused
        temporary_ = fmt::format("{}.tmp-{}-{}", path_, ::getpid(), count++);
        file_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    } while (file_.get() < 0 && errno == EEXIST);
    if (file_.get() < 0) {
        temporary_.clear();
        throw IoError{path_, fmt::format("cannot be created ({})", detail::errno_text())};
    }
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_{std::move(other.path_)},
      temporary_{std::exchange(other.temporary_, {})}, file_{std::move(other.file_)} {}

AtomicFile::~AtomicFile() {
    if (!temporary_.empty())
        ::unlink(temporary_.c_str());
}

void AtomicFile::append(std::span<std::byte const> data) {
    detail::write_all(file_.get(), path_, data);
}

void AtomicFile::overwrite(std::int64_t offset, std::span<std::byte const> data) {
    while (!data.empty()) {
        ssize_t const written = ::pwrite(file_.get(), data.data(), data.size(), offset);
        if (written < 0) {
            if (errno == EINTR)
                continue;
            throw IoError{path_, fmt::format("cannot be written ({})", detail::errno_text())};
        }
        data = data.subspan(static_cast<std::size_t>(written));
        offset += written;
    }
}

void AtomicFile::commit() {
    commit_as(path_);
}

void AtomicFile::commit_as(std::string const& path) {
    EVENER_EXPECT(!temporary_.empty());
    refuse_to_replace(path);
    if (::fsync(file_.get()) != 0)
        throw IoError{path, fmt::format("cannot be synced ({})", detail::errno_text())};
    // Network file systems may report a full disk only at close, so close() is checked here.
    if (::close(file_.release()) != 0)
        throw IoError{path, fmt::format("cannot be written ({})", detail::errno_text())};
    if (::rename(temporary_.c_str(), path.c_str()) != 0)
        throw IoError{path, fmt::format("cannot be put in place ({})", detail::errno_text())};
    temporary_.clear();
    path_ = path;
    detail::sync_folder(detail::folder_of(path));
}

} // namespace evener::io
