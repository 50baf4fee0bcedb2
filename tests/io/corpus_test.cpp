// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "core/random.hpp"
#include "io/corpus.hpp"
#include "io/file_bytes.hpp"
#include "io/files.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <thread>

namespace evener::io {
namespace {

using core::ConfigError;
using core::IoError;
using support::expect_error;

std::string bytes_file(std::string const& text) {
    std::vector<std::int32_t> tokens;
    for (char const c : text)
        tokens.push_back(static_cast<unsigned char>(c));
    return test::gpt2_file(tokens);
}

/// Every byte value, also those that are no text.
std::string sample_text(std::size_t bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes; ++i)
        text += static_cast<char>(core::philox4x32({static_cast<std::uint32_t>(i)}, {})[0]);
    return text;
}

class CorpusTest : public testing::Test {
  protected:
    std::string path(std::string const& name) { return (folder_ / name).string(); }
    std::string write(std::string const& name, std::string const& text) {
        return test::write(folder_ / name, text);
    }
    void expect_split(std::string const& text, std::size_t train) {
        EXPECT_EQ(read_file(path("out/train.bin")), bytes_file(text.substr(0, train)));
        EXPECT_EQ(read_file(path("out/val.bin")), bytes_file(text.substr(train)));
    }

    support::TemporaryFolder folder_{"corpus"};
};

TEST_F(CorpusTest, HoldsOutTheLastPart) {
    std::string const text = sample_text(1013);
    PrepareReport const report = prepare_bytes({{write("a.txt", text)}, path("out"), 0.05});
    EXPECT_EQ(report.train_tokens, 963);
    EXPECT_EQ(report.validation_tokens, 50);
    EXPECT_EQ(report.files, (std::vector<std::string>{path("out/train.bin"), path("out/val.bin")}));
    EXPECT_GE(report.seconds, 0);
    expect_split(text, 963);
}

TEST_F(CorpusTest, JoinsInputsInOrderAndCutsAnywhere) {
    std::string const text = sample_text(1000000); // several chunks, not a multiple of one
    write("a.txt", text.substr(0, 400000));
    write("b1.txt", text.substr(400000, 1));
    write("b2.txt", "");
    write("b3.txt", text.substr(400001));
    for (double const fraction : {0.05, 0.6, 0.599999}) {
        prepare_bytes({{path("a.txt"), path("b*.txt")}, path("out"), fraction});
        expect_split(text, 1000000 - static_cast<std::size_t>(1000000 * fraction));
    }
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator{path("out")}, {}), 2);
}

TEST_F(CorpusTest, WritesNoValidationFileForFractionZero) {
    prepare_bytes({{write("a.txt", "some text")}, path("out"), 0});
    EXPECT_EQ(read_file(path("out/train.bin")), bytes_file("some text"));
    EXPECT_FALSE(std::filesystem::exists(path("out/val.bin")));
    write("out/val.bin", "old");
    expect_error<IoError>(
        [&] {
            prepare_bytes({{path("a.txt")}, path("out"), 0});
        },
        "'" + path("out/val.bin") +
            "': is of an earlier run, and no validation file is asked for now; remove it first");
}

TEST_F(CorpusTest, ReadsPipes) {
    std::string const text = sample_text(700000);
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    std::thread feeder{[&] { test::write(path("fifo"), text); }};
    prepare_bytes({{path("fifo")}, path("out"), 0.1});
    feeder.join();
    expect_split(text, 630000);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator{path("out")}, {}), 2);
}

TEST_F(CorpusTest, ReadsTheRestOfStandardInput) {
    std::string const text = sample_text(1000);
    int const saved = ::dup(STDIN_FILENO);
    int const file = ::open(write("a.txt", "skip" + text).c_str(), O_RDONLY);
    ASSERT_EQ(::lseek(file, 4, SEEK_SET), 4);
    ::dup2(file, STDIN_FILENO);
    ::close(file);
    prepare_bytes({{"-"}, path("out"), 0.1});
    expect_split(text, 900);
    ::dup2(saved, STDIN_FILENO);
    ::close(saved);
}

