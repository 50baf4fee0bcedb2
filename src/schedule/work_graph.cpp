// SPDX-License-Identifier: Apache-2.0
#include "schedule/work_graph.hpp"

#include "model/chunk_layout.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using core::Range;
using core::RankId;
using program::Plan;

namespace {

/// Bytes that a message over the boundary after a chunk has, by its sequences.
using MessageBytes = std::function<double(ChunkId boundary, Range sequences)>;

struct Part {
    RankId rank;
    Range sequences;
};

std::vector<Part> parts_of(Plan const& plan, ChunkId chunk, MicrobatchId microbatch) {
    program::Group const& group = plan.group_of(chunk);
    std::vector<Part> parts;
    for (std::size_t member = 0; member < group.ranks.size(); ++member)
        if (Range const range = program::sequences_of(plan, group, member, microbatch);
            !range.empty())
            parts.push_back({group.ranks[member], range});
    return parts;
}

class GraphMaker {
  public:
    GraphMaker(Plan const& plan, program::Costs const& costs, MessageBytes const& bytes)
        : plan_{plan}, costs_{costs}, bytes_{bytes} {}

    WorkGraph make(std::vector<double> memory_limits) {
        auto const chunks = static_cast<std::int64_t>(plan_.chunks.size());
        for (std::int64_t c = 0; c < chunks; ++c)
            for (std::int64_t m = 0; m < plan_.microbatch_count(); ++m)
                parts_.push_back(parts_of(plan_, ChunkId{c}, MicrobatchId{m}));
        graph_.rank_count = plan_.rank_count();
        graph_.wire_count = std::ssize(costs_.network.wires);
        graph_.memory_limits = std::move(memory_limits);
        if (graph_.memory_limits.empty())
            graph_.memory_limits.assign(static_cast<std::size_t>(graph_.rank_count),
                                        no_memory_limit);
        for (std::int64_t c = 0; c < chunks; ++c)
            for (std::int64_t m = 0; m < plan_.microbatch_count(); ++m)
                for (Part const& part : parts(c, m))
                    add_cell(ChunkId{c}, MicrobatchId{m}, part);
        graph_.index();
        for (Cell& cell : graph_.cells)
            connect(cell);
        graph_.index();
        return std::move(graph_);
    }

  private:
    std::vector<Part> const& parts(std::int64_t chunk, std::int64_t microbatch) const {
        return parts_[static_cast<std::size_t>(chunk * plan_.microbatch_count() + microbatch)];
    }

    void add_cell(ChunkId chunk, MicrobatchId microbatch, Part const& part) {
        using program::WorkKind;
        Cell cell;
        cell.rank = part.rank;
        cell.chunk = chunk;
        cell.microbatch = microbatch;
        auto const seconds = [&](WorkKind kind) {
            return program::work_seconds(costs_, plan_, part.rank, {kind, chunk, microbatch});
        };
        cell.seconds = {seconds(WorkKind::forward), seconds(WorkKind::backward_input),
                        seconds(WorkKind::backward_weight), seconds(WorkKind::backward)};
        graph_.cells.push_back(std::move(cell));
    }

    /// What comes over the boundary from the neighbour chunk's ranks.
    void connect(Cell& cell) {
        Range const own = range_of(cell);
        if (cell.chunk.value > 0)
            cell.forward_inputs = arrivals(cell, own, cell.chunk.value - 1, cell.chunk.value - 1);
        if (cell.chunk.value + 1 < std::ssize(plan_.chunks))
            cell.backward_inputs = arrivals(cell, own, cell.chunk.value + 1, cell.chunk.value);
    }

    Range range_of(Cell const& cell) const {
        for (Part const& part : parts(cell.chunk.value, cell.microbatch.value))
            if (part.rank == cell.rank)
                return part.sequences;
        return {};
    }

    std::vector<Arrival> arrivals(Cell const& cell, Range own, std::int64_t neighbour,
                                  std::int64_t boundary) const {
        std::vector<Arrival> result;
        for (Part const& part : parts(neighbour, cell.microbatch.value)) {
            Range const shared = core::overlap(own, part.sequences);
            if (shared.empty())
                continue;
            Arrival arrival;
            arrival.cell = graph_.find(part.rank, ChunkId{neighbour}, cell.microbatch);
            arrival.wire =
                part.rank == cell.rank ? -1 : costs_.network.wire_between(part.rank, cell.rank);
            if (arrival.wire >= 0) {
                program::Wire const& wire =
                    costs_.network.wires[static_cast<std::size_t>(arrival.wire)];
                arrival.seconds = bytes_(ChunkId{boundary}, shared) * wire.seconds_per_byte;
                arrival.latency_seconds = wire.latency_seconds;
            }
            result.push_back(arrival);
        }
        return result;
    }

    Plan const& plan_;
    program::Costs const& costs_;
    MessageBytes const& bytes_;
    std::vector<std::vector<Part>> parts_; ///< [chunk][microbatch]
    WorkGraph graph_;
};

} // namespace

std::int32_t WorkGraph::find(RankId rank, ChunkId chunk, MicrobatchId microbatch) const {
    if (!rank.valid() || !chunk.valid() || !microbatch.valid() || rank.value >= rank_count ||
        chunk.value >= chunk_count_ || microbatch.value >= microbatch_count_)
        return -1;
    return places_[static_cast<std::size_t>(
        (rank.value * chunk_count_ + chunk.value) * microbatch_count_ + microbatch.value)];
}

