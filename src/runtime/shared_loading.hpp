// SPDX-License-Identifier: Apache-2.0
#pragma once

// Loading a checkpoint on ranks that do not see it: a rank that does sends them their slices, a
// block of rows at a time.

#include "comm/communicator.hpp"
#include "runtime/file_readers.hpp"
#include "runtime/parameters.hpp"

namespace evener::runtime {

/// Collective over `world`; equal to load_parameters on every rank to the bit. `reader`: null on
/// ranks that do not see the checkpoint. Throws core::CheckpointError where reading failed, and
/// with the same words on the ranks that are read for.
void load_shared(comm::Communicator const& world, FileReaders const& readers, Session& session,
                 checkpoints::CheckpointReader* reader, Load what, bool adamw);

} // namespace evener::runtime
