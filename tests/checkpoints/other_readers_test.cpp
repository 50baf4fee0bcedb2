// SPDX-License-Identifier: Apache-2.0

// What other programs see: model.h5 through h5py (every tensor whole, from any current folder; NaN
// where a data file is gone), and the reader printed in FORMAT.md, which needs neither Evener nor
// HDF5.

#include "checkpoints/manifest.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <gtest/gtest.h>

#include <filesystem>

namespace evener::checkpoints {

namespace fs = std::filesystem;

namespace {

// argv: checkpoint, output, kinds, names. Writes the raw bytes of every tensor, kind by kind, name
// by name.
constexpr char const* view_script = R"py(
import sys, h5py
with h5py.File(sys.argv[1] + "/model.h5", "r") as view, open(sys.argv[2], "wb") as out:
    for kind in sys.argv[3].split(","):
        for name in sys.argv[4].split(","):
            data = view[kind][name]
            assert data.dtype == "<f4", data.dtype
            out.write(data[...].tobytes())
print(h5py.File(sys.argv[1] + "/model.h5", "r").attrs["step"].decode())
)py";

struct View {
    std::string bytes;
    std::string printed;
};

/// Runs a Python script with the checkpoint, an output file, the kinds and the names as arguments.
View dump(std::string const& script, std::string const& folder) {
    support::TemporaryFolder const work;
    std::string names;
    for (TensorInfo const& tensor : sample::tensors())
        names += (names.empty() ? "" : ",") + tensor.name;
    support::ProcessOptions options;
    options.folder = work.path();
    auto const result =
        support::run_process({"/usr/bin/python3", "-c", script, folder, (work / "dump").string(),
                              "parameters,moment1,moment2", names},
                             options);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return {sample::slurp(work / "dump"), result.output};
}

bool can_import(std::string const& module) {
    return support::run_process({"/usr/bin/python3", "-c", "import " + module}).exit_code == 0;
}

std::vector<std::uint32_t> words(std::string const& bytes) {
    std::vector<float> values(bytes.size() / 4);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
    return sample::bits(values);
}

/// Every tensor of every kind, one after the other.
std::vector<float> all_values(std::uint64_t salt) {
    std::vector<float> all;
    for (std::string const& kind : sample::kinds())
        for (TensorInfo const& tensor : sample::tensors()) {
            auto const part = sample::values(salt, kind, tensor, {0, tensor.rows()});
            all.insert(all.end(), part.begin(), part.end());
        }
    return all;
}

/// The Python block of FORMAT.md.
std::string documented_reader() {
    std::string const page = sample::slurp(support::source_root() / "checkpoints/FORMAT.md");
    std::string const fence = "```python\n";
    std::size_t const begin = page.find(fence) + fence.size();
    return page.substr(begin, page.find("```", begin) - begin);
}

} // namespace

TEST(ModelView, ShowsEveryTensorWhole) {
    if (!can_import("h5py"))
        GTEST_SKIP() << "python3-h5py is not installed";
    support::TemporaryFolder const out;
    sample::save(out.path(), 20, 2, 3);
    fs::rename(out / "step-00000020", out / "moved");
    View const view = dump(view_script, (out / "moved").string());
    EXPECT_EQ(words(view.bytes), sample::bits(all_values(2)));
    EXPECT_EQ(view.printed, "20\n");
}

TEST(ModelView, ShowsNaNForADeletedDataFile) {
    if (!can_import("h5py"))
        GTEST_SKIP() << "python3-h5py is not installed";
    support::TemporaryFolder const out;
    std::string const folder = sample::save(out.path(), 20, 2);
    Manifest const manifest = read_manifest(folder);
    fs::remove(folder + "/data-0001.h5");
    std::vector<std::uint32_t> expected;
    for (std::string const& kind : sample::kinds())
        for (TensorInfo const& tensor : sample::tensors()) {
            auto part = sample::bits(sample::values(2, kind, tensor, {0, tensor.rows()}));
            for (SliceRecord const& slice : manifest.slices)
                if (slice.kind == kind && slice.name == tensor.name && slice.file == "data-0001.h5")
                    std::fill(part.begin() + slice.rows.begin * tensor.row_elements(),
                              part.begin() + slice.rows.end * tensor.row_elements(), 0x7fc00000u);
            expected.insert(expected.end(), part.begin(), part.end());
        }
    EXPECT_EQ(words(dump(view_script, folder).bytes), expected);
}

TEST(Format, TheReaderInItsPageReads) {
    if (!can_import("numpy"))
        GTEST_SKIP() << "python3-numpy is not installed";
    support::TemporaryFolder const out;
    std::string const folder = sample::save(out.path(), 20, 2, 3);
    std::string const script = documented_reader() + R"py(
import sys
with open(sys.argv[2], "wb") as out:
    for kind in sys.argv[3].split(","):
        for tensor in sys.argv[4].split(","):
            out.write(load(sys.argv[1], kind, tensor).tobytes())
)py";
    EXPECT_EQ(words(dump(script, folder).bytes), sample::bits(all_values(2)));
}

} // namespace evener::checkpoints
