// SPDX-License-Identifier: Apache-2.0
// The life of contents: written, then read, then ended, then written again, in every run; and never
// two contents at once in the same memory.
//
// The uses of a buffer are looked at in one order that a run could take. Each step is then proven
// by happens-before; where two uses could also come the other way round, that proof fails.
#include "schedule/verify_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using core::BufferId;
using core::InstructionId;
using program::Access;
using program::Buffer;
using program::Program;

namespace {

struct BufferUse {
    InstructionId instruction;
    std::size_t index = 0; ///< among the instruction's uses
    program::Use use;
};

/// From the instruction that writes a content to the one that ends it.
struct Content {
    InstructionId first;
    InstructionId last;
};

class ContentCheck {
  public:
    ContentCheck(Context& context, HappensBefore const& before, Program const& program,
                 std::vector<std::vector<InstructionId>>& writers)
        : context_{context}, before_{before}, program_{program}, writers_{writers},
          uses_(program.buffers.size()), contents_(program.buffers.size()) {
        writers_.resize(program.instructions.size());
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            auto const& uses = program.instructions[i].uses;
            writers_[i].resize(uses.size());
            for (std::size_t u = 0; u < uses.size(); ++u)
                uses_[uses[u].buffer.index()].push_back(
                    {InstructionId{static_cast<std::int64_t>(i)}, u, uses[u]});
        }
    }

    void run() {
        for (std::size_t b = 0; b < uses_.size(); ++b) {
            std::stable_sort(uses_[b].begin(), uses_[b].end(),
                             [&](BufferUse const& x, BufferUse const& y) {
                                 return order(x.instruction) < order(y.instruction);
                             });
            BufferId const id{static_cast<std::int64_t>(b)};
            if (program_.buffers[b].persistent)
                check_persistent(id);
            else
                check_contents(id);
        }
        check_shared_memory(program::Memory::device);
        check_shared_memory(program::Memory::pinned);
    }

  private:
    std::uint32_t order(InstructionId id) const {
        return before_.possible_order({program_.rank, id});
    }
    Place place(InstructionId id) const { return {program_.rank, id}; }
    std::string buffer_name(BufferId id) const { return context_.name(program_.rank, id); }

    void require(InstructionId a, InstructionId b, BufferId buffer, std::string_view why) {
        if (a == b)
            return;
        if (!before_.ends_before_start(program_.rank, a, b))
            context_.report(place(b), fmt::format("may start before {} (instruction {}) has ended, "
                                                  "but {} {}",
                                                  context_.name(place(a)), a.value, why,
                                                  buffer_name(buffer)));
        else if (a > b) // readers look up the message in a buffer by the list
            context_.report(place(b),
                            fmt::format("stands before {} (instruction {}) in the list, "
                                        "but runs behind it and shares {}",
                                        context_.name(place(a)), a.value, buffer_name(buffer)));
    }

    /// Orders one use behind those that it must not meet: reads behind the last change, changes
    /// behind the last change and the reads since.
    struct Sequence {
        InstructionId change;
        std::vector<InstructionId> reads;
    };
    void follow(Sequence& so_far, BufferUse const& use, BufferId id) {
        if (use.use.access == Access::read && !use.use.last) {
            if (so_far.change.valid())
                require(so_far.change, use.instruction, id, "reads what that puts into");
            so_far.reads.push_back(use.instruction);
            return;
        }
        if (so_far.change.valid())
            require(so_far.change, use.instruction, id, "needs what that puts into");
        for (InstructionId const read : so_far.reads)
            require(read, use.instruction, id, "changes or ends what that reads in");
        so_far = {use.instruction, {}};
    }

    void check_persistent(BufferId id) {
        Sequence sequence;
        for (BufferUse const& use : uses_[id.index()]) {
            if (use.use.access == Access::write || use.use.last)
                context_.report(
                    place(use.instruction),
                    fmt::format("begins or ends the content of {}, which stays", buffer_name(id)));
            follow(sequence, use, id);
        }
    }

