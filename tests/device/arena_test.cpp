// SPDX-License-Identifier: Apache-2.0
#include "device/arena.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <limits>
#include <vector>

namespace evener::device {
namespace {

namespace fs = std::filesystem;

TEST(Arena, IsAlignedZeroAndThere) {
    for (int threads : {1, 3, 64}) {
        std::int64_t const bytes = (std::int64_t{5} << 20) + 77;
        Arena const arena{bytes, {threads}};
        EXPECT_EQ(arena.size(), bytes);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.at(0)) % (2u << 20), 0u);
        auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        std::vector<unsigned char> resident((static_cast<std::size_t>(bytes) + page - 1) / page);
        ASSERT_EQ(mincore(arena.at(0), static_cast<std::size_t>(bytes), resident.data()), 0);
        for (unsigned char const one : resident)
            ASSERT_EQ(one & 1, 1); // the page exists before it is used
        for (std::int64_t i = 0; i < bytes; ++i)
            ASSERT_EQ(*arena.at(i), std::byte{0});
        *arena.at(bytes - 1) = std::byte{1};
    }
}

TEST(Arena, OffsetsEndAtItsSize) {
    Arena const arena{100};
    EXPECT_EQ(arena.at(100) - arena.at(0), 100);
    EXPECT_THROW(arena.at(101), core::ContractViolation);
    EXPECT_THROW(arena.at(-1), core::ContractViolation);
}

TEST(Arena, OfNothingIsAllowed) {
    EXPECT_EQ(Arena{0}.size(), 0);
}

TEST(Arena, ThatTheNodeCannotHoldIsRefusedWithNumbersAndRemedy) {
    support::expect_error_containing<core::DeviceError>([] { Arena(std::int64_t{1} << 50); },
                                                        "this rank's arena takes 1125.9 TB");
    support::expect_error_containing<core::DeviceError>(
        [] { Arena(std::int64_t{1} << 50); },
        " available) use more ranks or nodes, a smaller microbatch or a smaller model");
}

/// A root with files of its own.
class AvailableMemory : public testing::Test {
  protected:
    void write(fs::path const& file, std::string const& text) {
        fs::create_directories((folder.path() / file).parent_path());
        std::ofstream{folder.path() / file} << text;
    }
    std::int64_t available() const { return available_memory_bytes(folder.path()); }

    support::TemporaryFolder folder{"memory"};
};

TEST_F(AvailableMemory, IsUnknownWithoutFiles) {
    EXPECT_EQ(available(), -1);
}

TEST_F(AvailableMemory, IsTheKernelsWithoutLimits) {
    write("proc/meminfo", "MemTotal:       16000 kB\nMemAvailable:    1000 kB\n");
    EXPECT_EQ(available(), 1024000);
    write("proc/self/cgroup", "0::/job\n");
    write("sys/fs/cgroup/job/memory.max", "max\n");
    write("sys/fs/cgroup/job/memory.current", "5000\n");
    EXPECT_EQ(available(), 1024000);
}

TEST_F(AvailableMemory, OfVersion2CountsTheTightestGroupAndItsPageCache) {
    write("proc/meminfo", "MemAvailable:    1000 kB\n");
    write("proc/self/cgroup", "0::/slurm/job\n");
    write("sys/fs/cgroup/slurm/job/memory.max", "900000\n");
    write("sys/fs/cgroup/slurm/job/memory.current", "500000\n");
    write("sys/fs/cgroup/slurm/job/memory.stat", "anon 100\ninactive_file 200000\n");
    EXPECT_EQ(available(), 600000);
    write("sys/fs/cgroup/slurm/memory.max", "1000000\n");
    write("sys/fs/cgroup/slurm/memory.current", "700000\n");
    EXPECT_EQ(available(), 300000);
    write("sys/fs/cgroup/slurm/memory.current", "1700000\n");
    EXPECT_EQ(available(), 0);
}

TEST_F(AvailableMemory, OfVersion1LooksAtTheMemoryControllerOnly) {
    write("proc/meminfo", "MemAvailable:    1000 kB\n");
    write("proc/self/cgroup", "5:cpuset:/a\n4:cpu,memory:/b\n0::/c\n");
    write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "1\n");
    write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1\n");
    write("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "800000\n");
    write("sys/fs/cgroup/memory/b/memory.usage_in_bytes", "300000\n");
    write("sys/fs/cgroup/memory/b/memory.stat", "inactive_file 1\ntotal_inactive_file 1000\n");
    EXPECT_EQ(available(), 501000);
}

TEST(AvailableMemoryHere, IsKnown) {
    EXPECT_GT(available_memory_bytes(), 1 << 20);
    EXPECT_LT(available_memory_bytes(), std::numeric_limits<std::int64_t>::max());
}

} // namespace
} // namespace evener::device
