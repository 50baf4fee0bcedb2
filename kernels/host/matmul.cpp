// SPDX-License-Identifier: Apache-2.0

// Matrix products by oneDNN. Everything is decided when the product is prepared; run only sets the
// data pointers of the memory objects. Transposes are strides, scratch memory is the workspace.

#include "kernels/check.hpp"
#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

#include <array>

namespace evener::kernels::host {
namespace {

using Dims = dnnl::memory::dims;

dnnl::memory::data_type onednn_type(Element type) {
    return type == Element::float32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

/// How `dst` takes part: overwritten, a summand already there, or overwritten with another matrix
/// added. A residual that is dst itself must be a sum: oneDNN may keep partial results in dst.
enum class Destination { overwritten, summand, plus_residual };

class Primitive {
  public:
    Primitive(MatmulShape const& s, Destination destination, Context const& context)
        : stream_{context.stream.get()} {
        auto const src = onednn_type(s.src);
        auto const dst = onednn_type(s.dst);
        Dims const a_strides = s.transpose_a ? Dims{1, s.m} : Dims{s.k, 1};
        Dims const b_strides = s.transpose_b ? Dims{1, s.k} : Dims{s.n, 1};
        dnnl::memory::desc const a{{s.m, s.k}, src, a_strides};
        dnnl::memory::desc const b{{s.k, s.n}, src, b_strides};
        dnnl::memory::desc const c{{s.m, s.n}, dst, Dims{s.n, 1}};
        dnnl::memory::desc const bias{{1, s.n}, src, Dims{s.n, 1}};
        dnnl::memory::desc const residual{{s.m, s.n}, src, Dims{s.n, 1}};

        dnnl::post_ops after;
        if (destination == Destination::summand)
            after.append_sum(1.0f);
        if (destination == Destination::plus_residual)
            after.append_binary(dnnl::algorithm::binary_add, residual);
        dnnl::primitive_attr attributes;
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
        attributes.set_post_ops(after);

        using Matmul = dnnl::matmul;
        auto const operation = s.bias ? Matmul::desc{a, b, bias, c} : Matmul::desc{a, b, c};
        Matmul::primitive_desc const chosen{operation, attributes, context.engine};
        primitive_ = Matmul{chosen};
        scratch_bytes_ = static_cast<std::int64_t>(chosen.scratchpad_desc().get_size());

        using O = MatmulOperand;
        auto const use = [&](int argument, int operand, dnnl::memory::desc const& desc) {
            uses_[count_++] = {argument, operand, {desc, context.engine, nullptr}};
        };
        use(DNNL_ARG_SRC, O::a, a);
        use(DNNL_ARG_WEIGHTS, O::b, b);
        use(DNNL_ARG_DST, O::dst, c);
        if (s.bias)
            use(DNNL_ARG_BIAS, O::bias, bias);
        if (destination == Destination::plus_residual)
            use(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, O::residual, residual);
        use(DNNL_ARG_SCRATCHPAD, scratch_operand, chosen.scratchpad_desc());
    }

    std::int64_t scratch_bytes() const { return scratch_bytes_; }

    /// The C interface, since the C++ one builds a map for each execution.
    void run(Operands in, std::byte* workspace) const {
        std::array<dnnl_exec_arg_t, max_uses> arguments;
        for (int i = 0; i < count_; ++i) {
            Use const& use = uses_[i];
            void* const data =
                use.operand == scratch_operand ? workspace : in.pointers[use.operand];
            check(dnnl_memory_set_data_handle(use.memory.get(), data));
            arguments[i] = {use.argument, use.memory.get()};
        }
        check(dnnl_primitive_execute(primitive_.get(), stream_, count_, arguments.data()));
        check(dnnl_stream_wait(stream_));
    }

  private:
    static constexpr int max_uses = 6;
    static constexpr int scratch_operand = -1;
    struct Use {
        int argument = 0; ///< oneDNN's name
        int operand = 0;  ///< the contract's
        dnnl::memory memory;
    };

    static void check(dnnl_status_t status) {
        dnnl::error::wrap_c_api(status, "oneDNN could not execute a matrix product");
    }

    dnnl_stream_t stream_;
    dnnl::primitive primitive_;
    std::int64_t scratch_bytes_ = 0;
    std::array<Use, max_uses> uses_;
    int count_ = 0;
};

/// k = 0: dst = bias + residual.
template <class T, class D>
void add_without_product(MatmulShape const& s, int threads, Operands in) {
    using O = MatmulOperand;
    over_ranges(threads, s.m, row_grain(s.n), [&](auto begin, auto end) {
        for (std::int64_t r = begin; r < end; ++r) {
            over(0, s.n, [&](auto c, auto part) {
                Floats value = {};
                if (s.bias)
                    value += load(in.at<T>(O::bias) + c, part);
                if (s.residual)
                    value += load(in.at<T>(O::residual) + r * s.n + c, part);
                store(in.at<D>(O::dst) + r * s.n + c, value, part);
            });
        }
    });
}

OperationPtr make_empty_matmul(MatmulShape const& shape, Context const& context) {
    return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
        if (s.accumulate)
            return;
        with_type(s.src, [&]<class T>(T) {
            with_type(s.dst, [&]<class D>(D) { add_without_product<T, D>(s, threads, in); });
        });
    });
}

} // namespace

OperationPtr make_matmul(MatmulShape const& shape, Context const& context) {
    if (shape.m == 0 || shape.n == 0 || shape.k == 0)
        return make_empty_matmul(shape, context);
    if (shape.src == Element::bfloat16 && !context.bfloat16_products) {
        Refused refused;
        refuse(refused.reason, "this CPU has no bfloat16 matrix products (they need AVX-512); "
                               "compute in float32");
        throw refused;
    }
    if (!shape.residual) {
        auto const destination = shape.accumulate ? Destination::summand : Destination::overwritten;
        Primitive product{shape, destination, context};
        std::int64_t const scratch = product.scratch_bytes();
        return make_operation(
            [product = std::move(product)](Operands in, std::byte* workspace) {
                product.run(in, workspace);
            },
            scratch);
    }
    Primitive apart{shape, Destination::plus_residual, context};
    std::int64_t scratch = apart.scratch_bytes();
    if (shape.src != shape.dst) // then the residual cannot be dst
        return make_operation([apart = std::move(apart)](
                                  Operands in, std::byte* workspace) { apart.run(in, workspace); },
                              scratch);
    Primitive in_place{shape, Destination::summand, context};
    scratch = std::max(scratch, in_place.scratch_bytes());
    return make_operation(
        [apart = std::move(apart), in_place = std::move(in_place)](Operands in,
                                                                   std::byte* workspace) {
            using O = MatmulOperand;
            bool const same = in.pointers[O::residual] == in.pointers[O::dst];
            (same ? in_place : apart).run(in, workspace);
        },
        scratch);
}

} // namespace evener::kernels::host
