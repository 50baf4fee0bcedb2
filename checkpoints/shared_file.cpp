// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/shared_file.hpp"

#include "checkpoints/frame.hpp"
#include "checkpoints/slice_dataset.hpp"
#include "core/error.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace evener::checkpoints {

namespace {

std::string path_in(std::string const& folder) {
    return fmt::format("{}/{}", folder, data_file_name(0));
}

} // namespace

WriterResult make_shared_file(std::string const& folder, std::vector<SliceData> const& slices) {
    hdf5::prepare_library();
    std::string const path = path_in(folder);
    hdf5::File file = hdf5::create_file(path);
    WriterResult result;
    result.file.name = data_file_name(0);
    try {
        for (SliceData const& slice : slices) {
            hid_t const dataset = hdf5::make_slice_dataset(file, slice, path);
            result.slices.push_back(hdf5::record_of(dataset, slice, result.file.name, path));
            EVENER_HDF5(path, H5Dclose(dataset));
        }
        EVENER_HDF5(path, H5Fflush(file.get(), H5F_SCOPE_GLOBAL));
    } catch (core::Error const&) {
        static_cast<void>(file.release()); // HDF5 1.10 crashes later when it has failed to close it
        throw;
    }
    EVENER_HDF5(path, H5Fclose(file.release()));
    files::sync_file(path);
    return result;
}

SharedFileWriter::SharedFileWriter(std::string const& folder, std::int64_t call_bytes)
    : path_{path_in(folder)}, call_bytes_{call_bytes}, file_{::open(path_.c_str(),
                                                                    O_WRONLY | O_CLOEXEC)} {
    EVENER_EXPECT(call_bytes >= 1);
    if (file_.get() < 0)
        files::fail(path_, "open it to write slices", errno);
}

SliceRecord SharedFileWriter::write(SliceData const& slice, SliceRecord place) {
    EVENER_EXPECT(file_.get() >= 0 && slice.data != nullptr);
    EVENER_EXPECT(place.kind == slice.kind && place.name == slice.name && place.rows == slice.rows);
    auto const* const bytes = reinterpret_cast<char const*>(slice.data);
    for (std::int64_t done = 0; done < place.bytes;) {
        auto const wanted = static_cast<std::size_t>(std::min(call_bytes_, place.bytes - done));
        ssize_t const written = ::pwrite(file_.get(), bytes + done, wanted, place.offset + done);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            files::fail(path_, "write it", errno);
        done += written;
    }
    place.digest = digest_of(bytes, static_cast<std::size_t>(place.bytes));
    return place;
}

void SharedFileWriter::finish() {
    EVENER_EXPECT(file_.get() >= 0);
    if (::fsync(file_.get()) != 0)
        files::fail(path_, "sync it to the disk", errno);
    file_.reset();
}

WriterResult finish_shared_file(std::string const& folder, std::vector<SliceRecord> slices) {
    WriterResult result;
    result.file.name = data_file_name(0);
    result.slices = std::move(slices);
    describe_frame(result, path_in(folder));
    return result;
}

} // namespace evener::checkpoints
