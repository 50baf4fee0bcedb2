// SPDX-License-Identifier: Apache-2.0

// Every way in which a batch job of the templates can end, without a Slurm.

#include "support/paths.hpp"

#include "slurm/fake_slurm.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace evener::slurm_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char const* requeued = "requeue 7\n";
constexpr char const* templates[] = {"evener.sbatch", "hetjob.sbatch", "mpirun.sbatch"};

/// The launcher saves a newer checkpoint each time.
constexpr char const* saves =
    "echo step >>$RUN/steps; echo step-$(wc -l <$RUN/steps) >$RUN/latest\n";

TEST(Templates, StartAllRanksWithTheWordsOfTheirLauncher) {
    std::string const train = "/tests/slurm/fakes/evener train my.toml";
    std::string const root = support::source_root().string();
    std::string const words[] = {
        "--mpi=pmix --ntasks=6 --ntasks-per-node=3 --cpus-per-task=5 --kill-on-bad-exit=1 " + root +
            train,
        "--het-group=0 --mpi=pmix --ntasks=4 --kill-on-bad-exit=1 --cpus-per-task=2 " + root +
            train +
            " : --het-group=1 --mpi=pmix --ntasks=6 --kill-on-bad-exit=1 --cpus-per-task=5 " +
            root + train,
        "-n 6 --map-by ppr:3:node --bind-to none --oversubscribe --mca oob_tcp_keepalive_time 4 "
        "--mca "
        "oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 " +
            root + train};
    for (int i = 0; i < 3; ++i) {
        FakeSlurm slurm{templates[i]};
        slurm.launch("exit 0");
        auto const result = slurm.run();
        EXPECT_EQ(result.exit_code, 0) << templates[i] << result.errors;
        EXPECT_EQ(slurm.noted("launched"), words[i] + "\n");
        EXPECT_EQ(slurm.noted("controlled"), "") << templates[i];
    }
}

TEST(Templates, RequeueAfterTheExitCodeThatSaysResumable) {
    for (char const* const script : templates) {
        FakeSlurm slurm{script};
        slurm.launch("exit 75");
        EXPECT_EQ(slurm.run().exit_code, 75) << script;
        EXPECT_EQ(slurm.noted("controlled"), requeued) << script;
    }
}

TEST(Templates, AreAlikeButForTheirLauncher) {
    std::vector<std::string> ends;
    for (char const* const script : templates) {
        std::ifstream const file{support::source_root() / "slurm" / script};
        std::ostringstream text;
        text << file.rdbuf();
        auto const begin = text.str().find("# From here on the templates are alike");
        ASSERT_NE(begin, std::string::npos) << script;
        ends.push_back(text.str().substr(begin));
        for (char const* const line : {"#SBATCH --open-mode=append\n", "#SBATCH --requeue\n",
                                       "#SBATCH --signal=B:USR1@", "#SBATCH --nodes=1-"})
            EXPECT_THAT(text.str(), HasSubstr(line)) << script;
    }
    EXPECT_EQ(ends[0], ends[1]);
    EXPECT_EQ(ends[0], ends[2]);
}

TEST(Templates, EndWithAnyOtherExitCodeOfTheLauncher) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("exit 5");
    auto const result = slurm.run();
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_THAT(result.errors, HasSubstr("exit code 5 is none to requeue after (75)"));
    EXPECT_EQ(slurm.noted("controlled"), "");
}

TEST(Templates, RequeueAfterOtherCodesThatTheSiteNames) {
    for (char const* const codes : {"REQUEUE_CODES=75:5", "REQUEUE_CODES=5 75"}) {
        FakeSlurm slurm{"evener.sbatch"};
        slurm.launch("exit 5");
        EXPECT_EQ(slurm.run({codes}).exit_code, 5);
        EXPECT_EQ(slurm.noted("controlled"), requeued);
    }
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("exit 5");
    slurm.run({"REQUEUE_CODES=75:15"});
    EXPECT_EQ(slurm.noted("controlled"), "");
}

TEST(Templates, RequeueWhenANodeDoesNotRespondOrAnswer) {
    for (char const* const states : {"allocated*\nallocated\n", "allocated\ndown\n"}) {
        FakeSlurm slurm{"evener.sbatch"};
        slurm.launch("exit 137");
        slurm.write("states", states);
        auto const result = slurm.run();
        EXPECT_EQ(result.exit_code, 137);
        EXPECT_EQ(slurm.noted("controlled"), requeued) << states;
        EXPECT_THAT(result.errors, HasSubstr("not all of the nodes 'n[1-2]' answer: requeued"));
    }
    for (char const* const script : templates) {
        FakeSlurm slurm{script};
        slurm.launch("exit 137");
        slurm.write("ask", "1");
        slurm.run();
        EXPECT_EQ(slurm.noted("controlled"), requeued) << script;
    }
}

