// SPDX-License-Identifier: Apache-2.0
// The CSV and the Chrome trace, compared with programs and times element by element.
#include "schedule/draw.hpp"
#include "schedule/draw_facts.hpp"
#include "schedule/draw_support.hpp"
#include "schedule/subject.hpp"
#include "support/sizes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <sstream>

namespace evener::schedule {
namespace {

using Json = nlohmann::json;
using program::Span;

std::vector<std::string> split(std::string const& line) {
    std::vector<std::string> cells(1);
    for (char const c : line)
        if (c == ',')
            cells.emplace_back();
        else
            cells.back() += c;
    return cells;
}

/// Of `key=value` in the text of an instruction; empty where it is not.
std::string word(std::string const& text, std::string const& key) {
    std::size_t const at = text.find(" " + key + "=");
    if (at == std::string::npos)
        return {};
    std::size_t const begin = at + key.size() + 2;
    return text.substr(begin, text.find(' ', begin) - begin);
}

void expect_row(std::vector<std::string> const& cells, program::ProgramSet const& set,
                program::Program const& program, std::size_t i) {
    program::Instruction const& instruction = program.instructions[i];
    std::string const text = program::to_string(instruction);
    EXPECT_EQ(cells[0], fmt::to_string(program.rank.value));
    EXPECT_GE(program::member_of(set.plan.groups[std::stoul(cells[1])], program.rank), 0);
    program::Queue const& queue = program.queues[instruction.queue.index()];
    EXPECT_TRUE(cells[2].starts_with(program::name_of(queue.kind)));
    EXPECT_EQ(cells[3], text.substr(0, text.find(' ')));
    EXPECT_EQ(cells[4], word(text, "chunk"));
    EXPECT_EQ(cells[5], word(text, "microbatch"));
    EXPECT_EQ(cells[6], word(text, "peer"));
    if (queue.peer.valid()) {
        EXPECT_TRUE(cells[2].ends_with(program::name_of(queue.direction)));
        EXPECT_EQ(cells[7], word(text, "bytes"));
    }
    if (queue.kind == program::QueueKind::compute) {
        EXPECT_EQ(cells[7], "");
    }
}

TEST(DrawCsv, HasEveryInstructionWithItsTimes) {
    for (std::uint64_t const seed : support::seeds("csv", 200)) {
        support::Random random{seed};
        Subject const subject = random_subject(random);
        program::Timeline const a = one_after_the_other(subject.set, random);
        program::Timeline const b = one_after_the_other(subject.set, random);
        bool const two = random.chance(50);
        Drawing drawing{subject.set, "", {{"measured", a}}, ""};
        if (two)
            drawing.courses.push_back({"predicted", b});
        std::istringstream lines{draw_csv(drawing)};
        std::string line;
        std::getline(lines, line);
        EXPECT_EQ(line, std::string{"rank,group,queue,kind,chunk,microbatch,peer,bytes,start,end"} +
                            (two ? ",predicted_start,predicted_end" : ""));
        for (program::Program const& program : subject.set.programs)
            for (std::size_t i = 0; i < program.instructions.size(); ++i) {
                ASSERT_TRUE(std::getline(lines, line));
                auto const cells = split(line);
                ASSERT_EQ(cells.size(), two ? 12U : 10U);
                expect_row(cells, subject.set, program, i);
                Span const span = a.ranks[program.rank.index()][i];
                EXPECT_EQ(std::stod(cells[8]), span.start); // to the bit
                EXPECT_EQ(std::stod(cells[9]), span.end);
                if (two) {
                    EXPECT_EQ(std::stod(cells[10]), b.ranks[program.rank.index()][i].start);
                    EXPECT_EQ(std::stod(cells[11]), b.ranks[program.rank.index()][i].end);
                }
            }
        EXPECT_FALSE(std::getline(lines, line));
    }
}

TEST(DrawCsv, StatesTheBytesOfCollectives) {
    support::RandomCase c;
    c.config.decoder_layers = 1;
    c.plan.groups = {
        {.ranks = {core::RankId{0}, core::RankId{1}}, .shares = {1, 1}, .shard_weights = {1, 1}}};
    c.plan.chunks = {{core::GroupId{0}, {0, 4}}};
    c.plan.batch_size = c.plan.microbatch_size = 2;
    c.plan.groups[0].compute = core::DType::bfloat16;
    model::Model const model{c.config};
    auto const set = lower(c.plan, model, generate(c.plan, program::ProgramKind::train),
                           {program::ProgramKind::train, {64, 64}, 2});
    std::istringstream lines{draw_csv({set, "", {{"predicted", always_busy(set)}}, ""})};
    std::map<std::string, std::set<std::string>> bytes;
    for (std::string line; std::getline(lines, line);)
        bytes[split(line)[3]].insert(split(line)[7]);
    EXPECT_EQ(bytes["gather_parameters"], std::set{fmt::to_string(2 * model.parameter_elements())});
    EXPECT_EQ(bytes["reduce_gradients"], std::set{fmt::to_string(4 * model.parameter_elements())});
    EXPECT_EQ(bytes["reduce_scalars"], std::set<std::string>{""});
}

/// The trace's events, sorted by what they are about.
struct Events {
    std::map<std::int64_t, std::string> processes;
    std::map<std::pair<std::int64_t, std::int64_t>, std::string> threads;
    std::map<std::pair<std::int64_t, std::int64_t>, Json> complete; ///< by process, instruction
    std::map<std::int64_t, std::vector<Json>> memory;               ///< by process
    std::map<std::int64_t, Json> flow_starts, flow_ends;            ///< by id

