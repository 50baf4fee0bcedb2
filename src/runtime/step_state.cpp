// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

namespace evener::runtime {

namespace {

enum class RecordKind : std::int32_t { loss, tokens, next_tokens, request, square };

/// One number on its way to rank 0.
struct Record {
    RecordKind kind = RecordKind::loss;
    std::int32_t parameter = 0;
    std::int64_t place = 0; ///< sequence, first row, or bits of a request
    double value = 0;
};

template <class T>
std::vector<std::byte> to_bytes(std::span<T const> values) {
    auto const bytes = std::as_bytes(values);
    return {bytes.begin(), bytes.end()};
}

} // namespace

bool is_finite(StepScalars const& scalars) {
    return std::isfinite(scalars.loss_sum) && std::isfinite(scalars.squared_gradient_norm);
}

float clip_factor(StepScalars const& scalars, double clip_norm) {
    double const norm = std::sqrt(scalars.squared_gradient_norm);
    return clip_norm > 0 && norm > clip_norm ? static_cast<float>(clip_norm / norm) : 1.0f;
}

std::vector<std::byte> contribution(StepState const& state) {
    std::vector<Record> records;
    for (core::Range const range : state.head_sequences)
        for (std::int64_t s = range.begin; s < range.end; ++s)
            records.push_back(
                {RecordKind::loss, 0, s, state.sequence_losses[static_cast<std::size_t>(s)]});
    records.push_back({RecordKind::tokens, 0, 0, static_cast<double>(state.tokens)});
    records.push_back({RecordKind::next_tokens, 0, 0, static_cast<double>(state.next_tokens)});
    std::int64_t const requests =
        state.requests | (state.late_requests ? state.late_requests() : 0);
    if (requests != 0)
        records.push_back({RecordKind::request, 0, requests, 0});
    for (SliceSquare const& square : state.squares)
        records.push_back(
            {RecordKind::square, square.parameter.value, square.first_row, square.value});
    return to_bytes(std::span<Record const>{records});
}

std::vector<std::byte> combine(std::vector<std::vector<std::byte>> const& contributions) {
    std::vector<Record> records;
    for (auto const& bytes : contributions) {
        std::size_t const count = bytes.size() / sizeof(Record);
        records.resize(records.size() + count);
        std::memcpy(records.data() + (records.size() - count), bytes.data(),
                    count * sizeof(Record));
    }
    std::stable_sort(records.begin(), records.end(), [](Record const& a, Record const& b) {
        return std::tie(a.kind, a.parameter, a.place) < std::tie(b.kind, b.parameter, b.place);
    });
    StepScalars scalars;
    double parameter_sum = 0; // squares are added per parameter first
    for (std::size_t i = 0; i < records.size(); ++i) {
        Record const& record = records[i];
        switch (record.kind) {
        case RecordKind::loss:
            scalars.loss_sum += record.value;
            break;
        case RecordKind::tokens:
            scalars.tokens += static_cast<std::int64_t>(record.value);
            break;
        case RecordKind::next_tokens:
            scalars.next_tokens += static_cast<std::int64_t>(record.value);
            break;
        case RecordKind::request:
            scalars.requests |= record.place;
            break;
        case RecordKind::square:
            parameter_sum += record.value;
            if (i + 1 == records.size() || records[i + 1].parameter != record.parameter) {
                scalars.squared_gradient_norm += parameter_sum;
                parameter_sum = 0;
            }
            break;
        }
    }
    return to_bytes(std::span<StepScalars const>{&scalars, 1});
}

StepScalars decode_scalars(std::span<std::byte const> bytes) {
    EVENER_EXPECT(bytes.size() == sizeof(StepScalars));
    StepScalars scalars;
    std::memcpy(&scalars, bytes.data(), sizeof scalars);
    return scalars;
}

} // namespace evener::runtime
