// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/slice_dataset.hpp"

#include "core/error.hpp"

namespace evener::checkpoints::hdf5 {

namespace {

/// Contiguous, allocated at once (the offset is asked for), never filled, without a time stamp, so
/// that equal states give equal files.
Properties slice_properties(std::string const& path) {
    Properties properties{EVENER_HDF5(path, H5Pcreate(H5P_DATASET_CREATE))};
    EVENER_HDF5(path, H5Pset_layout(properties.get(), H5D_CONTIGUOUS));
    EVENER_HDF5(path, H5Pset_alloc_time(properties.get(), H5D_ALLOC_TIME_EARLY));
    EVENER_HDF5(path, H5Pset_fill_time(properties.get(), H5D_FILL_TIME_NEVER));
    EVENER_HDF5(path, H5Pset_obj_track_times(properties.get(), 0));
    return properties;
}

} // namespace

hid_t make_slice_dataset(File const& file, SliceData const& slice, std::string const& path) {
    TensorInfo const tensor{slice.name, slice.shape};
    EVENER_EXPECT(!slice.shape.empty());
    EVENER_EXPECT(0 <= slice.rows.begin && !slice.rows.empty() && slice.rows.end <= tensor.rows());
    std::vector<std::int64_t> extents = slice.shape;
    extents.front() = slice.rows.size();
    Dataspace const space = make_space(extents, path);
    Properties const links = link_with_parents(path);
    Properties const properties = slice_properties(path);
    std::string const name = dataset_path(slice.kind, slice.name, slice.rows);
    return EVENER_HDF5(path, H5Dcreate2(file.get(), name.c_str(), H5T_IEEE_F32LE, space.get(),
                                        links.get(), properties.get(), H5P_DEFAULT));
}

SliceRecord record_of(hid_t dataset, SliceData const& slice, std::string const& file_name,
                      std::string const& path) {
    SliceRecord record{slice.kind, slice.name, slice.rows, file_name, 0, 0, {}};
    record.bytes = slice.rows.size() * TensorInfo{slice.name, slice.shape}.row_bytes();
    haddr_t const offset = H5Dget_offset(dataset);
    if (offset == HADDR_UNDEF)
        fail("H5Dget_offset", path);
    record.offset = static_cast<std::int64_t>(offset);
    return record;
}

} // namespace evener::checkpoints::hdf5
