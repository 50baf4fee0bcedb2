// SPDX-License-Identifier: Apache-2.0

// What is written comes back to the bit, read in other slices than it was written.

#include "checkpoints/manifest.hpp"
#include "checkpoints/reader.hpp"
#include "checkpoints/verify.hpp"
#include "core/error.hpp"
#include "support/message.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <random>
#include <thread>

namespace evener::checkpoints {

using support::expect_error;
using support::expect_error_containing;
using support::TemporaryFolder;

namespace {

std::vector<TensorInfo> random_tensors(std::mt19937_64& random) {
    std::vector<TensorInfo> tensors;
    int const count = 1 + static_cast<int>(random() % 5);
    for (int i = 0; i < count; ++i) {
        TensorInfo tensor{"layer." + std::to_string(i) + ".weight", {}};
        for (std::uint64_t dims = 1 + random() % 3; dims > 0; --dims)
            tensor.shape.push_back(1 + static_cast<std::int64_t>(random() % 13));
        tensors.push_back(tensor);
    }
    return tensors;
}

} // namespace

TEST(RoundTrip, ReadsAnyRowsOfAnyTiling) {
    for (std::uint64_t const seed : support::seeds("RoundTrip.ReadsAnyRowsOfAnyTiling", 300)) {
        SCOPED_TRACE("EVENER_TEST_SEED=" + std::to_string(seed));
        std::mt19937_64 random{seed};
        TemporaryFolder const out;
        Description what = sample::description(120);
        what.tensors = random_tensors(random);
        std::string const folder = begin(out.path(), 120, 0);
        auto const writers = sample::write_slices(folder, seed, random(),
                                                  1 + static_cast<int>(random() % 4), what.tensors);
        CheckpointInfo const info = commit(out.path(), what, writers);
        EXPECT_EQ(verify(info.folder), std::vector<std::string>{});

        Check const check = random() % 2 ? Check::first_use : Check::whole_reads;
        CheckpointReader reader{info.folder, check, std::int64_t{4} << random() % 10};
        for (int repeat = 0; repeat < 20; ++repeat) {
            std::string const kind = what.kinds[random() % what.kinds.size()];
            TensorInfo const& tensor = what.tensors[random() % what.tensors.size()];
            auto const rows = static_cast<std::uint64_t>(tensor.rows());
            auto const begin = static_cast<std::int64_t>(random() % (rows + 1));
            core::Range const range{
                begin, begin + static_cast<std::int64_t>(
                                   random() % (rows - static_cast<std::uint64_t>(begin) + 1))};
            auto const expected = sample::values(seed, kind, tensor, range);
            std::vector<float> got(expected.size() + 1, -3.5f);
            reader.read(kind, tensor.name, range, got.data());
            EXPECT_EQ(got.back(), -3.5f);
            got.pop_back();
            EXPECT_EQ(sample::bits(got), sample::bits(expected));
        }
    }
}

TEST(RoundTrip, KeepsStateModelAndTexts) {
    TemporaryFolder const out;
    Description const what = sample::description(120);
    std::string const folder = sample::save(out.path(), 120);
    EXPECT_EQ(folder, (out / "step-00000120").string());
    EXPECT_EQ(sample::slurp(out / "latest"), "step-00000120\n");

    CheckpointReader const reader{folder};
    EXPECT_EQ(reader.manifest().state, what.state);
    EXPECT_EQ(reader.manifest().model, what.model);
    EXPECT_EQ(reader.manifest().tensors, what.tensors);
    EXPECT_EQ(reader.manifest().creator, what.creator);
    EXPECT_EQ(reader.text("job.toml"), what.job_toml);
    EXPECT_EQ(reader.text("plan.toml"), what.plan_toml);
    EXPECT_TRUE(reader.contains("moment2", "one"));
    EXPECT_FALSE(reader.contains("moment3", "one"));
}

TEST(RoundTrip, EqualStatesGiveEqualFiles) {
    TemporaryFolder const a;
    TemporaryFolder const b;
    std::string const first = sample::save(a.path(), 5);
    std::this_thread::sleep_for(
        std::chrono::milliseconds{1100}); // HDF5's time stamps are in seconds
    std::string const second = sample::save(b.path(), 5);
    for (auto const& entry : std::filesystem::directory_iterator{first})
        EXPECT_EQ(sample::slurp(entry.path()),
                  sample::slurp(second + "/" + entry.path().filename().string()))
            << entry.path();
}

TEST(RoundTrip, NamesWhatIsNotThere) {
    TemporaryFolder const out;
    std::string const folder = sample::save(out.path(), 1);
    CheckpointReader reader{folder};
    float value = 0;
    expect_error<core::CheckpointError>(
        [&] {
            reader.read("parameters", "two", {0, 1}, &value);
        },
        "checkpoint '" + folder + "': there is no tensor 'two' in it");
    expect_error<core::CheckpointError>(
        [&] {
            reader.read("moment3", "one", {0, 1}, &value);
        },
        "checkpoint '" + folder +
            "': there is no 'moment3' in it (it holds: parameters, moment1, moment2)");
    expect_error<core::CheckpointError>([&] { reader.text("notes.txt"); },
                                        "checkpoint '" + folder + "': it has no 'notes.txt'");
    EXPECT_THROW(reader.read("parameters", "one", {0, 2}, &value), core::ContractViolation);
}

TEST(RoundTrip, WritersResultTravelsAsText) {
    TemporaryFolder const folder;
    for (WriterResult const& result : sample::write_slices(folder.path(), 1, 2, 3))
        EXPECT_EQ(decode_writer_result(encode(result)), result);
    expect_error_containing<core::CheckpointError>([] { decode_writer_result("{}"); },
                                                   "'file' is missing");
}

// The 2 GiB limits of HDF5 and MPI-IO are about one call; here one slice is larger than that.
TEST(RoundTrip, SliceOverTwoGigabytes) {
    if (support::size() != support::Size::full)
        GTEST_SKIP() << "writes 2.2 GB: size full only";
    TemporaryFolder const out;
    TensorInfo const tensor{"large", {550'000'003}};
    std::vector<float> data(static_cast<std::size_t>(tensor.rows()));
    for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = static_cast<float>(i % 1'000'003);
    Description what = sample::description(1);
    what.tensors = {tensor};
    what.kinds = {"parameters"};
    std::string const folder = begin(out.path(), 1, payload_bytes(what.tensors, what.kinds));
    SliceWriter writer{folder, 0};
    writer.write({"parameters", "large", tensor.shape, {0, tensor.rows()}, data.data()});
    CheckpointInfo const info = commit(out.path(), what, {writer.finish()});

    std::vector<float> got(data.size());
    CheckpointReader reader{info.folder};
    reader.read("parameters", "large", {0, tensor.rows()}, got.data());
    EXPECT_TRUE(got == data);
    core::Range const tail{tensor.rows() - 5, tensor.rows()};
    reader.read("parameters", "large", tail, got.data());
    for (std::size_t i = 0; i < 5; ++i)
        EXPECT_EQ(got[i], data[data.size() - 5 + i]);
}

} // namespace evener::checkpoints
