// SPDX-License-Identifier: Apache-2.0

// One data file that several writers fill.

#include "checkpoints/reader.hpp"
#include "checkpoints/verify.hpp"
#include "core/error.hpp"
#include "support/message.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <random>

namespace evener::checkpoints {
namespace {

using support::TemporaryFolder;

TEST(SharedFile, HoldsWhatSeveralWritersPutThere) {
    for (std::uint64_t const seed :
         support::seeds("SharedFile.HoldsWhatSeveralWritersPutThere", 100)) {
        SCOPED_TRACE("EVENER_TEST_SEED=" + std::to_string(seed));
        TemporaryFolder const out;
        Description const what = sample::description(5);
        std::string const folder = begin(out.path(), 5, 0);
        WriterResult const result =
            sample::write_shared_slices(folder, seed, seed, 1 + static_cast<int>(seed % 4));
        CheckpointInfo const info = commit(out.path(), what, {result});
        EXPECT_EQ(info.manifest.data_files.size(), 1U);
        EXPECT_EQ(verify(info.folder), std::vector<std::string>{});
        sample::expect_values(info.folder, seed);
    }
}

TEST(SharedFile, MissesWhatAWriterDidNotWrite) {
    TemporaryFolder const out;
    std::string const folder = begin(out.path(), 5, 0);
    WriterResult result = sample::write_shared_slices(folder, 1, 1, 2);
    // A slice whose bytes never came, with the digest of what should be there.
    std::string bytes = sample::slurp(folder + "/data-0000.h5");
    SliceRecord const& lost = result.slices[3];
    bytes.replace(static_cast<std::size_t>(lost.offset), static_cast<std::size_t>(lost.bytes),
                  static_cast<std::size_t>(lost.bytes), '\0');
    sample::spill(folder + "/data-0000.h5", bytes);
    CheckpointInfo const info = commit(out.path(), sample::description(5), {result});
    std::vector<std::string> const faults = verify(info.folder);
    ASSERT_EQ(faults.size(), 1U);
    EXPECT_NE(faults.front().find(lost.dataset()), std::string::npos) << faults.front();
}

TEST(SharedFile, TellsOfAFileThatWasCut) {
    TemporaryFolder const out;
    std::string const folder = begin(out.path(), 5, 0);
    WriterResult result = sample::write_shared_slices(folder, 1, 1, 1);
    sample::spill(folder + "/data-0000.h5", sample::slurp(folder + "/data-0000.h5").substr(0, 900));
    support::expect_error_containing<core::IoError>(
        [&] { finish_shared_file(folder, result.slices); }, "removed or cut");
}

TEST(SharedFile, TellsWhenTheDiskTakesNoMore) {
    TemporaryFolder const out;
    std::string const folder = begin(out.path(), 5, 0);
    std::vector<float> const data(4096, 1.0F);
    SliceData const slice{"parameters", "x", {4096}, {0, 4096}, data.data()};
    WriterResult const made = make_shared_file(folder, {slice});
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
    rlimit const small{1000, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    SharedFileWriter writer{folder};
    support::expect_error_containing<core::IoError>(
        [&] { writer.write(slice, made.slices.front()); }, "data-0000.h5': cannot write it");
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
}

} // namespace
} // namespace evener::checkpoints
