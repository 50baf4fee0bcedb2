// SPDX-License-Identifier: Apache-2.0

// Ranks that do not see the data read what those that do read, to the token.

#include "comm/communicator.hpp"
#include "runtime/shared_tokens.hpp"
#include "support/sizes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace evener::runtime {
namespace {

constexpr std::int64_t length = 5;

/// Tokens as a function of step, sequence and place; every third target of a sequence is masked.
class FormulaTokens final : public TokenSource {
  public:
    void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override {
        if (step == failing_step)
            throw core::IoError{"tokens.bin", "a bad token"};
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            inputs[i] = static_cast<std::int32_t>(1000 * step + 10 * sequence) +
                        static_cast<std::int32_t>(i);
            targets[i] =
                (step + sequence + static_cast<std::int64_t>(i)) % 3 == 0 ? -1 : inputs[i] + 1;
        }
    }
    std::int64_t valid_targets(std::int64_t step, std::int64_t sequence) const override {
        std::vector<std::int32_t> inputs(length);
        std::vector<std::int32_t> targets(length);
        read(step, sequence, inputs, targets);
        return length - std::count(targets.begin(), targets.end(), -1);
    }

    std::int64_t failing_step = -1;
};

comm::Communicator world() {
    return comm::Communicator::duplicate(MPI_COMM_WORLD);
}

struct Case {
    std::vector<bool> sees;
    std::vector<std::vector<std::int64_t>> sequences; ///< by rank
    std::vector<std::int64_t> steps;                  ///< in the order in which they are prepared
};

/// The same on all ranks: at least one sees the files, steps go on or jump.
Case random_case(std::uint64_t seed, int ranks) {
    std::mt19937_64 random{seed};
    Case result;
    for (int rank = 0; rank < ranks; ++rank) {
        result.sees.push_back(random() % 2 == 0);
        std::vector<std::int64_t> sequences;
        for (std::int64_t s = 0; s < 9; ++s)
            if (random() % 3 == 0)
                sequences.push_back(s);
        result.sequences.push_back(sequences);
    }
    result.sees[random() % result.sees.size()] = true;
    std::int64_t step = 0;
    for (int i = 0; i < 6; ++i)
        result.steps.push_back(step = random() % 3 == 0 ? static_cast<std::int64_t>(random() % 9)
                                                        : step + 1);
    return result;
}

TEST(SharedTokens, AreThoseOfTheFilesOnEveryRank) {
    comm::Communicator const comm = world();
    auto const rank = static_cast<std::size_t>(comm.rank());
    FormulaTokens const files;
    for (std::uint64_t const seed : support::seeds("SharedTokens", 400)) {
        Case const drawn = random_case(seed, comm.size());
        std::vector<std::int64_t> const& sequences = drawn.sequences[rank];
        SharedTokens const tokens{comm, FileReaders{drawn.sees},
                                  drawn.sees[rank] ? &files : nullptr, sequences, length};
        for (std::int64_t const step : drawn.steps) {
            tokens.prepare(step);
            for (std::int64_t const sequence : sequences) {
                std::vector<std::int32_t> inputs(length);
                std::vector<std::int32_t> targets(length);
                std::vector<std::int32_t> file_inputs(length);
                std::vector<std::int32_t> file_targets(length);
                tokens.read(step, sequence, inputs, targets);
                files.read(step, sequence, file_inputs, file_targets);
                EXPECT_EQ(inputs, file_inputs) << "EVENER_TEST_SEED=" << seed;
                EXPECT_EQ(targets, file_targets) << "EVENER_TEST_SEED=" << seed;
                EXPECT_EQ(tokens.valid_targets(step + 1, sequence),
                          files.valid_targets(step + 1, sequence))
                    << "EVENER_TEST_SEED=" << seed;
            }
        }
    }
}

TEST(SharedTokens, ThatCannotBeReadAreSaidOnTheRankThatNeedsThem) {
    comm::Communicator const comm = world();
    FormulaTokens files;
    files.failing_step = 3;
    std::vector<bool> sees(static_cast<std::size_t>(comm.size()), false);
    sees.front() = true;
    SharedTokens const tokens{
        comm, FileReaders{sees}, comm.rank() == 0 ? &files : nullptr, {2, 4}, length};
    tokens.prepare(1);
    if (comm.rank() > 1) // rank 0 gives up before it comes to them
        return;
    try {
        tokens.prepare(2);
        EXPECT_EQ(comm.size(), 1);
    } catch (core::IoError const& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr("a bad token"));
    }
}

TEST(FileReaders, ReadForOthersInTurn) {
    FileReaders const readers{{true, true, false, true, false, false}};
    EXPECT_FALSE(readers.all_see());
    EXPECT_EQ(readers.served_by(0), (std::vector<int>{2}));
    EXPECT_EQ(readers.served_by(1), (std::vector<int>{4}));
    EXPECT_EQ(readers.served_by(3), (std::vector<int>{5}));
    EXPECT_TRUE(readers.sees(3));
    EXPECT_TRUE((FileReaders{{true, true}}.all_see()));
}

} // namespace
} // namespace evener::runtime
