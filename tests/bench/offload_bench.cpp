// SPDX-License-Identifier: Apache-2.0

// What offload saves and costs, in simulated time: a Llama 7B shape on GPUs behind a PCIe 4 link,
// as a table over the number of chunks per group (to stderr), and one JSON line:
//   bin/offload_bench [MICROBATCHES]
//
// The same plan runs with everything on the GPU and with parameters, optimizer and activations
// offloaded; both recompute and update during the backward pass, in breadth-first order. The
// programs are those that training would run; nothing here has run on a GPU. What is assumed of one:
// - 125 TF/s of bfloat16 in training: 40 % of the 312 TF/s that NVIDIA states for an A100
// - 25 GB/s between device and pinned memory, each way and both at once: what bandwidthTest and
//   nvbandwidth commonly show of the 31.5 GB/s of 16 lanes of PCIe 4; 10 us to start a copy
// - 1300 GB/s of device memory (an A100's 1555 GB/s less what streaming kernels leave unused): an
//   update moves 30 bytes per parameter, the norm of a gradient 4
// - 64 MiB of workspace of the libraries; none of the context
// - 12.5 GB/s and 10 us between any two GPUs (a 100 Gb/s network, staged through host memory)
#include "planner/profile.hpp"
#include "program/placement.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/simulator.hpp"
#include "schedule/usage.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace {

using namespace evener;

constexpr double matrix_gflops = 125e3;
constexpr double device_bytes_per_second = 1300e9;
constexpr program::CopyRate copy_rate{10e-6, 1 / 25e9};
constexpr program::Wire wire{10e-6, 1 / 12.5e9};
constexpr std::int64_t group_count = 4;

model::ModelConfig llama_7b() {
    model::ModelConfig config;
    config.vocabulary = 32000;
    config.hidden_size = 4096;
    config.decoder_layers = 32;
    config.heads = config.kv_heads = 32;
    config.head_size = 128;
    config.ffn_size = 11008;
    config.sequence_length = 2048;
    return config;
}

planner::Profile profile_of(model::Model const& model, std::int64_t ranks) {
    planner::Profile profile = planner::estimated_profile(
        model, std::vector<double>(static_cast<std::size_t>(ranks), matrix_gflops));
    for (planner::RankProfile& rank : profile.ranks) {
        rank.copies = {copy_rate, copy_rate};
        rank.update_seconds_per_element = 30 / device_bytes_per_second;
        rank.measure_seconds_per_element = 4 / device_bytes_per_second;
    }
    profile.network = program::uniform_network(ranks, wire);
    return profile;
}

