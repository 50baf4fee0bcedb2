// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/file_bytes.hpp"
#include "io/token_file.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace evener::io {
namespace {

using core::IoError;
using test::Bytes;
using test::MegatronIndexFields;

/// Three sequences (3, 0 and 2 tokens) in two documents, one after the other in the .bin.
MegatronIndexFields plain_index() {
    MegatronIndexFields fields;
    fields.lengths = {3, 0, 2};
    fields.pointers = {0, 6, 6};
    fields.documents = {0, 2, 3};
    return fields;
}

class MegatronTest : public testing::Test {
  protected:
    /// Writes both halves and returns their prefix.
    std::string write(MegatronIndexFields const& fields, std::string const& data) {
        test::write(folder_ / "data.idx", test::megatron_index(fields));
        test::write(folder_ / "data.bin", data);
        return (folder_ / "data").string();
    }
    std::string write(MegatronIndexFields const& fields) {
        return write(fields, Bytes{}.add_all<std::uint16_t>(test::counting(10, 5)).content);
    }
    void expect_refused(std::function<void(MegatronIndexFields&)> const& change,
                        std::string const& text) {
        MegatronIndexFields fields = plain_index();
        change(fields);
        std::string const prefix = write(fields);
        support::expect_error<IoError>(
            [&] {
                TokenFile{prefix, TokenFormat::megatron};
            },
            "'" + prefix + ".idx': " + text);
    }

    support::TemporaryFolder folder_{"megatron"};
};

std::vector<std::int32_t> read_all(TokenFile const& file) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens()));
    file.read(0, tokens);
    return tokens;
}

TEST_F(MegatronTest, ReadsDocumentsAsOneStreamByPrefixBinOrIdx) {
    std::string const prefix = write(plain_index());
    for (TokenFormat const format : {TokenFormat::automatic, TokenFormat::megatron})
        for (char const* const suffix : {"", ".bin", ".idx"}) {
            TokenFile const file{prefix + suffix, format};
            EXPECT_EQ(file.format(), TokenFormat::megatron);
            EXPECT_EQ(file.path(), prefix + ".bin");
            EXPECT_EQ(read_all(file), test::counting(10, 5));
        }
}

TEST_F(MegatronTest, FollowsPointersThatAreNotInFileOrder) {
    MegatronIndexFields fields;
    fields.lengths = {2, 3, 1, 2};
    fields.pointers = {6, 0, 8, 2}; // tokens 13 14 | 10 11 12 | 14 | 11 12
    fields.documents = {0, 1, 4};
    TokenFile const file{write(fields)};
    std::vector<std::int32_t> const expected{13, 14, 10, 11, 12, 14, 11, 12};
    ASSERT_EQ(read_all(file), expected);
    for (std::size_t begin = 0; begin < expected.size(); ++begin)
        for (std::size_t count = 0; begin + count <= expected.size(); ++count) {
            std::vector<std::int32_t> tokens(count);
            file.read(static_cast<std::int64_t>(begin), tokens);
            auto const from = expected.begin() + static_cast<std::ptrdiff_t>(begin);
            EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), from));
        }
}

TEST_F(MegatronTest, ReadsEveryIntegerType) {
    auto const check = [&](std::uint8_t code, TokenType type, std::string const& data) {
        MegatronIndexFields fields;
        fields.type_code = code;
        fields.lengths = {5};
        fields.pointers = {0};
        fields.documents = {0, 1};
        TokenFile const file{write(fields, data)};
        EXPECT_EQ(file.type(), type);
        EXPECT_EQ(read_all(file), test::counting(10, 5));
    };
    std::vector<std::int32_t> const tokens = test::counting(10, 5);
    check(1, TokenType::uint8, Bytes{}.add_all<std::uint8_t>(tokens).content);
    check(2, TokenType::int8, Bytes{}.add_all<std::int8_t>(tokens).content);
    check(3, TokenType::int16, Bytes{}.add_all<std::int16_t>(tokens).content);
    check(4, TokenType::int32, Bytes{}.add_all<std::int32_t>(tokens).content);
    check(5, TokenType::int64, Bytes{}.add_all<std::int64_t>(tokens).content);
    check(8, TokenType::uint16, Bytes{}.add_all<std::uint16_t>(tokens).content);
}