TEST(Templates, PassTheSignalBeforeTheLimitOnAndRequeue) {
    for (char const* const script : templates) {
        FakeSlurm slurm{script};
        slurm.launch("trap 'echo step-2 >$RUN/latest; sleep 0.7; exit 75' USR1\n"
                     "touch $FAKE/started; for i in {1..200}; do sleep 0.1; done");
        // The second is what Slurm sends at the limit itself, while the launcher is still saving.
        auto const result = slurm.run_and_signal({"USR1", "TERM"});
        EXPECT_EQ(result.exit_code, 75) << script;
        EXPECT_THAT(result.errors, HasSubstr("requeued, to resume from 'step-2'")) << script;
        EXPECT_EQ(slurm.noted("controlled"), requeued) << script;
    }
}

TEST(Templates, AreNotRequeuedWhenTheyWereCancelled) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("trap 'exit 75' TERM\n"
                 "touch $FAKE/started; for i in {1..200}; do sleep 0.1; done");
    EXPECT_EQ(slurm.run_and_signal({"TERM"}).exit_code, 75);
    EXPECT_EQ(slurm.noted("controlled"), "");
}

TEST(Templates, StopAfterRestartsWithoutProgress) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("exit 75");
    for (int restart = 0; restart < 2; ++restart)
        EXPECT_THAT(slurm.run({"RESTARTS=2"}).errors, HasSubstr("requeued")) << restart;
    auto const result = slurm.run({"RESTARTS=2"});
    EXPECT_EQ(result.exit_code, 75);
    EXPECT_THAT(result.errors, HasSubstr("2 restarts brought nothing newer than 'nothing'"));
    EXPECT_EQ(slurm.noted("controlled"), "requeue 7\nrequeue 7\n");
    // Submitted again it has as many tries.
    slurm.job = 8;
    slurm.run({"RESTARTS=2"});
    EXPECT_EQ(slurm.noted("controlled"), "requeue 7\nrequeue 7\nrequeue 8\n");
}

TEST(Templates, GoOnForAsLongAsThereIsProgress) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch(std::string{saves} + "exit 75");
    for (int restart = 0; restart < 4; ++restart)
        slurm.run({"RESTARTS=1"});
    EXPECT_EQ(slurm.noted("controlled"), "requeue 7\nrequeue 7\nrequeue 7\nrequeue 7\n");
    slurm.launch("exit 75");
    for (int restart = 0; restart < 3; ++restart)
        slurm.run({"RESTARTS=1"});
    EXPECT_EQ(slurm.noted("controlled"), "requeue 7\nrequeue 7\nrequeue 7\nrequeue 7\nrequeue 7\n");
}

// After a node failure Slurm ends the script before it can decide anything.
TEST(Templates, CountRestartsThatSlurmMadeItself) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("kill -KILL $PPID");
    for (int restart = 0; restart < 3; ++restart)
        EXPECT_EQ(slurm.run({"RESTARTS=2"}).exit_code, 137) << restart;
    auto const result = slurm.run({"RESTARTS=2"});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, HasSubstr("given up"));
    EXPECT_EQ(slurm.noted("controlled"), "");
}

TEST(Templates, TellWhenTheJobEndsWhereSlurmDoesNot) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("echo ends ${SLURM_JOB_END_TIME:-never} >&2");
    EXPECT_THAT(slurm.run().errors, HasSubstr("ends never"));
    slurm.write("end", "2033-05-18T03:33:20\n2035-01-01T00:00:00\n");
    EXPECT_THAT(slurm.run({"TZ=UTC"}).errors, HasSubstr("ends 2000000000"));
    EXPECT_THAT(slurm.run({"SLURM_JOB_END_TIME=5"}).errors, HasSubstr("ends 5"));
}

TEST(Templates, SayWhenTheSiteDoesNotRequeue) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("exit 75");
    slurm.write("refuse", "");
    auto const result = slurm.run();
    EXPECT_EQ(result.exit_code, 75);
    EXPECT_THAT(result.errors, HasSubstr("submit it again"));
}

TEST(Templates, EndBeforeTheLauncherForAMistakeInTheJob) {
    FakeSlurm slurm{"evener.sbatch"};
    slurm.launch("exit 75");
    slurm.write("mistake", "");
    EXPECT_EQ(slurm.run().exit_code, 2);
    EXPECT_EQ(slurm.run({"EVENER=nowhere"}).exit_code, 2);
    EXPECT_EQ(slurm.noted("launched"), "");
}

} // namespace
} // namespace evener::slurm_test
