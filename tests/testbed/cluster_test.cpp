// SPDX-License-Identifier: Apache-2.0

// The clusters themselves: several at once, nothing left behind, limits, and clear refusals.

#include "core/error.hpp"
#include "support/temporary_folder.hpp"

#include "testbed/cluster.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <thread>

namespace evener::testbed {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

class Clusters : public testing::Test {
  protected:
    void SetUp() override {
        if (std::string const lacks = missing({"hosts", "ping"}); !lacks.empty())
            GTEST_SKIP() << lacks;
    }
};

std::string text_of(std::filesystem::path const& path) {
    std::ifstream file{path};
    return {std::istreambuf_iterator<char>{file}, {}};
}

/// Processes of a PID namespace as /proc/PID/ns/pid names it.
int processes_of(std::string const& name) {
    int count = 0;
    for (auto const& entry : std::filesystem::directory_iterator{"/proc"}) {
        std::error_code none;
        count += std::filesystem::read_symlink(entry.path() / "ns/pid", none) == name ? 1 : 0;
    }
    return count;
}

/// What a cluster could leave on the machine itself.
std::set<std::string> traces() {
    std::set<std::string> found{text_of("/proc/self/mountinfo")};
    for (char const* const folder :
         {"/sys/class/net", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpuset"})
        if (std::filesystem::exists(folder))
            for (auto const& entry : std::filesystem::directory_iterator{folder})
                if (entry.path().string().find("evener-left") != std::string::npos ||
                    std::string{folder} == "/sys/class/net")
                    found.insert(entry.path().string());
    return found;
}

TEST_F(Clusters, OfDifferentNamesDoNotSeeEachOther) {
    Cluster const one{"one", {"a:2"}};
    std::optional<Cluster> two{std::in_place, "two", std::vector<std::string>{"a:1"}};
    EXPECT_EQ(one.expect({"on-host", "a2", "hostname"}), "a2\n");
    EXPECT_EQ(two->expect({"on-host", "a1", "hostname"}), "a1\n");
    EXPECT_EQ(two->script({"on-host", "a2", "hostname"}).exit_code, 1);
    one.expect({"on-host", "a1", "sleep 1000 >/dev/null 2>&1 &"});
    EXPECT_EQ(one.expect({"on-host", "a2", "pgrep -f -c '^sleep 1000'"}), "1\n");
    EXPECT_EQ(two->script({"on-host", "a1", "pgrep -f -c '^sleep 1000'"}).output, "0\n");
    two.reset();
    EXPECT_EQ(one.script({"on-host", "a1", "ping -q -c 1 -W 1 a2"}).exit_code, 0);
}

TEST_F(Clusters, LeaveNothingBehind) {
    auto const before = traces();
    std::filesystem::path state;
    std::string space;
    {
        Cluster const cluster{"left", {"a:1", "b:1"}};
        state = cluster.state();
        space = text_of(state / "namespace");
        space.pop_back();
        cluster.expect({"on-host", "a1", "setsid sleep 1000 >/dev/null 2>&1 &"});
        if (missing({"wan"}).empty())
            cluster.expect({"wan-up", "a", "b"});
        if (missing({"limits"}).empty())
            cluster.expect({"host-limit", "a1", "cpu=50", "mem=400"});
        EXPECT_GT(processes_of(space), 4);
    }
    EXPECT_FALSE(std::filesystem::exists(state));
    EXPECT_EQ(processes_of(space), 0);
    EXPECT_EQ(traces(), before);
}

// kill -9 leaves a program no time to clean up.
TEST_F(Clusters, GoWithTheirOwner) {
    pid_t const owner = fork();
    if (owner == 0) {
        execlp("sleep", "sleep", "1000", nullptr);
        _exit(127);
    }
    Cluster const cluster{"owned", {"a:1"}};
    cluster.expect({"hosts-up", "--owner", std::to_string(owner), "a:1"}); // in place of the first
    std::string space = text_of(cluster.state() / "namespace");
    space.pop_back();
    EXPECT_GT(processes_of(space), 0);

    kill(owner, SIGKILL);
    waitpid(owner, nullptr, 0);
    for (int i = 0; i < 100 && std::filesystem::exists(cluster.state()); ++i)
        std::this_thread::sleep_for(100ms);
    EXPECT_FALSE(std::filesystem::exists(cluster.state()));
    EXPECT_EQ(processes_of(space), 0);
}

TEST_F(Clusters, HaveSitesThatShareNoFolder) {
    support::TemporaryFolder const folder{"sites"};
    std::string const file = folder / "file";
    Cluster const cluster{"sites", {"a:2", "b:1"}};
    cluster.expect({"on-host", "b1", "echo of all >" + file});
    EXPECT_EQ(cluster.expect({"on-host", "a1", "cat", file}), "of all\n");
    cluster.expect({"site-own", "a", folder.path().string()});
    EXPECT_EQ(cluster.script({"on-host", "a1", "cat", file}).exit_code, 1);
    cluster.expect({"on-host", "a2", "echo of a >" + file});
    EXPECT_EQ(cluster.expect({"on-host", "a1", "cat", file}), "of a\n");
    EXPECT_EQ(cluster.expect({"on-host", "b1", "cat", file}), "of all\n");
    EXPECT_EQ(text_of(file), "of all\n");
}

TEST_F(Clusters, HaveHostsThatAreSlowAndSmall) {
    if (std::string const lacks = missing({"limits"}); !lacks.empty())
        GTEST_SKIP() << lacks;
    Cluster const cluster{"limits", {"a:2"}};
    cluster.expect({"host-limit", "a1", "cpu=25", "mem=60", "cpus=0"});
    EXPECT_EQ(cluster.expect({"on-host", "a1", "nproc"}), "1\n");
    // 25 % of a core: a tenth of a second of work was throttled at least once.
    std::string const group = "/sys/fs/cgroup/cpu/evener-" + cluster.name() + "-a1/cpu.stat";
    cluster.expect({"on-host", "a1", "timeout 0.4 sh -c 'while :; do :; done' || true"});
    EXPECT_THAT(cluster.expect({"on-host", "a1", "cat", group}),
                Not(HasSubstr("nr_throttled 0\n")));
    // tail keeps all of a line
    std::string const hungry = "head -c 150m /dev/zero | tail -n 1 >/dev/null";
    EXPECT_EQ(cluster.script({"on-host", "a1", hungry}).exit_code, 137);
    EXPECT_EQ(cluster.script({"on-host", "a2", hungry}).exit_code, 0);
}

TEST_F(Clusters, RefuseWhatTheyDoNotUnderstand) {
    auto const refusal = [](std::string const& sites) {
        try {
            Cluster const cluster{"refused", {sites}};
        } catch (core::Error const& error) {
            return std::string{error.what()};
        }
        return std::string{"no refusal"};
    };
    EXPECT_THAT(refusal("a2"), HasSubstr("hosts-up: 'a2' is no site (a name of letters, a colon, a "
                                         "number of hosts) write a:2"));
    Cluster const cluster{"refused", {"a:1"}};
    auto const says = [&](std::vector<std::string> const& words) {
        auto const result = cluster.script(words);
        EXPECT_EQ(result.exit_code, 1) << words[0];
        return result.errors;
    };
    EXPECT_EQ(says({"on-host", "b1", "true"}), "on-host: there is no host 'b1'\n");
    EXPECT_EQ(says({"host-limit", "a1", "speed=3"}),
              "host-limit: 'speed=3' is no limit (cpu, mem or cpus)\n");
    EXPECT_EQ(says({"wan-set", "a", "b", "loss=0"}),
              "wan-set: sites 'a' and 'b' are not joined, in this order\n");
    if (missing({"wan"}).empty()) {
        EXPECT_EQ(says({"wan-up", "a", "b"}), "wan-up: there is no site 'b'\n");
    }
    if (missing({"slurm"}).empty()) {
        EXPECT_EQ(says({"slurm-up", "a1:cpu=3"}),
                  "slurm-up: 'cpu=3' is no setting of host 'a1' (cpus, mem, gpu or feature)\n");
    }
    auto const usage = cluster.script({"hosts-up"});
    EXPECT_EQ(usage.exit_code, 2);
    EXPECT_THAT(usage.errors, HasSubstr("SITE:COUNT"));
}

} // namespace
} // namespace evener::testbed