std::span<Departure const> WorkGraph::at(Outputs const& outputs, std::int32_t cell) {
    auto const begin = static_cast<std::size_t>(outputs.begins[static_cast<std::size_t>(cell)]);
    auto const end = static_cast<std::size_t>(outputs.begins[static_cast<std::size_t>(cell) + 1]);
    return {outputs.all.data() + begin, end - begin};
}

std::span<Departure const> WorkGraph::forward_outputs(std::int32_t cell) const {
    return at(forward_, cell);
}

std::span<Departure const> WorkGraph::backward_outputs(std::int32_t cell) const {
    return at(backward_, cell);
}

WorkGraph::Outputs WorkGraph::outputs_of(std::vector<Cell> const& cells,
                                         std::vector<Arrival> Cell::*inputs) {
    Outputs outputs;
    outputs.begins.assign(cells.size() + 1, 0);
    for (Cell const& cell : cells)
        for (Arrival const& arrival : cell.*inputs)
            ++outputs.begins[static_cast<std::size_t>(arrival.cell) + 1];
    for (std::size_t i = 0; i < cells.size(); ++i)
        outputs.begins[i + 1] += outputs.begins[i];
    outputs.all.resize(static_cast<std::size_t>(outputs.begins.back()));
    std::vector<std::int32_t> next = outputs.begins;
    for (std::size_t i = 0; i < cells.size(); ++i)
        for (Arrival const& arrival : cells[i].*inputs)
            outputs.all[static_cast<std::size_t>(next[static_cast<std::size_t>(arrival.cell)]++)] =
                {static_cast<std::int32_t>(i), arrival};
    return outputs;
}

void WorkGraph::index() {
    chunk_count_ = 0;
    microbatch_count_ = 0;
    for (Cell const& cell : cells) {
        chunk_count_ = std::max<std::int64_t>(chunk_count_, cell.chunk.value + 1);
        microbatch_count_ = std::max<std::int64_t>(microbatch_count_, cell.microbatch.value + 1);
    }
    places_.assign(static_cast<std::size_t>(rank_count * chunk_count_ * microbatch_count_), -1);
    for (std::size_t i = 0; i < cells.size(); ++i)
        places_[static_cast<std::size_t>(
            (cells[i].rank.value * chunk_count_ + cells[i].chunk.value) * microbatch_count_ +
            cells[i].microbatch.value)] = static_cast<std::int32_t>(i);
    forward_ = outputs_of(cells, &Cell::forward_inputs);
    backward_ = outputs_of(cells, &Cell::backward_inputs);
}

namespace {

/// What the cell keeps on its device, and so may have to compute again, from the layout of its
/// sequences.
void add_layout(Cell& cell, Plan const& plan, model::Model const& model,
                model::ChunkLayout const& layout, std::int64_t sequences) {
    bool const recompute = plan.chunks[cell.chunk.index()].recompute;
    bool const offloaded = program::offload_of(plan, cell.rank).activations;
    std::int64_t const whole = core::round_up(layout.kept_bytes, 64);
    std::int64_t kept = whole;
    if (recompute)
        kept = layout.has_input
                   ? core::round_up(model::boundary_bytes(model.config(), sequences,
                                                          plan.group_of(cell.chunk).compute),
                                    64)
                   : 0;
    if (recompute && whole == 0) { // nothing to compute again
        cell.seconds.backward -= cell.seconds.forward;
        cell.seconds.backward_input -= cell.seconds.forward;
    }
    cell.kept_bytes = static_cast<double>(offloaded ? 0 : kept);
    cell.kept_for_weights_bytes = static_cast<double>(
        core::round_up(layout.kept_for_weights_bytes, 64) + (recompute || offloaded ? whole : 0));
}

} // namespace

WorkGraph make_work_graph(Plan const& plan, model::Model const& model, program::Costs const& costs,
                          std::vector<double> memory_limits) {
    MessageBytes const bytes = [&](ChunkId boundary, Range sequences) {
        return static_cast<double>(model::boundary_bytes(model.config(), sequences.size(),
                                                         plan.boundary_types[boundary.index()]));
    };
    WorkGraph graph = GraphMaker{plan, costs, bytes}.make(std::move(memory_limits));
    std::map<std::pair<ChunkId, std::int64_t>, model::ChunkLayout> layouts;
    for (Cell& cell : graph.cells) {
        program::Group const& group = plan.group_of(cell.chunk);
        auto const member = static_cast<std::size_t>(program::member_of(group, cell.rank));
        std::int64_t const sequences =
            program::sequences_of(plan, group, member, cell.microbatch).size();
        auto const [found, added] = layouts.try_emplace({cell.chunk, sequences});
        if (added)
            found->second = model::chunk_layout(model, plan.chunks[cell.chunk.index()].layers,
                                                sequences, group.compute);
        add_layout(cell, plan, model, found->second, sequences);
    }
    return graph;
}

WorkGraph make_work_graph(Plan const& plan, program::Costs const& costs, double message_bytes,
                          std::vector<double> memory_limits) {
    MessageBytes const bytes = [&](ChunkId, Range) { return message_bytes; };
    WorkGraph graph = GraphMaker{plan, costs, bytes}.make(std::move(memory_limits));
    std::vector<double> chunks(plan.groups.size());
    for (program::Chunk const& chunk : plan.chunks)
        chunks[chunk.group.index()] += 1;
    for (Cell& cell : graph.cells)
        cell.kept_bytes = 1 / chunks[plan.chunks[cell.chunk.index()].group.index()];
    return graph;
}

} // namespace evener::schedule