TEST_F(CorpusTest, RefusesTextsTooShortToSplit) {
    expect_error<IoError>(
        [&] {
            prepare_bytes({{write("a.txt", "")}, path("out"), 0.05});
        },
        "'" + path("a.txt") + "': is empty, there is nothing to prepare");
    expect_error<IoError>(
        [&] {
            prepare_bytes({{write("a.txt", "0123456789")}, path("out"), 0.05});
        },
        "'" + path("a.txt") +
            "': is too short (10 bytes give 10 for training and 0 for validation; each needs at "
            "least 2) use a longer text or another validation fraction than 0.05");
    EXPECT_TRUE(std::filesystem::is_empty(path("out")));
}

TEST_F(CorpusTest, RefusesImpossibleOptions) {
    write("a.txt", "0123456789");
    expect_error<ConfigError>(
        [&] {
            prepare_bytes({{}, path("out"), 0.05});
        },
        "error: no input is named; name text files, or '-' for standard "
        "input");
    for (double const fraction : {-0.1, 1.0, std::nan("")})
        EXPECT_THROW(prepare_bytes({{path("a.txt")}, path("out"), fraction}), ConfigError);
    EXPECT_THROW(prepare_bytes({{"-", "-"}, path("out"), 0.05}), ConfigError);
    expect_error<IoError>(
        [&] {
            prepare_bytes({{path("none")}, path("out"), 0.05});
        },
        "'" + path("none") + "': no such file (and as a pattern it matches none)");
    expect_error<IoError>(
        [&] {
            prepare_bytes({{folder_.path()}, path("out"), 0.05});
        },
        "'" + folder_.path().string() +
            "': is a folder; name its files, for example with a pattern '*'");
}

TEST_F(CorpusTest, NgramLossFollowsItsFormula) {
    std::string const train = write("train.bin", bytes_file("abab"));
    std::string const validation = write("val.bin", bytes_file("abz"));
    // order 1: counts a 2, b 2, total 4; p = (count + 1/256) / 5
    double const unseen = 1.0 / 256 / 5;
    double const seen = (2 + 1.0 / 256) / 5;
    EXPECT_NEAR(ngram_nats_per_byte(train, validation, 1),
                -(2 * std::log(seen) + std::log(unseen)) / 3, 1e-12);
    // order 2: after a: b twice; after b: a once. The first byte has no context.
    double const b_after_a = (2 + seen) / 3;
    double const z_after_b = (0 + unseen) / 2;
    EXPECT_NEAR(ngram_nats_per_byte(train, validation, 2),
                -(std::log(seen) + std::log(b_after_a) + std::log(z_after_b)) / 3, 1e-12);
}

TEST_F(CorpusTest, NgramLossOfNoiseIsThatOfAUniformByte) {
    std::string const train = write("train.bin", bytes_file(sample_text(50000)));
    std::string const validation = write("val.bin", bytes_file(sample_text(60000).substr(50000)));
    EXPECT_NEAR(ngram_nats_per_byte(train, validation, 1), std::log(256.0), 0.01);
}

TEST_F(CorpusTest, NgramTableRefusesOtherFiles) {
    std::string const bytes = write("a.bin", bytes_file("abab"));
    std::string const words = write("b.bin", test::gpt2_file({1, 2, 300}));
    expect_error<IoError>([&] { ngram_nats_per_byte(words, bytes, 3); },
                          "'" + words +
                              "': token 2 is 300, not a byte; an n-gram table is made of "
                              "byte-level files only");
    expect_error<IoError>(
        [&] { ngram_nats_per_byte(bytes, write("c.bin", test::gpt2_file({})), 3); },
        "'" + path("c.bin") + "': holds no tokens to measure");
    EXPECT_THROW(ngram_nats_per_byte(bytes, bytes, 8), core::ContractViolation);
}

} // namespace
} // namespace evener::io
