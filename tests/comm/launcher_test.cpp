// SPDX-License-Identifier: Apache-2.0
#include "comm/keepalive.hpp"
#include "comm/mpi_session.hpp"
#include "comm/transport.hpp"
#include "support/message.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace evener::comm {
namespace {

using Environment = std::map<std::string, std::string>;

std::string announced(Environment const& environment) {
    auto const found = announced_ranks([&](char const* name) -> char const* {
        auto const entry = environment.find(name);
        return entry == environment.end() ? nullptr : entry->second.c_str();
    });
    return found ? found->variable + "=" + std::to_string(found->ranks) : "nothing";
}

TEST(Launcher, AProcessStartedAloneAnnouncesNothing) {
    EXPECT_EQ(announced({}), "nothing");
}

TEST(Launcher, SrunCountsOnlyInsideAStep) {
    EXPECT_EQ(announced({{"SLURM_NTASKS", "8"}}), "nothing");
    EXPECT_EQ(announced({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}), "nothing");
    EXPECT_EQ(announced({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_ID", "0"}}),
              "SLURM_NTASKS=8");
    EXPECT_EQ(announced({{"SLURM_NTASKS", "8"},
                         {"SLURM_STEP_NUM_TASKS", "4"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_STEP_ID", "0"}}),
              "SLURM_STEP_NUM_TASKS=4");
}

TEST(Launcher, MpirunsWordCountsBeforeThatOfTheStepItsDaemonsRunIn) {
    EXPECT_EQ(announced({{"OMPI_COMM_WORLD_SIZE", "2"},
                         {"SLURM_NTASKS", "8"},
                         {"SLURM_PROCID", "3"},
                         {"SLURM_STEP_ID", "0"}}),
              "OMPI_COMM_WORLD_SIZE=2");
}

TEST(Launcher, PmiCounts) {
    EXPECT_EQ(announced({{"PMI_SIZE", "16"}}), "PMI_SIZE=16");
}

TEST(Launcher, WhatIsNoNumberAnnouncesNothing) {
    EXPECT_EQ(announced({{"PMI_SIZE", "16(x2)"}}), "nothing");
    EXPECT_EQ(announced({{"PMI_SIZE", ""}}), "nothing");
    EXPECT_EQ(announced({{"PMI_SIZE", "-4"}}), "nothing");
}

std::string hint(Environment const& environment) {
    return missing_pmi([&](char const* name) -> char const* {
        auto const entry = environment.find(name);
        return entry == environment.end() ? nullptr : entry->second.c_str();
    });
}

TEST(Launcher, SrunWithoutPmiIsSaidBeforeMpiStarts) {
    Environment step{{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "0"}};
    EXPECT_EQ(hint(step), "srun started 4 processes (SLURM_STEP_NUM_TASKS) without PMIx or PMI; if "
                          "MPI does not start now, use srun --mpi=pmix");
    for (char const* const told : {"PMIX_RANK", "PMI_RANK", "PMI_FD", "OMPI_COMM_WORLD_SIZE"}) {
        Environment with_pmi = step;
        with_pmi[told] = "0";
        EXPECT_EQ(hint(with_pmi), "") << told;
    }
    step["SLURM_STEP_NUM_TASKS"] = "1";
    EXPECT_EQ(hint(step), "");
    EXPECT_EQ(hint({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}), "") << "in the batch script";
}

TEST(Launcher, MpirunOverSeveralHostsNeedsToLookForDeadOnes) {
    auto const warning = [](Environment const& environment, std::vector<std::string> const& hosts,
                            std::string_view library) {
        return missing_keepalive(
            [&](char const* name) -> char const* {
                auto const entry = environment.find(name);
                return entry == environment.end() ? nullptr : entry->second.c_str();
            },
            hosts, library);
    };
    Environment const mpirun{{"OMPI_MCA_orte_launch", "1"}};
    Environment given = mpirun;
    given["OMPI_MCA_oob_tcp_keepalive_time"] = "4";
    std::string const text = warning(mpirun, {"a", "a", "b"}, "Open MPI v4.1.4");
    for (char const* const parameter :
         {"--mca oob_tcp_keepalive_time 4", "--mca oob_tcp_keepalive_intvl 2",
          "--mca oob_tcp_keepalive_probes 3"})
        EXPECT_NE(text.find(parameter), std::string::npos) << text;
    EXPECT_EQ(warning(mpirun, {"a", "a"}, "Open MPI v4.1.4"), "");
    EXPECT_EQ(warning(given, {"a", "b"}, "Open MPI v4.1.4"), "");
    EXPECT_EQ(warning({}, {"a", "b"}, "Open MPI v4.1.4"), "") << "srun";
    EXPECT_EQ(warning(mpirun, {"a", "b"}, "Open MPI v5.0.1"), "");
}

class TransportEnvironment : public testing::Test {
  protected:
    void TearDown() override {
        unsetenv("EVENER_SYNCHRONOUS_SENDS");
        unsetenv("EVENER_RANDOM_DELAYS");
    }
    static void set(char const* name, char const* value) { setenv(name, value, 1); }
};

TEST_F(TransportEnvironment, IsReadWhereSet) {
    EXPECT_FALSE(TransportOptions::from_environment().synchronous_sends);
    EXPECT_FALSE(TransportOptions::from_environment().random_delays);
    set("EVENER_SYNCHRONOUS_SENDS", "1");
    set("EVENER_RANDOM_DELAYS", "7:500");
    auto const options = TransportOptions::from_environment();
    EXPECT_TRUE(options.synchronous_sends);
    ASSERT_TRUE(options.random_delays);
    EXPECT_EQ(options.random_delays->seed, 7u);
    EXPECT_EQ(options.random_delays->max_microseconds, 500);
}

TEST_F(TransportEnvironment, RefusesWhatItDoesNotUnderstand) {
    set("EVENER_SYNCHRONOUS_SENDS", "yes");
    support::expect_error<core::ConfigError>(
        [] { TransportOptions::from_environment(); },
        "error: EVENER_SYNCHRONOUS_SENDS is 'yes' (a switch) set it to 0 or 1");
    set("EVENER_SYNCHRONOUS_SENDS", "0");
    for (char const* const text : {"", "7", "7:", ":5", "7:5us", "x:5", "7:-1"}) {
        set("EVENER_RANDOM_DELAYS", text);
        support::expect_error_containing<core::ConfigError>(
            [] { TransportOptions::from_environment(); },
            "(it is SEED:MAX_MICROSECONDS) set it to two numbers such as 7:500");
    }
}

} // namespace
} // namespace evener::comm
