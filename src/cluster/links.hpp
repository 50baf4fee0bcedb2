// SPDX-License-Identifier: Apache-2.0
#pragma once

// How long messages take between the ranks of the job, measured with MPI itself.

#include "comm/communicator.hpp"
#include "program/costs.hpp"

namespace evener::cluster {

/// Latency (half of the shortest of some round trips of 8 bytes) and bandwidth (of the fastest of
/// some messages of 1 MiB, one direction at a time) between every pair of ranks; each ordered pair
/// gets a wire of its own. Collective, outside a pass; the same network on every rank. Pairs are
/// measured in rounds in which every rank has one partner, so links that several pairs share show
/// what is left to each under load. Takes about (ranks - 1) x 10 messages of 1 MiB.
program::Network measure_network(comm::Communicator const& world);

} // namespace evener::cluster
