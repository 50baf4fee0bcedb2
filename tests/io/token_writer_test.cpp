// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/file_bytes.hpp"
#include "io/token_file.hpp"
#include "io/token_writer.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

namespace evener::io {
namespace {

using core::IoError;
using test::counting;
using Paths = std::vector<std::string>;

class TokenWriterTest : public testing::Test {
  protected:
    std::string path(std::string const& name) { return (folder_ / name).string(); }
    std::vector<std::string> files() {
        std::vector<std::string> names;
        for (auto const& entry : std::filesystem::directory_iterator{folder_.path()})
            names.push_back(entry.path().filename());
        std::sort(names.begin(), names.end());
        return names;
    }

    support::TemporaryFolder folder_{"token-writer"};
};

TEST_F(TokenWriterTest, WritesTheBytesOfTheGpt2Format) {
    TokenWriter writer{path("a.bin"), 65536};
    writer.append(counting(65000, 300));
    writer.append(counting(65300, 236));
    EXPECT_EQ(writer.close(), Paths{path("a.bin")});
    EXPECT_EQ(read_file(path("a.bin")), test::gpt2_file(counting(65000, 536)));
}

TEST_F(TokenWriterTest, WritesTheBytesOfTheLlama3Format) {
    TokenWriter writer{path("a.bin"), 128256};
    writer.append(counting(128000, 256));
    writer.close();
    EXPECT_EQ(read_file(path("a.bin")), test::llama3_file(counting(128000, 256)));
}

TEST_F(TokenWriterTest, WritesMoreThanItsBufferHolds) {
    TokenWriter writer{path("a.bin"), 70000};
    for (int i = 0; i < 10; ++i)
        writer.append(counting(0, 70000));
    writer.close();
    TokenFile const file{path("a.bin")};
    ASSERT_EQ(file.tokens(), 700000);
    std::vector<std::int32_t> tokens(70000);
    for (std::int64_t i = 0; i < 10; ++i) {
        file.read(i * 70000, tokens);
        EXPECT_EQ(tokens, counting(0, 70000)) << i;
    }
}

TEST_F(TokenWriterTest, SplitsLongStreamsIntoShards) {
    TokenWriter writer{path("a.bin"), 256, 10};
    writer.append(counting(0, 7));
    writer.append(counting(7, 18));
    EXPECT_EQ(files().size(), 3u); // temporary ones
    EXPECT_EQ(writer.close(),
              (Paths{path("a_000000.bin"), path("a_000001.bin"), path("a_000002.bin")}));
    EXPECT_EQ(files(), (Paths{"a_000000.bin", "a_000001.bin", "a_000002.bin"}));
    EXPECT_EQ(read_file(path("a_000000.bin")), test::gpt2_file(counting(0, 10)));
    EXPECT_EQ(read_file(path("a_000001.bin")), test::gpt2_file(counting(10, 10)));
    EXPECT_EQ(read_file(path("a_000002.bin")), test::gpt2_file(counting(20, 5)));
}

TEST_F(TokenWriterTest, FillsOneShardExactly) {
    TokenWriter writer{path("a.bin"), 256, 10};
    writer.append(counting(0, 10));
    EXPECT_EQ(writer.close(), Paths{path("a.bin")});
}

TEST_F(TokenWriterTest, LeavesTheOldFileUntilItIsWhole) {
    test::write(path("a.bin"), "old");
    {
        TokenWriter writer{path("a.bin"), 256};
        writer.append(counting(0, 10));
    } // not closed
    EXPECT_EQ(read_file(path("a.bin")), "old");
    EXPECT_EQ(files(), Paths{"a.bin"});
}

TEST_F(TokenWriterTest, RefusesToMixWithShardsOfAnEarlierRun) {
    test::write(path("a_000000.bin"), "old");
    TokenWriter one{path("a.bin"), 256};
    support::expect_error<IoError>(
        [&] { one.close(); }, "'" + path("a_000000.bin") +
                                  "': is a shard of an earlier run that the 1 new one(s) do not "
                                  "replace; remove it first");
    test::write(path("a_000002.bin"), "old");
    TokenWriter two{path("a.bin"), 256, 5};
    two.append(counting(0, 10));
    support::expect_error<IoError>(
        [&] { two.close(); }, "'" + path("a_000002.bin") +
                                  "': is a shard of an earlier run that the 2 new one(s) do not "
                                  "replace; remove it first");
}

TEST_F(TokenWriterTest, RefusesTokensOutsideTheVocabulary) {
    TokenWriter writer{path("a.bin"), 256};
    writer.append(counting(0, 200));
    support::expect_error<IoError>(
        [&] {
            writer.append(std::vector{255, 256});
        },
        "'" + path("a.bin") +
            "': token 201 of the stream is 256, not below the "
            "vocabulary of 256");
}

TEST_F(TokenWriterTest, NamesAFolderThatIsNotThere) {
    support::expect_error<IoError>([&] { TokenWriter(path("none/a.bin"), 256); },
                                   "'" + path("none/a.bin") +
                                       "': cannot be created (No such file or directory)");
}

} // namespace
} // namespace evener::io
