// SPDX-License-Identifier: Apache-2.0

// twins_main NAME wrong|correct: runs a seeded bug or its twin on plain host memory and prints what
// the layer found, "holds NaN" when the output does, and a fingerprint of the output.

#include "hostcuda/scheduler.hpp"
#include "twins.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv) {
    using namespace evener;
    if (argc != 3) {
        std::puts("usage: twins_main NAME wrong|correct");
        return 2;
    }
    std::string const name = argv[1];
    bool const wrong = argv[2] == std::string{"wrong"};
    int const count = name.starts_with("oob_") ? 100 : 512; // 100: fewer than there are threads
    std::vector<float> x(static_cast<std::size_t>(count));
    std::vector<float> y(x.size());
    for (int i = 0; i < count; ++i)
        x[static_cast<std::size_t>(i)] =
            0.37f * static_cast<float>(i) - 20 + static_cast<float>(i % 7);
    try {
        if (!twins::run(name, wrong ? twins::Twin::wrong : twins::Twin::correct, x.data(), y.data(),
                        count)) {
            std::printf("no twin '%s'\n", name.c_str());
            return 2;
        }
    } catch (std::exception const& error) {
        std::printf("found: %s\n", error.what());
        return 1;
    }
    bool holds_nan = false;
    std::uint64_t fingerprint = 14695981039346656037ull; // FNV-1a
    for (float const value : y) {
        holds_nan |= std::isnan(value);
        fingerprint = (fingerprint ^ std::bit_cast<std::uint32_t>(value)) * 1099511628211ull;
    }
    std::printf("%s, fingerprint %016llx\n", holds_nan ? "holds NaN" : "no alarm",
                static_cast<unsigned long long>(fingerprint));
    return holds_nan ? 1 : 0;
}
