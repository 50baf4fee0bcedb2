// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/hdf5.hpp"

#include "checkpoints/files.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>

namespace evener::checkpoints::hdf5 {

namespace {

/// Innermost entry first, as that one says what happened; the three innermost and the outermost.
std::string error_stack() {
    std::vector<std::string> entries;
    auto const add = [](unsigned, H5E_error2_t const* entry, void* data) -> herr_t {
        std::string text = fmt::format("{}: {}", entry->func_name ? entry->func_name : "?",
                                       entry->desc ? entry->desc : "?");
        std::erase(text, '\n'); // ctime's, in the texts of failed writes
        static_cast<std::vector<std::string>*>(data)->push_back(std::move(text));
        return 0;
    };
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, add, &entries);
    if (entries.empty())
        return "no error stack";
    if (entries.size() > 4) {
        entries[3] = "...";
        entries.erase(entries.begin() + 4, entries.end() - 1);
    }
    return fmt::format("{}", fmt::join(entries, "; "));
}

/// HDF5 keeps the system's error number only inside its texts: "..., errno = 28, ...".
int system_error_in(std::string const& stack) {
    constexpr std::string_view mark = "errno = ";
    auto const place = stack.find(mark);
    return place == std::string::npos ? 0 : std::atoi(stack.c_str() + place + mark.size());
}

std::int64_t elements(Box const& box) {
    std::int64_t product = 1;
    for (hsize_t const count : box.count)
        product *= static_cast<std::int64_t>(count);
    return product;
}

void cut(Box const& box, std::int64_t first, std::int64_t max_elements, UseBlock const& use) {
    std::int64_t const size = elements(box);
    if (size <= max_elements) {
        use(box, first, size);
        return;
    }
    std::size_t dim = 0;
    while (box.count[dim] == 1)
        ++dim;
    std::int64_t const inner = size / static_cast<std::int64_t>(box.count[dim]);
    auto const step = static_cast<hsize_t>(std::max<std::int64_t>(1, max_elements / inner));
    for (hsize_t done = 0; done < box.count[dim]; done += step) {
        Box part = box;
        part.offset[dim] += done;
        part.count[dim] = std::min(step, box.count[dim] - done);
        cut(part, first + static_cast<std::int64_t>(done) * inner, max_elements, use);
    }
}

Dataspace select(hid_t dataset, Box const& box, std::string const& path) {
    Dataspace space{EVENER_HDF5(path, H5Dget_space(dataset))};
    int const rank = EVENER_HDF5(path, H5Sget_simple_extent_ndims(space.get()));
    if (rank != static_cast<int>(box.offset.size()))
        throw core::CheckpointError{path,
                                    "a dataset has another number of dimensions than its tensor"};
    EVENER_HDF5(path, H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, box.offset.data(), nullptr,
                                          box.count.data(), nullptr));
    return space;
}

Dataspace memory_of(Box const& box, std::string const& path) {
    auto const size = static_cast<hsize_t>(elements(box));
    return Dataspace{EVENER_HDF5(path, H5Screate_simple(1, &size, nullptr))};
}

} // namespace

void fail(char const* call, std::string const& path) {
    std::string const stack = error_stack();
    std::string_view name{call};
    name = name.substr(0, name.find('('));
    if (int const error = system_error_in(stack); error != 0)
        throw core::IoError{path, fmt::format("{} failed ({}){} [HDF5: {}]", name,
                                              std::generic_category().message(error),
                                              files::remedy(error), stack)};
    throw core::CheckpointError{path, fmt::format("{} failed [HDF5: {}]", name, stack)};
}

void prepare_library() {
    // Its exit handler would write to files that were given up.
    static herr_t const no_exit_handler = H5dont_atexit();
    static_cast<void>(no_exit_handler);
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

File create_file(std::string const& path) {
    prepare_library();
    Properties const access{EVENER_HDF5(path, H5Pcreate(H5P_FILE_ACCESS))};
    EVENER_HDF5(path, H5Pset_fclose_degree(access.get(), H5F_CLOSE_STRONG));
    // No sieve buffer: data is written, or refused, in H5Dwrite and not when something is closed.
    EVENER_HDF5(path, H5Pset_sieve_buf_size(access.get(), 0));
    return File{
        EVENER_HDF5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()))};
}

File open_file(std::string const& path) {
    prepare_library();
    return File{EVENER_HDF5(path, H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT))};
}

Properties link_with_parents(std::string const& path) {
    Properties links{EVENER_HDF5(path, H5Pcreate(H5P_LINK_CREATE))};
    EVENER_HDF5(path, H5Pset_create_intermediate_group(links.get(), 1));
    return links;
}

Dataspace make_space(std::vector<std::int64_t> const& extents, std::string const& path) {
    std::vector<hsize_t> const sizes(extents.begin(), extents.end());
    return Dataspace{
        EVENER_HDF5(path, H5Screate_simple(static_cast<int>(sizes.size()), sizes.data(), nullptr))};
}

void for_each_block(Box const& box, std::int64_t max_elements, UseBlock const& use) {
    EVENER_EXPECT(max_elements >= 1);
    cut(box, 0, max_elements, use);
}

void write_box(hid_t dataset, Box const& box, float const* src, std::string const& path) {
    Dataspace const file = select(dataset, box, path);
    Dataspace const memory = memory_of(box, path);
    EVENER_HDF5(path,
                H5Dwrite(dataset, H5T_NATIVE_FLOAT, memory.get(), file.get(), H5P_DEFAULT, src));
}

void read_box(hid_t dataset, Box const& box, float* dst, std::string const& path) {
    Dataspace const file = select(dataset, box, path);
    Dataspace const memory = memory_of(box, path);
    EVENER_HDF5(path,
                H5Dread(dataset, H5T_NATIVE_FLOAT, memory.get(), file.get(), H5P_DEFAULT, dst));
}

} // namespace evener::checkpoints::hdf5
