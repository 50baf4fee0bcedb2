// SPDX-License-Identifier: Apache-2.0
#pragma once

// The queues of a program that the transport thread works on, as its tasks. Internal to this
// folder.

#include "runtime/executable.hpp"
#include "runtime/memory_map.hpp"

namespace evener::runtime {

std::vector<comm::TransportQueue> make_transport_queues(ExecutableInput const& input,
                                                        program::Program const& program,
                                                        std::vector<BucketMemory> const& memory,
                                                        SharedNumbers const& numbers);

} // namespace evener::runtime
