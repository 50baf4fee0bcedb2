// SPDX-License-Identifier: Apache-2.0
#pragma once

// The queues of a program that the transport thread works on, as its tasks. Internal to this
// folder.

#include "runtime/device_collectives.hpp"
#include "runtime/executable.hpp"
#include "runtime/memory_map.hpp"

namespace evener::runtime {

/// What tasks are made from besides the program; outlives the making alone, numbers the tasks too.
struct TaskParts {
    std::vector<BucketMemory> const& memory;
    SharedNumbers const& numbers;
    DeviceCollectives const& collectives; ///< what they run is left out
};

std::vector<comm::TransportQueue> make_transport_queues(ExecutableInput const& input,
                                                        program::Program const& program,
                                                        TaskParts const& parts);

} // namespace evener::runtime