    void check_contents(BufferId id) {
        Sequence sequence;
        InstructionId writer; // of the content that is alive
        for (BufferUse const& use : uses_[id.index()]) {
            if (use.use.access == Access::write) {
                if (writer.valid())
                    context_.report(place(use.instruction),
                                    fmt::format("overwrites {}, whose content from {} "
                                                "(instruction {}) has not ended",
                                                buffer_name(id), context_.name(place(writer)),
                                                writer.value));
                writer = use.instruction;
                contents_[id.index()].push_back({writer, writer});
            } else if (!writer.valid()) {
                context_.report(place(use.instruction),
                                fmt::format("uses {}, which has no content then{}", buffer_name(id),
                                            last_user(id)));
            }
            writers_[use.instruction.index()][use.index] = writer;
            follow(sequence, use, id);
            if (writer.valid())
                contents_[id.index()].back().last = use.instruction;
            if (use.use.last)
                writer = {};
        }
        if (writer.valid())
            context_.report(place(contents_[id.index()].back().last),
                            fmt::format("is the last to use {}, but does not end its content from "
                                        "{} (instruction {})",
                                        buffer_name(id), context_.name(place(writer)),
                                        writer.value));
    }

    std::string last_user(BufferId id) const {
        if (contents_[id.index()].empty())
            return {};
        InstructionId const last = contents_[id.index()].back().last;
        return fmt::format("; {} (instruction {}) ended it", context_.name(place(last)),
                           last.value);
    }

    // --- different buffers at the same addresses

    void check_shared_memory(program::Memory memory) {
        std::vector<BufferId> by_offset;
        for (std::size_t b = 0; b < program_.buffers.size(); ++b)
            if (program_.buffers[b].bytes > 0 && program_.buffers[b].memory == memory)
                by_offset.push_back(BufferId{static_cast<std::int64_t>(b)});
        auto const buffer = [&](BufferId id) -> Buffer const& {
            return program_.buffers[id.index()];
        };
        std::stable_sort(by_offset.begin(), by_offset.end(), [&](BufferId a, BufferId b) {
            return buffer(a).offset < buffer(b).offset;
        });
        for (std::size_t k = 0; k < by_offset.size(); ++k)
            for (std::size_t l = k + 1; l < by_offset.size(); ++l) {
                if (buffer(by_offset[l]).offset >=
                    buffer(by_offset[k]).offset + buffer(by_offset[k]).bytes)
                    break;
                check_pair(by_offset[k], by_offset[l]);
            }
    }

    void check_pair(BufferId a, BufferId b) {
        for (auto const& [one, other] : {std::pair{a, b}, std::pair{b, a}})
            if (program_.buffers[one.index()].persistent)
                context_.report(program_.rank, other,
                                fmt::format("shares memory with {}, which keeps its content",
                                            buffer_name(one)));
            else if (uses_[one.index()].empty())
                context_.report(
                    program_.rank, one,
                    fmt::format("is never used, but shares memory with {}", buffer_name(other)));
        auto x = contents_[a.index()].begin();
        auto y = contents_[b.index()].begin();
        auto const x_end = contents_[a.index()].end();
        auto const y_end = contents_[b.index()].end();
        Content const* previous = nullptr;
        while (x != x_end || y != y_end) {
            bool const take_y = x == x_end || (y != y_end && order(y->first) < order(x->first));
            Content const& next = take_y ? *y++ : *x++;
            if (previous)
                check_turn(*previous, next, a, b);
            previous = &next;
        }
    }

    /// One content behind the other in the memory that both buffers share.
    void check_turn(Content const& one, Content const& other, BufferId a, BufferId b) {
        if (one.last == other.first ||
            !before_.ends_before_start(program_.rank, one.last, other.first))
            context_.report(place(other.first),
                            fmt::format("may start before {} (instruction {}) has ended, but "
                                        "{} and {} share memory",
                                        context_.name(place(one.last)), one.last.value,
                                        buffer_name(a), buffer_name(b)));
    }

    Context& context_;
    HappensBefore const& before_;
    Program const& program_;
    std::vector<std::vector<InstructionId>>& writers_;
    std::vector<std::vector<BufferUse>> uses_;
    std::vector<std::vector<Content>> contents_;
};

} // namespace

Writers check_contents(Context& context, HappensBefore const& before) {
    Writers writers(context.set.programs.size());
    for (Program const& program : context.set.programs)
        ContentCheck{context, before, program, writers[program.rank.index()]}.run();
    return writers;
}

} // namespace evener::schedule
