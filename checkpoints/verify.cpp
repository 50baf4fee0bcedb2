// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/verify.hpp"

#include "checkpoints/frame.hpp"
#include "checkpoints/hdf5.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

namespace evener::checkpoints {

namespace {

/// That HDF5 finds a slice where the manifest says: what h5py sees is what was hashed.
void check_place(hdf5::File const& file, SliceRecord const& slice, std::string const& path) {
    hdf5::Dataset const dataset{
        EVENER_HDF5(path, H5Dopen2(file.get(), slice.dataset().c_str(), H5P_DEFAULT))};
    if (H5Dget_offset(dataset.get()) != static_cast<haddr_t>(slice.offset))
        throw core::CheckpointError{
            path, fmt::format("'{}' is not where the manifest says", slice.dataset())};
}

/// By offset, so that they are judged one by one even where HDF5 cannot open the file.
void check_slices(files::Descriptor const& file, std::string const& name,
                  std::vector<SliceRecord const*> const& slices, std::vector<std::string>& lines) {
    for (SliceRecord const* slice : slices) {
        Hasher hasher;
        if (!files::add_bytes(hasher, file, slice->offset, slice->offset + slice->bytes))
            lines.push_back(
                fmt::format("{}: {}: cannot be read to its end", name, slice->dataset()));
        else if (hasher.digest() != slice->digest)
            lines.push_back(
                fmt::format("{}: {}: its checksum is not the manifest's", name, slice->dataset()));
    }
}

std::vector<SliceRecord const*> pointers_to(std::vector<SliceRecord> const& slices) {
    std::vector<SliceRecord const*> pointers;
    for (SliceRecord const& slice : slices)
        pointers.push_back(&slice);
    return pointers;
}

/// HDF5 sees the file only if its structure is whole.
void check_file(FileRecord const& record, std::vector<SliceRecord const*> const& slices,
                std::string const& folder, std::vector<std::string>& lines) {
    std::string const path = fmt::format("{}/{}", folder, record.name);
    auto const bytes = files::size_of(path);
    if (!bytes)
        return; // misfit tells
    files::Descriptor const file = files::open_for_reading(path);
    check_slices(file, record.name, slices, lines);
    if (*bytes != record.bytes)
        return;
    if (frame_digest(file, record.bytes, slices) != record.digest) {
        lines.push_back(fmt::format("{}: the structure of the file is damaged", record.name));
        return;
    }
    hdf5::File const opened = hdf5::open_file(path);
    for (SliceRecord const* slice : slices)
        check_place(opened, *slice, path);
}

void check_side_file(FileRecord const& record, std::string const& folder,
                     std::vector<std::string>& lines) {
    std::string const path = fmt::format("{}/{}", folder, record.name);
    auto const bytes = files::size_of(path);
    Hasher hasher;
    if (!bytes)
        lines.push_back(fmt::format("{}: the file is missing", record.name));
    else if (*bytes != record.bytes)
        lines.push_back(
            fmt::format("{}: the file has {} bytes, not {}", record.name, *bytes, record.bytes));
    else if (!files::add_bytes(hasher, files::open_for_reading(path), 0, record.bytes) ||
             hasher.digest() != record.digest)
        lines.push_back(fmt::format("{}: its checksum is not the manifest's", record.name));
}

/// A finding that surfaced as an exception (a file without permission, say) is one line too.
template <class Work>
void as_line(std::vector<std::string>& lines, Work const& work) {
    try {
        work();
    } catch (core::Error const& error) {
        lines.emplace_back(error.what());
    }
}

} // namespace

std::vector<std::string> damaged_data(Manifest const& manifest, std::string const& folder) {
    std::vector<std::string> lines = misfit_files(manifest, folder);
    for (FileRecord const& record : manifest.data_files)
        as_line(lines,
                [&] { check_file(record, slices_in(manifest, record.name), folder, lines); });
    return lines;
}

std::vector<std::string> damaged_slices(std::vector<SliceRecord> const& slices,
                                        std::string const& folder, std::string const& name) {
    std::vector<std::string> lines;
    as_line(lines, [&] {
        std::string const path = fmt::format("{}/{}", folder, name);
        files::forget(path);
        check_slices(files::open_for_reading(path), name, pointers_to(slices), lines);
    });
    return lines;
}

std::vector<std::string> damaged_file(WriterResult const& written, std::string const& folder) {
    std::vector<std::string> lines;
    as_line(lines, [&] {
        if (std::string line = misfit(written.file, folder); !line.empty())
            lines.push_back(std::move(line));
        std::string const path = fmt::format("{}/{}", folder, written.file.name);
        if (files::size_of(path))
            files::forget(path);
        check_file(written.file, pointers_to(written.slices), folder, lines);
    });
    return lines;
}

std::vector<std::string> damaged_side_files(Manifest const& manifest, std::string const& folder) {
    std::vector<std::string> lines;
    for (FileRecord const& record : manifest.side_files)
        as_line(lines, [&] { check_side_file(record, folder, lines); });
    return lines;
}

std::vector<std::string> verify(std::string const& folder) {
    std::vector<std::string> lines;
    as_line(lines, [&] {
        Manifest const manifest = read_manifest(folder);
        lines = damaged_data(manifest, folder);
        std::vector<std::string> const others = damaged_side_files(manifest, folder);
        lines.insert(lines.end(), others.begin(), others.end());
    });
    return lines;
}

} // namespace evener::checkpoints
