// SPDX-License-Identifier: Apache-2.0
#include "device/plugin.hpp"

#include "core/build_info.hpp"
#include "kernels/reference/reference.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace evener::device {

namespace {

namespace fs = std::filesystem;

constexpr char const* path_variable = "EVENER_PLUGIN_PATH";
constexpr char const* cuda_variable = "EVENER_DEVICE_PLUGIN";
constexpr char const* cuda_name = "libevener_cuda.so";

fs::path host_plugin_name(int level) {
    return fmt::format("libevener_host_x86-64-v{}.so", level);
}

[[noreturn]] void refuse(std::string const& message) {
    throw core::DeviceError{0, true, message};
}

std::vector<fs::path> split_path(std::string_view text) {
    std::vector<fs::path> folders;
    while (!text.empty()) {
        auto const end = std::min(text.find(':'), text.size());
        if (end > 0)
            folders.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return folders;
}

std::string join(std::vector<fs::path> const& folders) {
    std::vector<std::string> texts;
    for (fs::path const& folder : folders)
        texts.push_back("'" + folder.string() + "'");
    return fmt::format("{}", fmt::join(texts, ", "));
}

kernels::DeviceTable const& check(kernels::DeviceTable const* table, std::string const& origin) {
    if (table == nullptr)
        refuse(fmt::format("{} offers no device table", origin));
    if (table->version != kernels::table_version)
        refuse(fmt::format("{} has version {} of the device table (this program has {}) build and "
                           "install program and plug-ins together",
                           origin, table->version, kernels::table_version));
    if (std::strcmp(table->build_id, EVENER_BUILD_ID) != 0)
        refuse(fmt::format("{} is of build {} (this program is of build {}) build and install "
                           "program and plug-ins together",
                           origin, table->build_id, EVENER_BUILD_ID));
    return *table;
}

} // namespace

std::string_view name_of(Backend backend) {
    switch (backend) {
    case Backend::host:
        return "host";
    case Backend::reference:
        return "reference";
    case Backend::cuda:
        return "cuda";
    }
    return "?";
}

std::vector<fs::path> plugin_folders() {
    if (char const* const path = std::getenv(path_variable); path != nullptr && *path != '\0')
        return split_path(path);
    std::vector<fs::path> folders;
    std::error_code error;
    fs::path const program = fs::read_symlink("/proc/self/exe", error);
    if (!error) {
        folders.push_back(program.parent_path());
        folders.push_back((program.parent_path() / ".." / "lib").lexically_normal());
    }
    if (std::find(folders.begin(), folders.end(), fs::path{EVENER_PLUGIN_FOLDER}) == folders.end())
        folders.emplace_back(EVENER_PLUGIN_FOLDER);
    return folders;
}

int cpu_level() {
    if (__builtin_cpu_supports("x86-64-v4"))
        return 4;
    if (__builtin_cpu_supports("x86-64-v3"))
        return 3;
    return __builtin_cpu_supports("x86-64-v2") ? 2 : 0;
}

fs::path find_host_plugin(std::vector<fs::path> const& folders, int level) {
    for (int wanted = level; wanted >= 2; --wanted)
        for (fs::path const& folder : folders) {
            std::error_code error;
            if (fs::exists(folder / host_plugin_name(wanted), error))
                return folder / host_plugin_name(wanted);
        }
    if (level < 2)
        refuse("this CPU is older than x86-64-v2 (the host plug-in needs that at least) set "
               "devices = \"reference\", which is very slow, or leave this node out");
    refuse(fmt::format("no host plug-in that this CPU runs (looked for libevener_host_x86-64-v2.so "
                       "to -v{}.so in {}) build with EVENER_HOST_LEVELS naming a level up to v{}, "
                       "or set {} to the plug-in's folder",
                       level, join(folders), level, path_variable));
}

kernels::DeviceTable const& load_plugin(fs::path const& file) {
    dlerror(); // of earlier calls
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr) {
        char const* const text = dlerror();
        refuse(fmt::format("plug-in '{}' cannot be loaded ({}) install what is missing",
                           file.string(), text != nullptr ? text : "no reason given"));
    }
    auto const function = reinterpret_cast<kernels::DeviceTableFunction>(
        dlsym(library, kernels::device_table_symbol));
    if (function == nullptr)
        refuse(fmt::format("'{}' is no plug-in of Evener (it does not export {})", file.string(),
                           kernels::device_table_symbol));
    return check(function(), fmt::format("plug-in '{}'", file.string()));
}

