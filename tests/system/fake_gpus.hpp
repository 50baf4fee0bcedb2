// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fake GPUs for runs of the executable: the CUDA plug-in's own sources on the host layer.

#include <cstdint>
#include <string>
#include <vector>

namespace evener::system_test {

/// The environment in which the ranks of a node find `gpus` of them; `seed` orders their streams,
/// blocks and threads.
std::vector<std::string> fake_gpus(std::int64_t gpus, std::uint64_t seed = 0);

} // namespace evener::system_test
