// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/frame.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace evener::checkpoints {

std::optional<Digest> frame_digest(files::Descriptor const& file, std::int64_t file_bytes,
                                   std::vector<SliceRecord const*> slices) {
    std::sort(slices.begin(), slices.end(),
              [](auto const* a, auto const* b) { return a->offset < b->offset; });
    Hasher hasher;
    std::int64_t place = 0;
    for (SliceRecord const* slice : slices) {
        if (place < slice->offset && !files::add_bytes(hasher, file, place, slice->offset))
            return std::nullopt;
        place = slice->offset + slice->bytes;
    }
    if (place < file_bytes && !files::add_bytes(hasher, file, place, file_bytes))
        return std::nullopt;
    return hasher.digest();
}

std::vector<SliceRecord const*> slices_in(Manifest const& manifest, std::string const& file) {
    std::vector<SliceRecord const*> found;
    for (SliceRecord const& slice : manifest.slices)
        if (slice.file == file)
            found.push_back(&slice);
    return found;
}

void describe_frame(WriterResult& result, std::string const& path) {
    std::vector<SliceRecord const*> slices;
    for (SliceRecord const& record : result.slices)
        slices.push_back(&record);
    auto const bytes = files::size_of(path);
    auto const digest =
        bytes ? frame_digest(files::open_for_reading(path), *bytes, slices) : std::nullopt;
    if (!digest)
        throw core::IoError{path, "the file was removed or cut while it was written"};
    result.file.bytes = *bytes;
    result.file.digest = *digest;
}

} // namespace evener::checkpoints
