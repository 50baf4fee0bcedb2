// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/file_bytes.hpp"
#include "io/token_file.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

namespace evener::io {
namespace {

using core::IoError;
using support::expect_error;
using support::expect_error_containing;
using test::Bytes;
using test::counting;

class TokenFileTest : public testing::Test {
  protected:
    std::string write(std::string const& name, std::string const& content) {
        return test::write(folder_ / name, content);
    }
    /// The message of `problem` about the file of that name.
    std::string about(std::string const& name, std::string const& problem) {
        return "'" + (folder_ / name).string() + "': " + problem;
    }
    void expect_open_error(std::string const& path, TokenFormat format, std::string const& text) {
        expect_error<IoError>([&] { TokenFile{path, format}; }, text);
    }

    support::TemporaryFolder folder_{"token-file"};
};

std::vector<std::int32_t> read_all(TokenFile const& file) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.tokens()));
    file.read(0, tokens);
    return tokens;
}

TEST_F(TokenFileTest, ReadsLlmcGpt2) {
    std::vector<std::int32_t> const tokens{50256, 0, 1, 65535, 40000};
    for (TokenFormat const format : {TokenFormat::automatic, TokenFormat::llmc}) {
        TokenFile const file{write("a.bin", test::gpt2_file(tokens)), format};
        EXPECT_EQ(file.format(), TokenFormat::llmc);
        EXPECT_EQ(file.type(), TokenType::uint16);
        EXPECT_EQ(read_all(file), tokens);
    }
}

TEST_F(TokenFileTest, ReadsLlmcLlama3) {
    std::vector<std::int32_t> const tokens{128000, 0, 70000, 2147483647};
    TokenFile const file{write("a.bin", test::llama3_file(tokens))};
    EXPECT_EQ(file.type(), TokenType::uint32);
    EXPECT_EQ(read_all(file), tokens);
}

TEST_F(TokenFileTest, ReadsAnyRange) {
    TokenFile const file{write("a.bin", test::gpt2_file(counting(100, 50)))};
    for (std::int32_t begin = 0; begin <= 50; ++begin)
        for (std::int32_t count = 0; begin + count <= 50; ++count) {
            std::vector<std::int32_t> tokens(static_cast<std::size_t>(count), -7);
            file.read(begin, tokens);
            EXPECT_EQ(tokens, counting(100 + begin, count));
        }
    std::array<std::int32_t, 2> two{};
    EXPECT_THROW(file.read(49, two), core::ContractViolation);
    EXPECT_THROW(file.read(-1, two), core::ContractViolation);
}

TEST_F(TokenFileTest, ReadsAnEmptyLlmcFile) {
    TokenFile const file{write("a.bin", test::gpt2_file({}))};
    EXPECT_EQ(file.tokens(), 0);
    file.check_tokens(1);
}

TEST_F(TokenFileTest, RefusesLlmcFilesThatAreNotWhole) {
    std::string const good = test::gpt2_file(counting(0, 10));
    expect_open_error(write("a.bin", good + "x"), TokenFormat::llmc,
                      about("a.bin", "has 1045 bytes, but its header announces 10 tokens of 2 "
                                     "bytes, 1044 bytes in all (cut short or damaged) copy or "
                                     "build it again"));
    expect_open_error(write("a.bin", good.substr(0, 1042)), TokenFormat::automatic,
                      about("a.bin", "has 1042 bytes, but its header announces 10 tokens of 2 "
                                     "bytes, 1044 bytes in all (cut short or damaged) copy or "
                                     "build it again"));
    expect_open_error(write("a.bin", good.substr(0, 100)), TokenFormat::llmc,
                      about("a.bin", "has 100 bytes, less than the 1024 bytes of an llm.c header"));
    expect_open_error(write("a.bin", ""), TokenFormat::llmc,
                      about("a.bin", "has 0 bytes, less than the 1024 bytes of an llm.c header"));
    std::string negative = good;
    negative[11] = static_cast<char>(0xff); // top byte of the token count
    expect_error_containing<IoError>([&] { TokenFile{write("a.bin", negative)}; },
                                     "its header announces -16777206 tokens");
}

TEST_F(TokenFileTest, RefusesOtherMagicNumbersAndVersions) {
    expect_open_error(
        write("a.bin", test::llmc_file<std::uint16_t>(20240522, 1, {1, 2})), TokenFormat::llmc,
        about("a.bin", "has magic number 20240522; llm.c token files have 20240520 (GPT-2, "
                       "uint16) or 20240801 (Llama-3, uint32)"));
    expect_open_error(
        write("a.bin", test::llmc_file<std::uint16_t>(20240520, 7, {1, 2})), TokenFormat::automatic,
        about("a.bin", "has version 7; llm.c token files with magic number 20240520 have version "
                       "1"));
}

