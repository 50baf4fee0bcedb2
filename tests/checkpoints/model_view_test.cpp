// SPDX-License-Identifier: Apache-2.0

// model.h5 as a person sees it through h5py: every tensor whole, from any current folder; NaN where
// a data file is gone.

#include "checkpoints/manifest.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <gtest/gtest.h>

#include <filesystem>

namespace evener::checkpoints {

namespace fs = std::filesystem;

namespace {

// argv: checkpoint, output. Writes the raw bytes of every tensor, kind by kind, name by name.
constexpr char const* dump_script = R"py(
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

View dump(std::string const& folder) {
    support::TemporaryFolder const work;
    std::string names;
    for (TensorInfo const& tensor : sample::tensors())
        names += (names.empty() ? "" : ",") + tensor.name;
    support::ProcessOptions options;
    options.folder = work.path();
    auto const result =
        support::run_process({"/usr/bin/python3", "-c", dump_script, folder,
                              (work / "dump").string(), "parameters,moment1,moment2", names},
                             options);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return {sample::slurp(work / "dump"), result.output};
}

bool have_h5py() {
    return support::run_process({"/usr/bin/python3", "-c", "import h5py"}).exit_code == 0;
}

std::vector<std::uint32_t> words(std::string const& bytes) {
    std::vector<float> values(bytes.size() / 4);
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(values.data()));
    return sample::bits(values);
}

} // namespace

TEST(ModelView, ShowsEveryTensorWhole) {
    if (!have_h5py())
        GTEST_SKIP() << "python3-h5py is not installed";
    support::TemporaryFolder const out;
    sample::save(out.path(), 20, 2, 3);
    fs::rename(out / "step-00000020", out / "moved");
    std::vector<float> expected;
    for (std::string const& kind : sample::kinds())
        for (TensorInfo const& tensor : sample::tensors()) {
            auto const part = sample::values(2, kind, tensor, {0, tensor.rows()});
            expected.insert(expected.end(), part.begin(), part.end());
        }
    View const view = dump((out / "moved").string());
    EXPECT_EQ(words(view.bytes), sample::bits(expected));
    EXPECT_EQ(view.printed, "20\n");
}

TEST(ModelView, ShowsNaNForADeletedDataFile) {
    if (!have_h5py())
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
    EXPECT_EQ(words(dump(folder).bytes), expected);
}

} // namespace evener::checkpoints
