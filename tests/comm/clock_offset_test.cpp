// SPDX-License-Identifier: Apache-2.0
#include "comm/clock_offset.hpp"
#include "comm/mpi_session.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace evener::comm {
namespace {

class ClockOffsetTest : public testing::Test {
  protected:
    MpiSession session{nullptr, nullptr};
};

// All ranks run on one machine, so clocks that are set apart here are apart by exactly that.
TEST_F(ClockOffsetTest, FindsHowFarClocksAreApartWithinItsBound) {
    Communicator const own = Communicator::duplicate(MPI_COMM_SELF);
    double const ahead = 1000.0 * session.rank() * (session.rank() % 2 == 0 ? 1 : -1);
    ClockOffset const offset =
        measure_clock_offset(session.world(), own, [&] { return steady_seconds() + ahead; });
    if (session.rank() == 0) {
        EXPECT_EQ(offset.seconds, 0);
        EXPECT_EQ(offset.error_seconds, 0);
    } else {
        EXPECT_GT(offset.error_seconds, 0);
        EXPECT_LE(std::abs(offset.seconds + ahead), offset.error_seconds + 1e-9);
    }
}

TEST_F(ClockOffsetTest, TrustsTheClockOfTheNode) {
    ClockOffset const offset = measure_clock_offset(session.world(), session.node());
    EXPECT_EQ(offset.seconds, 0);
    EXPECT_EQ(offset.error_seconds, 0);
}

// Rank 0 is a node of its own, the others share one whose clock is 50 s behind: one of them asks.
TEST_F(ClockOffsetTest, AsksOncePerNode) {
    MPI_Comm part = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, session.rank() == 0 ? 0 : 1, -session.rank(), &part);
    {
        Communicator const node = Communicator::duplicate(part);
        ClockOffset const offset = measure_clock_offset(session.world(), node, [&] {
            return steady_seconds() - (session.rank() == 0 ? 0 : 50);
        });
        double const expected = session.rank() == 0 ? 0 : 50;
        EXPECT_LE(std::abs(offset.seconds - expected), offset.error_seconds + 1e-9);
        auto const all = all_gather_values(node, std::span<ClockOffset const>{&offset, 1});
        for (auto const& other : all)
            EXPECT_EQ(other.front().seconds, offset.seconds);
    }
    MPI_Comm_free(&part);
}

} // namespace
} // namespace evener::comm