    explicit Events(std::string const& text) {
        Json const trace = Json::parse(text);
        for (Json const& event : trace.at("traceEvents")) {
            std::string const phase = event.at("ph");
            std::int64_t const pid = event.at("pid");
            if (phase == "M" && event.at("name") == "process_name")
                processes[pid] = event.at("args").at("name");
            else if (phase == "M" && event.at("name") == "thread_name")
                threads[{pid, event.at("tid")}] = event.at("args").at("name");
            else if (phase == "C")
                memory[pid].push_back(event);
            else
                keep(phase, pid, event);
        }
    }

  private:
    void keep(std::string const& phase, std::int64_t pid, Json const& event) {
        bool fresh = true;
        if (phase == "X")
            fresh =
                complete.emplace(std::pair{pid, event.at("args").at("instruction")}, event).second;
        else if (phase == "s")
            fresh = flow_starts.emplace(event.at("id"), event).second;
        else if (phase == "f")
            fresh = flow_ends.emplace(event.at("id"), event).second;
        EXPECT_TRUE(fresh) << event;
    }
};

constexpr double nanosecond = 1.01e-3; ///< in the trace's unit

void expect_rank(Events const& events, std::int64_t pid, program::Program const& program,
                 std::vector<Span> const& spans) {
    std::map<std::int64_t, std::int64_t> free_at; // nanoseconds, by thread
    for (std::size_t i = 0; i < spans.size(); ++i) {
        Json const& event = events.complete.at({pid, static_cast<std::int64_t>(i)});
        std::string const text = program::to_string(program.instructions[i]);
        EXPECT_EQ(event.at("cat"), text.substr(0, text.find(' ')));
        program::Queue const& queue = program.queues[program.instructions[i].queue.index()];
        std::string thread = queue_name(queue);
        if (queue.peer.valid())
            thread +=
                fmt::format(" {} rank {}", queue.kind == program::QueueKind::send ? "to" : "from",
                            queue.peer.value);
        EXPECT_EQ(events.threads.at({pid, event.at("tid")}), thread);
        double const start = event.at("ts");
        double const end = start + event.at("dur").get<double>();
        EXPECT_NEAR(end, spans[i].end * 1e6, nanosecond);
        double const began = queue.kind == program::QueueKind::receive
                                 ? event.at("args").at("posted").get<double>()
                                 : start;
        EXPECT_NEAR(began, spans[i].start * 1e6, nanosecond);
        std::int64_t& free = free_at[event.at("tid")];
        EXPECT_LE(free, std::llround(start * 1e3));
        free = std::llround(end * 1e3);
        for (char const* key : {"chunk", "microbatch", "peer", "bytes", "bucket"}) {
            std::string const value = word(text, key);
            if (!value.empty()) {
                EXPECT_EQ(fmt::to_string(event.at("args").at(key).get<std::int64_t>()), value);
            }
        }
    }
    auto const points = program::memory_over_time(program, spans);
    auto const found = events.memory.find(pid);
    ASSERT_EQ(found == events.memory.end() ? 0 : found->second.size(), points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
        EXPECT_NEAR(found->second[i].at("ts"), points[i].seconds * 1e6, nanosecond);
        EXPECT_EQ(found->second[i].at("args").at("bytes"), points[i].bytes);
    }
}

void expect_flows(Events const& events, program::ProgramSet const& set, std::size_t courses) {
    Meetings const meetings = find_meetings(set);
    ASSERT_EQ(events.flow_starts.size(), courses * meetings.messages.size());
    ASSERT_EQ(events.flow_ends.size(), courses * meetings.messages.size());
    for (std::size_t k = 0; k < events.flow_starts.size(); ++k) {
        auto const& [send, receive] = meetings.messages[k % meetings.messages.size()];
        auto const course = static_cast<std::int64_t>(k / meetings.messages.size());
        auto const expect_in = [&](Json const& arrow, Place place) {
            std::int64_t const pid = 1 + course * std::ssize(set.programs) + place.rank.value;
            Json const& event = events.complete.at({pid, place.instruction.value});
            EXPECT_EQ(arrow.at("pid"), pid);
            EXPECT_EQ(arrow.at("tid"), event.at("tid"));
            double const at = arrow.at("ts");
            double const start = event.at("ts");
            EXPECT_GE(at, start - nanosecond);
            EXPECT_LE(at, start + event.at("dur").get<double>() + nanosecond);
        };
        auto const id = static_cast<std::int64_t>(k);
        expect_in(events.flow_starts.at(id), send);
        expect_in(events.flow_ends.at(id), receive);
        EXPECT_EQ(events.flow_ends.at(id).at("bp"), "e");
    }
}

TEST(DrawTrace, HasEveryInstructionMessageAndChangeOfMemory) {
    for (std::uint64_t const seed : support::seeds("trace", 200)) {
        support::Random random{seed};
        Subject const subject = random_subject(random);
        program::Timeline const a = one_after_the_other(subject.set, random);
        program::Timeline b = one_after_the_other(subject.set, random);
        for (std::size_t r = 0; r < b.ranks.size(); ++r) // all receives posted at once
            for (std::size_t i = 0; i < b.ranks[r].size(); ++i)
                if (std::holds_alternative<program::Receive>(
                        subject.set.programs[r].instructions[i].operation))
                    b.ranks[r][i].start = 0;
        Drawing const drawing{
            subject.set, "\"t\"\\\n", {{"measured", a}, {"predicted", b}}, "", {{"k", "v"}}};
        std::string const text = draw_trace(drawing);
        Json const facts = Json::parse(text).at("otherData");
        EXPECT_EQ(facts.at("title"), "\"t\"\\\n");
        EXPECT_EQ(facts.at("k"), "v");
        Events const events{text};
        std::int64_t const ranks = std::ssize(subject.set.programs);
        EXPECT_EQ(std::ssize(events.processes), 2 * ranks);
        for (program::Program const& program : subject.set.programs) {
            std::int64_t const pid = 1 + program.rank.value;
            EXPECT_EQ(events.processes.at(pid), fmt::format("rank {} measured", pid - 1));
            EXPECT_EQ(events.processes.at(pid + ranks), fmt::format("rank {} predicted", pid - 1));
            expect_rank(events, pid, program, a.ranks[program.rank.index()]);
            expect_rank(events, pid + ranks, program, b.ranks[program.rank.index()]);
        }
        expect_flows(events, subject.set, 2);
    }
}

TEST(DrawTrace, OfNothingIsValid) {
    program::ProgramSet set;
    program::Timeline timeline;
    Drawing const drawing{set, "", {{"predicted", timeline}}, ""};
    EXPECT_TRUE(Json::parse(draw_trace(drawing)).at("traceEvents").empty());
    EXPECT_EQ(draw_csv(drawing), "rank,group,queue,kind,chunk,microbatch,peer,bytes,start,end\n");
}

} // namespace
} // namespace evener::schedule
