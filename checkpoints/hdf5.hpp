// SPDX-License-Identifier: Apache-2.0
#pragma once

// The C interface of HDF5, with owners for its identifiers, checked calls, and calls that never
// move more than a limit (some versions and file systems fail or corrupt data at 2 GiB). Used
// inside checkpoints/ only.

#include "checkpoints/files.hpp"
#include "core/handle.hpp"

#include <hdf5.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace evener::checkpoints::hdf5 {

template <herr_t (*Close)(hid_t)>
struct IdTraits {
    using Handle = hid_t;
    static constexpr hid_t null() { return H5I_INVALID_HID; }
    static void close(hid_t id) noexcept { Close(id); }
};
using File = core::UniqueHandle<IdTraits<H5Fclose>>;
using Group = core::UniqueHandle<IdTraits<H5Gclose>>;
using Dataset = core::UniqueHandle<IdTraits<H5Dclose>>;
using Dataspace = core::UniqueHandle<IdTraits<H5Sclose>>;
using Properties = core::UniqueHandle<IdTraits<H5Pclose>>;
using Attribute = core::UniqueHandle<IdTraits<H5Aclose>>;
using Datatype = core::UniqueHandle<IdTraits<H5Tclose>>;

/// A file in a type that headers can declare without including HDF5.
struct OpenFile {
    File id;
    files::Descriptor descriptor = {}; ///< of the same file, for advice to the system
};

/// Throws from HDF5's error stack of this thread: IoError if the system refused something (with the
/// remedy), else CheckpointError: the file is not what HDF5 expects.
[[noreturn]] void fail(char const* call, std::string const& path);

template <class Result>
Result checked(Result result, char const* call, std::string const& path) {
    if (result < 0)
        fail(call, path);
    return result;
}

/// Before anything else in a thread that calls HDF5: it then prints no error stacks to stderr, and
/// does nothing at exit.
void prepare_library();

/// A new file, replacing an old one; with `open_degree` strong: closing it closes what is open in
/// it.
File create_file(std::string const& path);
File open_file(std::string const& path);
/// Properties that make parent groups on the way to a path.
Properties link_with_parents(std::string const& path);
Dataspace make_space(std::vector<std::int64_t> const& extents, std::string const& path);

/// A box of elements: per dimension where it begins and how many.
struct Box {
    std::vector<hsize_t> offset;
    std::vector<hsize_t> count;
};

/// Cuts a box, contiguous in row-major order, into contiguous boxes of at most `max_elements` >= 1
/// and calls use(part, place of its first element counted from the box's first, its elements).
using UseBlock = std::function<void(Box const&, std::int64_t, std::int64_t)>;
void for_each_block(Box const& box, std::int64_t max_elements, UseBlock const& use);

/// Moves one box between a dataset and contiguous memory.
void write_box(hid_t dataset, Box const& box, float const* src, std::string const& path);
void read_box(hid_t dataset, Box const& box, float* dst, std::string const& path);

} // namespace evener::checkpoints::hdf5

/// The value of an HDF5 call, or an exception with the call's name, the error stack and the path.
#define EVENER_HDF5(path, call) ::evener::checkpoints::hdf5::checked((call), #call, (path))
