// SPDX-License-Identifier: Apache-2.0
#pragma once

// How long copies between a device's own memory and pinned memory of the host take.

#include "comm/communicator.hpp"
#include "device/device.hpp"
#include "program/costs.hpp"

#include <optional>
#include <vector>

namespace evener::cluster {

/// Medians of 7 copies of 4 KiB and of 7 of up to 32 MiB in each direction, timed by the device's
/// events after a copy that is not. The device must have a memory of its own and a little of it left.
program::CopyRates measure_copies(device::Device const& device);

/// Of every rank whose device has a memory of its own; all of them copy at once, as devices that
/// share a link or the host's memory do in training. Collective; the same on every rank.
std::vector<std::optional<program::CopyRates>> measure_copies(comm::Communicator const& world,
                                                              device::Device const& device);

} // namespace evener::cluster
