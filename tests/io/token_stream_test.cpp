// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/file_bytes.hpp"
#include "io/token_stream.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace evener::io {
namespace {

using core::IoError;
using support::expect_error;
using test::counting;
using Tokens = std::vector<std::int32_t>;

class TokenStreamTest : public testing::Test {
  protected:
    std::string write(std::string const& name, std::string const& content) {
        return test::write(folder_ / name, content);
    }
    std::string path(std::string const& name) { return (folder_ / name).string(); }

    support::TemporaryFolder folder_{"token-stream"};
};

struct Sample {
    Tokens inputs;
    Tokens targets;
};

Sample read(TokenDataset const& data, std::int64_t sample) {
    auto const length = static_cast<std::size_t>(data.sequence_length());
    Sample result{Tokens(length, -9), Tokens(length, -9)};
    data.read(sample, result.inputs, result.targets);
    return result;
}

TEST_F(TokenStreamTest, CutsShardsIntoWindowsThatShareOneToken) {
    write("b.bin", test::gpt2_file(counting(100, 9))); // 2 samples, exactly
    write("a.bin", test::gpt2_file(counting(0, 12)));  // 2 samples, tokens 9 to 11 unused
    write("c.bin", test::gpt2_file(counting(200, 4))); // too short for one
    write("d.bin", test::gpt2_file({}));
    write("e.bin", test::gpt2_file(counting(300, 5))); // 1 sample
    TokenDataset const data{{path("*.bin")}, TokenFormat::automatic, 4};
    ASSERT_EQ(data.samples(), 5);
    EXPECT_EQ(data.tokens(), 30);
    std::vector<std::int32_t> const firsts{0, 4, 100, 104, 300};
    for (std::int64_t k = 0; k < 5; ++k) {
        std::int32_t const first = firsts[static_cast<std::size_t>(k)];
        Sample const sample = read(data, k);
        EXPECT_EQ(sample.inputs, counting(first, 4)) << k;
        EXPECT_EQ(sample.targets, counting(first + 1, 4)) << k;
        EXPECT_EQ(data.valid_targets(k), 4);
    }
    EXPECT_THROW(read(data, 5), core::ContractViolation);
    EXPECT_THROW(read(data, -1), core::ContractViolation);
}

TEST_F(TokenStreamTest, CountsSamplesAtTheEdges) {
    for (std::int32_t tokens = 5; tokens < 20; ++tokens) {
        write("a.bin", test::gpt2_file(counting(0, tokens)));
        TokenDataset const data{{path("a.bin")}, TokenFormat::llmc, 4};
        EXPECT_EQ(data.samples(), (tokens - 1) / 4) << tokens;
    }
    write("a.bin", test::gpt2_file(counting(0, 5)));
    EXPECT_EQ(read(TokenDataset{{path("a.bin")}, TokenFormat::llmc, 1}, 3).targets, Tokens{4});
}

TEST_F(TokenStreamTest, MasksIgnoredTargetsOnly) {
    write("a.bin", test::gpt2_file({7, 1, 7, 2, 7, 7, 7, 7, 7}));
    TokenDataset const data{{path("a.bin")}, TokenFormat::automatic, 4, 7};
    EXPECT_EQ(read(data, 0).inputs, (Tokens{7, 1, 7, 2}));
    EXPECT_EQ(read(data, 0).targets, (Tokens{1, -1, 2, -1}));
    EXPECT_EQ(data.valid_targets(0), 2);
    EXPECT_EQ(data.valid_targets(1), 0);
}

TEST_F(TokenStreamTest, SortsMatchesByNameAndKeepsTheOrderOfPatterns) {
    for (char const* const name : {"t_10.bin", "t_02.bin", "T_03.bin", "val.bin", "t_1.txt"})
        write(name, test::gpt2_file({1, 2}));
    auto const expand = [&](std::vector<std::string> patterns) {
        for (std::string& pattern : patterns)
            pattern = path(pattern);
        std::vector<std::string> names;
        for (std::string const& match : expand_patterns(patterns))
            names.push_back(std::filesystem::path{match}.filename());
        return names;
    };
    using Names = std::vector<std::string>;
    EXPECT_EQ(expand({"val.bin", "t_*.bin"}), (Names{"val.bin", "t_02.bin", "t_10.bin"}));
    EXPECT_EQ(expand({"?_0[0-9].bin"}), (Names{"T_03.bin", "t_02.bin"}));
    EXPECT_EQ(expand({"{val,t_10}.bin"}), (Names{"t_10.bin", "val.bin"}));
}

TEST_F(TokenStreamTest, TakesAnExistingPathLiterally) {
    write("run[1].bin", test::gpt2_file(counting(5, 3)));
    write("run1.bin", test::gpt2_file(counting(50, 3)));
    TokenDataset const data{{path("run[1].bin")}, TokenFormat::automatic, 2};
    EXPECT_EQ(read(data, 0).inputs, counting(5, 2));
}

TEST_F(TokenStreamTest, RefusesPatternsThatMatchNothing) {
    write("a.bin", test::gpt2_file(counting(5, 3)));
    expect_error<IoError>(
        [&] {
            TokenDataset({path("a.bin"), path("x*.bin")}, TokenFormat::automatic, 2);
        },
        "'" + path("x*.bin") + "': no such file (and as a pattern it matches none)");
}

TEST_F(TokenStreamTest, RefusesTheSameFileTwice) {
    write("a.bin", test::gpt2_file(counting(5, 3)));
    std::filesystem::create_symlink(path("a.bin"), path("link.bin"));
    expect_error<IoError>(
        [&] {
            TokenDataset({path("a.bin"), path("a*")}, TokenFormat::automatic, 2);
        },
        "'" + path("a.bin") + "': is named twice, by \"" + path("a.bin") + "\" and by \"" +
            path("a*") + "\"; its tokens would be trained on twice an epoch");
    expect_error<IoError>([&] { TokenDataset({path("*.bin")}, TokenFormat::automatic, 2); },
                          "'" + path("link.bin") + "': is named twice, by \"" + path("*.bin") +
                              "\" and by \"" + path("*.bin") +
                              "\"; its tokens would be trained on twice an epoch");
}

TEST_F(TokenStreamTest, ReadsMegatronPairsFoundByPatternOrPrefix) {
    test::MegatronIndexFields fields;
    fields.lengths = {5};
    fields.pointers = {0};
    fields.documents = {0, 1};
    write("m.idx", test::megatron_index(fields));
    write("m.bin", test::Bytes{}.add_all<std::uint16_t>(counting(1, 5)).content);
    for (char const* const pattern : {"m", "m.idx", "m.bin", "m*"}) {
        TokenDataset const data{{path(pattern)}, TokenFormat::automatic, 4};
        EXPECT_EQ(read(data, 0).targets, counting(2, 4)) << pattern;
    }
    expect_error<IoError>(
        [&] {
            TokenDataset({path("m"), path("m.idx")}, TokenFormat::megatron, 4);
        },
        "'" + path("m.idx") + "': is the same dataset as \"" + path("m") +
            "\"; its tokens would be trained on twice an epoch");
}

TEST_F(TokenStreamTest, RefusesDataTooShortForOneSample) {
    write("a.bin", test::gpt2_file(counting(0, 8)));
    write("b.bin", test::gpt2_file(counting(0, 3)));
    expect_error<IoError>(
        [&] { TokenDataset({path("?.bin")}, TokenFormat::automatic, 8); },
        "'" + path("a.bin") +
            "': holds no sample (a sample of sequence length 8 needs 9 tokens, the longest of 2 "
            "file(s) has 8) use more data or a shorter sequence");
}

TEST_F(TokenStreamTest, ChecksEveryShardAgainstTheVocabulary) {
    write("a.bin", test::gpt2_file(counting(0, 8)));
    write("b.bin", test::gpt2_file(counting(90, 8)));
    TokenDataset const data{{path("?.bin")}, TokenFormat::automatic, 4};
    data.check_tokens(98);
    support::expect_error_containing<IoError>([&] { data.check_tokens(97); },
                                              path("b.bin") + "': token 7 is 97");
}

TEST_F(TokenStreamTest, FingerprintFollowsContentAndNotNames) {
    auto const fingerprint = [&](std::vector<std::string> const& names, TokenFormat format) {
        std::vector<std::string> paths;
        for (std::string const& name : names)
            paths.push_back(path(name));
        return TokenDataset{paths, format, 2}.fingerprint();
    };
    std::string const big(6 << 20, '\1');
    write("a", big);
    write("b", big + std::string(4, '\1'));
    write("same", big);
    std::string changed = big;
    changed[changed.size() - 1] = '\2';
    write("last", changed);
    changed = big;
    changed[0] = '\2';
    write("first", changed);
    std::string const a = fingerprint({"a"}, TokenFormat::uint16);
    EXPECT_EQ(a.size(), 32u);
    EXPECT_EQ(a, fingerprint({"same"}, TokenFormat::uint16));
    EXPECT_NE(a, fingerprint({"a"}, TokenFormat::uint32));
    EXPECT_NE(a, fingerprint({"b"}, TokenFormat::uint16));
    EXPECT_NE(a, fingerprint({"last"}, TokenFormat::uint16));
    EXPECT_NE(a, fingerprint({"first"}, TokenFormat::uint16));
    EXPECT_NE(a, fingerprint({"a", "same"}, TokenFormat::uint16));
    EXPECT_NE(fingerprint({"a", "b"}, TokenFormat::uint16),
              fingerprint({"b", "a"}, TokenFormat::uint16));
}

} // namespace
} // namespace evener::io
