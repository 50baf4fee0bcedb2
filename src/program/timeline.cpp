// SPDX-License-Identifier: Apache-2.0
#include "program/timeline.hpp"

#include <algorithm>
#include <map>

namespace evener::program {

namespace {

bool lives_whole_pass(Buffer const& buffer) {
    return buffer.persistent || buffer.kind == BufferKind::received ||
           buffer.kind == BufferKind::sending;
}

} // namespace

double Timeline::seconds() const {
    double end = 0;
    for (auto const& rank : ranks)
        for (Span const& span : rank)
            end = std::max(end, span.end);
    return end;
}

std::vector<MemoryPoint> memory_over_time(Program const& program, std::vector<Span> const& spans,
                                          Memory memory) {
    EVENER_EXPECT(spans.size() == program.instructions.size());
    struct Life {
        double begin = 0;
        double end = 0;
        bool used = false;
    };
    std::vector<Life> open(program.buffers.size());
    std::map<double, std::int64_t> changes;
    auto const add = [&](std::size_t buffer, double begin, double end) {
        if (program.buffers[buffer].memory != memory)
            return;
        changes[begin] += program.buffers[buffer].bytes;
        changes[end] -= program.buffers[buffer].bytes;
    };
    double last = 0;
    for (std::size_t i = 0; i < spans.size(); ++i) {
        last = std::max(last, spans[i].end);
        for (Use const& use : program.instructions[i].uses) {
            Life& life = open[use.buffer.index()];
            if (!life.used)
                life.begin = spans[i].start;
            life.used = true;
            life.end = std::max(life.end, spans[i].end);
            if (use.last && !lives_whole_pass(program.buffers[use.buffer.index()])) {
                add(use.buffer.index(), life.begin, life.end);
                life = {};
            }
        }
    }
    for (std::size_t b = 0; b < open.size(); ++b) {
        if (lives_whole_pass(program.buffers[b]))
            add(b, 0, last);
        else if (open[b].used) // its content outlives the pass
            add(b, open[b].begin, last);
    }
    std::vector<MemoryPoint> points;
    std::int64_t bytes = 0;
    for (auto const& [seconds, change] : changes) {
        bytes += change;
        if (points.empty() || points.back().bytes != bytes)
            points.push_back({seconds, bytes});
    }
    return points;
}

} // namespace evener::program