int driver_gpu_count() {
    // The driver's own library: a node may have it and not the toolkit's.
    void* const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (driver == nullptr)
        return 0;
    auto const initialize = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
    auto const get_count = reinterpret_cast<int (*)(int*)>(dlsym(driver, "cuDeviceGetCount"));
    int count = 0;
    if (initialize == nullptr || get_count == nullptr || initialize(0) != 0 ||
        get_count(&count) != 0)
        return 0;
    return count;
}

namespace {

/// The CUDA plug-in's file; empty when there is none to open.
fs::path find_cuda_plugin() {
    if (char const* const file = std::getenv(cuda_variable); file != nullptr && *file != '\0')
        return file;
    int const gpus = driver_gpu_count();
    if (gpus == 0)
        return {};
    for (fs::path const& folder : plugin_folders()) {
        std::error_code error;
        if (fs::exists(folder / cuda_name, error))
            return folder / cuda_name;
    }
    refuse(fmt::format("the driver sees {} GPU{} but there is no {} (looked for in {}) build with "
                       "the CUDA toolkit (-DEVENER_CUDA=ON), or set devices = \"cpu\"",
                       gpus, gpus == 1 ? "" : "s", cuda_name, join(plugin_folders())));
}

kernels::DeviceTable const* cuda_table() {
    fs::path const file = find_cuda_plugin();
    if (file.empty())
        return nullptr;
    kernels::DeviceTable const& table = [&]() -> kernels::DeviceTable const& {
        try {
            return load_plugin(file);
        } catch (core::DeviceError const& error) {
            refuse(fmt::format("{}, set {} to another file, or set devices = \"cpu\"", error.what(),
                               cuda_variable));
        }
    }();
    if (table.memory == nullptr)
        refuse(fmt::format("plug-in '{}' has no memory table (it is of kind '{}') set {} to {} or "
                           "leave it out",
                           file.string(), table.kind, cuda_variable, cuda_name));
    return &table;
}

} // namespace

std::vector<Gpu> find_gpus() {
    std::vector<Gpu> gpus;
    kernels::DeviceTable const* const table = cuda_table();
    if (table == nullptr)
        return gpus;
    kernels::Reason reason;
    int const count = table->memory->count_devices(&reason);
    if (count < 0)
        refuse(fmt::format("GPUs cannot be counted ({}) set devices = \"cpu\" to go on without",
                           reason.text));
    for (int ordinal = 0; ordinal < count; ++ordinal) {
        Gpu& gpu = gpus.emplace_back();
        gpu.ordinal = ordinal;
        if (table->memory->describe(ordinal, &gpu.facts, &reason) != 0)
            refuse(fmt::format("GPU {} cannot be asked what it is ({})", ordinal, reason.text));
    }
    return gpus;
}

std::unique_ptr<Device> open_device(Backend backend, kernels::DeviceOptions const& options) {
    if (backend == Backend::reference)
        return std::make_unique<Device>(
            check(kernels::reference::reference_table(), "the reference"), options);
    if (backend == Backend::cuda) {
        kernels::DeviceTable const* const table = cuda_table();
        if (table == nullptr)
            refuse("this process sees no GPU (devices = \"gpu\" needs one) start it on nodes with "
                   "GPUs, or set devices = \"auto\"");
        return std::make_unique<Device>(*table, options);
    }
    return std::make_unique<Device>(load_plugin(find_host_plugin(plugin_folders(), cpu_level())),
                                    options);
}

} // namespace evener::device
