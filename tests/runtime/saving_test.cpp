// SPDX-License-Identifier: Apache-2.0
// Saves beside training: what is written is the state of their step whatever happens meanwhile, and
// one rank's error is every rank's.
#include "checkpoints/verify.hpp"
#include "runtime/saving_fixture.hpp"

#include <gtest/gtest.h>

namespace evener::runtime {
namespace {

namespace fs = std::filesystem;

// A barrier ends what one test does with the folder before the next begins.
TEST_F(Saving, BesideTrainingWritesWhatABlockingSaveWrites) {
    step();
    Saver saver{{world_, mpi_.node()}, *session_, state_kinds(true)};
    SavedCheckpoint const blocking = saver.save(out_ + "/blocking", description(), {});
    saver.start(out_ + "/beside", description(), {});
    SavedCheckpoint const beside = train_until_saved(saver);
    EXPECT_FALSE(saver.active());
    EXPECT_EQ(beside.step, 1);
    EXPECT_GT(session_->state().step, 1);
    EXPECT_EQ(files_of(blocking.folder), files_of(beside.folder));
    EXPECT_TRUE(checkpoints::verify(beside.folder).empty());
    world_.barrier();
}

TEST_F(Saving, TakesALaterStateIntoTheSameSnapshot) {
    Saver saver{{world_, mpi_.node()}, *session_, state_kinds(true)};
    step();
    saver.start(out_ + "/a", description(), {});
    train_until_saved(saver);
    saver.start(out_ + "/a", description(), {});
    EXPECT_TRUE(saver.active());
    auto const second = saver.finish();
    ASSERT_TRUE(second);
    EXPECT_FALSE(saver.finish());
    SavedCheckpoint const again = saver.save(out_ + "/b", description(), {});
    EXPECT_EQ(files_of(second->folder), files_of(again.folder));
    EXPECT_EQ(checkpoints::list(out_ + "/a", checkpoints::Depth::hashes).size(), 2u);
    world_.barrier();
}

TEST_F(Saving, KeepsWhatItWasToldToKeep) {
    Saver saver{{world_, mpi_.node()}, *session_, state_kinds(true)};
    for (int i = 0; i < 5; ++i) {
        step();
        SavedCheckpoint const saved = saver.save(out_, description(), {.newest = 1, .every = 2});
        // All that are even stay, and 1 and 3 while they are the newest.
        std::vector<std::string> gone;
        if (world_.rank() == 0 && (i == 1 || i == 3))
            gone.push_back(out_ + "/" + checkpoints::step_folder_name(i));
        EXPECT_EQ(saved.deleted, gone);
    }
    std::vector<std::int64_t> steps;
    for (checkpoints::CheckpointInfo const& info :
         checkpoints::list(out_, checkpoints::Depth::sizes))
        steps.push_back(info.manifest.state.step);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{5, 4, 2}));
    world_.barrier();
}

// One writer per rank; the last one's data file is cut after it was written, the commit finds it.
TEST_F(Saving, AnErrorOfAnyWriterIsTheSameOnAllRanks) {
    step();
    comm::Communicator const alone = comm::Communicator::split(world_.get(), world_.rank());
    Saver saver{{world_, alone}, *session_, state_kinds(true)};
    SavedCheckpoint const before = saver.save(out_, description(), {});
    step();
    saver.start(out_, description(), {});
    saver.wait();
    world_.barrier();
    int const last = world_.size() - 1;
    std::string const file = out_ + "/step-00000002.tmp/" + checkpoints::data_file_name(last);
    if (world_.rank() == 0)
        fs::resize_file(file, 100);
    world_.barrier();
    std::string message;
    try {
        train_until_saved(saver);
    } catch (core::AgreedError const& error) {
        message = error.what();
    }
    EXPECT_NE(message.find(checkpoints::data_file_name(last) + ": the file has 100 bytes, not "),
              std::string::npos)
        << message;
    EXPECT_EQ(world_.broadcast(message), message);
    EXPECT_FALSE(saver.active());
    world_.barrier();
    EXPECT_FALSE(fs::exists(out_ + "/step-00000002.tmp"));
    EXPECT_TRUE(checkpoints::verify(before.folder).empty());
    // and the next one works
    EXPECT_EQ(saver.save(out_, description(), {}).step, session_->state().step);
    world_.barrier();
}

// The folder is a file: rank 0 cannot begin.
TEST_F(Saving, AnErrorBeforeTheSnapshotIsTheSameOnAllRanks) {
    Saver saver{{world_, mpi_.node()}, *session_, state_kinds(true)};
    std::string message;
    try {
        saver.start("/dev/null/out", description(), {});
    } catch (core::AgreedError const& error) {
        message = error.what();
    }
    EXPECT_NE(message.find("cannot create the folder"), std::string::npos) << message;
    EXPECT_FALSE(saver.active());
}

TEST_F(Saving, GoesAwayWithASaveUnderWay) {
    step();
    {
        Saver saver{{world_, mpi_.node()}, *session_, state_kinds(true)};
        saver.start(out_, description(), {});
    }
    world_.barrier();
    EXPECT_TRUE(checkpoints::list(out_, checkpoints::Depth::sizes).empty());
    world_.barrier();
}

} // namespace
} // namespace evener::runtime
