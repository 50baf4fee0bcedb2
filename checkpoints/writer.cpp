// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/writer.hpp"

#include "checkpoints/frame.hpp"
#include "checkpoints/hdf5.hpp"
#include "checkpoints/slice_dataset.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <bit>

namespace evener::checkpoints {

static_assert(std::endian::native == std::endian::little,
              "slices are hashed as they lie in memory, the format is little-endian");

namespace {

void write_data(hid_t dataset, SliceData const& slice, std::int64_t call_bytes,
                std::string const& path) {
    std::vector<std::int64_t> extents = slice.shape;
    extents.front() = slice.rows.size();
    hdf5::Box const all{std::vector<hsize_t>(extents.size(), 0), {extents.begin(), extents.end()}};
    hdf5::for_each_block(all, call_bytes / 4,
                         [&](hdf5::Box const& box, std::int64_t first, std::int64_t) {
                             hdf5::write_box(dataset, box, slice.data + first, path);
                         });
}

} // namespace

SliceWriter::SliceWriter(std::string const& folder, int writer, std::int64_t call_bytes, AtPoint at)
    : path_{fmt::format("{}/{}", folder, data_file_name(writer))},
      call_bytes_{call_bytes}, at_{std::move(at)} {
    EVENER_EXPECT(call_bytes >= 4);
    pass(at_, SavePoint::write_start);
    file_.reset(new hdf5::OpenFile{hdf5::create_file(path_), files::open_for_reading(path_)});
    result_.file.name = data_file_name(writer);
}

SliceWriter::SliceWriter(SliceWriter&&) noexcept = default;

SliceWriter::~SliceWriter() {
    if (file_)
        give_up();
}

SliceRecord SliceWriter::write(SliceData const& slice) {
    EVENER_EXPECT(file_ != nullptr && slice.data != nullptr);
    hdf5::prepare_library();
    if (!result_.slices.empty())
        pass(at_, SavePoint::write_slice);
    SliceRecord record;
    try {
        hid_t const dataset = hdf5::make_slice_dataset(file_->id, slice, path_);
        write_data(dataset, slice, call_bytes_, path_);
        record = hdf5::record_of(dataset, slice, result_.file.name, path_);
        EVENER_HDF5(path_, H5Dclose(dataset));
    } catch (core::Error const&) {
        give_up();
        throw;
    }
    // The disk works on this slice while it is hashed and the next one copied.
    files::begin_writing_out(file_->descriptor, record.offset, record.offset + record.bytes);
    record.digest = digest_of(slice.data, static_cast<std::size_t>(record.bytes));
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
    pass(at_, SavePoint::write_flush);
    try {
        EVENER_HDF5(path_, H5Fflush(file_->id.get(), H5F_SCOPE_GLOBAL));
    } catch (core::Error const&) {
        give_up();
        throw;
    }
    EVENER_HDF5(path_, H5Fclose(file_->id.release()));
    file_.reset();
    pass(at_, SavePoint::write_sync);
    files::sync_file(path_); // closing an HDF5 file leaves it in the page cache
    pass(at_, SavePoint::write_synced);

    describe_frame(result_, path_);
    return std::move(result_);
}

} // namespace evener::checkpoints
