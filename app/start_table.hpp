// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tables at the start of a job, as text: what runs where, the plan, memory by rank and use.

#include "app/engine.hpp"

#include <string>

namespace evener::app {

/// Versions, hosts, cores, threads and measured matrix rates.
std::string machine_table(comm::MpiSession const& mpi, Engine const& engine);

/// Groups with their ranks, layers, shares and compute type.
std::string plan_table(program::Plan const& plan, model::Model const& model);

/// Bytes of each rank's arena by use; the rows of a rank add up to its arena.
std::string memory_table(program::ProgramSet const& set);

} // namespace evener::app
