// SPDX-License-Identifier: Apache-2.0

// Gathers of weights: the closed form by global element, in the type of each rank, with owners that
// hold only their shard and holders that own nothing.

#include "transport_support.hpp"

#include <array>
#include <cstring>

namespace evener::comm {
namespace {

using core::DType;
using core::Range;
using core::RankId;

/// Needs rounding in bfloat16.
float weight(std::int64_t i) {
    return 0.001f * static_cast<float>(i % 4099) - 1.5f;
}

void store(std::byte* buffer, DType type, std::int64_t i, float value) {
    std::uint16_t const half = core::to_bfloat16(value);
    if (type == DType::float32)
        std::memcpy(buffer + 4 * i, &value, 4);
    else
        std::memcpy(buffer + 2 * i, &half, 2);
}

/// A cluster of up to 5 ranks: who owns what, who holds, in which type.
struct Case {
    std::vector<OwnedPart> shards;
    std::vector<Holder> holders;
};

void check_gather(Transport& transport, Case const& scene, std::int64_t elements) {
    int const rank = world_rank();
    GatherTask task{scene.shards, scene.holders, nullptr, {}, nullptr, 9};
    DType type = DType::float32;
    Range own;
    bool holds = false;
    bool takes_part = false;
    for (OwnedPart const& part : scene.shards)
        if (part.owner.value == rank) {
            own = part.elements;
            type = part.type;
            takes_part = true;
        }
    for (Holder const& holder : scene.holders)
        if (holder.rank.value == rank) {
            holds = takes_part = true;
            type = holder.type;
        }
    task.weights_range = holds ? Range{0, elements} : own;
    std::vector<std::byte> weights(
        static_cast<std::size_t>(task.weights_range.size() * core::bytes_of(type) + 1),
        std::byte{0xab});
    std::vector<float> master(static_cast<std::size_t>(own.size() + 1));
    for (std::int64_t i = own.begin; i < own.end; ++i) {
        master[static_cast<std::size_t>(i - own.begin)] = weight(i);
        store(weights.data(), type, i - task.weights_range.begin, weight(i));
    }
    task.weights = weights.data();
    task.master = master.data();
    run_pass(transport, takes_part ? only(task) : std::vector<TransportQueue>{});
    for (std::int64_t i = task.weights_range.begin; i < task.weights_range.end; ++i) {
        std::array<std::byte, 4> want{};
        store(want.data(), type, 0, weight(i));
        auto const width = static_cast<std::size_t>(core::bytes_of(type));
        auto const at = static_cast<std::size_t>(i - task.weights_range.begin) * width;
        ASSERT_EQ(std::memcmp(want.data(), weights.data() + at, width), 0) << "element " << i;
    }
    EXPECT_EQ(weights.back(), std::byte{0xab});
}

std::vector<OwnedPart> cut(std::int64_t elements, std::vector<int> const& owners,
                           std::vector<DType> const& types) {
    std::vector<OwnedPart> shards;
    auto const count = static_cast<std::int64_t>(owners.size());
    for (std::int64_t i = 0; i < count; ++i) // sizes 1 : 3 : 5 ...
        shards.push_back(
            {RankId{owners[static_cast<std::size_t>(i)]},
             {elements * i * i / (count * count), elements * (i + 1) * (i + 1) / (count * count)},
             types[static_cast<std::size_t>(i)]});
    return shards;
}

/// Everyone owns and holds, types in turn where `mixed`.
Case everyone(std::int64_t elements, bool mixed) {
    std::vector<int> owners;
    std::vector<DType> types;
    Case scene;
    for (int rank = 0; rank < world_size(); ++rank) {
        DType const type = mixed && rank % 2 == 0 ? DType::bfloat16 : DType::float32;
        owners.push_back(rank);
        types.push_back(type);
        scene.holders.push_back({RankId{rank}, type});
    }
    scene.shards = cut(elements, owners, types);
    return scene;
}

TEST(Gather, OfOneTypeGivesEveryHolderAllElements) {
    for (auto const& [name, options] : all_options()) {
        SCOPED_TRACE(name);
        Transport transport{MPI_COMM_WORLD, options};
        for (std::int64_t const elements : {0, 1, 2, 97, 1009, 10007})
            check_gather(transport, everyone(elements, false), elements);
    }
}

TEST(Gather, OfMixedTypesRoundsEachMasterValueOnce) {
    for (auto const& [name, options] : all_options()) {
        SCOPED_TRACE(name);
        Transport transport{MPI_COMM_WORLD, options};
        for (std::int64_t const elements : {1, 2, 97, 1009, 10007})
            check_gather(transport, everyone(elements, true), elements);
    }
}

TEST(Gather, CrossesBlocksOfFourMebibytes) {
    Transport transport{MPI_COMM_WORLD};
    std::int64_t const elements = 3 * (1 << 20) + 7;
    check_gather(transport, everyone(elements, true), elements);
}

TEST(Gather, OwnersThatDoNotHoldKeepTheirShardOnly) {
    if (world_size() < 3)
        GTEST_SKIP() << "needs 3 ranks";
    Transport transport{MPI_COMM_WORLD};
    Case scene; // owners 0 and 1, holders 1 and 2
    scene.shards = cut(5003, {0, 1}, {DType::float32, DType::bfloat16});
    scene.holders = {{RankId{1}, DType::bfloat16}, {RankId{2}, DType::float32}};
    check_gather(transport, scene, 5003);
}

TEST(Gather, RefusesAnOwnerWithoutTheMasterValuesAnotherTypeNeeds) {
    if (world_size() < 2)
        GTEST_SKIP() << "needs 2 ranks";
    Transport transport{MPI_COMM_WORLD};
    std::vector<std::byte> weights(400);
    GatherTask const task{{{RankId{world_rank()}, {0, 100}, DType::float32}},
                          {{RankId{(world_rank() + 1) % world_size()}, DType::bfloat16}},
                          weights.data(),
                          {0, 100},
                          nullptr,
                          9};
    Board board{1};
    auto const queues = only(task);
    EXPECT_THROW(transport.start(queues, board), core::ContractViolation);
}

} // namespace
} // namespace evener::comm