/// Four groups of equal GPUs, each with its part of the layers in `chunks` runs; one sequence of a
/// microbatch for each GPU.
program::Plan plan_of(model::Model const& model, std::int64_t gpus, std::int64_t chunks,
                      std::int64_t microbatches) {
    program::Plan plan;
    std::vector<std::int64_t> layers;
    std::vector<double> const equal(static_cast<std::size_t>(gpus), 1);
    for (std::int64_t g = 0; g < group_count; ++g) {
        program::Group& group = plan.groups.emplace_back();
        for (std::int64_t r = 0; r < gpus; ++r)
            group.ranks.emplace_back(g * gpus + r);
        group.shares = group.shard_weights = equal;
        group.compute = core::DType::bfloat16;
        group.own_memory.assign(static_cast<std::size_t>(gpus), true);
    }
    for (std::int64_t const part :
         program::largest_remainder(model.layer_count(), std::vector<double>(group_count, 1)))
        layers.push_back(part);
    plan.chunks = program::place(program::Placement::round_robin, layers, chunks);
    for (program::Chunk& chunk : plan.chunks)
        chunk.recompute = true;
    plan.microbatch_size = gpus;
    plan.batch_size = gpus * microbatches;
    plan.schedule = "breadth_first";
    plan.interleaved_updates = true;
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

struct Figures {
    double bytes = 0; ///< of the largest arena
    double pinned_bytes = 0;
    double seconds = 0;
    double fetch_seconds = 0; ///< of all ranks
    double hidden_seconds = 0;
};

Figures run(program::Plan const& plan, model::Model const& model, planner::Profile const& profile) {
    program::Costs const costs = planner::costs_of(profile, plan, model);
    std::vector<std::int64_t> const workspace(static_cast<std::size_t>(plan.rank_count()),
                                              std::int64_t{64} << 20);
    program::ProgramSet const set =
        schedule::lower(plan, model, schedule::generate(plan, program::ProgramKind::train),
                        {.device_workspace_bytes = workspace, .costs = &costs});
    schedule::Simulation const simulation =
        schedule::simulate(set, program::instruction_seconds(costs, set), costs.network);
    Figures figures;
    figures.seconds = simulation.seconds;
    for (program::Program const& program : set.programs) {
        figures.bytes = std::max(figures.bytes, static_cast<double>(program.arena_bytes));
        figures.pinned_bytes =
            std::max(figures.pinned_bytes, static_cast<double>(program.pinned_bytes));
    }
    for (schedule::RankUsage const& rank : schedule::usage_of(set, simulation.timeline).ranks) {
        figures.fetch_seconds += rank.fetch_seconds;
        figures.hidden_seconds += rank.hidden_fetch_seconds;
    }
    return figures;
}

struct Row {
    std::int64_t gpus = 0;   ///< per group
    std::int64_t chunks = 0; ///< per group
    Figures resident, offloaded;

    double saved() const { return 1 - offloaded.bytes / resident.bytes; }
    double extra_time() const { return offloaded.seconds / resident.seconds - 1; }
    double hidden() const { return offloaded.hidden_seconds / offloaded.fetch_seconds; }
    bool within_bars() const { return saved() >= 0.4 && extra_time() <= 0.1 && hidden() >= 0.8; }
};

Row row_of(model::Model const& model, std::int64_t gpus, std::int64_t chunks,
           std::int64_t microbatches) {
    Row row{gpus, chunks, {}, {}};
    program::Plan plan = plan_of(model, gpus, chunks, microbatches);
    planner::Profile const profile = profile_of(model, plan.rank_count());
    row.resident = run(plan, model, profile);
    for (program::Group& group : plan.groups)
        group.offload = {true, true, true};
    row.offloaded = run(plan, model, profile);
    return row;
}

void print(Row const& row) {
    fmt::print(stderr,
               "{:>4} x {} {:>7} {:>10.2f} {:>10.2f} {:>7.1f} % {:>11.2f} {:>10.3f} {:>10.3f} "
               "{:>7.1f} % {:>8.1f} % {}\n",
               group_count, row.gpus, row.chunks, row.resident.bytes / 1e9,
               row.offloaded.bytes / 1e9, 100 * row.saved(), row.offloaded.pinned_bytes / 1e9,
               row.resident.seconds, row.offloaded.seconds, 100 * row.extra_time(),
               100 * row.hidden(), row.within_bars() ? "*" : "");
}

} // namespace

int main(int argc, char** argv) {
    std::int64_t const microbatches = argc > 1 ? std::atoll(argv[1]) : 16;
    if (microbatches < 1) {
        fmt::print(stderr, "give a number of microbatches, 1 or more\n");
        return 2;
    }
    model::Model const model{llama_7b()};
    fmt::print(stderr,
               "Llama 7B, sequences of 2048 tokens, {} microbatches of one sequence per GPU, "
               "breadth-first;\nGB of the fullest GPU and seconds of a step, simulated: everything "
               "on the GPU, then offloaded\n",
               microbatches);
    fmt::print(stderr, "{:>8} {:>7} {:>10} {:>10} {:>9} {:>11} {:>10} {:>10} {:>9} {:>10}\n",
               "GPUs", "chunks", "GB", "offloaded", "saved", "pinned GB", "seconds", "offloaded",
               "longer", "hidden");
    std::vector<Row> rows;
    for (std::int64_t const gpus : {1, 2})
        for (std::int64_t const chunks : {1, 2, 4, 8, 16}) {
            rows.push_back(row_of(model, gpus, chunks, microbatches));
            print(rows.back());
        }
    fmt::print(stderr,
               "* at least 40 % of the memory saved for at most 10 % more time, 80 % of the time "
               "of fetches behind computations\n");
    auto const best = std::max_element(rows.begin(), rows.end(), [](Row const& a, Row const& b) {
        return std::pair{a.within_bars(), a.saved()} < std::pair{b.within_bars(), b.saved()};
    });
    fmt::print(
        "{{\"bench\": \"offload\", \"memory_saved\": {:.3f}, \"extra_time\": {:.4f}, "
        "\"fetch_hidden\": {:.3f}, \"chunks\": {}, \"gpus_per_group\": {}, "
        "\"rows_within_bars\": {}, \"rows\": {}, \"baseline\": \"the same plan without "
        "offload\"}}\n",
        best->saved(), best->extra_time(), best->hidden(), best->chunks, best->gpus,
        std::count_if(rows.begin(), rows.end(), [](Row const& r) { return r.within_bars(); }),
        rows.size());
    return best->within_bars() ? 0 : 1;
}
