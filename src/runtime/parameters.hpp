// SPDX-License-Identifier: Apache-2.0
#pragma once

// Parameters from nothing and from a checkpoint, and back into one: each rank handles the slices it
// owns, found by logical name, so that any plan reads what any other plan wrote.

#include "checkpoints/reader.hpp"
#include "checkpoints/records.hpp"
#include "runtime/session.hpp"

#include <functional>
#include <string>
#include <vector>

namespace evener::runtime {

/// Master weights as pure functions of (seed, name, element); moments zero. Equal under any plan.
void initialize_parameters(Session& session, std::uint64_t seed);

enum class Load { parameters, parameters_and_moments };

/// Gives the rows of a slice, as CheckpointReader::read does; its `data` is null.
using ReadRows = std::function<void(checkpoints::SliceData const& slice, float* dst)>;

/// The kinds that are loaded.
std::vector<std::string> loaded_kinds(Load what, bool adamw);

/// Reads this rank's slices, in the order of slices_of_rank with loaded_kinds, and refreshes its
/// weights. Throws what `read` throws.
void load_parameters(Session& session, ReadRows const& read, Load what);
/// The same from a checkpoint that this rank sees. Throws core::CheckpointError.
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
