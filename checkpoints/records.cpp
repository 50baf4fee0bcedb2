// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/records.hpp"

#include <fmt/format.h>

namespace evener::checkpoints {

std::int64_t TensorInfo::row_elements() const {
    std::int64_t product = 1;
    for (std::size_t i = 1; i < shape.size(); ++i)
        product *= shape[i];
    return product;
}

std::string SliceRecord::dataset() const {
    return dataset_path(kind, name, rows);
}

std::string dataset_path(std::string_view kind, std::string_view name, core::Range rows) {
    return fmt::format("/{}/{}/rows-{}-{}", kind, name, rows.begin, rows.end);
}

std::string data_file_name(int writer) {
    return fmt::format("data-{:04d}.h5", writer);
}

std::int64_t payload_bytes(std::vector<TensorInfo> const& tensors,
                           std::vector<std::string> const& kinds) {
    std::int64_t bytes = 0;
    for (TensorInfo const& tensor : tensors)
        bytes += tensor.rows() * tensor.row_bytes();
    return bytes * static_cast<std::int64_t>(kinds.size());
}

std::vector<std::string> differences(KeyValues const& checkpoint, KeyValues const& job) {
    std::vector<std::string> lines;
    for (auto const& [key, value] : checkpoint) {
        auto const other = job.find(key);
        if (other == job.end())
            lines.push_back(
                fmt::format("{} is {} in the checkpoint, not set in the job", key, value));
        else if (other->second != value)
            lines.push_back(fmt::format("{} is {} in the checkpoint, {} in the job", key, value,
                                        other->second));
    }
    for (auto const& [key, value] : job)
        if (!checkpoint.contains(key))
            lines.push_back(
                fmt::format("{} is not set in the checkpoint, {} in the job", key, value));
    return lines;
}

} // namespace evener::checkpoints
