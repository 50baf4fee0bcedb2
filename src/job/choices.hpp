// SPDX-License-Identifier: Apache-2.0
#pragma once

// The words a job may choose from, one enum per key. `Names<E>::list` holds the spelling of each
// enumerator in order, so parsing, printing and messages cannot disagree.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace evener::job {

enum class Devices : std::uint8_t { automatic, cpu, gpu, reference };
/// Collectives among the GPUs of a group: where they are equal, or never.
enum class Nccl : std::uint8_t { automatic, off };
/// Whether MPI gets device memory: never, where it says that it takes it, or else an error.
enum class CudaAwareMpi : std::uint8_t { off, automatic, on };
enum class Preset : std::uint8_t { none, tiny, gpt_124m, llama_1b, llama_7b };
enum class Format : std::uint8_t { automatic, llmc, uint16, uint32, megatron };
enum class OnNonfinite : std::uint8_t { stop, skip, report };
enum class OptimizerKind : std::uint8_t { adamw, sgd };
enum class Decay : std::uint8_t { cosine, linear, constant };
enum class Compute : std::uint8_t { automatic, float32, bfloat16 };
/// A group's compute type; `as_job` follows [precision] compute.
enum class GroupCompute : std::uint8_t { as_job, automatic, float32, bfloat16 };
/// What to do where the plan's groups are for another number of ranks.
enum class OnMismatch : std::uint8_t { stop, replan };
/// Order of forward and backward passes: made by a search, or as the names say.
enum class Schedule : std::uint8_t {
    automatic,
    one_f_one_b,
    gpipe,
    interleaved,
    breadth_first,
    zb_h1,
    zb_h2,
    zb_v,
    greedy
};
/// Which groups the chunks of layers go to.
enum class Placement : std::uint8_t { round_robin, v };
/// How a group's ranks divide the work: each microbatch by shares, or whole microbatches dealt out.
enum class Dispatch : std::uint8_t { shares, dealt };
/// Data files of a checkpoint: one per node, or one that all nodes fill.
enum class Layout : std::uint8_t { per_node, shared };
enum class LogLevel : std::uint8_t { debug, info, warn, error };
enum class Progress : std::uint8_t { automatic, always, never };

template <class E>
struct Names;

template <>
struct Names<Devices> {
    static constexpr std::array<std::string_view, 4> list{"auto", "cpu", "gpu", "reference"};
};
template <>
struct Names<Nccl> {
    static constexpr std::array<std::string_view, 2> list{"auto", "off"};
};
template <>
struct Names<OnMismatch> {
    static constexpr std::array<std::string_view, 2> list{"stop", "replan"};
};
template <>
struct Names<CudaAwareMpi> {
    static constexpr std::array<std::string_view, 3> list{"off", "auto", "on"};
};
template <>
struct Names<Preset> {
    static constexpr std::array<std::string_view, 5> list{"none", "tiny", "124m", "1b", "7b"};
};
template <>
struct Names<Format> {
    static constexpr std::array<std::string_view, 5> list{"auto", "llmc", "uint16", "uint32",
                                                          "megatron"};
};
template <>
struct Names<OnNonfinite> {
    static constexpr std::array<std::string_view, 3> list{"stop", "skip", "report"};
};
template <>
struct Names<OptimizerKind> {
    static constexpr std::array<std::string_view, 2> list{"adamw", "sgd"};
};
template <>
struct Names<Decay> {
    static constexpr std::array<std::string_view, 3> list{"cosine", "linear", "constant"};
};
template <>
struct Names<Compute> {
    static constexpr std::array<std::string_view, 3> list{"auto", "float32", "bfloat16"};
};
template <>
struct Names<GroupCompute> {
    static constexpr std::array<std::string_view, 4> list{"job", "auto", "float32", "bfloat16"};
};
template <>
struct Names<Schedule> {
    static constexpr std::array<std::string_view, 9> list{"auto",        "1f1b",          "gpipe",
                                                          "interleaved", "breadth_first", "zb-h1",
                                                          "zb-h2",       "zb-v",          "greedy"};
};
template <>
struct Names<Placement> {
    static constexpr std::array<std::string_view, 2> list{"round_robin", "v"};
};
template <>
struct Names<Dispatch> {
    static constexpr std::array<std::string_view, 2> list{"shares", "dealt"};
};
template <>
struct Names<LogLevel> {
    static constexpr std::array<std::string_view, 4> list{"debug", "info", "warn", "error"};
};
template <>
struct Names<Layout> {
    static constexpr std::array<std::string_view, 2> list{"per_node", "shared"};
};
template <>
struct Names<Progress> {
    static constexpr std::array<std::string_view, 3> list{"auto", "always", "never"};
};

/// The word as a job spells it.
template <class E>
constexpr std::string_view name_of(E value) {
    return Names<E>::list[static_cast<std::size_t>(value)];
}

} // namespace evener::job
