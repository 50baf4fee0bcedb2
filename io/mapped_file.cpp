// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.hpp"

#include "core/error.hpp"
#include "io/files.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <utility>

namespace evener::io {

MappedFile::MappedFile(std::string path) : path_{std::move(path)} {
    std::int64_t size = 0;
    FileDescriptor const file = open_for_reading(path_, size);
    if (size == 0)
        return; // mmap refuses length 0
    auto const length = static_cast<std::size_t>(size);
    void* const address = ::mmap(nullptr, length, PROT_READ, MAP_SHARED, file.get(), 0);
    if (address == MAP_FAILED)
        throw core::IoError{path_, fmt::format("cannot be mapped ({})", detail::errno_text())};
    bytes_ = {static_cast<std::byte const*>(address), length};
    guard_ = MappingGuard{bytes_, PROT_READ};
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_{std::move(other.path_)}, bytes_{std::exchange(other.bytes_, {})}, guard_{std::move(
                                                                                  other.guard_)} {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    std::swap(guard_, other.guard_);
    return *this;
}

MappedFile::~MappedFile() {
    guard_ = {};
    if (!bytes_.empty())
        ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::advise(AccessPattern pattern) const noexcept {
    if (!bytes_.empty())
        ::madvise(const_cast<std::byte*>(bytes_.data()), bytes_.size(),
                  pattern == AccessPattern::random ? MADV_RANDOM : MADV_SEQUENTIAL);
}

void MappedFile::require_unchanged() const {
    if (guard_.lost())
        throw core::IoError{path_,
                            fmt::format("was cut short while it was used (it had {} bytes when "
                                        "it was opened) put it back as it was and resume",
                                        bytes_.size())};
}

} // namespace evener::io
