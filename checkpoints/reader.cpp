// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/reader.hpp"

#include "checkpoints/frame.hpp"
#include "checkpoints/hdf5.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace evener::checkpoints {

namespace {

/// A slice that is only hashed on the way passes through a buffer of this size.
constexpr std::int64_t scratch_bytes = std::int64_t{64} << 20;

hdf5::Box box_of(TensorInfo const& tensor, core::Range rows) {
    hdf5::Box box{std::vector<hsize_t>(tensor.shape.size(), 0),
                  {tensor.shape.begin(), tensor.shape.end()}};
    box.offset.front() = static_cast<hsize_t>(rows.begin);
    box.count.front() = static_cast<hsize_t>(rows.size());
    return box;
}

} // namespace

CheckpointReader::CheckpointReader(std::string folder, Check check, std::int64_t call_bytes)
    : folder_{std::move(folder)}, check_{check}, call_bytes_{call_bytes}, manifest_{read_manifest(
                                                                              folder_)},
      checked_(manifest_.slices.size(), false) {
    EVENER_EXPECT(call_bytes >= 4);
    if (auto const misfits = misfit_files(manifest_, folder_); !misfits.empty())
        throw core::CheckpointError{folder_, fmt::format("{}", fmt::join(misfits, "; "))};
    for (std::size_t i = 0; i < manifest_.tensors.size(); ++i)
        tensors_.emplace(manifest_.tensors[i].name, i);
    for (SliceIndex i = 0; i < manifest_.slices.size(); ++i)
        slices_[{manifest_.slices[i].kind, manifest_.slices[i].name}].push_back(i);
    for (auto& [key, indices] : slices_)
        std::sort(indices.begin(), indices.end(), [this](SliceIndex a, SliceIndex b) {
            return manifest_.slices[a].rows.begin < manifest_.slices[b].rows.begin;
        });
}

CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;
CheckpointReader& CheckpointReader::operator=(CheckpointReader&&) noexcept = default;
CheckpointReader::~CheckpointReader() = default;

bool CheckpointReader::contains(std::string_view kind, std::string_view name) const {
    return slices_.contains({std::string{kind}, std::string{name}});
}

TensorInfo const& CheckpointReader::tensor(std::string_view name) const {
    auto const found = tensors_.find(name);
    if (found == tensors_.end())
        throw core::CheckpointError{folder_, fmt::format("there is no tensor '{}' in it", name)};
    return manifest_.tensors[found->second];
}

void CheckpointReader::read(std::string_view kind, std::string_view name, core::Range rows,
                            float* dst) {
    TensorInfo const& info = tensor(name);
    auto const found = slices_.find({std::string{kind}, std::string{name}});
    if (found == slices_.end())
        throw core::CheckpointError{folder_, fmt::format("there is no '{}' in it (it holds: {})",
                                                         kind, fmt::join(manifest_.kinds, ", "))};
    EVENER_EXPECT(0 <= rows.begin && rows.begin <= rows.end && rows.end <= info.rows());
    for (SliceIndex const index : found->second) {
        core::Range const shared = core::overlap(rows, manifest_.slices[index].rows);
        if (!shared.empty())
            read_slice(index, info, shared,
                       dst + (shared.begin - rows.begin) * info.row_elements());
    }
}

void CheckpointReader::read_slice(SliceIndex index, TensorInfo const& tensor, core::Range rows,
                                  float* dst) {
    SliceRecord const& record = manifest_.slices[index];
    std::string const path = fmt::format("{}/{}", folder_, record.file);
    hdf5::Dataset const dataset{EVENER_HDF5(
        path, H5Dopen2(open(record.file).id.get(), record.dataset().c_str(), H5P_DEFAULT))};
    core::Range const local{rows.begin - record.rows.begin, rows.end - record.rows.begin};

    bool const whole = rows == record.rows;
    bool const check = !checked_[index] && (whole || check_ == Check::first_use);
    Hasher hasher;
    if (whole || !check) {
        hdf5::for_each_block(box_of(tensor, local), call_bytes_ / 4,
                             [&](hdf5::Box const& box, std::int64_t first, std::int64_t size) {
                                 hdf5::read_box(dataset.get(), box, dst + first, path);
                                 if (check)
                                     hasher.add(dst + first, static_cast<std::size_t>(4 * size));
                             });
    } else {
        core::Range const wanted{local.begin * tensor.row_elements(),
                                 local.end * tensor.row_elements()};
        std::int64_t const most = std::min(scratch_bytes, call_bytes_) / 4;
        scratch_.resize(static_cast<std::size_t>(std::min(most, record.bytes / 4)));
        hdf5::for_each_block(
            box_of(tensor, {0, record.rows.size()}), most,
            [&](hdf5::Box const& box, std::int64_t first, std::int64_t size) {
                hdf5::read_box(dataset.get(), box, scratch_.data(), path);
                hasher.add(scratch_.data(), static_cast<std::size_t>(4 * size));
                core::Range const part = core::overlap(wanted, {first, first + size});
                if (!part.empty())
                    std::memcpy(dst + (part.begin - wanted.begin),
                                scratch_.data() + (part.begin - first),
                                static_cast<std::size_t>(4 * part.size()));
            });
    }
    if (check && hasher.digest() != record.digest)
        throw core::CheckpointError{
            path, fmt::format("'{}' is damaged (its checksum is not the manifest's) resume from an "
                              "older checkpoint",
                              record.dataset())};
    checked_[index] = checked_[index] || check;
}

hdf5::OpenFile const& CheckpointReader::open(std::string const& name) {
    auto& slot = files_[name];
    if (slot)
        return *slot;
    std::string const path = fmt::format("{}/{}", folder_, name);
    auto const record = std::find_if(manifest_.data_files.begin(), manifest_.data_files.end(),
                                     [&](FileRecord const& file) { return file.name == name; });
    EVENER_ENSURE(record != manifest_.data_files.end());
    if (frame_digest(files::open_for_reading(path), record->bytes, slices_in(manifest_, name)) !=
        record->digest)
        throw core::CheckpointError{path,
                                    "the structure of the file is damaged (its checksum is not "
                                    "the manifest's) resume from an older checkpoint"};
    slot.reset(new hdf5::OpenFile{hdf5::open_file(path)});
    return *slot;
}

bool CheckpointReader::has_text(std::string_view file) const {
    return std::any_of(manifest_.side_files.begin(), manifest_.side_files.end(),
                       [&](FileRecord const& record) { return record.name == file; });
}

std::string CheckpointReader::text(std::string_view file) const {
    for (FileRecord const& record : manifest_.side_files) {
        if (record.name != file)
            continue;
        std::string const path = fmt::format("{}/{}", folder_, file);
        std::string content = files::read_text(path);
        if (digest_of(content) != record.digest)
            throw core::CheckpointError{path,
                                        "its checksum is not the manifest's (it was changed or "
                                        "damaged)"};
        return content;
    }
    throw core::CheckpointError{folder_, fmt::format("it has no '{}'", file)};
}

} // namespace evener::checkpoints
