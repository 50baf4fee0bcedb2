// SPDX-License-Identifier: Apache-2.0

// The plug-in's device table: prepares and runs operations, turns exceptions into reasons.

#include "kernels/build_id.hpp"
#include "kernels/cuda/open_device.hpp"
#include "kernels/cuda/operations.hpp"

namespace evener::kernels::cuda {
namespace {

OperationPtr make(OperationShape const& shape, Context const& context) {
    switch (shape.kind) {
    case OperationKind::matmul:
        return make_matmul(shape.matmul, context);
    case OperationKind::rms_norm:
        return make_rms_norm(shape.rms_norm, context);
    case OperationKind::rms_norm_backward:
        return make_rms_norm_backward(shape.rms_norm, context);
    case OperationKind::rms_norm_weight_gradient:
        return make_rms_norm_weight_gradient(shape.rms_norm, context);
    case OperationKind::rotary:
        return make_rotary(shape.rotary, context);
    case OperationKind::attention:
        return make_attention(shape.attention, context);
    case OperationKind::attention_backward:
        return make_attention_backward(shape.attention, context);
    case OperationKind::swiglu:
        return make_swiglu(shape.swiglu, context);
    case OperationKind::swiglu_backward:
        return make_swiglu_backward(shape.swiglu, context);
    case OperationKind::embedding:
        return make_embedding(shape.embedding, context);
    case OperationKind::embedding_gradient:
        return make_embedding_gradient(shape.embedding, context);
    case OperationKind::cross_entropy:
        return make_cross_entropy(shape.cross_entropy, context);
    case OperationKind::adamw:
        return make_adamw(shape.optimizer, context);
    case OperationKind::sgd:
        return make_sgd(shape.optimizer, context);
    case OperationKind::convert:
        return make_convert(shape.convert, context);
    case OperationKind::clear:
        return make_clear(shape.clear, context);
    case OperationKind::column_sums:
        return make_column_sums(shape.column_sums, context);
    case OperationKind::segment_sums:
        return make_segment_sums(shape.segment_sums, context);
    case OperationKind::sum_squares:
        return make_sum_squares(shape.sum_squares, context);
    case OperationKind::count:
        break;
    }
    return nullptr; // check() has refused the others
}

bool supports(Device* device, Element type) {
    return type == Element::float32 || unwrap(device).context.has_bfloat16();
}

Prepared* prepare(Device* device, OperationShape const* shape, std::int64_t* workspace_bytes,
                  Reason* reason) {
    OperationPtr operation;
    guarded(reason, [&] {
        if (!check(*shape, *reason))
            return failed;
        try {
            operation = make(*shape, use(device).context);
        } catch (Refused const& refused) {
            *reason = refused.reason;
            return failed;
        }
        *workspace_bytes = operation->workspace_bytes;
        return done;
    });
    return reinterpret_cast<Prepared*>(operation.release());
}

void release(Device*, Prepared* prepared) {
    delete reinterpret_cast<Operation*>(prepared);
}

int run(Device* device, Prepared* prepared, void* const* operands, void* workspace,
        Reason* reason) {
    return guarded(reason, [&] {
        cudaStream_t const stream = use(device).context.compute;
        reinterpret_cast<Operation*>(prepared)->run({operands}, static_cast<std::byte*>(workspace),
                                                    stream);
        return done;
    });
}

} // namespace
} // namespace evener::kernels::cuda

extern "C" [[gnu::visibility("default")]] evener::kernels::DeviceTable const*
evener_device_table() {
    using namespace evener::kernels;
    static DeviceTable const table{
        table_version,        EVENER_BUILD_ID,     "cuda",        cuda::description(), cuda::open,
        cuda::close,          cuda::supports,      cuda::prepare, cuda::release,       cuda::run,
        cuda::memory_table(), cuda::group_table(),
    };
    return &table;
}
