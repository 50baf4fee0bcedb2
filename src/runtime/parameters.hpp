// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parameters from nothing and from a checkpoint, and back into one: each rank handles the slices it
// owns, found by logical name, so that any plan reads what any other plan wrote.

#include "checkpoints/reader.hpp"
#include "checkpoints/records.hpp"
#include "runtime/session.hpp"

#include <string>
#include <vector>

namespace evener::runtime {

/// Master weights as pure functions of (seed, name, element); moments zero. Equal under any plan.
void initialize_parameters(Session& session, std::uint64_t seed);

enum class Load { parameters, parameters_and_moments };

/// Reads this rank's slices and refreshes its weights. Throws core::CheckpointError.
void load_parameters(Session& session, checkpoints::CheckpointReader& reader, Load what);

/// The model's parameters as a checkpoint lists them.
std::vector<checkpoints::TensorInfo> tensors_of(model::Model const& model);

/// Vectors of state per parameter: parameters, then the optimizer's moments.
std::vector<std::string> state_kinds(bool adamw);

/// Slices of `rank` in canonical order, for each of `kinds`; `data` is null. Every rank can list
/// those of every other.
std::vector<checkpoints::SliceData> slices_of_rank(program::ProgramSet const& set,
                                                   model::Model const& model, core::RankId rank,
                                                   std::vector<std::string> const& kinds);

/// Where this rank holds those slices, in the same order.
std::vector<float const*> slice_addresses(Session const& session,
                                          std::vector<std::string> const& kinds);

/// Kind under which `[log] gradients` writes reduced gradients.
inline constexpr std::string_view kind_gradients = "gradients";

} // namespace evener::runtime
