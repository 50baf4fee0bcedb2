// SPDX-License-Identifier: Apache-2.0
#pragma once

// A layer kind says everything there is to know about it in one file: parameters, sizes, FLOPs,
// what it keeps from Forward to BackwardInput, what from BackwardInput to BackwardWeight, and its
// operations. All else (lowering, memory, execution) reads these lists and knows no layer kind.
//
// Data of one layer for one microbatch live in areas, addressed by byte offsets:
//   kept              written by Forward, read by both backward phases; its first tensor is the
//                     layer's input [rows, hidden] (the layer before writes it there)
//   kept_for_weights  written by BackwardInput, read by BackwardWeight; its first tensor is the
//                     gradient of the layer's output [rows, hidden] (the layer after writes it)
//   scratch           lives for one phase
//   output            [rows, hidden], where Forward writes; grad_input the same for BackwardInput
// The embedding has no input and the head no output, so the first tensor of those areas is absent.
// `rows` is sequences x sequence_length; every tensor of an area starts at a multiple of 64 bytes.

#include "core/ids.hpp"
#include "core/types.hpp"
#include "kernels/table.hpp"
#include "model/config.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace evener::model {

enum class Initial { normal, ones, zeros };

/// A parameter as the checkpoint knows it: logical name and global shape.
struct Parameter {
    std::string name; ///< Hugging Face Llama name
    std::int64_t rows = 0;
    std::int64_t cols = 1; ///< 1 for vectors
    bool vector = false;   ///< shape is [rows] and not [rows, cols]
    bool decayed = false;  ///< weight decay applies (not on norms and biases)
    Initial initial = Initial::normal;
    float init_std = 0;

    std::int64_t elements() const { return rows * cols; }
};

/// Where an operand of an operation is found.
enum class Area : std::uint8_t {
    none, ///< null pointer
    kept,
    kept_for_weights,
    scratch,
    output,
    grad_input,
    parameter,          ///< compute type; `offset` is an index into Layer::parameters
    parameter_gradient, ///< float32; `offset` is an index into Layer::parameters
    loss_scale,         ///< one float32: 1 / valid tokens of the batch
    sequence_losses,    ///< one double per sequence
};

struct Operand {
    Area area = Area::none;
    std::int64_t offset = 0; ///< bytes, or an index for parameters
};

/// One step of a phase: a kernel, or the loading of token ids by the runtime.
struct Operation {
    enum class Kind : std::uint8_t { kernel, load_inputs, load_targets };

    Kind kind = Kind::kernel;
    kernels::OperationShape shape{}; ///< of a kernel
    std::vector<Operand> operands;   ///< in the kernel's order; the destination of a load
};

enum class Phase : std::uint8_t {
    forward,
    evaluate, ///< keeps nothing for a backward phase; the head gives losses
    backward_input,
    backward_weight,
    next_token, ///< the head alone: logits (float32, [vocabulary], `output`) of one row (`kept`)
};
inline constexpr int phase_count = 5;

/// The operations of one layer for a given number of sequences and compute type.
struct LayerOperations {
    std::int64_t kept_bytes = 0;
    std::int64_t kept_for_weights_bytes = 0;
    std::int64_t scratch_bytes[phase_count] = {};
    std::vector<Operation> phases[phase_count];

    std::vector<Operation> const& of(Phase phase) const {
        return phases[static_cast<std::size_t>(phase)];
    }
    std::int64_t scratch_of(Phase phase) const {
        return scratch_bytes[static_cast<std::size_t>(phase)];
    }
};

class Layer {
  public:
    virtual ~Layer() = default;

    virtual std::string_view kind() const = 0;
    /// For people: "attention 3".
    virtual std::string name() const { return std::string{kind()}; }
    /// Parameters this layer reads, in the order of its operand indices. Those it does not share
    /// with another layer stand one after the other, without gaps, wherever they are stored: a
    /// fused product reads several as one matrix.
    virtual std::vector<Parameter> const& parameters() const = 0;
    virtual bool has_input() const { return true; }
    virtual bool has_output() const { return true; }
    /// Whether BackwardInput already accumulates the parameter gradients and BackwardWeight does
    /// nothing (the head: logits exist only once).
    virtual bool gradients_in_backward_input() const { return false; }
    /// FLOPs of Forward per sequence; the backward phases take twice as many together.
    virtual double forward_flops() const = 0;

    virtual LayerOperations operations(std::int64_t sequences, core::DType compute) const = 0;
};

std::unique_ptr<Layer> make_embedding(ModelConfig const& config);
std::unique_ptr<Layer> make_attention(ModelConfig const& config, std::int64_t decoder_layer);
std::unique_ptr<Layer> make_feed_forward(ModelConfig const& config, std::int64_t decoder_layer);
std::unique_ptr<Layer> make_head(ModelConfig const& config);

} // namespace evener::model
