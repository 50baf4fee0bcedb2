// SPDX-License-Identifier: Apache-2.0
// What random plans with offload, recomputation and interleaved updates hold in both memories.
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/simulator.hpp"
#include "schedule/usage.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace evener::schedule {
namespace {

using program::Buffer;
using program::BufferKind;
using program::Memory;
using program::Program;
using program::ProgramKind;
using program::ProgramSet;

ProgramSet lowered(support::RandomCase const& c, ProgramKind kind = ProgramKind::train) {
    std::vector<std::int64_t> const none(static_cast<std::size_t>(c.plan.rank_count()));
    return lower(c.plan, model::Model{c.config}, generate(c.plan, kind),
                 {.kind = kind, .device_workspace_bytes = none});
}

/// Sum over the buffers that a test picks, each rounded as it lies in memory.
template <class Test>
std::int64_t sum_of(Program const& program, Test const& test) {
    std::int64_t bytes = 0;
    for (Buffer const& buffer : program.buffers)
        if (test(buffer))
            bytes += core::round_up(buffer.bytes, 64);
    return bytes;
}
template <class Test>
std::int64_t largest_of(Program const& program, Test const& test) {
    std::int64_t bytes = 0;
    for (Buffer const& buffer : program.buffers)
        if (test(buffer))
            bytes = std::max(bytes, core::round_up(buffer.bytes, 64));
    return bytes;
}

/// Buckets whose fetched weights are on the device while each instruction of the list runs.
std::size_t most_resident(Program const& program) {
    std::map<core::BufferId, std::pair<std::size_t, std::size_t>> lives; // first and last use
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
        for (program::Use const& use : program.instructions[i].uses) {
            Buffer const& buffer = program.buffers[use.buffer.index()];
            if (buffer.kind == BufferKind::weights && !buffer.persistent)
                lives.try_emplace(use.buffer, i, i).first->second.second = i;
        }
    std::size_t most = 0;
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
        most = std::max<std::size_t>(most, static_cast<std::size_t>(std::count_if(
                                               lives.begin(), lives.end(), [&](auto const& life) {
                                                   return life.second.first <= i &&
                                                          i <= life.second.second;
                                               })));
    return most;
}

bool is_fetched_weights(Buffer const& buffer) {
    return buffer.kind == BufferKind::weights && !buffer.persistent;
}

support::RandomCase random_levers_case(support::Random& random) {
    support::RandomCase c =
        random.chance(70) ? support::random_looped_case(random) : support::random_case(random);
    support::add_levers(random, c.plan);
    return c;
}

TEST(Levers, KeepTheWeightsOfTwoChunksAtMostOnTheDevice) {
    int two = 0, several_residences = 0;
    for (std::uint64_t const seed : support::seeds("levers/residences", 500)) {
        support::Random random{seed};
        support::RandomCase c = random_levers_case(random);
        for (program::Group& group : c.plan.groups) {
            group.own_memory.assign(group.ranks.size(), true);
            group.offload.parameters = true;
        }
        for (Program const& program : lowered(c).programs) {
            EXPECT_LE(most_resident(program), 2u) << "EVENER_TEST_SEED=" << seed;
            auto const shared = [](Buffer const& b) {
                return b.kind == BufferKind::weights && b.persistent && b.memory == Memory::device;
            };
            EXPECT_LE(
                program::memory_table(program).bytes[static_cast<std::size_t>(BufferKind::weights)],
                sum_of(program, shared) + 2 * largest_of(program, is_fetched_weights))
                << "EVENER_TEST_SEED=" << seed;
            two += most_resident(program) == 2;
            several_residences +=
                std::any_of(program.buffers.begin(), program.buffers.end(),
                            [](Buffer const& b) { return is_fetched_weights(b) && b.slot > 0; });
        }
    }
    EXPECT_GT(two, 0);
    EXPECT_GT(several_residences, 0);
}

TEST(Levers, GiveTablesOfBothMemoriesWhoseRowsAddUp) {
    for (std::uint64_t const seed : support::seeds("levers/table", 300)) {
        support::Random random{seed};
        for (Program const& program : lowered(random_levers_case(random)).programs)
            for (Memory const memory : {Memory::device, Memory::pinned}) {
                program::MemoryTable const table = program::memory_table(program, memory);
                EXPECT_EQ(std::accumulate(std::begin(table.bytes), std::end(table.bytes),
                                          std::int64_t{0}),
                          table.total_bytes)
                    << "EVENER_TEST_SEED=" << seed;
            }
    }
}

// Whatever the copies and computations take: what is in use at a moment fits the regions.
TEST(Levers, NeverUseMoreThanTheRegionsOfBothMemories) {
    int pinned = 0;
    for (std::uint64_t const seed : support::seeds("levers/peaks", 300)) {
        support::Random random{seed};
        ProgramSet const set = lowered(random_levers_case(random));
        program::InstructionSeconds seconds;
        for (Program const& program : set.programs) {
            auto& own = seconds.emplace_back();
            for (std::size_t i = 0; i < program.instructions.size(); ++i)
                own.push_back(static_cast<double>(random.integer(1, 1000)) / 1000);
        }
        program::Network const network = program::free_network(std::ssize(set.programs));
        Usage const usage = usage_of(set, simulate(set, seconds, network).timeline);
        for (std::size_t r = 0; r < set.programs.size(); ++r) {
            EXPECT_LE(usage.ranks[r].peak_bytes, set.programs[r].arena_bytes)
                << "rank " << r << ", EVENER_TEST_SEED=" << seed;
            EXPECT_LE(usage.ranks[r].peak_pinned_bytes, set.programs[r].pinned_bytes)
                << "rank " << r << ", EVENER_TEST_SEED=" << seed;
            pinned += usage.ranks[r].peak_pinned_bytes > 0;
        }
    }
    EXPECT_GT(pinned, 0);
}

} // namespace
} // namespace evener::schedule
