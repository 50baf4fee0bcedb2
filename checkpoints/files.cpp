// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/files.hpp"

#include "core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace evener::checkpoints::files {

namespace {

constexpr std::int64_t largest_text = std::int64_t{1} << 30;

void sync_path(std::string const& path, int flags) {
    Descriptor const descriptor{::open(path.c_str(), flags | O_CLOEXEC)};
    if (descriptor.get() < 0)
        fail(path, "open it to sync it", errno);
    // EINVAL: the file system does not sync this kind of object; there is nothing more to do.
    if (::fsync(descriptor.get()) != 0 && errno != EINVAL)
        fail(path, "sync it to the disk", errno);
}

void write_all(std::string const& path, std::string_view text) {
    Descriptor const descriptor{
        ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
    if (descriptor.get() < 0)
        fail(path, "create it", errno);
    while (!text.empty()) {
        ssize_t const written = ::write(descriptor.get(), text.data(), text.size());
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            fail(path, "write it", errno);
        text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (::fsync(descriptor.get()) != 0)
        fail(path, "sync it to the disk", errno);
}

} // namespace

void DescriptorTraits::close(int descriptor) noexcept {
    ::close(descriptor);
}

std::string remedy(int error) {
    switch (error) {
    case ENOSPC:
        return " free some space or choose another 'out'";
    case EDQUOT:
        return " your quota is used up: delete files or choose another 'out'";
    case EFBIG:
        return " raise the file size limit (ulimit -f) or choose a file system that allows it";
    case EROFS:
    case EACCES:
    case EPERM:
        return " choose an 'out' folder that you may write";
    case ENOLCK:
    case EWOULDBLOCK:
        return " if no other program has it open, the file system may lack locks: set "
               "HDF5_USE_FILE_LOCKING=FALSE";
    default:
        return "";
    }
}

void fail(std::string const& path, std::string_view action, int error) {
    throw core::IoError{path, fmt::format("cannot {} ({}){}", action,
                                          std::generic_category().message(error), remedy(error))};
}

Descriptor open_for_reading(std::string const& path) {
    Descriptor descriptor{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    if (descriptor.get() < 0)
        fail(path, "open it", errno);
    return descriptor;
}

std::optional<std::int64_t> size_of(std::string const& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode))
        return std::nullopt;
    return static_cast<std::int64_t>(status.st_size);
}

bool is_folder(std::string const& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

bool is_there(std::string const& path) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0;
}

std::vector<std::string> names_in(std::string const& folder) {
    std::vector<std::string> names;
    std::error_code error;
    std::filesystem::directory_iterator entry{folder, error};
    for (std::filesystem::directory_iterator const end; !error && entry != end;
         entry.increment(error))
        names.push_back(entry->path().filename().string());
    if (error && error != std::errc::no_such_file_or_directory)
        fail(folder, "list it", error.value());
    std::sort(names.begin(), names.end());
    return names;
}

std::string read_text(std::string const& path) {
    Descriptor const descriptor = open_for_reading(path);
    std::optional<std::int64_t> const size = size_of(path);
    if (!size || *size > largest_text)
        throw core::IoError{path, "cannot read it (it is no file, or one of more than 1 GiB)"};
    std::string text(static_cast<std::size_t>(*size), '\0');
    std::size_t filled = 0;
    while (filled < text.size()) {
        ssize_t const got = ::read(descriptor.get(), text.data() + filled, text.size() - filled);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            fail(path, "read it", errno);
        if (got == 0)
            break;
        filled += static_cast<std::size_t>(got);
    }
    text.resize(filled);
    return text;
}

void write_text(std::string const& path, std::string_view text,
                std::function<void()> const& before_rename) {
    std::string const temporary = path + ".tmp";
    write_all(temporary, text);
    if (before_rename)
        before_rename();
    rename(temporary, path);
}

bool add_bytes(Hasher& hasher, Descriptor const& file, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t block = std::int64_t{8} << 20;
    std::vector<char> buffer(static_cast<std::size_t>(std::min(block, end - begin)));
    while (begin < end) {
        auto const wanted = static_cast<std::size_t>(std::min(block, end - begin));
        ssize_t const got = ::pread(file.get(), buffer.data(), wanted, begin);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        hasher.add(buffer.data(), static_cast<std::size_t>(got));
        begin += got;
    }
    return true;
}

void make_folders(std::string const& path) {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error || !is_folder(path))
        fail(path, "create the folder", error ? error.value() : ENOTDIR);
}

void make_folder(std::string const& path) {
    if (::mkdir(path.c_str(), 0777) != 0)
        fail(path, "create the folder", errno);
}

void rename(std::string const& from, std::string const& to) {
    if (std::rename(from.c_str(), to.c_str()) != 0)
        fail(from, fmt::format("rename it to '{}'", to), errno);
}

void remove_tree(std::string const& path) {
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error)
        fail(path, "remove it", error.value());
}

void empty(std::string const& path) noexcept {
    // If this fails as well, the space comes back when the process ends.
    static_cast<void>(::truncate(path.c_str(), 0) == 0);
}

void sync_file(std::string const& path) {
    sync_path(path, O_RDONLY);
}

void sync_folder(std::string const& path) {
    sync_path(path, O_RDONLY | O_DIRECTORY);
}

void begin_writing_out(Descriptor const& file, std::int64_t begin, std::int64_t end) noexcept {
    // Advice: what cannot be begun now is written by the sync.
    static_cast<void>(::sync_file_range(file.get(), begin, end - begin, SYNC_FILE_RANGE_WRITE) ==
                      0);
}

void forget(std::string const& path) {
    // Advice: what fails leaves the pages where they are.
    static_cast<void>(::posix_fadvise(open_for_reading(path).get(), 0, 0, POSIX_FADV_DONTNEED));
}

std::int64_t free_bytes(std::string const& folder) {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) != 0)
        fail(folder, "ask for its free space", errno);
    return static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
}

} // namespace evener::checkpoints::files
