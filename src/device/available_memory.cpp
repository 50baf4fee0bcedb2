// SPDX-License-Identifier: Apache-2.0

// What memory this process may still take: /proc/meminfo of the node, and the limits of the control
// groups (version 1 and 2) that batch systems and containers put around a job. A group's page cache
// counts as used there but is given back, so it is not subtracted.

#include "device/arena.hpp"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace evener::device {

namespace {

namespace fs = std::filesystem;

std::optional<std::int64_t> read_number(fs::path const& file) {
    std::ifstream stream{file};
    std::int64_t value = 0;
    if (stream >> value)
        return value;
    return std::nullopt; // not there, or "max"
}

/// The number after `key` in a file of "key number" lines.
std::optional<std::int64_t> read_field(fs::path const& file, std::string const& key) {
    std::ifstream stream{file};
    std::string line;
    while (std::getline(stream, line)) {
        std::istringstream words{line};
        std::string name;
        std::int64_t value = 0;
        if (words >> name >> value && name == key)
            return value;
    }
    return std::nullopt;
}

/// File names of one version of control groups.
struct GroupFiles {
    char const* limit;
    char const* usage;
    char const* cache; ///< field of memory.stat
};
constexpr GroupFiles version_1{"memory.limit_in_bytes", "memory.usage_in_bytes",
                               "total_inactive_file"};
constexpr GroupFiles version_2{"memory.max", "memory.current", "inactive_file"};

/// The tightest of what the group and those around it leave. `group` is "/a/b" below `mount`.
std::optional<std::int64_t> left_in_groups(fs::path const& mount, fs::path group,
                                           GroupFiles const& files) {
    std::optional<std::int64_t> least;
    for (;;) {
        fs::path const folder = mount / group.relative_path();
        auto const limit = read_number(folder / files.limit);
        auto const usage = read_number(folder / files.usage);
        if (limit && usage) {
            auto const cache = read_field(folder / "memory.stat", files.cache).value_or(0);
            std::int64_t const left = std::max<std::int64_t>(0, *limit - *usage + cache);
            least = std::min(least.value_or(left), left);
        }
        if (!group.has_relative_path())
            return least;
        group = group.parent_path();
    }
}

/// "memory" is in the comma-separated list.
bool names_memory(std::string const& controllers) {
    return ("," + controllers + ",").find(",memory,") != std::string::npos;
}

std::optional<std::int64_t> left_in_all_groups(fs::path const& root) {
    std::optional<std::int64_t> least;
    std::ifstream stream{root / "proc/self/cgroup"};
    std::string line; // id:controllers:/path
    while (std::getline(stream, line)) {
        auto const first = line.find(':');
        auto const second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos)
            continue;
        std::string const controllers = line.substr(first + 1, second - first - 1);
        fs::path const group = line.substr(second + 1);
        std::optional<std::int64_t> left;
        if (controllers.empty())
            left = left_in_groups(root / "sys/fs/cgroup", group, version_2);
        else if (names_memory(controllers))
            left = left_in_groups(root / "sys/fs/cgroup/memory", group, version_1);
        if (left)
            least = std::min(least.value_or(*left), *left);
    }
    return least;
}

} // namespace

std::int64_t available_memory_bytes(fs::path const& root) {
    std::optional<std::int64_t> available = left_in_all_groups(root);
    if (auto const kibibytes = read_field(root / "proc/meminfo", "MemAvailable:")) {
        std::int64_t const bytes = *kibibytes * 1024;
        available = std::min(available.value_or(bytes), bytes);
    }
    return available.value_or(-1);
}

} // namespace evener::device
