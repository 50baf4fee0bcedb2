// SPDX-License-Identifier: Apache-2.0

// Training over several hosts with mpirun: the same bits as on one, also over a slow link; and the end
// of a job whose host dies.

#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "testbed/cluster.hpp"
#include "testbed/training.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <thread>

namespace evener::testbed {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr std::int64_t steps = 4;

class Hosts : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        if (!missing({"hosts", "wan", "ping"}).empty())
            return;
        write_training_data(folder());
        cluster_ = std::make_unique<Cluster>("hosts", std::vector<std::string>{"a:2", "b:1"}, 2);
    }
    static void TearDownTestSuite() { cluster_.reset(); }

    void SetUp() override {
        if (!cluster_)
            GTEST_SKIP() << missing({"hosts", "wan", "ping"});
    }

    static std::filesystem::path folder() {
        static support::TemporaryFolder const folder{"hosts"};
        return folder.path();
    }

    /// The same job on this machine without a cluster, once.
    static void train_alone() {
        if (std::filesystem::exists(folder() / "alone"))
            return;
        auto const result =
            system_test::train(training_job(folder(), "alone", steps), {.ranks = 4});
        ASSERT_EQ(result.exit_code, 0) << result.errors;
    }

    /// mpirun of a job on the ranks of these hosts ("a1:2,a2:2").
    static std::vector<std::string> mpirun(std::string const& hosts, job::Job const& job) {
        std::vector<std::string> words{"mpirun-hosts", "--host", hosts, "-n", "4"};
        for (auto const& [name, value] :
             {std::pair{"time", "4"}, {"intvl", "2"}, {"probes", "3"}}) {
            words.push_back("--mca");
            words.push_back(std::string{"oob_tcp_keepalive_"} + name);
            words.push_back(value);
        }
        auto const command = system_test::train_command(job);
        words.insert(words.end(), command.begin(), command.end());
        return words;
    }

    static bool reaches(std::string const& from, std::string const& to) {
        return cluster_->script({"on-host", from, "ping -q -c 1 -W 1", to}).exit_code == 0;
    }

    static std::unique_ptr<Cluster> cluster_;
};

std::unique_ptr<Cluster> Hosts::cluster_;

TEST_F(Hosts, HaveNamesMemoryAndNetworksOfTheirOwn) {
    std::string const places = support::program("testbed_places").string();
    EXPECT_EQ(cluster_->expect({"mpirun-hosts", "--host", "a1:2,a2:1", "-n", "3", places}),
              "rank 0 of 3 on a1 with 2\nrank 1 of 3 on a1 with 2\nrank 2 of 3 on a2 with 1\n");
    EXPECT_TRUE(reaches("a1", "a2"));
    EXPECT_FALSE(reaches("a1", "b1")) << "sites are not joined yet";
    EXPECT_EQ(cluster_->script({"on-host", "b1", "touch", "/dev/shm/mine;", "exit", "3"}).exit_code,
              3);
    EXPECT_EQ(cluster_->script({"on-host", "a1", "test -e /dev/shm/mine"}).exit_code, 1);
    EXPECT_EQ(cluster_->script({"on-host", "c1", "true"}).exit_code, 1);
}

TEST_F(Hosts, TrainTogetherToTheBitsOfOneHost) {
    train_alone();
    cluster_->expect(mpirun("a1:2,a2:2", training_job(folder(), "together", steps)));
    expect_same_run(folder() / "alone", folder() / "together", steps);
}

/// What both directions of the link took in, from its statistics.
std::uint64_t bytes_over(Cluster const& cluster, std::string const& link) {
    std::ifstream file{cluster.state() / (link + ".stats")};
    std::uint64_t sum = 0;
    for (std::string word; file >> word;)
        if (word.starts_with("bytes_in="))
            sum += std::stoull(word.substr(9));
    return sum;
}

// The rate is not that slow, since a job measures its links with some 20 MB when it starts.
TEST_F(Hosts, OfTwoSitesTrainOverASlowLinkThatLosesPackets) {
    train_alone();
    cluster_->expect({"wan-up", "a", "b", "delay_ms=3", "rate_mbit=400", "loss=0.0005", "seed=3"});
    EXPECT_THAT(cluster_->expect({"wan-set", "a", "b", "ba.delay_ms=5"}), HasSubstr("delay_ms=5"));
    // There and back again are 8 ms by the kernel's clock, never less.
    std::string const ping = cluster_->expect({"on-host", "a1", "ping -q -c 2 -i 0.2 b1"});
    EXPECT_GE(std::stod(ping.substr(ping.find("mdev = ") + 7)), 8.0) << ping;
    cluster_->expect(mpirun("a1:2,b1:2", training_job(folder(), "apart", steps)));
    expect_same_run(folder() / "alone", folder() / "apart", steps);
    EXPECT_GT(bytes_over(*cluster_, "wan-a-b"), 20'000u);
    cluster_->expect({"wan-down", "a", "b"});
    EXPECT_FALSE(reaches("a1", "b1"));
}

/// Waits until the run has trained that many steps; false after a minute.
bool has_trained(std::filesystem::path const& run, std::size_t steps) {
    auto const deadline = std::chrono::steady_clock::now() + 60s;
    while (std::chrono::steady_clock::now() < deadline) {
        if (std::filesystem::exists(run / "metrics.jsonl") &&
            system_test::metrics(run, "loss").size() >= steps)
            return true;
        std::this_thread::sleep_for(100ms);
    }
    return false;
}

// Last in this file: the death of a2. The job is given up within 15 s, no rank is left on the others,
// and with the host back it resumes.
TEST_F(Hosts, ThatDieEndTheJobWhichResumesWhenTheyAreBack) {
    job::Job job = training_job(folder(), "long", 1'000'000);
    job.checkpoint.every = 2;
    auto running = std::async(std::launch::async, [&] {
        auto const result = cluster_->script(mpirun("a1:2,a2:2", job), 90s);
        return std::pair{result, std::chrono::steady_clock::now()};
    });
    ASSERT_TRUE(has_trained(job.run.out, 5)) << running.get().first.errors;
    auto const death = std::chrono::steady_clock::now();
    cluster_->expect({"host-kill", "a2"});
    EXPECT_FALSE(reaches("a1", "a2"));
    auto const [result, end] = running.get();
    EXPECT_FALSE(result.timed_out);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_LT(end - death, 15s) << result.errors;
    EXPECT_EQ(cluster_->script({"on-host", "a1", "pgrep evener"}).exit_code, 1) << "ranks are left";

    cluster_->expect({"host-revive", "a2"});
    auto const trained = system_test::metrics(job.run.out, "loss").rbegin()->first;
    job.train.steps = trained + 2;
    std::string const log = cluster_->script(mpirun("a1:2,a2:2", job)).errors;
    EXPECT_THAT(log, HasSubstr("resum"));
    EXPECT_EQ(system_test::metrics(job.run.out, "loss").size(),
              static_cast<std::size_t>(trained + 2));
}

} // namespace
} // namespace evener::testbed
