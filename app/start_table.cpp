// SPDX-License-Identifier: Apache-2.0
#include "app/start_table.hpp"

#include "core/build_info.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

namespace evener::app {

namespace {

std::string rank_list(std::vector<core::RankId> const& ranks) {
    std::vector<std::int32_t> values;
    for (core::RankId const rank : ranks)
        values.push_back(rank.value);
    return fmt::format("{}", fmt::join(values, ","));
}

/// First and last layer of a run.
std::string layer_text(model::Model const& model, core::Range layers) {
    std::string const first = model.layer(core::LayerId{layers.begin}).name();
    if (layers.size() == 1)
        return first;
    return first + " to " + model.layer(core::LayerId{layers.end - 1}).name();
}

/// "2 GPU, 1 CPU".
std::string kinds_text(program::Group const& group) {
    auto const gpus = std::count(group.own_memory.begin(), group.own_memory.end(), true);
    auto const cpus = std::ssize(group.ranks) - gpus;
    return fmt::format("{}{}{}", gpus > 0 ? fmt::format("{} GPU", gpus) : "",
                       gpus > 0 && cpus > 0 ? ", " : "",
                       cpus > 0 ? fmt::format("{} CPU", cpus) : "");
}

/// Of a group of CPUs alone nothing leaves.
std::string offload_text(program::Group const& group) {
    std::string text;
    bool const gpu = std::count(group.own_memory.begin(), group.own_memory.end(), true) > 0;
    for (auto const& [on, name] : {std::pair{group.offload.parameters, "parameters"},
                                   std::pair{group.offload.optimizer, "optimizer"},
                                   std::pair{group.offload.activations, "activations"}})
        if (on && gpu)
            text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
    return text.empty() ? "-" : text;
}

} // namespace

std::string machine_table(comm::MpiSession const& mpi, Engine const& engine) {
    std::set<std::string> const hosts{mpi.hosts().begin(), mpi.hosts().end()};
    std::string text = fmt::format("evener {} ({}, {}, {})\n{}\n{}\n{} ranks on {} host{}\n",
                                   core::version, core::commit(), core::compiler, core::build_type,
                                   mpi.library(), engine.device->description(), mpi.size(),
                                   hosts.size(), hosts.size() == 1 ? "" : "s");
    std::size_t width = 10;
    for (std::string const& name : engine.devices)
        width = std::max(width, name.size());
    text +=
        fmt::format("{:>5} {:<20} {:>5} {:>7} {:<4} {:<{}} {:>13} {:>14}\n", "rank", "host",
                    "cores", "threads", "kind", "device", width, "float32 GF/s", "bfloat16 GF/s");
    for (std::size_t r = 0; r < engine.ranks.size(); ++r) {
        RankFacts const& facts = engine.ranks[r];
        text += fmt::format(
            "{:>5} {:<20} {:>5} {:>7} {:<4} {:<{}} {:>13.0f} {:>14}\n", r, mpi.hosts()[r],
            facts.cores, facts.threads, facts.own_memory ? "GPU" : "CPU", engine.devices[r], width,
            facts.gflops[0], facts.gflops[1] > 0 ? fmt::format("{:.0f}", facts.gflops[1]) : "-");
    }
    return text;
}

std::string plan_table(program::Plan const& plan, model::Model const& model) {
    std::string text =
        fmt::format("plan: {}, {} sequences in {} microbatches of {}{}{}\n", plan.schedule,
                    plan.batch_size, plan.microbatch_count(), plan.microbatch_size,
                    plan.split_backward ? ", backward split" : "",
                    plan.interleaved_updates ? ", updates during the backward pass" : "");
    bool const recompute = std::any_of(plan.chunks.begin(), plan.chunks.end(),
                                       [](program::Chunk const& chunk) { return chunk.recompute; });
    bool const offload =
        std::any_of(plan.groups.begin(), plan.groups.end(),
                    [](program::Group const& group) { return offload_text(group) != "-"; });
    auto const add_line = [&](auto const& group, std::string const& ranks, std::string const& kinds,
                              std::string const& layers, std::string const& shares,
                              std::string_view compute, std::string const& levers) {
        text += fmt::format("{:>5} {:<16} {:<12} {:<42} {:<20} {:<8}{}\n", group, ranks, kinds,
                            layers, shares, compute, levers);
    };
    add_line("group", "ranks", "devices", "layers", "shares", "compute",
             fmt::format("{}{}", recompute ? " recompute" : "", offload ? " offload" : ""));
    for (program::Chunk const& chunk : plan.chunks) {
        program::Group const& group = plan.groups[chunk.group.index()];
        std::string levers;
        if (recompute)
            levers += fmt::format(" {:<{}}", chunk.recompute ? "yes" : "no", offload ? 9 : 0);
        if (offload)
            levers += " " + offload_text(group);
        add_line(chunk.group.value, rank_list(group.ranks), kinds_text(group),
                 layer_text(model, chunk.layers),
                 fmt::format("{:g}{}", fmt::join(group.shares, ":"),
                             group.dispatch == program::Dispatch::dealt ? " dealt" : ""),
                 core::name_of(group.compute), levers);
    }
    std::vector<core::RankId> idle;
    for (program::Group const& group : plan.groups)
        for (std::size_t member = 0; member < group.ranks.size(); ++member) {
            bool works = false;
            for (std::int64_t i = 0; i < plan.microbatch_count() && !works; ++i)
                works = !program::sequences_of(plan, group, member, core::MicrobatchId{i}).empty();
            if (!works)
                idle.push_back(group.ranks[member]);
        }
    if (!idle.empty())
        text +=
            fmt::format("ranks without sequences, they only hold shards: {}\n", rank_list(idle));
    return text;
}

namespace {

/// A column of figures in MB, one for each rank.
struct Column {
    std::string name;
    std::vector<std::int64_t> bytes;
};

/// One memory of all ranks by use, without the uses that it has nowhere.
std::vector<Column> memory_columns(program::ProgramSet const& set, program::Memory memory) {
    static constexpr char const* short_names[program::buffer_kind_count] = {
        "weights",  "gradients", "shards",   "reduced",   "for B",  "for W",
        "received", "sending",   "handover", "workspace", "inputs", "updated"};
    std::vector<Column> columns(program::buffer_kind_count);
    Column total{memory == program::Memory::device ? "arena" : "pinned", {}};
    for (program::Program const& program : set.programs) {
        program::MemoryTable const table = program::memory_table(program, memory);
        for (std::size_t kind = 0; kind < columns.size(); ++kind) {
            columns[kind].name = short_names[kind];
            columns[kind].bytes.push_back(table.bytes[kind]);
        }
        total.bytes.push_back(table.total_bytes);
    }
    std::erase_if(columns, [](Column const& column) {
        return std::all_of(column.bytes.begin(), column.bytes.end(),
                           [](std::int64_t bytes) { return bytes == 0; });
    });
    columns.push_back(std::move(total));
    return columns;
}

std::string columns_text(std::vector<Column> const& columns, std::size_t ranks) {
    std::string text = " rank";
    for (Column const& column : columns)
        text += fmt::format(" {:>10}", column.name);
    text += '\n';
    for (std::size_t r = 0; r < ranks; ++r) {
        text += fmt::format("{:>5}", r);
        for (Column const& column : columns)
            text += fmt::format(" {:>10.2f}", static_cast<double>(column.bytes[r]) / 1e6);
        text += '\n';
    }
    return text;
}

} // namespace

std::string memory_table(program::ProgramSet const& set, std::vector<OtherMemory> const& other) {
    std::size_t const ranks = set.programs.size();
    std::vector<Column> columns = memory_columns(set, program::Memory::device);
    if (!other.empty()) {
        Column staging{"staging", {}}, snapshot{"snapshot", {}}, outside{"outside", {}};
        for (OtherMemory const& beside : other) {
            staging.bytes.push_back(beside.staging);
            snapshot.bytes.push_back(beside.snapshot);
            outside.bytes.push_back(beside.outside);
        }
        if (std::any_of(staging.bytes.begin(), staging.bytes.end(),
                        [](std::int64_t bytes) { return bytes > 0; }))
            columns.push_back(std::move(staging));
        columns.push_back(std::move(snapshot));
        columns.push_back(std::move(outside));
    }
    std::string text = "memory of each rank's arena in MB, by use\n" + columns_text(columns, ranks);
    std::vector<Column> const pinned = memory_columns(set, program::Memory::pinned);
    if (pinned.size() > 1)
        text += "pinned memory of each rank in MB, by what is offloaded\n" +
                columns_text(pinned, ranks);
    return text;
}

} // namespace evener::app
