// SPDX-License-Identifier: Apache-2.0
#pragma once

// The collectives of a program that the devices of a group run among themselves. The compute thread
// enqueues them, the transport runs the others of the same queue; where one follows another of the
// other kind it waits for it, so that the queue keeps its order. Internal to this folder.

#include "runtime/executable.hpp"
#include "runtime/memory_map.hpp"

namespace evener::runtime {

class DeviceCollectives {
  public:
    DeviceCollectives(ExecutableInput const& input, program::Program const& program);

    /// Whether the devices run it.
    bool runs(core::InstructionId id) const { return runs_[id.index()]; }
    /// The instruction's `after`, and the one before it in its queue where the other side runs that.
    std::vector<core::InstructionId> after(core::InstructionId id) const;
    /// Of an instruction that the devices run.
    Call call(core::InstructionId id) const;

  private:
    std::vector<kernels::GroupPart> parts(program::Bucket const& bucket) const;

    ExecutableInput const& input_;
    program::Program const& program_;
    std::vector<bool> runs_;                    ///< by instruction
    std::vector<core::InstructionId> previous_; ///< by instruction; invalid: none to wait for
};

} // namespace evener::runtime
