// SPDX-License-Identifier: Apache-2.0
#include "runtime/parameters.hpp"

#include "core/random.hpp"

#include <algorithm>
#include <functional>

namespace evener::runtime {

namespace {

/// FNV-1a, 64 bits: a stream of random numbers for each parameter, by its name.
std::uint64_t stream_of(std::string_view name) {
    std::uint64_t hash = 0xcbf29ce484222325u;
    for (char const c : name)
        hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    return hash;
}

std::vector<std::int64_t> shape_of(model::Parameter const& parameter) {
    if (parameter.vector)
        return {parameter.rows};
    return {parameter.rows, parameter.cols};
}

float* state_of(BucketMemory const& memory, std::string_view kind) {
    if (kind == checkpoints::kind_parameters)
        return memory.master;
    if (kind == checkpoints::kind_moment1)
        return memory.moment1;
    if (kind == checkpoints::kind_moment2)
        return memory.moment2;
    if (kind == kind_gradients)
        return memory.kept_gradient;
    return nullptr;
}

/// Calls `visit(slice, parameter, memory, first element in the shard)` for each owned slice.
void for_each_slice(Session const& session,
                    std::function<void(program::Slice const&, model::Parameter const&,
                                       BucketMemory const&, std::int64_t)> const& visit) {
    for (BucketMemory const& memory : session.memory())
        for (program::Slice const& slice : program::slices_of(*memory.bucket, memory.shard))
            visit(slice, session.model().parameter(slice.parameter), memory,
                  slice.offset - memory.shard.begin);
}

/// Lets `fill` write `count` values that then lie at `dst` of the device.
void write_floats(Session const& session, float* dst, std::int64_t count,
                  std::function<void(float*)> const& fill) {
    if (session.reaches(dst)) {
        fill(dst);
        return;
    }
    std::vector<float> values(static_cast<std::size_t>(count));
    fill(values.data());
    session.upload(dst, values.data(), 4 * count);
}

void write_zeros(Session const& session, float* dst, std::int64_t count) {
    write_floats(session, dst, count, [&](float* values) { std::fill_n(values, count, 0.0f); });
}

} // namespace

void initialize_parameters(Session& session, std::uint64_t seed) {
    for_each_slice(session, [&](program::Slice const& slice, model::Parameter const& parameter,
                                BucketMemory const& memory, std::int64_t begin) {
        std::int64_t const count = slice.elements();
        write_floats(session, memory.master + begin, count, [&](float* dst) {
            switch (parameter.initial) {
            case model::Initial::ones:
                std::fill_n(dst, count, 1.0f);
                break;
            case model::Initial::zeros:
                std::fill_n(dst, count, 0.0f);
                break;
            case model::Initial::normal: {
                std::uint64_t const stream = stream_of(parameter.name);
                std::int64_t const first = slice.rows.begin * slice.cols;
                for (std::int64_t i = 0; i < count; ++i)
                    dst[i] = parameter.init_std *
                             core::normal(seed, stream, static_cast<std::uint64_t>(first + i));
                break;
            }
            }
        });
        for (float* const moment : {memory.moment1, memory.moment2})
            if (moment != nullptr)
                write_zeros(session, moment + begin, count);
    });
    session.refresh_weights();
}

std::vector<std::string> loaded_kinds(Load what, bool adamw) {
    return state_kinds(adamw && what == Load::parameters_and_moments);
}

void load_parameters(Session& session, ReadRows const& read, Load what) {
    for (std::string const& kind : state_kinds(true))
        for_each_slice(session, [&](program::Slice const& slice, model::Parameter const& parameter,
                                    BucketMemory const& memory, std::int64_t begin) {
            float* const state = state_of(memory, kind);
            if (state == nullptr)
                return;
            float* const dst = state + begin;
            if (kind == checkpoints::kind_parameters || what == Load::parameters_and_moments)
                write_floats(session, dst, slice.elements(), [&](float* values) {
                    read({kind, parameter.name, shape_of(parameter), slice.rows, nullptr}, values);
                });
            else
                write_zeros(session, dst, slice.elements());
        });
    session.refresh_weights();
}

void load_parameters(Session& session, checkpoints::CheckpointReader& reader, Load what) {
    load_parameters(
        session,
        [&](checkpoints::SliceData const& slice, float* dst) {
            reader.read(slice.kind, slice.name, slice.rows, dst);
        },
        what);
}

std::vector<checkpoints::TensorInfo> tensors_of(model::Model const& model) {
    std::vector<checkpoints::TensorInfo> tensors;
    for (model::Parameter const& parameter : model.parameters())
        tensors.push_back({parameter.name, shape_of(parameter)});
    return tensors;
}

std::vector<std::string> state_kinds(bool adamw) {
    std::vector<std::string> kinds{std::string{checkpoints::kind_parameters}};
    if (adamw) {
        kinds.emplace_back(checkpoints::kind_moment1);
        kinds.emplace_back(checkpoints::kind_moment2);
    }
    return kinds;
}

std::vector<checkpoints::SliceData> slices_of_rank(program::ProgramSet const& set,
                                                   model::Model const& model, core::RankId rank,
                                                   std::vector<std::string> const& kinds) {
    std::vector<checkpoints::SliceData> slices;
    for (std::string const& kind : kinds)
        for (program::Bucket const& bucket : set.buckets)
            for (program::Slice const& slice : program::slices_of(bucket, bucket.shard_of(rank))) {
                model::Parameter const& parameter = model.parameter(slice.parameter);
                slices.push_back({kind, parameter.name, shape_of(parameter), slice.rows, nullptr});
            }
    return slices;
}

std::vector<float const*> slice_addresses(Session const& session,
                                          std::vector<std::string> const& kinds) {
    std::vector<float const*> addresses;
    for (std::string const& kind : kinds)
        for_each_slice(session, [&](program::Slice const&, model::Parameter const&,
                                    BucketMemory const& memory, std::int64_t begin) {
            addresses.push_back(state_of(memory, kind) + begin);
        });
    return addresses;
}

} // namespace evener::runtime
