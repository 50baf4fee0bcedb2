// SPDX-License-Identifier: Apache-2.0
// Faults planted beneath a training job: what goes wrong on a device or in MPI is caught, or ends the
// job soon and with words. What is planted in programs is caught by their proof (schedule/mutants).
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "system/fake_gpus.hpp"
#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace evener::system_test {
namespace {

constexpr std::chrono::seconds soon{15};

class Faults : public testing::Test {
  protected:
    Faults() {
        config_.vocabulary = 33;
        config_.hidden_size = 24;
        config_.decoder_layers = 2;
        config_.heads = config_.kv_heads = 2;
        config_.head_size = 12;
        config_.ffn_size = 40;
        config_.sequence_length = 9;
        write_tokens(folder_ / "tokens.bin", config_.vocabulary, 300, 5);
    }

    std::int64_t layers() const { return 2 + 2 * config_.decoder_layers; }

    job::Job job(std::string const& name, std::int64_t steps = 3) const {
        job::Job result = small_job(config_, folder_ / "tokens.bin", folder_ / name, steps);
        result.train.batch_size = 6;
        result.train.microbatch_size = 2;
        return result;
    }

    /// Ranks 0 and 1 share all layers.
    job::Job one_group(std::string const& name) const {
        job::Job result = job(name);
        result.plan.groups = {even_group({0, 1}, layers())};
        return result;
    }

    /// Rank 0 has the first half of the layers, ranks 1 and 2 the second.
    job::Job two_groups(std::string const& name) const {
        job::Job result = job(name);
        result.plan.groups = {even_group({0}, layers() / 2),
                              even_group({1, 2}, layers() - layers() / 2)};
        return result;
    }

    /// On fake GPUs of their own.
    support::ProcessResult run(job::Job job, int ranks, std::uint64_t seed,
                               std::string const& fault,
                               std::vector<std::string> const& more = {}) const {
        job.run.devices = job::Devices::gpu;
        TrainOptions options{.ranks = ranks, .environment = fake_gpus(ranks, seed)};
        if (!fault.empty())
            options.environment.push_back("EVENER_HOSTCUDA_FAULT=" + fault);
        options.environment.insert(options.environment.end(), more.begin(), more.end());
        options.timeout = soon;
        return train(job, options);
    }

    bool same_as(std::string const& a, std::string const& b) const {
        return same_checkpoint(step_folder(folder_ / a, 3), step_folder(folder_ / b, 3));
    }

    struct Count {
        int planted = 0;
        int seen = 0; ///< by another result, or because the job ended with words
    };

    /// Plants the first `occasions` faults of the kind in rank 1, one a run. None may hang.
    Count plant(std::string const& kind, int occasions) const {
        EXPECT_EQ(run(two_groups("clean"), 3, 1, "").exit_code, 0);
        Count count;
        for (int occasion = 1; occasion <= occasions; ++occasion) {
            std::string const name = fmt::format("{}-{}", kind, occasion);
            auto const result = run(two_groups(name), 3, static_cast<std::uint64_t>(occasion) + 1,
                                    fmt::format("{}:{}@1", kind, occasion));
            EXPECT_FALSE(result.timed_out) << name << '\n' << result.errors;
            bool const planted = result.errors.find("planted: " + kind) != std::string::npos;
            bool const ended = result.exit_code != 0;
            bool const seen = ended || !same_as("clean", name);
            EXPECT_TRUE(planted || !seen) << name << '\n' << result.errors;
            fmt::print("{}: {}\n", name,
                       !planted ? "no occasion"
                       : ended  ? "ended the job"
                       : seen   ? "another result"
                                : "not seen");
            count.planted += planted;
            count.seen += seen;
        }
        return count;
    }

    support::TemporaryFolder folder_{"faults"};
    model::ModelConfig config_;
};

TEST_F(Faults, NoneChangesNothingWhateverTheOrderOfStreams) {
    ASSERT_EQ(run(two_groups("clean"), 3, 1, "").exit_code, 0);
    ASSERT_EQ(run(two_groups("other"), 3, 2, "dropped_wait:1000000").exit_code, 0);
    EXPECT_TRUE(same_as("clean", "other"));
}

/// Not each: some waits are implied by others.
TEST_F(Faults, ADroppedEventWaitShows) {
    Count const count = plant("dropped_wait", support::size() == support::Size::full ? 40 : 8);
    EXPECT_GE(count.planted, 4);
    EXPECT_GE(count.seen, 2);
}

/// Pinned memory is sent or filled again before its copy has ended.
TEST_F(Faults, APinnedBufferThatIsUsedTooEarlyShows) {
    Count const count = plant("early_event", support::size() == support::Size::full ? 40 : 8);
    EXPECT_GE(count.planted, 4);
    EXPECT_GE(count.seen, 2);
}

TEST_F(Faults, CollectivesInAnotherOrderEndTheJob) {
    auto const result = run(one_group("swapped"), 2, 1, "swapped_collectives:3@1");
    EXPECT_FALSE(result.timed_out) << result.errors;
    EXPECT_EQ(result.exit_code, 3) << result.errors;
    EXPECT_NE(result.errors.find("members of a communicator make different calls"),
              std::string::npos)
        << result.errors;
}

TEST_F(Faults, ARankThatDiesInACollectiveOfGpusEndsTheJob) {
    auto const result = run(one_group("dies"), 2, 1, "dies:4@1");
    EXPECT_FALSE(result.timed_out) << result.errors;
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.errors.find("signal 9"), std::string::npos) << result.errors;
}

/// The same under a launcher that lets the other ranks live: they must end by themselves.
TEST_F(Faults, AGroupThatLostARankIsAborted) {
    auto const result =
        run(one_group("lost"), 2, 1, "dies:4@1", {"OMPI_MCA_orte_enable_recovery=1"});
    EXPECT_FALSE(result.timed_out) << result.errors;
    EXPECT_NE(result.errors.find("MPI_ABORT was invoked on rank 0"), std::string::npos)
        << result.errors; // what mpirun exits with then is its own affair
    EXPECT_NE(result.errors.find("rank 0: instruction "), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find("remote process exited or there was a network error: rank 1 is "
                                 "gone"),
              std::string::npos)
        << result.errors;
}

TEST_F(Faults, ARankThatDiesInAnExchangeOfCpusEndsTheJob) {
    job::Job cpus = two_groups("exchange");
    cpus.run.devices = job::Devices::cpu;
    TrainOptions options{.ranks = 3, .environment = mpi_shim()};
    options.environment.emplace_back("EVENER_SHIM_DIES=9@2");
    options.timeout = soon;
    auto const result = train(cpus, options);
    EXPECT_FALSE(result.timed_out) << result.errors;
    EXPECT_NE(result.exit_code, 0);
    EXPECT_NE(result.errors.find("signal 9"), std::string::npos) << result.errors;
}

} // namespace
} // namespace evener::system_test
