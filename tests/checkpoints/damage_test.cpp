// SPDX-License-Identifier: Apache-2.0

// Every bit of every file is covered: whatever is flipped, cut, zeroed or deleted is named by
// verify, never read as if it were good, and the finder takes the checkpoint before.

#include "checkpoints/manifest.hpp"
#include "checkpoints/reader.hpp"
#include "checkpoints/verify.hpp"
#include "core/error.hpp"
#include "support/message.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <random>

namespace evener::checkpoints {

namespace fs = std::filesystem;
using support::expect_error_containing;
using support::TemporaryFolder;

namespace {

using Lines = std::vector<std::string>;

bool names(Lines const& lines, std::string const& what) {
    return std::any_of(lines.begin(), lines.end(), [&](std::string const& line) {
        return line.find(what) != std::string::npos;
    });
}

/// Reads all rows of all tensors in halves and returns whether any read was refused. What is not
/// refused must be right.
bool refuses(std::string const& folder, std::uint64_t salt) {
    bool refused = false;
    try {
        CheckpointReader reader{folder};
        for (std::string const& kind : reader.manifest().kinds)
            for (TensorInfo const& tensor : reader.manifest().tensors)
                for (core::Range const rows : {core::Range{0, tensor.rows() / 2},
                                               core::Range{tensor.rows() / 2, tensor.rows()}}) {
                    auto const expected = sample::values(salt, kind, tensor, rows);
                    std::vector<float> got(expected.size());
                    try {
                        reader.read(kind, tensor.name, rows, got.data());
                        EXPECT_EQ(sample::bits(got), sample::bits(expected));
                    } catch (core::CheckpointError const&) {
                        refused = true;
                    }
                }
    } catch (core::CheckpointError const&) {
        refused = true;
    }
    return refused;
}

struct Damage {
    std::string name;
    void (*apply)(fs::path const&);
};

Damage const damages[] = {
    {"delete", [](fs::path const& path) { fs::remove(path); }},
    {"truncate", [](fs::path const& path) { fs::resize_file(path, fs::file_size(path) / 2); }},
    {"empty", [](fs::path const& path) { fs::resize_file(path, 0); }},
    {"append", [](fs::path const& path) { fs::resize_file(path, fs::file_size(path) + 1); }},
    {"zero",
     [](fs::path const& path) { sample::spill(path, std::string(fs::file_size(path), '\0')); }},
    {"become a folder", [](fs::path const& path) { fs::remove(path), fs::create_directory(path); }},
};

} // namespace

TEST(Damage, OfAnyFileIsNamedAndTheFinderTakesTheOlder) {
    for (char const* file : {"data-0000.h5", "data-0001.h5", "manifest.json"})
        for (Damage const& damage : damages) {
            SCOPED_TRACE(damage.name + " " + file);
            TemporaryFolder const out;
            sample::save(out.path(), 10, 1);
            std::string const folder = sample::save(out.path(), 20, 2);
            damage.apply(fs::path{folder} / file);
            EXPECT_TRUE(names(verify(folder), file)) << verify(folder).size();
            EXPECT_TRUE(refuses(folder, 2));
            Lines notices;
            auto const newest =
                find_newest_valid(out.path(), Depth::hashes,
                                  [&](std::string const& line) { notices.push_back(line); });
            ASSERT_TRUE(newest);
            EXPECT_EQ(newest->manifest.state.step, 10);
            EXPECT_TRUE(names(notices, folder) && names(notices, file));
        }
}

TEST(Damage, OfATextOrTheViewIsNamedAndDoesNotStopAResume) {
    for (char const* file : {"job.toml", "plan.toml", "model.h5"})
        for (Damage const& damage : damages) {
            SCOPED_TRACE(damage.name + " " + file);
            TemporaryFolder const out;
            std::string const folder = sample::save(out.path(), 20, 2);
            damage.apply(fs::path{folder} / file);
            EXPECT_TRUE(names(verify(folder), file));
            EXPECT_FALSE(refuses(folder, 2));
            EXPECT_TRUE(find_newest_valid(out.path(), Depth::hashes));
            CheckpointReader const reader{folder};
            EXPECT_THROW(reader.text(file), core::Error);
        }
}

TEST(Damage, OfOneSliceNamesThatSlice) {
    TemporaryFolder const out;
    std::string const folder = sample::save(out.path(), 20, 2);
    Manifest const manifest = read_manifest(folder);
    for (SliceRecord const& slice : manifest.slices) {
        fs::path const path = fs::path{folder} / slice.file;
        std::string const good = sample::slurp(path);
        std::string bad = good;
        bad[static_cast<std::size_t>(slice.offset + slice.bytes - 1)] ^= 0x10;
        sample::spill(path, bad);
        EXPECT_EQ(verify(folder), Lines{slice.file + ": " + slice.dataset() +
                                        ": its checksum is not the manifest's"});
        CheckpointReader reader{folder};
        std::vector<float> row(static_cast<std::size_t>(reader.tensor(slice.name).row_elements()));
        expect_error_containing<core::CheckpointError>(
            [&] {
                reader.read(slice.kind, slice.name, {slice.rows.begin, slice.rows.begin + 1},
                            row.data());
            },
            "'" + slice.dataset() + "' is damaged");
        sample::spill(path, good);
    }
    EXPECT_TRUE(verify(folder).empty());
}

// Also inside HDF5's own structure, from some of which the library would read wrong values.
TEST(Damage, OfAnyBitIsSeen) {
    TemporaryFolder const out;
    std::string const folder = sample::save(out.path(), 20, 2);
    std::vector<fs::path> files;
    for (auto const& entry : fs::directory_iterator{folder})
        files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (std::uint64_t const seed : support::seeds("Damage.OfAnyBitIsSeen", 2000)) {
        std::mt19937_64 random{seed};
        fs::path const& path = files[random() % files.size()];
        std::string const good = sample::slurp(path);
        std::string bad = good;
        std::size_t const place = random() % bad.size();
        bad[place] = static_cast<char>(bad[place] ^ 1 << random() % 8);
        sample::spill(path, bad);
        EXPECT_TRUE(names(verify(folder), path.filename().string())) << path << " byte " << place;
        bool const data = path.filename().string().starts_with("data-");
        EXPECT_EQ(refuses(folder, 2), data || path.filename() == "manifest.json") << path;
        sample::spill(path, good);
    }
    EXPECT_FALSE(refuses(folder, 2));
}

TEST(Damage, MissingFolderIsSaidToBeMissing) {
    EXPECT_EQ(verify("nowhere"), Lines{"checkpoint 'nowhere': there is no such folder"});
}

} // namespace evener::checkpoints
