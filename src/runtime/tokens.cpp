// SPDX-License-Identifier: Apache-2.0
#include "runtime/tokens.hpp"

#include "core/types.hpp"

#include <algorithm>
#include <vector>

namespace evener::runtime {

namespace {

void pad(std::span<std::int32_t> inputs, std::span<std::int32_t> targets) {
    std::fill(inputs.begin(), inputs.end(), 0);
    std::fill(targets.begin(), targets.end(), -1);
}

} // namespace

void ValidationTokens::read(std::int64_t step, std::int64_t sequence,
                            std::span<std::int32_t> inputs, std::span<std::int32_t> targets) const {
    std::int64_t const sample = step * batch_size_ + sequence;
    if (sample < data_.samples())
        data_.read(sample, inputs, targets);
    else
        pad(inputs, targets);
}

std::int64_t ValidationTokens::valid_targets(std::int64_t step, std::int64_t sequence) const {
    std::int64_t const sample = step * batch_size_ + sequence;
    return sample < data_.samples() ? data_.valid_targets(sample) : 0;
}

std::int64_t ValidationTokens::batches() const {
    return core::div_up(data_.samples(), batch_size_);
}

ContextTokens::ContextTokens(io::TokenDataset const& data, std::int64_t context,
                             std::int64_t batch_size)
    : data_{data}, context_{context}, batch_size_{batch_size} {
    EVENER_EXPECT(data.sequence_length() >= context);
}

// Sample s of length T gives the windows that end at its positions context - 1 .. T - 1.
std::int64_t ContextTokens::windows() const {
    return data_.samples() * (data_.sequence_length() - context_ + 1);
}

std::int64_t ContextTokens::batches() const {
    return core::div_up(windows(), batch_size_);
}

void ContextTokens::read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
                         std::span<std::int32_t> targets) const {
    std::int64_t const window = step * batch_size_ + sequence;
    pad(inputs, targets);
    if (window >= windows())
        return;
    std::int64_t const per_sample = data_.sequence_length() - context_ + 1;
    std::vector<std::int32_t> all_inputs(static_cast<std::size_t>(data_.sequence_length()));
    std::vector<std::int32_t> all_targets(all_inputs.size());
    data_.read(window / per_sample, all_inputs, all_targets);
    auto const first = static_cast<std::size_t>(window % per_sample);
    std::copy_n(all_inputs.begin() + static_cast<std::ptrdiff_t>(first), inputs.size(),
                inputs.begin());
    targets.back() = all_targets[first + targets.size() - 1];
}

std::int64_t ContextTokens::valid_targets(std::int64_t step, std::int64_t sequence) const {
    std::vector<std::int32_t> inputs(static_cast<std::size_t>(context_));
    std::vector<std::int32_t> targets(inputs.size());
    read(step, sequence, inputs, targets);
    return targets.back() >= 0 ? 1 : 0;
}

} // namespace evener::runtime
