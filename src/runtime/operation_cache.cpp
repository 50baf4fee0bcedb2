// SPDX-License-Identifier: Apache-2.0
#include "runtime/operation_cache.hpp"

#include "program/buckets.hpp"

#include <algorithm>
#include <set>

namespace evener::runtime {

using kernels::OperationKind;

namespace {

/// The fields of a shape one after the other; padding between them must not count.
class Key {
  public:
    template <class... T>
    Key& add(T... values) {
        (append(&values, sizeof values), ...);
        return *this;
    }
    std::string take() { return std::move(bytes_); }

  private:
    void append(void const* value, std::size_t size) {
        bytes_.append(static_cast<char const*>(value), size);
    }
    std::string bytes_;
};

std::string key_of(kernels::OperationShape const& shape) {
    Key key;
    key.add(shape.kind);
    switch (shape.kind) {
    case OperationKind::matmul: {
        auto const& s = shape.matmul;
        key.add(s.m, s.n, s.k, s.transpose_a, s.transpose_b, s.accumulate, s.bias, s.residual,
                s.src, s.dst);
        break;
    }
    case OperationKind::rms_norm:
    case OperationKind::rms_norm_backward:
    case OperationKind::rms_norm_weight_gradient: {
        auto const& s = shape.rms_norm;
        key.add(s.rows, s.cols, s.type, s.epsilon, s.rstd_given);
        break;
    }
    case OperationKind::rotary: {
        auto const& s = shape.rotary;
        key.add(s.rows, s.sequence_length, s.query_heads, s.key_heads, s.head_size, s.theta,
                s.inverse, s.type);
        break;
    }
    case OperationKind::attention:
    case OperationKind::attention_backward: {
        auto const& s = shape.attention;
        key.add(s.sequences, s.sequence_length, s.query_heads, s.key_heads, s.head_size, s.type);
        break;
    }
    case OperationKind::swiglu:
    case OperationKind::swiglu_backward:
        key.add(shape.swiglu.rows, shape.swiglu.cols, shape.swiglu.type);
        break;
    case OperationKind::embedding:
    case OperationKind::embedding_gradient: {
        auto const& s = shape.embedding;
        key.add(s.rows, s.cols, s.vocabulary, s.type);
        break;
    }
    case OperationKind::cross_entropy: {
        auto const& s = shape.cross_entropy;
        key.add(s.rows, s.cols, s.gradient, s.type);
        break;
    }
    case OperationKind::adamw:
    case OperationKind::sgd:
        key.add(shape.optimizer.elements, shape.optimizer.weights);
        break;
    case OperationKind::convert:
        key.add(shape.convert.elements, shape.convert.src, shape.convert.dst);
        break;
    case OperationKind::clear:
        key.add(shape.clear.bytes);
        break;
    case OperationKind::column_sums:
        key.add(shape.column_sums.rows, shape.column_sums.cols, shape.column_sums.type);
        break;
    case OperationKind::segment_sums:
        key.add(shape.segment_sums.segments, shape.segment_sums.length);
        break;
    case OperationKind::sum_squares:
        key.add(shape.sum_squares.elements);
        break;
    case OperationKind::count:
        break;
    }
    return key.take();
}

} // namespace

device::PreparedOperation const& OperationCache::get(kernels::OperationShape const& shape) {
    std::string key = key_of(shape);
    auto const found = operations_.find(key);
    if (found != operations_.end())
        return found->second;
    device::PreparedOperation prepared = device_.prepare(shape);
    workspace_bytes_ = std::max(workspace_bytes_, core::round_up(prepared.workspace_bytes(), 64));
    return operations_.emplace(std::move(key), std::move(prepared)).first->second;
}

std::int64_t prepare_plan(OperationCache& cache, program::Plan const& plan,
                          model::Model const& model, core::RankId rank, bool adamw) {
    for (program::Chunk const& chunk : plan.chunks) {
        program::Group const& group = plan.groups[chunk.group.index()];
        std::int64_t const member = program::member_of(group, rank);
        if (member < 0)
            continue;
        std::set<std::int64_t> counts;
        for (std::int64_t i = 0; i < plan.microbatch_count(); ++i)
            counts.insert(program::sequences_of(plan, group, static_cast<std::size_t>(member),
                                                core::MicrobatchId{i})
                              .size());
        counts.erase(0);
        for (std::int64_t const sequences : counts) {
            model::ChunkLayout const layout =
                model::chunk_layout(model, chunk.layers, sequences, group.compute);
            for (model::LayerOperations const& layer : layout.operations)
                for (auto const& phase : layer.phases)
                    for (model::Operation const& operation : phase)
                        if (operation.kind == model::Operation::Kind::kernel) {
                            cache.get(operation.shape);
                            // The first product of a step overwrites its gradient.
                            kernels::OperationShape first = operation.shape;
                            if (first.kind == OperationKind::matmul) {
                                first.matmul.accumulate = false;
                                cache.get(first);
                            }
                        }
        }
    }
    for (program::Bucket const& bucket : program::make_buckets(plan, model))
        for (program::Slice const& slice : program::slices_of(bucket, bucket.shard_of(rank))) {
            kernels::OperationShape shape;
            shape.kind = kernels::OperationKind::sum_squares;
            shape.sum_squares = {slice.elements()};
            cache.get(shape);
            shape.kind = adamw ? kernels::OperationKind::adamw : kernels::OperationKind::sgd;
            shape.optimizer = {slice.elements(), device::element_of(bucket.type_of(rank))};
            cache.get(shape);
        }
    return cache.workspace_bytes();
}

} // namespace evener::runtime