TEST_F(TokenFileTest, ReadsRawFilesOfAStatedType) {
    std::string const narrow = Bytes{}.add_all<std::uint16_t>(counting(65000, 500)).content;
    TokenFile const two{write("a.bin", narrow), TokenFormat::uint16};
    EXPECT_EQ(read_all(two), counting(65000, 500));
    std::string const wide = Bytes{}.add_all<std::uint32_t>(counting(100000, 500)).content;
    TokenFile const four{write("b.bin", wide), TokenFormat::uint32};
    EXPECT_EQ(read_all(four), counting(100000, 500));
    EXPECT_EQ(TokenFile(write("c.bin", ""), TokenFormat::uint16).tokens(), 0);
}

TEST_F(TokenFileTest, RefusesToGuessTheTypeOfRawFiles) {
    std::string const raw = Bytes{}.add_all<std::uint16_t>(counting(0, 1000)).content;
    expect_open_error(write("a.bin", raw), TokenFormat::automatic,
                      about("a.bin", "has no header that tells its format (raw token files do not "
                                     "say their type) set [data] format to \"uint16\" or "
                                     "\"uint32\""));
}

TEST_F(TokenFileTest, RefusesRawFilesOfAnotherType) {
    expect_open_error(write("a.bin", "abcdef"), TokenFormat::uint32,
                      about("a.bin", "has 6 bytes, which is not a whole number of uint32 tokens "
                                     "(cut short, or of another type)"));
    expect_open_error(write("a.bin", test::gpt2_file(counting(0, 10))), TokenFormat::uint16,
                      about("a.bin", "starts with an llm.c header, which would be read as tokens; "
                                     "set [data] format to \"llmc\" instead of \"uint16\""));
}

TEST_F(TokenFileTest, RefusesValuesThatAreNoTokens) {
    std::string const raw =
        Bytes{}
            .add_all<std::uint32_t>(std::vector<std::uint32_t>{5, 2147483647u, 2147483648u})
            .content;
    TokenFile const file{write("a.bin", raw), TokenFormat::uint32};
    std::vector<std::int32_t> tokens(2);
    file.read(0, tokens);
    expect_error<IoError>([&] { file.read(1, tokens); },
                          about("a.bin", "token 2 is not between 0 and 2^31 - 1 (a damaged file, "
                                         "or not of type uint32)"));
}

TEST_F(TokenFileTest, ChecksTokensAgainstTheVocabulary) {
    std::vector<std::int32_t> tokens(200000, 10);
    tokens[150001] = 300;
    tokens[160000] = 301;
    TokenFile const file{write("a.bin", test::gpt2_file(tokens))};
    file.check_tokens(302);
    expect_error<IoError>([&] { file.check_tokens(300); },
                          about("a.bin", "token 150001 is 300, which is not below the vocabulary "
                                         "of 300 (another tokenizer, or not of type uint16) set "
                                         "[model] vocabulary or [data] format to what the file "
                                         "holds"));
}

TEST_F(TokenFileTest, RefusesWhatIsNotAFile) {
    expect_open_error((folder_ / "none.bin").string(), TokenFormat::automatic,
                      about("none.bin", "cannot be opened (No such file or directory)"));
    expect_open_error(folder_.path().string(), TokenFormat::uint16,
                      "'" + folder_.path().string() + "': is a folder, not a file");
    std::string const fifo = (folder_ / "fifo").string();
    ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
    expect_open_error(fifo, TokenFormat::uint16, about("fifo", "is not a regular file"));
}

TEST_F(TokenFileTest, ReadsBeyondTwoGibibytes) {
    // A sparse file of 3 * 2^30 tokens: 6 GiB that take two blocks on the disk.
    std::int64_t const count = 3 * (std::int64_t{1} << 30);
    std::string const path = (folder_ / "big.bin").string();
    int const file = ::open(path.c_str(), O_WRONLY | O_CREAT, 0600);
    ASSERT_GE(file, 0);
    std::array<std::uint16_t, 2> const last{4321, 1234};
    bool const written =
        ::ftruncate(file, 2 * count) == 0 && ::pwrite(file, last.data(), 4, 2 * count - 4) == 4;
    ::close(file);
    ASSERT_TRUE(written);
    TokenFile const big{path, TokenFormat::uint16};
    EXPECT_EQ(big.tokens(), count);
    std::array<std::int32_t, 4> tokens{};
    big.read(count - 4, tokens);
    EXPECT_EQ(tokens, (std::array<std::int32_t, 4>{0, 0, 4321, 1234}));
}

TEST_F(TokenFileTest, NamesItsFormats) {
    for (TokenFormat const format : {TokenFormat::automatic, TokenFormat::llmc, TokenFormat::uint16,
                                     TokenFormat::uint32, TokenFormat::megatron})
        EXPECT_EQ(token_format_named(name_of(format)), format);
    EXPECT_EQ(token_format_named("auto"), TokenFormat::automatic); // the job's default
    EXPECT_EQ(token_format_named("uint8"), std::nullopt);
}

} // namespace
} // namespace evener::io
