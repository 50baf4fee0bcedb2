// SPDX-License-Identifier: Apache-2.0
#pragma once

// The device table: what a back-end plug-in offers. Plain structs, function pointers and error
// texts; no exception crosses it. A plug-in exports one function, `evener_device_table`, that
// returns a table which lives as long as the plug-in is loaded.
//
// Operations are prepared: `prepare` decides everything for one shape (implementation, layouts,
// workspace) and may refuse with a reason; `run` allocates nothing and cannot fail on shape.

#include "kernels/attention.hpp"
#include "kernels/cross_entropy.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/embedding.hpp"
#include "kernels/matmul.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/rms_norm.hpp"
#include "kernels/rotary.hpp"
#include "kernels/swiglu.hpp"

#include <cstddef>

namespace evener::kernels {

/// Raised whenever a struct of the contracts changes its meaning.
inline constexpr std::uint32_t table_version = 1;

enum class OperationKind : std::uint32_t {
    matmul,
    rms_norm,
    rms_norm_backward,
    rms_norm_weight_gradient,
    rotary,
    attention,
    attention_backward,
    swiglu,
    swiglu_backward,
    embedding,
    embedding_gradient,
    cross_entropy,
    adamw,
    sgd,
    convert,
    clear,
    column_sums,
    segment_sums,
    sum_squares,
    count
};

/// One operation with its sizes. `kind` says which member of the union is meant.
struct OperationShape {
    OperationKind kind = OperationKind::clear;
    union {
        MatmulShape matmul;
        RmsNormShape rms_norm; ///< forward, backward and weight gradient
        RotaryShape rotary;
        AttentionShape attention; ///< forward and backward
        SwigluShape swiglu;       ///< forward and backward
        EmbeddingShape embedding; ///< forward and gradient
        CrossEntropyShape cross_entropy;
        OptimizerShape optimizer; ///< adamw and sgd
        ConvertShape convert;
        ClearShape clear;
        ColumnSumsShape column_sums;
        SegmentSumsShape segment_sums;
        SumSquaresShape sum_squares;
    };

    OperationShape() : clear{} {}
};

struct Device;   ///< an opened device; owned by the plug-in
struct Prepared; ///< a prepared operation; owned by the plug-in

/// Where the plug-in writes why it refused; always ends in a zero byte.
struct Reason {
    char text[512] = {};
};

struct DeviceOptions {
    int threads = 1; ///< of this process, for back ends that compute on the CPU
};

struct DeviceTable {
    std::uint32_t version;   ///< table_version the plug-in was built with
    char const* build_id;    ///< must equal the executable's
    char const* kind;        ///< "host", "reference", "cuda"
    char const* description; ///< one line for the start table: level, libraries and versions

    /// Null and a reason when the device cannot be used. Host back ends: once per process at a
    /// time.
    Device* (*open)(DeviceOptions const* options, Reason* reason);
    void (*close)(Device* device);

    /// Whether operations can compute in this type at all (speed is measured, not asked).
    bool (*supports)(Device* device, Element type);

    /// Null and a reason when no implementation takes this shape. `workspace_bytes` is what run
    /// needs.
    Prepared* (*prepare)(Device* device, OperationShape const* shape, std::int64_t* workspace_bytes,
                         Reason* reason);
    void (*release)(Device* device, Prepared* prepared);

    /// Host back ends return when the result is there. `workspace` is aligned to 64 bytes. 0 =
    /// done.
    int (*run)(Device* device, Prepared* prepared, void* const* operands, void* workspace,
               Reason* reason);
};

/// Type of the one exported symbol, `extern "C" DeviceTable const* evener_device_table()`.
using DeviceTableFunction = DeviceTable const* (*)();
inline constexpr char const* device_table_symbol = "evener_device_table";

} // namespace evener::kernels
