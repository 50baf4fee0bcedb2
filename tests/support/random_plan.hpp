// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small random models and plans that differ in everything a plan can say: groups of different
// sizes, zero shares, owners of shards without work, dealt microbatches, tied weights, mixed types,
// microbatches that do not divide the batch, explicit deals. The same seed gives the same case on
// every machine.

#include "model/config.hpp"
#include "program/plan.hpp"
#include "program/program.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace evener::support {

/// Integers and choices from one seed, without the distributions whose results are the library's.
class Random {
  public:
    explicit Random(std::uint64_t seed) : engine_{seed} {}

    std::uint64_t bits() { return engine_(); }
    /// From `low` to `high`, both included.
    std::int64_t integer(std::int64_t low, std::int64_t high) {
        return low +
               static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
    }
    bool chance(int percent) { return integer(0, 99) < percent; }
    std::size_t index(std::size_t count) { return static_cast<std::size_t>(engine_() % count); }
    template <class T>
    T const& pick(std::vector<T> const& values) {
        return values[index(values.size())];
    }

  private:
    std::mt19937_64 engine_;
};

struct RandomCase {
    model::ModelConfig config;
    program::Plan plan;
};

/// At most `max_ranks` ranks and 6 microbatches, one chunk per group; plan_problems() finds nothing.
/// With any schedule of one chunk per group.
RandomCase random_case(Random& random, int max_ranks = 6);

/// The same with up to four chunks per group: in turns, in a V or anyhow, with the schedules that
/// there are for it. Receive buffers are up to lowering.
RandomCase random_looped_case(Random& random, int max_ranks = 4);

/// Lets groups offload (with and without a device memory of their own, by member), chunks be computed
/// again, updates follow their reduction. Draws nothing that changes other parts of the plan.
void add_levers(Random& random, program::Plan& plan);

} // namespace evener::support
