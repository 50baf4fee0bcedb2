// SPDX-License-Identifier: Apache-2.0

// The device table in front of the reference: prepared operations are just their shapes.

#include "kernels/build_id.hpp"
#include "kernels/check.hpp"
#include "kernels/operands.hpp"
#include "kernels/reference/operations.hpp"
#include "kernels/reference/reference.hpp"

#include <memory>

namespace evener::kernels::reference {
namespace {

void run_operation(OperationKind, MatmulShape const& s, Operands in) {
    using O = MatmulOperand;
    with_type(s.src, [&]<class T>(T) {
        auto const product = [&]<class D>(D* dst) {
            matmul<T, D>(s, in.at<T>(O::a), in.at<T>(O::b), s.bias ? in.at<T>(O::bias) : nullptr,
                         s.residual ? in.at<T>(O::residual) : nullptr, dst);
        };
        if (s.dst == s.src)
            product(in.at<T>(O::dst));
        else
            product(in.at<float>(O::dst));
    });
}

void run_operation(OperationKind kind, RmsNormShape const& s, Operands in) {
    with_type(s.type, [&]<class T>(T) {
        if (kind == OperationKind::rms_norm) {
            using O = RmsNormOperand;
            rms_norm(s, in.at<T>(O::x), in.at<T>(O::weight), in.at<T>(O::y), in.at<float>(O::rstd));
        } else if (kind == OperationKind::rms_norm_backward) {
            using O = RmsNormBackwardOperand;
            rms_norm_backward(s, in.at<T>(O::x), in.at<T>(O::weight), in.at<float>(O::rstd),
                              in.at<T>(O::dy), in.at<T>(O::residual), in.at<T>(O::dx));
        } else {
            using O = RmsNormWeightGradientOperand;
            rms_norm_weight_gradient(s, in.at<T>(O::x), in.at<float>(O::rstd), in.at<T>(O::dy),
                                     in.at<float>(O::dweight));
        }
    });
}

void run_operation(OperationKind, RotaryShape const& s, Operands in) {
    with_type(s.type, [&]<class T>(T) { rotary(s, in.at<T>(RotaryOperand::qkv)); });
}

void run_operation(OperationKind kind, AttentionShape const& s, Operands in) {
    with_type(s.type, [&]<class T>(T) {
        if (kind == OperationKind::attention) {
            using O = AttentionOperand;
            attention(s, in.at<T>(O::qkv), in.at<T>(O::o), in.at<float>(O::lse));
        } else {
            using O = AttentionBackwardOperand;
            attention_backward(s, in.at<T>(O::qkv), in.at<T>(O::o), in.at<float>(O::lse),
                               in.at<T>(O::d_o), in.at<T>(O::dqkv));
        }
    });
}

void run_operation(OperationKind kind, SwigluShape const& s, Operands in) {
    with_type(s.type, [&]<class T>(T) {
        if (kind == OperationKind::swiglu) {
            using O = SwigluOperand;
            swiglu(s, in.at<T>(O::gate_up), in.at<T>(O::y));
        } else {
            using O = SwigluBackwardOperand;
            swiglu_backward(s, in.at<T>(O::gate_up), in.at<T>(O::dy), in.at<T>(O::d_gate_up));
        }
    });
}

void run_operation(OperationKind kind, EmbeddingShape const& s, Operands in) {
    with_type(s.type, [&]<class T>(T) {
        if (kind == OperationKind::embedding) {
            using O = EmbeddingOperand;
            embedding(s, in.at<std::int32_t>(O::tokens), in.at<T>(O::table), in.at<T>(O::y));
        } else {
            using O = EmbeddingGradientOperand;
            embedding_gradient(s, in.at<std::int32_t>(O::tokens), in.at<T>(O::dy),
                               in.at<float>(O::dtable));
        }
    });
}

void run_operation(OperationKind, CrossEntropyShape const& s, Operands in) {
    using O = CrossEntropyOperand;
    with_type(s.type, [&]<class T>(T) {
        cross_entropy(s, in.at<float>(O::logits), in.at<std::int32_t>(O::targets),
                      s.gradient ? in.at<float>(O::scale) : nullptr, in.at<float>(O::loss),
                      s.gradient ? in.at<T>(O::dlogits) : nullptr);
    });
}

void run_operation(OperationKind kind, OptimizerShape const& s, Operands in) {
    with_type(s.weights, [&]<class W>(W) {
        if (kind == OperationKind::adamw) {
            using O = AdamwOperand;
            adamw(s, in.at<float>(O::parameters), in.at<float>(O::moment1),
                  in.at<float>(O::moment2), in.at<float>(O::gradients), in.at<W>(O::weights),
                  *in.at<OptimizerScalars>(O::scalars));
        } else {
            using O = SgdOperand;
            sgd(s, in.at<float>(O::parameters), in.at<float>(O::gradients), in.at<W>(O::weights),
                *in.at<OptimizerScalars>(O::scalars));
        }
    });
}

void run_operation(OperationKind, ConvertShape const& s, Operands in) {
    with_type(s.src, [&]<class S>(S) {
        with_type(s.dst, [&]<class D>(D) {
            convert(s, in.at<S>(ConvertOperand::src), in.at<D>(ConvertOperand::dst));
        });
    });
}

void run_operation(OperationKind, ClearShape const& s, Operands in) {
    clear(s, in.at<std::byte>(ClearOperand::dst));
}

void run_operation(OperationKind, ColumnSumsShape const& s, Operands in) {
    using O = ColumnSumsOperand;
    with_type(s.type, [&]<class T>(T) { column_sums(s, in.at<T>(O::src), in.at<float>(O::dst)); });
}

void run_operation(OperationKind, SegmentSumsShape const& s, Operands in) {
    segment_sums(s, in.at<float>(SegmentSumsOperand::src), in.at<double>(SegmentSumsOperand::dst));
}

void run_operation(OperationKind, SumSquaresShape const& s, Operands in) {
    sum_squares(s, in.at<float>(SumSquaresOperand::src), in.at<double>(SumSquaresOperand::dst));
}

// Device and Prepared are opaque in the table; here a device has no state and a prepared operation
// is a copy of its shape.
Device* open(DeviceOptions const*, Reason*) {
    static char state;
    return reinterpret_cast<Device*>(&state);
}

void close(Device*) {}

bool supports(Device*, Element) {
    return true;
}

Prepared* prepare(Device*, OperationShape const* shape, std::int64_t* workspace_bytes,
                  Reason* reason) {
    if (!check(*shape, *reason))
        return nullptr;
    *workspace_bytes = 0;
    return reinterpret_cast<Prepared*>(std::make_unique<OperationShape>(*shape).release());
}

void release(Device*, Prepared* prepared) {
    delete reinterpret_cast<OperationShape*>(prepared);
}

int run(Device*, Prepared* prepared, void* const* operands, void*, Reason*) {
    auto const& shape = *reinterpret_cast<OperationShape const*>(prepared);
    visit(
        shape, [&](auto const& member) { run_operation(shape.kind, member, {operands}); }, [] {});
    return 0;
}

} // namespace

DeviceTable const* reference_table() {
    static constexpr DeviceTable table{
        table_version, EVENER_BUILD_ID,
        "reference",   "naive loops in double, one thread",
        open,          close,
        supports,      prepare,
        release,       run,
        nullptr,       nullptr,
    };
    return &table;
}

} // namespace evener::kernels::reference
