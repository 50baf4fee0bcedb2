// SPDX-License-Identifier: Apache-2.0
#include "schedule/draw.hpp"
#include "schedule/draw_facts.hpp"
#include "schedule/happens_before.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

namespace evener::schedule {

namespace {

using program::Span;

/// The format counts in microseconds. All times are rounded alike, so that what ends where the next
/// begins does so in the file too.
std::int64_t nanoseconds(double seconds) {
    return std::llround(seconds * 1e9);
}
double microseconds(std::int64_t nanoseconds) {
    return static_cast<double>(nanoseconds) / 1e3;
}

/// A JSON string with its quotes.
std::string json_text(std::string_view text) {
    std::string quoted = "\"";
    for (char const c : text) {
        if (c == '"' || c == '\\')
            quoted += '\\';
        if (static_cast<unsigned char>(c) < 0x20)
            quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        else
            quoted += c;
    }
    return quoted + '"';
}

class Trace {
  public:
    explicit Trace(Drawing const& drawing)
        : drawing_{drawing}, meetings_{find_meetings(drawing.set)} {}

    std::string write() {
        for (std::size_t c = 0; c < drawing_.courses.size(); ++c) {
            for (program::Program const& program : drawing_.set.programs)
                write_rank(c, program);
            write_flows(c);
        }
        std::string facts;
        auto const fact = [&](std::string_view name, std::string_view value) {
            facts += fmt::format(",\n{}:{}", json_text(name), json_text(value));
        };
        fact("title", drawing_.title);
        fact("note", drawing_.note);
        for (auto const& [name, value] : drawing_.metadata)
            fact(name, value);
        return fmt::format("{{\"traceEvents\":[{}\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":"
                           "{{\"format\":\"1\"{}}}}}\n",
                           events_, facts);
    }

  private:
    template <class... Args>
    void event(fmt::format_string<Args...> text, Args&&... args) {
        events_ += first_ ? "\n{" : ",\n{";
        first_ = false;
        fmt::format_to(std::back_inserter(events_), text, std::forward<Args>(args)...);
        events_ += '}';
    }

    /// Number of the process; 0 means the idle process to some viewers.
    std::size_t process(std::size_t course, core::RankId rank) const {
        return 1 + course * drawing_.set.programs.size() + rank.index();
    }

    void name_queue(std::size_t pid, std::size_t queue, program::Queue const& own) {
        std::string name = queue_name(own);
        if (own.peer.valid())
            name += fmt::format(" {} rank {}", own.kind == program::QueueKind::send ? "to" : "from",
                                own.peer.value);
        event(R"("ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}})", pid,
              queue + 1, json_text(name));
        event(R"("ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}})",
              pid, queue + 1, queue);
    }

    void write_rank(std::size_t c, program::Program const& program) {
        std::vector<Span> const& spans = drawing_.courses[c].timeline.ranks[program.rank.index()];
        std::size_t const pid = process(c, program.rank);
        std::string const suffix =
            drawing_.courses.size() > 1 ? " " + drawing_.courses[c].name : std::string{};
        event(R"("ph":"M","name":"process_name","pid":{},"args":{{"name":{}}})", pid,
              json_text(fmt::format("rank {}{}", program.rank.value, suffix)));
        event(R"("ph":"M","name":"process_labels","pid":{},"args":{{"labels":"group {}"}})", pid,
              group_of(drawing_.set.plan, program.rank).value);
        // The courses of a rank stand next to each other.
        event(R"("ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}})", pid,
              program.rank.index() * drawing_.courses.size() + c);
        for (std::size_t q = 0; q < program.queues.size(); ++q)
            name_queue(pid, q, program.queues[q]);
        std::vector<double> free_at(program.queues.size(), 0.0);
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            program::Instruction const& instruction = program.instructions[i];
            double& free = free_at[instruction.queue.index()];
            write_instruction(pid, i, program.rank, instruction,
                              {std::clamp(free, spans[i].start, spans[i].end), spans[i].end},
                              spans[i].start);
            free = std::max(free, spans[i].end);
        }
        for (program::MemoryPoint const& point : program::memory_over_time(program, spans))
            event(R"("ph":"C","name":"memory","pid":{},"ts":{:.3f},"args":{{"bytes":{}}})", pid,
                  microseconds(nanoseconds(point.seconds)), point.bytes);
    }

    /// Events of a thread may not overlap: a receive that was posted while others of its queue were
    /// under way is shown from the end of the last of them; `posted` says when it really started.
    void write_instruction(std::size_t pid, std::size_t index, core::RankId rank,
                           program::Instruction const& instruction, Span shown, double posted) {
        Facts const facts = facts_of(drawing_.set, rank, instruction.operation);
        std::string name{facts.kind};
        std::string args = fmt::format("\"instruction\":{}", index);
        auto const add = [&](std::string_view key, auto value) {
            fmt::format_to(std::back_inserter(args), ",\"{}\":{}", key, value);
        };
        if (facts.chunk.valid()) {
            name += fmt::format(" {}.{}", facts.chunk.value, facts.microbatch.value);
            add("chunk", facts.chunk.value);
            add("microbatch", facts.microbatch.value);
            if (!facts.sequences.empty())
                add("sequences",
                    fmt::format("\"{}:{}\"", facts.sequences.begin, facts.sequences.end));
        }
        if (facts.peer.valid())
            add("peer", facts.peer.value);
        if (facts.bucket.valid())
            add("bucket", facts.bucket.value);
        if (facts.bytes)
            add("bytes", *facts.bytes);
        if (facts.paint == Paint::receive)
            fmt::format_to(std::back_inserter(args), ",\"posted\":{:.3f}",
                           microseconds(nanoseconds(posted)));
        std::int64_t const start = nanoseconds(shown.start);
        event(R"("ph":"X","name":"{}","cat":"{}","pid":{},"tid":{},"ts":{:.3f},)"
              R"("dur":{:.3f},"args":{{{}}})",
              name, facts.kind, pid, instruction.queue.value + 1, microseconds(start),
              microseconds(nanoseconds(shown.end) - start), args);
    }

    void write_flows(std::size_t c) {
        auto const queue = [&](Place at) {
            return drawing_.set.programs[at.rank.index()]
                       .instructions[at.instruction.index()]
                       .queue.value +
                   1;
        };
        auto const place = [&](Place at, std::string_view phase, double seconds) {
            event(
                R"("ph":{},"name":"message","cat":"message","id":{},"pid":{},"tid":{},"ts":{:.3f})",
                phase, flows_, process(c, at.rank), queue(at), microseconds(nanoseconds(seconds)));
        };
        auto const span = [&](Place at) {
            return drawing_.courses[c].timeline.ranks[at.rank.index()][at.instruction.index()];
        };
        for (auto const& [send, receive] : meetings_.messages) {
            // An arrow ends in the event that is open at its time; at the very end none is.
            place(send, R"("s")", span(send).start);
            place(receive, R"("f","bp":"e")", span(receive).end - span(receive).seconds() / 1000);
            ++flows_;
        }
    }

    Drawing const& drawing_;
    Meetings meetings_;
    std::string events_;
    bool first_ = true;
    std::size_t flows_ = 0;
};

} // namespace

std::string draw_trace(Drawing const& drawing) {
    return Trace{drawing}.write();
}

} // namespace evener::schedule
