// SPDX-License-Identifier: Apache-2.0

// Reductions against the same sum made here, in order of rank, bit by bit: the contributions are
// closed forms of rank and element whose sum depends on the order.

#include "transport_support.hpp"

#include <cstring>

namespace evener::comm {
namespace {

using core::Range;
using core::RankId;

/// Magnitudes differ by rank, so that another order of addition gives other bits.
float contribution(int rank, std::int64_t i) {
    float const scale[5] = {1.0f, 1.0e4f, 1.0e-3f, -1.0e4f, 3.0f};
    return scale[rank % 5] * (1.0f + 1.0e-3f * static_cast<float>((i * 37 + rank * 11) % 1009));
}

float expected(std::vector<RankId> const& contributors, std::int64_t i) {
    float sum = 0;
    bool first = true;
    for (RankId const rank : contributors) {
        float const value = contribution(rank.value, i);
        sum = first ? value : sum + value;
        first = false;
    }
    return sum;
}

void check_reduce(Transport& transport, std::vector<RankId> const& contributors,
                  std::vector<OwnedPart> const& shards, std::int64_t elements) {
    int const rank = world_rank();
    ReduceTask task{contributors, shards, nullptr, nullptr, 77};
    // One element more, so that the pointer of an empty bucket is not null.
    std::vector<float> gradient(static_cast<std::size_t>(elements + 1));
    for (std::int64_t i = 0; i < elements; ++i)
        gradient[static_cast<std::size_t>(i)] = contribution(rank, i);
    bool contributes = false;
    for (RankId const contributor : contributors)
        contributes |= contributor.value == rank;
    if (contributes)
        task.gradient = gradient.data();
    Range own;
    bool takes_part = contributes;
    for (OwnedPart const& part : shards)
        if (part.owner.value == rank) {
            own = part.elements;
            takes_part = true;
        }
    std::vector<float> reduced(static_cast<std::size_t>(own.size() + 1), -5.0f);
    if (!own.empty())
        task.reduced = reduced.data();
    std::vector<TransportQueue> queues;
    if (takes_part)
        queues = only(task);
    run_pass(transport, queues);
    for (std::int64_t i = 0; i < own.size(); ++i) {
        float const want = expected(contributors, own.begin + i);
        float const got = reduced[static_cast<std::size_t>(i)];
        ASSERT_EQ(std::memcmp(&want, &got, 4), 0)
            << "element " << own.begin + i << ": " << got << " instead of " << want;
    }
    EXPECT_EQ(reduced.back(), -5.0f); // nothing behind the shard
}

std::vector<RankId> everyone() {
    std::vector<RankId> ranks;
    for (int rank = 0; rank < world_size(); ++rank)
        ranks.emplace_back(rank);
    return ranks;
}

/// Cuts [0, elements) at the given thousandths over the ranks in turn.
std::vector<OwnedPart> cut(std::int64_t elements, std::vector<std::int64_t> const& thousandths) {
    std::vector<OwnedPart> shards;
    std::int64_t begin = 0;
    for (std::size_t i = 0; i < thousandths.size(); ++i) {
        std::int64_t const end = elements * thousandths[i] / 1000;
        shards.push_back({RankId{static_cast<std::int64_t>(i)}, {begin, end}});
        begin = end;
    }
    return shards;
}

/// The last rank owns the rest; of five ranks, 1 and 3 own nothing.
std::vector<OwnedPart> unequal_shards(std::int64_t elements) {
    std::vector<std::int64_t> thousandths{113, 113, 700, 700};
    thousandths.resize(static_cast<std::size_t>(world_size() - 1));
    thousandths.push_back(1000);
    return cut(elements, thousandths);
}

TEST(Reduce, EqualsTheSumInOrderOfRankBitByBit) {
    for (auto const& [name, options] : all_options()) {
        SCOPED_TRACE(name);
        Transport transport{MPI_COMM_WORLD, options};
        for (std::int64_t const elements : {0, 1, 2, 63, 64, 65, 1009, 10007}) {
            SCOPED_TRACE(elements);
            check_reduce(transport, everyone(), unequal_shards(elements), elements);
        }
    }
}

TEST(Reduce, CrossesBlocksOfFourMebibytes) {
    Transport transport{MPI_COMM_WORLD};
    std::int64_t const elements = 5 * (1 << 20) + 13; // over 5 blocks
    check_reduce(transport, everyone(), unequal_shards(elements), elements);
}

TEST(Reduce, RanksThatContributeNothingMayOwn) {
    Transport transport{MPI_COMM_WORLD};
    std::vector<RankId> some;
    for (int rank = world_size() - 1; rank >= 0; rank -= 2)
        some.insert(some.begin(), RankId{rank});
    check_reduce(transport, some, unequal_shards(5003), 5003);
}

TEST(Reduce, OfNoContributionsIsZero) {
    Transport transport{MPI_COMM_WORLD};
    std::vector<float> reduced(100, 4.0f);
    ReduceTask task{{}, {{RankId{0}, {0, 100}}}, nullptr, nullptr, 1};
    std::vector<TransportQueue> queues;
    if (world_rank() == 0) {
        task.reduced = reduced.data();
        queues = only(task);
    }
    run_pass(transport, queues);
    EXPECT_EQ(reduced, std::vector<float>(100, world_rank() == 0 ? 0.0f : 4.0f));
}

TEST(Reduce, SeveralInOneQueueUnderRandomDelays) {
    std::int64_t const elements = 3001;
    int const buckets = 6;
    auto const shards = unequal_shards(elements);
    Range own;
    for (OwnedPart const& part : shards)
        if (part.owner.value == world_rank())
            own = part.elements;
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        TransportOptions options;
        options.synchronous_sends = seed % 2 == 0;
        options.random_delays = RandomDelays{seed, 500};
        options.exchange_block_bytes = 4 * 257;
        Transport transport{MPI_COMM_WORLD, options};
        std::vector<std::vector<float>> gradients;
        std::vector<std::vector<float>> reduced;
        TransportQueue queue{TransportQueue::Kind::collective, {}};
        for (int bucket = 0; bucket < buckets; ++bucket) {
            auto& gradient = gradients.emplace_back();
            for (std::int64_t i = 0; i < elements; ++i)
                gradient.push_back(contribution(world_rank(), i + bucket));
            reduced.emplace_back(static_cast<std::size_t>(own.size()));
        }
        for (int bucket = 0; bucket < buckets; ++bucket) {
            auto const index = static_cast<std::size_t>(bucket);
            queue.tasks.push_back(
                {core::InstructionId{bucket},
                 {},
                 ReduceTask{everyone(), shards, gradients[index].data(),
                            own.empty() ? nullptr : reduced[index].data(), 3 * bucket}});
        }
        run_pass(transport, {queue});
        for (int bucket = 0; bucket < buckets; ++bucket)
            for (std::int64_t i = 0; i < own.size(); ++i)
                ASSERT_EQ(reduced[static_cast<std::size_t>(bucket)][static_cast<std::size_t>(i)],
                          expected(everyone(), own.begin + i + bucket));
    }
}

} // namespace
} // namespace evener::comm
