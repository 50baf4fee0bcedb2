// SPDX-License-Identifier: Apache-2.0
#include "schedule/link_buffers.hpp"

#include <algorithm>

namespace evener::schedule {

using core::InstructionId;
using core::RankId;
using program::Program;
using program::Span;

namespace {

/// When each buffer of a link is wanted and when it is free again, in the order of the messages.
struct LinkUse {
    std::vector<double> wanted;
    std::vector<double> freed;
};

/// Smallest count with which the k-th message finds its buffer, that of the (k - count)-th, free.
std::int64_t smallest_count(LinkUse const& use) {
    std::int64_t count = 1;
    for (std::size_t k = 0; k < use.wanted.size(); ++k) {
        double const limit = use.wanted[k] * (1 + 1e-9) + 1e-15;
        std::size_t first = k; // earliest message whose buffer is still taken
        while (first > 0 && use.freed[first - 1] > limit)
            --first;
        count = std::max(count, static_cast<std::int64_t>(k - first) + 1);
    }
    return count;
}

using Key = std::tuple<Link, core::ChunkId, core::MicrobatchId>;

Key key_of(program::Message const& op, RankId sender, RankId receiver) {
    return {{sender, receiver, op.direction}, op.chunk, op.microbatch};
}

/// Computations that read or write each buffer between its messages.
class Users {
  public:
    explicit Users(Program const& program) : program_{program} {
        by_buffer_.resize(program.buffers.size());
        for (std::size_t i = 0; i < program.instructions.size(); ++i)
            for (program::Use const& use : program.instructions[i].uses)
                by_buffer_[use.buffer.index()].push_back(i);
    }

    /// The next instruction behind `id` that uses the buffer of its first use.
    std::size_t after(std::size_t id) const {
        auto const& users = of(id);
        return *std::upper_bound(users.begin(), users.end(), id);
    }
    /// The one before it.
    std::size_t before(std::size_t id) const {
        auto const& users = of(id);
        return *std::prev(std::lower_bound(users.begin(), users.end(), id));
    }

  private:
    std::vector<std::size_t> const& of(std::size_t id) const {
        return by_buffer_[program_.instructions[id].uses.front().buffer.index()];
    }

    Program const& program_;
    std::vector<std::vector<std::size_t>> by_buffer_;
};

} // namespace

BufferCounts counts_without_stall(program::ProgramSet const& set, Simulation const& run) {
    std::map<Key, double> sent; // when each message's Send started
    std::map<Link, LinkUse> sending;
    std::map<Link, LinkUse> receiving;
    auto const for_each = [&](auto const& visit) {
        for (Program const& program : set.programs) {
            Users const users{program};
            for (std::size_t i = 0; i < program.instructions.size(); ++i)
                visit(program, users, i, run.timeline.ranks[program.rank.index()]);
        }
    };
    for_each([&](Program const& program, Users const& users, std::size_t i,
                 std::vector<Span> const& spans) {
        auto const* const op = std::get_if<program::Send>(&program.instructions[i].operation);
        if (op == nullptr)
            return;
        sent[key_of(*op, program.rank, op->peer)] = spans[i].start;
        LinkUse& use = sending[{program.rank, op->peer, op->direction}];
        use.wanted.push_back(spans[users.before(i)].start);
        use.freed.push_back(spans[i].end);
    });
    for_each([&](Program const& program, Users const& users, std::size_t i,
                 std::vector<Span> const& spans) {
        auto const* const op = std::get_if<program::Receive>(&program.instructions[i].operation);
        if (op == nullptr)
            return;
        LinkUse& use = receiving[{op->peer, program.rank, op->direction}];
        use.wanted.push_back(sent.at(key_of(*op, op->peer, program.rank)));
        use.freed.push_back(spans[users.after(i)].end);
    });
    BufferCounts counts;
    for (auto const& [link, use] : sending)
        counts.send[link] = smallest_count(use);
    for (auto const& [link, use] : receiving)
        counts.receive[link] = smallest_count(use);
    return counts;
}

} // namespace evener::schedule
