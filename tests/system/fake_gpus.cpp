// SPDX-License-Identifier: Apache-2.0
#include "system/fake_gpus.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace evener::system_test {

std::vector<std::string> fake_gpus(std::int64_t gpus, std::uint64_t seed) {
    char const* const plugin = std::getenv("EVENER_TEST_PLUGIN");
    EXPECT_NE(plugin, nullptr) << "EVENER_TEST_PLUGIN names libevener_hostcuda.so; ctest sets it";
    return {fmt::format("EVENER_DEVICE_PLUGIN={}", plugin != nullptr ? plugin : ""),
            fmt::format("EVENER_HOSTCUDA_DEVICES={}", gpus),
            fmt::format("EVENER_HOSTCUDA_SEED={}", seed)};
}

} // namespace evener::system_test