TEST_F(MegatronTest, RefusesNegativeTokens) {
    MegatronIndexFields fields = plain_index();
    fields.type_code = 3; // int16
    TokenFile const file{
        write(fields, Bytes{}.add_all<std::int16_t>(std::vector{1, 2, 3, -4, 5}).content)};
    support::expect_error<IoError>([&] { read_all(file); },
                                   "'" + file.path() +
                                       "': token 3 is not between 0 and 2^31 - 1 (a damaged file, "
                                       "or not of type int16)");
}

TEST_F(MegatronTest, RefusesOtherVersionsAndTypes) {
    expect_refused([](auto& fields) { fields.version = 2; },
                   "has index version 2; only version 1 can be read");
    expect_refused([](auto& fields) { fields.type_code = 7; },
                   "holds floating-point data, not tokens");
    expect_refused([](auto& fields) { fields.type_code = 9; }, "has the unknown token type code 9");
}

TEST_F(MegatronTest, RefusesSequencesOutsideTheBin) {
    auto const problem = [](std::string const& sequence) {
        return sequence + ", but the .bin file has 10 bytes (the two files do not belong together, "
                          "or one is cut short)";
    };
    expect_refused([](auto& fields) { fields.lengths[2] = 3; },
                   problem("sequence 2 has 3 tokens from byte 6 on"));
    expect_refused([](auto& fields) { fields.lengths[0] = -1; },
                   problem("sequence 0 has -1 tokens from byte 0 on"));
    expect_refused([](auto& fields) { fields.pointers[0] = -2; },
                   problem("sequence 0 has 3 tokens from byte -2 on"));
    expect_refused([](auto& fields) { fields.pointers[2] = INT64_MAX; },
                   problem("sequence 2 has 2 tokens from byte 9223372036854775807 on"));
}

TEST_F(MegatronTest, RefusesDocumentsThatDoNotTileTheSequences) {
    expect_refused(
        [](auto& fields) {
            fields.documents = {1, 2, 3};
        },
        "document 0 starts at sequence 1, which is not between 0 and 0 (the index is "
        "damaged) build it again");
    expect_refused(
        [](auto& fields) {
            fields.documents = {0, 2, 1, 3};
        },
        "document 2 starts at sequence 1, which is not between 2 and 3 (the index is "
        "damaged) build it again");
    expect_refused(
        [](auto& fields) {
            fields.documents = {0, 2};
        },
        "the documents end at sequence 2 of 3 (the index is damaged) build it again");
    expect_refused([](auto& fields) { fields.documents.clear(); },
                   "the documents end at sequence 0 of 3 (the index is damaged) build it again");
}

TEST_F(MegatronTest, RefusesAnIndexOfAnotherSize) {
    std::string const good = test::megatron_index(plain_index());
    std::string const prefix = write(plain_index());
    auto const expect = [&](std::string const& index, std::string const& text) {
        test::write(folder_ / "data.idx", index);
        support::expect_error<IoError>(
            [&] {
                TokenFile{prefix, TokenFormat::megatron};
            },
            "'" + prefix + ".idx': " + text);
    };
    expect(good.substr(0, good.size() - 1),
           "has 93 bytes, which does not fit the 3 sequences and 3 document entries it announces "
           "(cut short or damaged) copy or build it again");
    expect(good.substr(0, 20), "has 20 bytes, less than the 34 bytes of a Megatron index header");
    expect("", "is not a Megatron index (it does not start with 'MMIDIDX')");
    std::string huge = good;
    huge[18 + 7] = static_cast<char>(0x80); // sequence count + 2^63
    expect(huge, "has 94 bytes, which does not fit the 9223372036854775811 sequences and 3 "
                 "document entries it announces (cut short or damaged) copy or build it again");
}

TEST_F(MegatronTest, ReadsTextModesAndRefusesOthers) {
    MegatronIndexFields fields = plain_index();
    fields.modes = {0, 0, 0};
    EXPECT_EQ(TokenFile{write(fields)}.tokens(), 5);
    expect_refused(
        [](auto& changed) {
            changed.modes = {0, 1, 0};
        },
        "sequence 1 has mode 1 (a multimodal dataset; only text can be read)");
}

TEST_F(MegatronTest, NamesTheMissingHalf) {
    std::string const prefix = write(plain_index());
    std::filesystem::remove(prefix + ".bin");
    support::expect_error<IoError>([&] { TokenFile{prefix}; },
                                   "'" + prefix +
                                       ".bin': cannot be opened (No such file or directory)");
}

} // namespace
} // namespace evener::io
