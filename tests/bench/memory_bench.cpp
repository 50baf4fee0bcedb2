// SPDX-License-Identifier: Apache-2.0

// The memory table against the process: a model with over 1 GB of state, two training steps; the
// process's peak resident size less its size before the arena, over the arena's size. One JSON
// line:
//   bin/memory_bench
#include "bench/training.hpp"
#include <fmt/format.h>

#include <fstream>
#include <string>

namespace {

using namespace evener;

/// A line such as "VmHWM:   123 kB" of /proc/self/status, in bytes.
double status_bytes(std::string const& key) {
    std::ifstream file{"/proc/self/status"};
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(key + ":"))
            return 1024 * std::stod(line.substr(key.size() + 1));
    return 0;
}

} // namespace

int main() {
    comm::MpiSession const mpi{nullptr, nullptr};
    comm::Transport transport{mpi.world().get()};
    model::ModelConfig config = bench::speed_model();
    config.decoder_layers = 20;
    config.vocabulary = 32768;
    config.sequence_length = 64;
    model::Model const model{config};
    double const before = status_bytes("VmRSS");
    bench::Training training{mpi,
                             transport,
                             model,
                             bench::chain_plan(model, {0}, 2, 1, core::DType::float32),
                             {.threads = 2}};
    training.step();
    training.step();
    double const grown = status_bytes("VmHWM") - before;
    auto const arena = static_cast<double>(training.session().arena_bytes());
    auto const table = static_cast<double>(
        program::memory_table(training.session().sets().programs[0]).total_bytes);
    fmt::print("{{\"bench\": \"memory\", \"state_bytes\": {:.0f}, \"arena_bytes\": {:.0f}, "
               "\"table_bytes\": {:.0f}, \"process_growth_bytes\": {:.0f}, \"ratio\": {:.3f}}}\n",
               12.0 * static_cast<double>(model.parameter_elements()), arena, table, grown,
               grown / arena);
}
