// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/writer.hpp"

#include "checkpoints/frame.hpp"
#include "checkpoints/hdf5.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <bit>

namespace evener::checkpoints {

static_assert(std::endian::native == std::endian::little,
              "slices are hashed as they lie in memory, the format is little-endian");

namespace {

/// Contiguous, allocated at once (the offset is asked for), never filled, without a time stamp, so
/// that equal states give equal files.
hdf5::Properties slice_properties(std::string const& path) {
    hdf5::Properties properties{EVENER_HDF5(path, H5Pcreate(H5P_DATASET_CREATE))};
    EVENER_HDF5(path, H5Pset_layout(properties.get(), H5D_CONTIGUOUS));
    EVENER_HDF5(path, H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY));
    EVENER_HDF5(path, H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER));
    EVENER_HDF5(path, H5Pset_obj_track_times(properties.get(), 0));
    return properties;
}

/// The dataset of a slice, written and still open; not an owner, because HDF5 1.10 crashes later
/// when something is closed that could not be written.
hid_t write_dataset(hdf5::File const& file, SliceData const& slice, std::string const& path,
                    std::int64_t call_bytes) {
    std::vector<std::int64_t> extents = slice.shape;
    extents.front() = slice.rows.size();
    hdf5::Dataspace const space = hdf5::make_space(extents, path);
    hdf5::Properties const links = hdf5::link_with_parents(path);
    hdf5::Properties const properties = slice_properties(path);
    std::string const name = dataset_path(slice.kind, slice.name, slice.rows);
    hid_t const dataset =
        EVENER_HDF5(path, H5Dcreate2(file.get(), name.c_str(), H5T_IEEE_F32LE, space.get(),
                                     links.get(), properties.get(), H5P_DEFAULT));
    hdf5::Box const all{std::vector<hsize_t>(extents.size(), 0), {extents.begin(), extents.end()}};
    hdf5::for_each_block(all, call_bytes / 4,
                         [&](hdf5::Box const& box, std::int64_t first, std::int64_t) {
                             hdf5::write_box(dataset, box, slice.data + first, path);
                         });
    return dataset;
}

} // namespace

SliceWriter::SliceWriter(std::string const& folder, int writer, std::int64_t call_bytes)
    : path_{fmt::format("{}/{}", folder, data_file_name(writer))},
      call_bytes_{call_bytes}, file_{new hdf5::OpenFile{hdf5::create_file(path_)}} {
    EVENER_EXPECT(call_bytes >= 4);
    result_.file.name = data_file_name(writer);
}

SliceWriter::SliceWriter(SliceWriter&&) noexcept = default;

SliceWriter::~SliceWriter() {
    if (file_)
        give_up();
}

SliceRecord SliceWriter::write(SliceData const& slice) {
    TensorInfo const tensor{slice.name, slice.shape};
    EVENER_EXPECT(file_ != nullptr && !slice.shape.empty() && slice.data != nullptr);
    EVENER_EXPECT(0 <= slice.rows.begin && !slice.rows.empty() && slice.rows.end <= tensor.rows());
    hdf5::prepare_library();

    SliceRecord record{slice.kind, slice.name, slice.rows, result_.file.name, 0, 0, {}};
    record.bytes = slice.rows.size() * tensor.row_bytes();
    record.digest = digest_of(slice.data, static_cast<std::size_t>(record.bytes));

    try {
        hid_t const dataset = write_dataset(file_->id, slice, path_, call_bytes_);
        haddr_t const offset = H5Dget_offset(dataset);
        if (offset == HADDR_UNDEF)
            hdf5::fail("H5Dget_offset", path_);
        record.offset = static_cast<std::int64_t>(offset);
        EVENER_HDF5(path_, H5Dclose(dataset));
    } catch (core::Error const&) {
        give_up();
        throw;
    }
    result_.slices.push_back(std::move(record));
    return result_.slices.back();
}

/// A file that could not be written stays open in HDF5 until the process ends: HDF5 1.10 fails to close
/// it and keeps an identifier of freed memory, from which it crashes later (at exit, for one). It is
/// emptied, as the disk may be full.
void SliceWriter::give_up() noexcept {
    static_cast<void>(file_->id.release());
    file_.reset();
    files::empty(path_);
}

WriterResult SliceWriter::finish() {
    EVENER_EXPECT(file_ != nullptr);
    hdf5::prepare_library();
    try {
        EVENER_HDF5(path_, H5Fflush(file_->id.get(), H5F_SCOPE_GLOBAL));
    } catch (core::Error const&) {
        give_up();
        throw;
    }
    EVENER_HDF5(path_, H5Fclose(file_->id.release()));
    file_.reset();
    files::sync_file(path_); // closing an HDF5 file leaves it in the page cache

    auto const bytes = files::size_of(path_);
    std::vector<SliceRecord const*> slices;
    for (SliceRecord const& record : result_.slices)
        slices.push_back(&record);
    auto const digest =
        bytes ? frame_digest(files::open_for_reading(path_), *bytes, slices) : std::nullopt;
    if (!digest)
        throw core::IoError{path_, "the file was removed or cut while it was written"};
    result_.file.bytes = *bytes;
    result_.file.digest = *digest;
    return std::move(result_);
}

} // namespace evener::checkpoints
