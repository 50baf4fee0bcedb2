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
    text += fmt::format("{:>5} {:<20} {:>5} {:>7} {:<{}} {:>13} {:>14}\n", "rank", "host", "cores",
                        "threads", "device", width, "float32 GF/s", "bfloat16 GF/s");
    for (std::size_t r = 0; r < engine.ranks.size(); ++r) {
        RankFacts const& facts = engine.ranks[r];
        text += fmt::format("{:>5} {:<20} {:>5} {:>7} {:<{}} {:>13.0f} {:>14}\n", r, mpi.hosts()[r],
                            facts.cores, facts.threads, engine.devices[r], width, facts.gflops[0],
                            facts.gflops[1] > 0 ? fmt::format("{:.0f}", facts.gflops[1]) : "-");
    }
    return text;
}

std::string plan_table(program::Plan const& plan, model::Model const& model) {
    std::string text =
        fmt::format("plan: {}, {} sequences in {} microbatches of {}{}\n", plan.schedule,
                    plan.batch_size, plan.microbatch_count(), plan.microbatch_size,
                    plan.split_backward ? ", backward split" : "");
    text += fmt::format("{:>5} {:<16} {:<42} {:<20} {}\n", "group", "ranks", "layers", "shares",
                        "compute");
    for (program::Chunk const& chunk : plan.chunks) {
        program::Group const& group = plan.groups[chunk.group.index()];
        text += fmt::format("{:>5} {:<16} {:<42} {:<20} {}\n", chunk.group.value,
                            rank_list(group.ranks), layer_text(model, chunk.layers),
                            fmt::format("{:g}{}", fmt::join(group.shares, ":"),
                                        group.dispatch == program::Dispatch::dealt ? " dealt" : ""),
                            core::name_of(group.compute));
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

std::string memory_table(program::ProgramSet const& set, std::vector<OtherMemory> const& other) {
    static constexpr char const* short_names[program::buffer_kind_count] = {
        "weights",  "gradients", "shards",   "reduced",   "for B",  "for W",
        "received", "sending",   "handover", "workspace", "inputs", "updated"};
    std::string text = "memory of each rank's arena in MB, by use\n";
    text += fmt::format("{:>5}", "rank");
    for (char const* name : short_names)
        text += fmt::format(" {:>9}", name);
    text += fmt::format(" {:>10}", "arena");
    if (!other.empty())
        text += fmt::format(" {:>9} {:>9}", "snapshot", "outside");
    text += '\n';
    for (program::Program const& program : set.programs) {
        program::MemoryTable const table = program::memory_table(program);
        text += fmt::format("{:>5}", program.rank.value);
        for (std::int64_t const bytes : table.bytes)
            text += fmt::format(" {:>9.2f}", static_cast<double>(bytes) / 1e6);
        text += fmt::format(" {:>10.2f}", static_cast<double>(table.total_bytes) / 1e6);
        if (!other.empty()) {
            OtherMemory const& beside = other[program.rank.index()];
            text += fmt::format(" {:>9.2f} {:>9.2f}", static_cast<double>(beside.snapshot) / 1e6,
                                static_cast<double>(beside.outside) / 1e6);
        }
        text += '\n';
    }
    return text;
}

} // namespace evener::app
