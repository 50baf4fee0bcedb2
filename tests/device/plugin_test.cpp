// SPDX-License-Identifier: Apache-2.0
#include "core/build_info.hpp"
#include "device/plugin.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace evener::device {
namespace {

namespace fs = std::filesystem;

void touch(fs::path const& file) {
    std::ofstream{file} << "not a library\n";
}

fs::path faulty(std::string const& fault) {
    return fs::path{FAULTY_PLUGIN_FOLDER} / ("libfaulty_plugin_" + fault + ".so");
}

class Plugin : public testing::Test {
  protected:
    void TearDown() override { unsetenv("EVENER_PLUGIN_PATH"); }
    support::TemporaryFolder folder{"plugin"};
};

TEST_F(Plugin, OfTheHighestLevelThatTheCpuRunsIsTaken) {
    touch(folder / "libevener_host_x86-64-v2.so");
    touch(folder / "libevener_host_x86-64-v4.so");
    EXPECT_EQ(find_host_plugin({folder.path()}, 4), folder / "libevener_host_x86-64-v4.so");
    EXPECT_EQ(find_host_plugin({folder.path()}, 3), folder / "libevener_host_x86-64-v2.so");
    EXPECT_EQ(find_host_plugin({folder.path()}, 2), folder / "libevener_host_x86-64-v2.so");
}

TEST_F(Plugin, TheLevelCountsMoreThanTheOrderOfTheFolders) {
    support::TemporaryFolder const later{"plugin"};
    touch(folder / "libevener_host_x86-64-v2.so");
    touch(later / "libevener_host_x86-64-v3.so");
    EXPECT_EQ(find_host_plugin({folder.path(), later.path()}, 4),
              later / "libevener_host_x86-64-v3.so");
}

TEST_F(Plugin, WithoutOneTheErrorSaysWhereItLooked) {
    support::expect_error<core::DeviceError>(
        [&] {
            find_host_plugin({folder.path(), "/nowhere"}, 3);
        },
        "no host plug-in that this CPU runs (looked for libevener_host_x86-64-v2.so to -v3.so in "
        "'" +
            folder.path().string() +
            "', '/nowhere') build with EVENER_HOST_LEVELS naming a level up to v3, or set "
            "EVENER_PLUGIN_PATH to the plug-in's folder");
    support::expect_error_containing<core::DeviceError>([&] { find_host_plugin({}, 0); },
                                                        "this CPU is older than x86-64-v2");
}

TEST_F(Plugin, PathVariableReplacesTheFolders) {
    setenv("EVENER_PLUGIN_PATH", "/a/b::/c:", 1);
    EXPECT_EQ(plugin_folders(), (std::vector<fs::path>{"/a/b", "/c"}));
    setenv("EVENER_PLUGIN_PATH", "", 1);
    auto const folders = plugin_folders();
    ASSERT_GE(folders.size(), 2u);
    EXPECT_EQ(folders[0], fs::read_symlink("/proc/self/exe").parent_path());
}

TEST_F(Plugin, ThatIsNoLibraryIsRefusedWithTheLoadersText) {
    fs::path const file = folder / "libevener_host_x86-64-v2.so";
    touch(file);
    support::expect_error_containing<core::DeviceError>(
        [&] { load_plugin(file); }, "plug-in '" + file.string() + "' cannot be loaded (");
    support::expect_error_containing<core::DeviceError>([&] { load_plugin(file); },
                                                        "file too short");
}

TEST_F(Plugin, OfAnotherVersionIsRefused) {
    support::expect_error_containing<core::DeviceError>(
        [] { load_plugin(faulty("version")); },
        "has version " + std::to_string(kernels::table_version + 1) +
            " of the device table (this program has " + std::to_string(kernels::table_version) +
            ") build and install program and plug-ins together");
}

TEST_F(Plugin, OfAnotherBuildIsRefused) {
    support::expect_error_containing<core::DeviceError>(
        [] { load_plugin(faulty("build")); },
        "is of build 0123456789abcdef (this program is of build " EVENER_BUILD_ID ") build and "
        "install program and plug-ins together");
}

TEST_F(Plugin, WithoutTheFunctionOrTheTableIsRefused) {
    support::expect_error_containing<core::DeviceError>(
        [] { load_plugin(faulty("symbol")); },
        "is no plug-in of Evener (it does not export evener_device_table)");
    support::expect_error_containing<core::DeviceError>([] { load_plugin(faulty("null")); },
                                                        "offers no device table");
}

TEST_F(Plugin, OfThisBuildOpens) {
    auto const device = open_device(Backend::host, {1});
    EXPECT_EQ(device->kind(), "host");
    EXPECT_FALSE(device->description().empty());
    EXPECT_EQ(device->threads(), 1);
    EXPECT_TRUE(device->supports(core::DType::float32));
}

} // namespace
} // namespace evener::device
