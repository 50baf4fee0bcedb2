// SPDX-License-Identifier: Apache-2.0
#pragma once

// The specification as a device: chosen by tests and by `devices = "reference"`, never for speed.

#include "kernels/table.hpp"

namespace evener::kernels::reference {

/// Table of kind "reference"; needs no workspace, runs on the calling thread. Never null.
DeviceTable const* reference_table();

} // namespace evener::kernels::reference
