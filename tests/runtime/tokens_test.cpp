// SPDX-License-Identifier: Apache-2.0
#include "io/token_writer.hpp"
#include "runtime/tokens.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace evener::runtime {
namespace {

using Ids = std::vector<std::int32_t>;

class Tokens : public ::testing::Test {
  protected:
    /// Tokens 0, 1, 2, ... in samples of `length`.
    io::TokenDataset count_up(std::int64_t count, std::int64_t length) const {
        Ids ids(static_cast<std::size_t>(count));
        std::iota(ids.begin(), ids.end(), 0);
        std::string const path = (folder_ / "tokens.bin").string();
        io::TokenWriter writer{path, 1000};
        writer.append(ids);
        writer.close();
        return {{path}, io::TokenFormat::automatic, length};
    }

    Ids inputs(TokenSource const& source, std::int64_t step, std::int64_t sequence,
               std::size_t length, Ids* targets = nullptr) const {
        Ids result(length);
        Ids ignored(length);
        source.read(step, sequence, result, targets != nullptr ? *targets : ignored);
        return result;
    }

    support::TemporaryFolder folder_{"tokens"};
};

TEST_F(Tokens, OfTrainingGoOnWhereAResumedRunStopped) {
    io::TokenDataset const data = count_up(41, 4); // 10 samples
    io::SampleOrder const order{data.samples(), 7};
    TrainingTokens const whole{data, order, 3, 0, 0};
    // Resumed after 4 steps of 3 with a batch of 2.
    TrainingTokens const resumed{data, order, 2, 4, 12};
    EXPECT_EQ(inputs(resumed, 4, 0, 4), inputs(whole, 4, 0, 4));
    EXPECT_EQ(inputs(resumed, 4, 1, 4), inputs(whole, 4, 1, 4));
    EXPECT_EQ(inputs(resumed, 5, 0, 4), inputs(whole, 4, 2, 4));
}

TEST_F(Tokens, OfValidationArePaddedWithMaskedTargets) {
    io::TokenDataset const data = count_up(13, 4); // 3 samples
    ValidationTokens const source{data, 2};
    EXPECT_EQ(source.batches(), 2);
    Ids targets(4);
    EXPECT_EQ(inputs(source, 1, 0, 4, &targets), (Ids{8, 9, 10, 11}));
    EXPECT_EQ(targets, (Ids{9, 10, 11, 12}));
    EXPECT_EQ(inputs(source, 1, 1, 4, &targets), (Ids{0, 0, 0, 0}));
    EXPECT_EQ(targets, (Ids{-1, -1, -1, -1}));
    EXPECT_EQ(source.valid_targets(1, 0), 4);
    EXPECT_EQ(source.valid_targets(1, 1), 0);
}

TEST_F(Tokens, OfAShortContextCountOnlyTheLastTarget) {
    io::TokenDataset const data = count_up(13, 6); // 2 samples of 6
    ContextTokens const source{data, 3, 5};
    EXPECT_EQ(source.batches(), 2); // 8 windows
    Ids targets(3);
    EXPECT_EQ(inputs(source, 0, 1, 3, &targets), (Ids{1, 2, 3}));
    EXPECT_EQ(targets, (Ids{-1, -1, 4}));
    EXPECT_EQ(inputs(source, 0, 4, 3, &targets), (Ids{6, 7, 8}));
    EXPECT_EQ(targets, (Ids{-1, -1, 9}));
    EXPECT_EQ(source.valid_targets(1, 2), 1);
    EXPECT_EQ(source.valid_targets(1, 3), 0);
}

} // namespace
} // namespace evener::runtime
