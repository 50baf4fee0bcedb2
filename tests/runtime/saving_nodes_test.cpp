// SPDX-License-Identifier: Apache-2.0
// Saves on several nodes, which are any sets of ranks here: who writes whose slices changes nothing
// in what is saved.
#include "checkpoints/verify.hpp"
#include "runtime/saving_fixture.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

namespace evener::runtime {
namespace {

using SavingNodes = Saving;

// Every rank a node of its own, of which only rank 0 may write: the others' slices come by message.
TEST_F(SavingNodes, NodesThatMayNotWriteSendTheirSlices) {
    step();
    Saver together{{world_, mpi_.node()}, *session_, state_kinds(true)};
    SavedCheckpoint const expected = together.save(out_ + "/one-node", description(), {});
    comm::Communicator const alone = comm::Communicator::split(world_.get(), world_.rank());
    std::vector<bool> may_write(static_cast<std::size_t>(world_.size()), false);
    may_write[0] = true;
    Saver apart{{world_, alone, may_write}, *session_, state_kinds(true)};
    SavedCheckpoint const saved = apart.save(out_ + "/nodes", description(), {});
    EXPECT_EQ(files_of(expected.folder), files_of(saved.folder));
    world_.barrier();
}

// One writer per rank, all into one file.
TEST_F(SavingNodes, AllWritersFillOneFile) {
    step();
    Saver own{{world_, mpi_.node()}, *session_, state_kinds(true)};
    SavedCheckpoint const expected = own.save(out_ + "/own", description(), {});
    comm::Communicator const alone = comm::Communicator::split(world_.get(), world_.rank());
    Saver shared{{world_, alone, {}, DataFiles::shared}, *session_, state_kinds(true)};
    SavedCheckpoint const saved = shared.save(out_ + "/shared", description(), {});
    EXPECT_TRUE(checkpoints::verify(saved.folder).empty());
    expect_same_tensors(expected.folder, saved.folder);
    EXPECT_EQ(data_files(saved.folder), 1u);
    world_.barrier();
}

// Nodes of several ranks, in a row or not; nodes where the lowest rank may not write, or none may:
// their slices go as messages to writers of other nodes, of which there are several.
TEST_F(SavingNodes, AnyNodesAndWritersSaveWhatOneNodeSaves) {
    Saver one{{world_, mpi_.node()}, *session_, state_kinds(true)};
    for (std::uint64_t const seed : support::seeds("saving nodes", 60)) {
        SCOPED_TRACE("EVENER_TEST_SEED=" + std::to_string(seed));
        support::Random random{seed};
        Savers known;
        for (int rank = 0; rank < world_.size(); ++rank) {
            // A node of its own, or that of a rank before.
            auto const of = static_cast<int>(random.integer(0, rank));
            known.node.push_back(of == rank ? rank : known.node[static_cast<std::size_t>(of)]);
            known.may_write.push_back(rank == 0 || random.integer(0, 2) == 0);
        }
        known.bytes.resize(known.node.size());
        auto const files = random.integer(0, 1) == 0 ? DataFiles::per_writer : DataFiles::shared;
        comm::Communicator const node = comm::Communicator::split(
            world_.get(), known.node[static_cast<std::size_t>(world_.rank())]);
        Saver many{{world_, node, known.may_write, files}, *session_, state_kinds(true)};
        for (int i = 0; i < 2; ++i) { // the second time into the same snapshots
            step();
            std::string const out = out_ + "/" + std::to_string(seed);
            SavedCheckpoint const expected = one.save(out + "-one", description(), {});
            many.start(out + "-many", description(), {});
            step(many.requests()); // the snapshots stay those of their step
            SavedCheckpoint const saved = many.finish().value();
            expect_same_tensors(expected.folder, saved.folder);
            EXPECT_TRUE(checkpoints::verify(saved.folder).empty());
            EXPECT_EQ(data_files(saved.folder),
                      files == DataFiles::shared ? 1 : assign_writers(known).size());
        }
        world_.barrier();
    }
}

} // namespace
} // namespace evener::runtime
