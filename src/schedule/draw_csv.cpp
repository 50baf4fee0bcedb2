// SPDX-License-Identifier: Apache-2.0
#include "schedule/draw.hpp"
#include "schedule/draw_facts.hpp"

#include <fmt/format.h>

#include <iterator>

namespace evener::schedule {

namespace {

template <class Id>
std::string id_text(Id id) {
    return id.valid() ? fmt::to_string(id.value) : std::string{};
}

} // namespace

std::string draw_csv(Drawing const& drawing) {
    program::ProgramSet const& set = drawing.set;
    std::string text = "rank,group,queue,kind,chunk,microbatch,peer,bytes,start,end";
    for (std::size_t c = 1; c < drawing.courses.size(); ++c)
        text += fmt::format(",{0}_start,{0}_end", drawing.courses[c].name);
    text += '\n';
    for (program::Program const& program : set.programs) {
        core::GroupId const group = group_of(set.plan, program.rank);
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            program::Instruction const& instruction = program.instructions[i];
            Facts const facts = facts_of(set, program.rank, instruction.operation);
            fmt::format_to(std::back_inserter(text), "{},{},{},{},{},{},{},{}", program.rank.value,
                           id_text(group), queue_name(program.queues[instruction.queue.index()]),
                           facts.kind, id_text(facts.chunk), id_text(facts.microbatch),
                           id_text(facts.peer),
                           facts.bytes ? fmt::to_string(*facts.bytes) : std::string{});
            for (Course const& course : drawing.courses) {
                program::Span const span = course.timeline.ranks[program.rank.index()][i];
                fmt::format_to(std::back_inserter(text), ",{},{}", span.start, span.end);
            }
            text += '\n';
        }
    }
    return text;
}

} // namespace evener::schedule
