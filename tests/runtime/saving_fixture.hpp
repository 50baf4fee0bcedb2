// SPDX-License-Identifier: Apache-2.0
#pragma once

// A session of a tiny model on all ranks of a test, one group each, and a folder to save it in.

#include "checkpoints/reader.hpp"
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

    /// Every element of every kind, however it is spread over data files.
    static void expect_same_tensors(std::string const& expected, std::string const& saved) {
        checkpoints::CheckpointReader a{expected};
        checkpoints::CheckpointReader b{saved};
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
    }

    static std::size_t data_files(std::string const& folder) {
        return checkpoints::CheckpointReader{folder}.manifest().data_files.size();
    }

    /// Name -> bytes.
    static std::map<std::string, std::string> files_of(std::string const& folder) {
        std::map<std::string, std::string> files;
        for (std::filesystem::directory_entry const& entry :
             std::filesystem::directory_iterator{folder}) {
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

} // namespace evener::runtime
