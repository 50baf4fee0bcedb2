// SPDX-License-Identifier: Apache-2.0

// The lock of a run folder: flock where the file system has it, an exclusive file where not.

#include "core/error.hpp"
#include "io/files.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <sstream>

namespace evener::io {

using core::IoError;

namespace {

std::string this_host() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

/// What a lock file says: "host pid date time".
struct Holder {
    std::string host;
    long process = 0;
    std::string since;
};

Holder parse_holder(std::string const& text) {
    Holder holder;
    std::istringstream words{text};
    std::string date;
    std::string time;
    if (words >> holder.host >> holder.process >> date >> time)
        holder.since = date + ' ' + time;
    return holder;
}

std::string describe(Holder const& holder) {
    if (holder.since.empty())
        return "another process";
    return fmt::format("process {} on host '{}' since {}", holder.process, holder.host,
                       holder.since);
}

void write_holder(int descriptor, std::string const& path) {
    std::string const text = fmt::format("{} {} {:%Y-%m-%d %H:%M:%S}\n", this_host(), ::getpid(),
                                         fmt::localtime(std::time(nullptr)));
    if (::ftruncate(descriptor, 0) != 0)
        throw IoError{path, fmt::format("cannot be written ({})", detail::errno_text())};
    detail::write_all(descriptor, path, std::as_bytes(std::span{text}));
}

bool is_dead(Holder const& holder) {
    return holder.process > 0 && holder.host == this_host() &&
           ::kill(static_cast<pid_t>(holder.process), 0) != 0 && errno == ESRCH;
}

bool means_no_locks(int error) {
    return error == ENOSYS || error == EOPNOTSUPP || error == ENOLCK || error == EINVAL;
}

} // namespace

RunFolderLock::RunFolderLock(std::string const& folder, Method method) {
    create_folder(folder);
    std::string const path = folder + "/lock";
    if (method == Method::exclusive_file) {
        lock_by_exclusive_file(path);
        return;
    }
    // Read-write, because NFS turns flock into a byte-range lock, which needs a writable file.
    FileDescriptor file{::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)};
    if (file.get() < 0)
        throw IoError{path, fmt::format("cannot be opened ({})", detail::errno_text())};
    int result = 0;
    do
        result = ::flock(file.get(), LOCK_EX | LOCK_NB);
    while (result != 0 && errno == EINTR);
    if (result != 0 && means_no_locks(errno)) {
        lock_by_exclusive_file(path);
        return;
    }
    if (result != 0 && errno != EWOULDBLOCK)
        throw IoError{path, fmt::format("cannot be locked ({})", detail::errno_text())};
    if (result != 0)
        throw IoError{folder,
                      fmt::format("the run folder is in use by {}; wait for that job to end or "
                                  "set another [run] out",
                                  describe(parse_holder(read_file(path))))};
    write_holder(file.get(), path);
    file_ = FileDescriptor{file.release()};
}

void RunFolderLock::lock_by_exclusive_file(std::string const& path) {
    std::string const exclusive = path + ".exclusive";
    for (int attempt = 0; attempt < 2; ++attempt) {
        FileDescriptor file{
            ::open(exclusive.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666)};
        if (file.get() >= 0) {
            try {
                write_holder(file.get(), exclusive);
            } catch (IoError const&) {
                ::unlink(exclusive.c_str());
                throw;
            }
            exclusive_path_ = exclusive;
            return;
        }
        if (errno != EEXIST)
            throw IoError{exclusive, fmt::format("cannot be created ({})", detail::errno_text())};
        Holder const holder = parse_holder(read_file(exclusive));
        if (!is_dead(holder))
            throw IoError{exclusive,
                          fmt::format("the run folder is in use by {} (its file system has no "
                                      "locks); if that job has ended, remove this file",
                                      describe(holder))};
        ::unlink(exclusive.c_str());
    }
    throw IoError{exclusive, "another job took the run folder just now; set another [run] out"};
}

RunFolderLock::RunFolderLock(RunFolderLock&& other) noexcept
    : file_{std::move(other.file_)}, exclusive_path_{std::exchange(other.exclusive_path_, {})} {}

RunFolderLock::~RunFolderLock() {
    // The flock file stays: removing it would let a third job lock a new file of the same name
    // while a second one still waits on the old one. Its text goes, so it names no dead holder.
    if (file_.get() >= 0)
        static_cast<void>(::ftruncate(file_.get(), 0) == 0);
    if (!exclusive_path_.empty())
        ::unlink(exclusive_path_.c_str());
}

} // namespace evener::io
