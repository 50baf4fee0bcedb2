// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/file_bytes.hpp"
#include "io/files.hpp"
#include "io/mapped_file.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

namespace evener::io {
namespace {

class MappedFileTest : public testing::Test {
  protected:
    MappedFileTest() { test::write(path_, std::string(size_, 'x')); }
    void cut(std::string const& path) const { ASSERT_EQ(::truncate(path.c_str(), 0), 0); }

    static constexpr std::size_t size_ = 40000;
    support::TemporaryFolder folder_{"mapped"};
    std::string path_ = (folder_ / "file").string();
};

TEST_F(MappedFileTest, ThatIsCutShortReadsAsZerosAndSaysSo) {
    MappedFile const other_place = [&] {
        MappedFile file{path_};
        return file;
    }();
    EXPECT_EQ(other_place.bytes()[size_ - 1], std::byte{'x'});
    EXPECT_NO_THROW(other_place.require_unchanged());
    cut(path_);
    for (std::byte const byte : other_place.bytes())
        ASSERT_EQ(byte, std::byte{0});
    support::expect_error_containing<core::IoError>(
        [&] { other_place.require_unchanged(); },
        "'" + path_ + "': was cut short while it was used (it had 40000 bytes");
}

TEST_F(MappedFileTest, IsOneOfManyThatAreGuardedEachForItself) {
    std::vector<MappedFile> files;
    std::vector<std::string> paths;
    for (int i = 0; i < 20; ++i) {
        paths.push_back((folder_ / std::to_string(i)).string());
        test::write(paths.back(), std::string(size_, 'y'));
        files.emplace_back(paths.back());
    }
    cut(paths[7]);
    files[3] = MappedFile{};
    EXPECT_EQ(files[7].bytes()[9], std::byte{0});
    EXPECT_THROW(files[7].require_unchanged(), core::IoError);
    for (std::size_t i = 0; i < files.size(); ++i)
        if (i != 7) {
            EXPECT_NO_THROW(files[i].require_unchanged());
            EXPECT_TRUE(std::all_of(files[i].bytes().begin(), files[i].bytes().end(),
                                    [](std::byte byte) { return byte == std::byte{'y'}; }));
        }
}

/// The handler is for guarded mappings alone.
TEST_F(MappedFileTest, OfSomebodyElseStillEndsTheProcess) {
    MappedFile const guarded{path_};
    std::string const other = (folder_ / "other").string();
    test::write(other, std::string(size_, 'z'));
    EXPECT_EXIT(
        {
            std::int64_t size = 0;
            FileDescriptor const file = open_for_reading(other, size);
            auto const* bytes = static_cast<char const volatile*>(
                ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.get(), 0));
            static_cast<void>(::truncate(other.c_str(), 0) == 0);
            static_cast<void>(bytes[5]);
        },
        // By the signal, or by a sanitizer that caught it before.
        [](int status) { return !WIFEXITED(status) || WEXITSTATUS(status) != 0; }, "");
}

} // namespace
} // namespace evener::io
