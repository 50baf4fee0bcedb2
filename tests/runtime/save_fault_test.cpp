// SPDX-License-Identifier: Apache-2.0
// EVENER_FAULT: what it may say, and what is said to all else.
#include "core/error.hpp"
#include "runtime/save_fault.hpp"
#include "support/message.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace evener::runtime {
namespace {

using checkpoints::SavePoint;

TEST(SaveFault, NamesAPointAndPerhapsARankAndAStep) {
    EXPECT_EQ(parse_save_fault("save.begin.start:kill"), (SaveFault{SavePoint::begin_start}));
    EXPECT_EQ(parse_save_fault("save.write.slice:rank=3:step=120:kill"),
              (SaveFault{SavePoint::write_slice, 3, 120}));
    EXPECT_EQ(parse_save_fault("save.prune.delete:step=4:kill"),
              (SaveFault{SavePoint::prune_delete, {}, 4}));
}

TEST(SaveFault, KnowsEveryPointByItsName) {
    auto const& names = checkpoints::save_point_names;
    EXPECT_EQ(names.size(), static_cast<std::size_t>(SavePoint::prune_delete) + 1);
    for (std::size_t i = 0; i < names.size(); ++i) {
        EXPECT_EQ(std::count(names.begin(), names.end(), names[i]), 1) << names[i];
        EXPECT_EQ(parse_save_fault("save." + std::string{names[i]} + ":kill").point,
                  static_cast<SavePoint>(i));
    }
}

TEST(SaveFault, SaysWhichPointsThereAre) {
    support::expect_error_containing<core::ConfigError>(
        [] { parse_save_fault("save.write.nowhere:kill"); },
        "EVENER_FAULT is 'save.write.nowhere:kill' (it begins with no known point) use 'save.' and "
        "one of begin.start, begin.folder, ");
}

TEST(SaveFault, RefusesWhatIsNoRankStepOrKill) {
    for (char const* const text :
         {"save.write.sync", "save.write.sync:", "save.write.sync:rank=:kill",
          "save.write.sync:rank=-1:kill", "save.write.sync:step=4x:kill",
          "save.write.sync:kill:step=4", "save.write.sync:stop"})
        support::expect_error_containing<core::ConfigError>(
            [&] { parse_save_fault(text); }, "(it is save.POINT[:rank=R][:step=S]:kill)");
}

TEST(SaveFault, OfARankThatNeverPassesThePointIsRefused) {
    SavePassers const own{.writers = {0, 2}, .ranks = 4};
    // What each rank passes, by point: all of them, the writers or rank 0.
    for (std::size_t i = 0; i < checkpoints::save_point_names.size(); ++i) {
        auto const point = static_cast<SavePoint>(i);
        std::string_view const name = checkpoints::save_point_names[i];
        SCOPED_TRACE(name);
        bool const all = name.starts_with("snapshot.") || name.starts_with("results.");
        bool const writes = name.starts_with("write.");
        require_passed({point}, own);
        for (int const rank : {0, 1, 2, 3, 4}) {
            if (rank < 4 && (all || rank == 0 || (writes && rank == 2)))
                require_passed({point, rank}, own);
            else
                EXPECT_THROW(require_passed({point, rank}, own), core::ConfigError) << rank;
        }
    }
    support::expect_error_containing<core::ConfigError>(
        [&] {
            require_passed({SavePoint::write_sync, 1}, own);
        },
        "EVENER_FAULT names rank 1 (save.write.sync is passed by ranks 0, 2 alone) name one that "
        "passes it, or none");
    SavePassers const shared{.writers = {0, 2}, .ranks = 4, .one_file = true};
    require_passed({SavePoint::write_sync, 2}, shared);
    support::expect_error_containing<core::ConfigError>(
        [&] { require_passed({SavePoint::write_flush}, shared); },
        "EVENER_FAULT names save.write.flush (no rank passes it where all writers fill one file)");
}

TEST(SaveFault, IsOfItsRankAndStepAlone) {
    SaveFault const fault{SavePoint::write_sync, 1, 4};
    EXPECT_TRUE(drill(fault, 1, 4));
    EXPECT_FALSE(drill(fault, 0, 4));
    EXPECT_FALSE(drill(fault, 1, 5));
    EXPECT_FALSE(drill({}, 1, 4));
    EXPECT_EXIT(drill(fault, 1, 4)(SavePoint::write_sync), testing::KilledBySignal(SIGKILL),
                "planted: kill at save.write.sync");
    drill(fault, 1, 4)(SavePoint::write_slice); // another point
}

} // namespace
} // namespace evener::runtime
