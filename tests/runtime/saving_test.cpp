// SPDX-License-Identifier: Apache-2.0
// Saves beside training: what is written is the state of their step whatever happens meanwhile, and
// one rank's error is every rank's.
#include "checkpoints/verify.hpp"
#include "comm/mpi_session.hpp"
#include "device/plugin.hpp"
#include "runtime/saving.hpp"
#include "runtime/step_state.hpp"
#include "runtime/tiny_model.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

namespace evener::runtime {
namespace {

namespace fs = std::filesystem;

class Saving : public testing::Test {
  protected:
    Saving() {
        plan_.batch_size = 6;
        plan_.microbatch_size = 2;
        std::int64_t const ranks = mpi_.size();
        for (std::int64_t g = 0; g < ranks; ++g) {
            plan_.groups.push_back(
                {.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
            plan_.chunks.push_back({core::GroupId{g}, {6 * g / ranks, 6 * (g + 1) / ranks}});
        }
        plan_.boundary_types = program::default_boundary_types(plan_);
        std::int64_t const mine =
            prepare_plan(cache_, plan_, model_, core::RankId{mpi_.rank()}, true);
        std::vector<std::int64_t> workspace;
        for (auto const& bytes :
             comm::all_gather_values(world_, std::span<std::int64_t const>{&mine, 1}))
            workspace.push_back(bytes.front());
        auto const lower = [&](program::ProgramKind kind) {
            return schedule::lower(plan_, model_, schedule::generate(plan_, kind),
                                   {kind, workspace, 2});
        };
        session_.reset(new Session{{.rank = core::RankId{mpi_.rank()},
                                    .model = model_,
                                    .cache = cache_,
                                    .transport = transport_,
                                    .train = lower(program::ProgramKind::train),
                                    .evaluate = lower(program::ProgramKind::evaluate),
                                    .device_workspace_bytes = mine,
                                    .arena = {},
                                    .adamw = true}});
        initialize_parameters(*session_, 3);
        StepState& state = session_->state();
        state.loss_scale = 1.0f / 30;
        state.decayed = {0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 1, 0.1f, 0.05f};
        state.not_decayed = state.decayed;
        // All ranks write into the folder of rank 0.
        out_ = world_.broadcast(folder_.path().string());
    }

    void step(std::int64_t requests = 0) {
        session_->state().requests = requests;
        session_->run_train(tokens_);
        ++session_->state().step;
    }

    checkpoints::Description description() const {
        checkpoints::Description result;
        result.creator = "test";
        result.state.step = session_->state().step;
        result.job_toml = "a job";
        return result;
    }

    /// Steps until the save has ended, however long a busy disk takes.
    SavedCheckpoint train_until_saved(Saver& saver) {
        for (;;) {
            step(saver.requests());
            if (auto saved = saver.advance(session_->state().scalars.requests))
                return *saved;
        }
    }

    /// Name -> bytes.
    static std::map<std::string, std::string> files_of(std::string const& folder) {
        std::map<std::string, std::string> files;
        for (fs::directory_entry const& entry : fs::directory_iterator{folder}) {
            std::ifstream file{entry.path(), std::ios::binary};
            files[entry.path().filename().string()] = {std::istreambuf_iterator<char>{file}, {}};
        }
        return files;
    }

    support::TemporaryFolder folder_{"saving"};
    comm::MpiSession mpi_{nullptr, nullptr};
    comm::Communicator const& world_ = mpi_.world();
    std::unique_ptr<device::Device> device_ = device::open_device(device::Backend::reference, {1});
    OperationCache cache_{*device_};
    comm::Transport transport_{world_.get()};
    model::Model model_{tiny_model()};
    program::Plan plan_;
    CountingTokens tokens_;
    std::unique_ptr<Session> session_;
    std::string out_;
};

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
        saver.save(out_, description(), {.newest = 1, .every = 2});
    }
    std::vector<std::int64_t> steps;
    for (checkpoints::CheckpointInfo const& info :
         checkpoints::list(out_, checkpoints::Depth::sizes))
        steps.push_back(info.manifest.state.step);
    EXPECT_EQ(steps, (std::vector<std::int64_t>{5, 4, 2}));
    world_.barrier();
}

// Every rank a node of its own, of which only rank 0 may write: the others' slices come by message.
TEST_F(Saving, NodesThatMayNotWriteSendTheirSlices) {
    step();
    Saver together{{world_, mpi_.node()}, *session_, state_kinds(true)};
    SavedCheckpoint const expected = together.save(out_ + "/one-node", description(), {});
    comm::Communicator const alone = comm::Communicator::split(world_.get(), world_.rank());
    std::vector<bool> may_write(static_cast<std::size_t>(world_.size()), false);
    may_write[0] = true;
    Saver apart{{world_, alone, may_write}, *session_, state_kinds(true)};
    apart.start(out_ + "/nodes", description(), {});
    SavedCheckpoint const saved = train_until_saved(apart);
    EXPECT_EQ(files_of(expected.folder), files_of(saved.folder));
    world_.barrier();
}

// One writer per rank, all into one file.
TEST_F(Saving, AllWritersFillOneFile) {
    step();
    Saver own{{world_, mpi_.node()}, *session_, state_kinds(true)};
    SavedCheckpoint const expected = own.save(out_ + "/own", description(), {});
    comm::Communicator const alone = comm::Communicator::split(world_.get(), world_.rank());
    Saver shared{{world_, alone, {}, DataFiles::shared}, *session_, state_kinds(true)};
    shared.start(out_ + "/shared", description(), {});
    SavedCheckpoint const saved = train_until_saved(shared);
    EXPECT_TRUE(checkpoints::verify(saved.folder).empty());
    checkpoints::CheckpointReader a{expected.folder};
    checkpoints::CheckpointReader b{saved.folder};
    EXPECT_EQ(b.manifest().data_files.size(), 1u);
    EXPECT_EQ(a.manifest().kinds, b.manifest().kinds);
    for (std::string const& kind : a.manifest().kinds)
        for (checkpoints::TensorInfo const& tensor : a.manifest().tensors) {
            std::vector<float> of_a(
                static_cast<std::size_t>(tensor.rows() * tensor.row_elements()));
            std::vector<float> of_b(of_a.size());
            a.read(kind, tensor.name, {0, tensor.rows()}, of_a.data());
            b.read(kind, tensor.name, {0, tensor.rows()}, of_b.data());
            EXPECT_EQ(of_a, of_b) << kind << ' ' << tensor.name;
        }
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
