// SPDX-License-Identifier: Apache-2.0

// What a user reads when something is wrong, word for word, and the exit code that goes with it.

#include "core/error.hpp"
#include "support/message.hpp"

#include <gtest/gtest.h>

#include <string>

namespace evener::core {
namespace {

int code_of(Error const& error) {
    return static_cast<int>(error.code());
}

TEST(Finding, PlaceIsPrintedAsFarAsItIsKnown) {
    EXPECT_EQ(to_string(Finding{{"job.toml", 3, 7}, "unknown key 'lr'"}),
              "job.toml:3:7: error: unknown key 'lr'");
    EXPECT_EQ(to_string(Finding{{"job.toml", 0, 0}, "is empty"}), "job.toml: error: is empty");
    EXPECT_EQ(to_string(Finding{{}, "no job given"}), "error: no job given");
}

TEST(ConfigError, ReportsAllFindingsInOrder) {
    ConfigError const error{{{{"a.toml", 1, 2}, "first"}, {{"a.toml", 5, 1}, "second"}}};
    EXPECT_STREQ(error.what(), "a.toml:1:2: error: first\na.toml:5:1: error: second");
    ASSERT_EQ(error.findings().size(), 2u);
    EXPECT_EQ(error.findings()[1].place.line, 5);
    EXPECT_EQ(code_of(error), 2);
}

TEST(ConfigError, OneMessageWithoutAPlace) {
    ConfigError const error{"2 ranks cannot form 3 groups"};
    EXPECT_STREQ(error.what(), "error: 2 ranks cannot form 3 groups");
    EXPECT_EQ(error.findings().size(), 1u);
}

TEST(Errors, KeepTheirFactsAndExitCodes) {
    IoError const io{"data.bin", "is empty"};
    EXPECT_STREQ(io.what(), "'data.bin': is empty");
    EXPECT_EQ(io.path(), "data.bin");
    EXPECT_EQ(code_of(io), 5);

    CommError const comm{17, 3, "rank 3 did not answer"};
    EXPECT_EQ(comm.error_class(), 17);
    EXPECT_EQ(comm.peer(), 3);
    EXPECT_EQ(code_of(comm), 4);

    DeviceError const device{700, true, "illegal address"};
    EXPECT_EQ(device.device_code(), 700);
    EXPECT_TRUE(device.fatal());
    EXPECT_EQ(code_of(device), 3);

    CheckpointError const checkpoint{"step-00000010", "has no manifest"};
    EXPECT_STREQ(checkpoint.what(), "checkpoint 'step-00000010': has no manifest");
    EXPECT_EQ(checkpoint.path(), "step-00000010");
    EXPECT_EQ(code_of(checkpoint), 5);
}

TEST(Errors, AllAreCaughtAsOneType) {
    support::expect_error<Error>([] { throw IoError{"f", "is gone"}; }, "'f': is gone");
}

TEST(Contracts, AViolationNamesConditionAndPlace) {
    int const two = 2;
    support::expect_error_containing<ContractViolation>([&] { EVENER_EXPECT(two == 3); },
                                                        "expected 'two == 3' in ");
    support::expect_error_containing<ContractViolation>([&] { EVENER_ENSURE(two == 4); },
                                                        "did not ensure 'two == 4' in ");
    support::expect_error_containing<ContractViolation>([&] { EVENER_EXPECT(two == 3); },
                                                        "tests/core/error_test.cpp:");
}

TEST(Contracts, AContractThatHoldsIsSilentAndEvaluatedOnce) {
    int evaluated = 0;
    EXPECT_NO_THROW(EVENER_EXPECT(++evaluated == 1));
    EXPECT_EQ(evaluated, 1);
}

} // namespace
} // namespace evener::core
