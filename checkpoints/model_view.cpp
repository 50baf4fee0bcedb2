// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/model_view.hpp"

#include "checkpoints/hdf5.hpp"

#include <fmt/format.h>

#include <limits>
#include <map>
#include <utility>

namespace evener::checkpoints {

namespace {

void write_note(hdf5::File const& file, char const* name, std::string const& text,
                std::string const& path) {
    hdf5::Datatype const type{EVENER_HDF5(path, H5Tcopy(H5T_C_S1))};
    EVENER_HDF5(path, H5Tset_size(type.get(), text.size()));
    hdf5::Dataspace const scalar{EVENER_HDF5(path, H5Screate(H5S_SCALAR))};
    hdf5::Attribute const attribute{EVENER_HDF5(
        path, H5Acreate2(file.get(), name, type.get(), scalar.get(), H5P_DEFAULT, H5P_DEFAULT))};
    EVENER_HDF5(path, H5Awrite(attribute.get(), type.get(), text.data()));
}

void map_slice(hdf5::Properties const& properties, TensorInfo const& tensor,
               SliceRecord const& slice, std::string const& path) {
    std::vector<std::int64_t> extents = tensor.shape;
    hdf5::Dataspace const whole = hdf5::make_space(extents, path);
    extents.front() = slice.rows.size();
    hdf5::Dataspace const part = hdf5::make_space(extents, path);
    std::vector<hsize_t> offset(extents.size(), 0);
    std::vector<hsize_t> const count(extents.begin(), extents.end());
    offset.front() = static_cast<hsize_t>(slice.rows.begin);
    EVENER_HDF5(path, H5Sselect_hyperslab(whole.get(), H5S_SELECT_SET, offset.data(), nullptr,
                                          count.data(), nullptr));
    // A relative name is looked up in the folder of model.h5.
    EVENER_HDF5(path, H5Pset_virtual(properties.get(), whole.get(), slice.file.c_str(),
                                     slice.dataset().c_str(), part.get()));
}

hdf5::File create_in_memory(std::string const& path) {
    constexpr std::size_t grow_by = std::size_t{1} << 20;
    hdf5::prepare_library();
    hdf5::Properties const access{EVENER_HDF5(path, H5Pcreate(H5P_FILE_ACCESS))};
    EVENER_HDF5(path, H5Pset_fapl_core(access.get(), grow_by, 0));
    return hdf5::File{
        EVENER_HDF5(path, H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access.get()))};
}

std::string image_of(hdf5::File const& file, std::string const& path) {
    EVENER_HDF5(path, H5Fflush(file.get(), H5F_SCOPE_GLOBAL));
    ssize_t const size = EVENER_HDF5(path, H5Fget_file_image(file.get(), nullptr, 0));
    std::string image(static_cast<std::size_t>(size), '\0');
    EVENER_HDF5(path, H5Fget_file_image(file.get(), image.data(), image.size()));
    return image;
}

} // namespace

std::string model_view_image(Manifest const& manifest) {
    std::string const path = model_view_name;
    std::map<std::pair<std::string_view, std::string_view>, std::vector<SliceRecord const*>> slices;
    for (SliceRecord const& slice : manifest.slices)
        slices[{slice.kind, slice.name}].push_back(&slice);

    hdf5::File const file = create_in_memory(path);
    write_note(file, "about",
               "every tensor whole, for people; a NaN may mean that a data file is missing: "
               "'evener inspect --verify' tells",
               path);
    write_note(file, "step", std::to_string(manifest.state.step), path);
    hdf5::Properties const links = hdf5::link_with_parents(path);
    float const missing = std::numeric_limits<float>::quiet_NaN();
    for (std::string const& kind : manifest.kinds)
        for (TensorInfo const& tensor : manifest.tensors) {
            hdf5::Properties const properties{EVENER_HDF5(path, H5Pcreate(H5P_DATASET_CREATE))};
            EVENER_HDF5(path, H5Pset_fill_value(properties.get(), H5T_NATIVE_FLOAT, &missing));
            EVENER_HDF5(path, H5Pset_obj_track_times(properties.get(), 0));
            for (SliceRecord const* slice : slices[{kind, tensor.name}])
                map_slice(properties, tensor, *slice, path);
            hdf5::Dataspace const space = hdf5::make_space(tensor.shape, path);
            hdf5::Dataset const dataset{EVENER_HDF5(
                path, H5Dcreate2(file.get(), fmt::format("/{}/{}", kind, tensor.name).c_str(),
                                 H5T_IEEE_F32LE, space.get(), links.get(), properties.get(),
                                 H5P_DEFAULT))};
        }
    return image_of(file, path);
}

} // namespace evener::checkpoints
