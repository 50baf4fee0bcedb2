// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a grid: blocks one after another, the threads of a block as fibers that are switched only
// where CUDA threads wait for each other. Whatever a block waits for together (a barrier of the
// block, a collective of a warp) is resolved by the thread that arrives last, for all of them.
//
// A fault of the kernel (divergent barrier, mismatched collective, lane outside its mask, too much
// shared memory ...) ends the grid with Error, which names kernel, block, file and line and says how
// many threads wait where.

#include "fiber.hpp"
#include "keywords.hpp"

#include <cstdint>
#include <memory>
#include <source_location>
#include <stdexcept>
#include <string>
#include <vector>

namespace evener::hostcuda {

class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

using Location = std::source_location;

inline constexpr unsigned warp_size = 32;
inline constexpr unsigned all_lanes = 0xffffffffu;
/// Of memory that nothing was written to: NaN as any float type, -1 as an integer.
inline constexpr unsigned char poison = 0xff;

/// EVENER_HOSTCUDA_CAPABILITY, 10 * major + minor; 90 when it is not set.
int capability();
/// Shared memory that a block may have on such a device.
std::size_t shared_bytes_limit();

/// EVENER_HOSTCUDA_SEED. 0: threads, blocks and streams in order; 2^64 - 1: threads and blocks in
/// reverse; else shuffled.
std::uint64_t seed();
/// Instead of the environment's, while nothing is in flight.
void set_seed(std::uint64_t value);
/// Whether the seed asks for shuffling.
bool shuffled();

/// Computes the results of all lanes (or of all threads of the block) from what each brought.
/// `active`: lanes that take part; in, out: one pointer per lane, null where not active. For a
/// block, `active` is the number of threads and the pointers are in no particular order.
using Resolver = void (*)(unsigned active, void** in, void** out);

/// Waits for all live threads of the block (__syncthreads and its variants).
void block_barrier(char const* operation, Location const& location, void* in = nullptr,
                   void* out = nullptr, Resolver resolve = nullptr);

enum class Memory { unordered, ordered }; ///< ordered: writes before are seen by reads after

/// Waits for the live lanes of `mask`, which must call the same operation with the same mask.
void warp_collective(char const* operation, unsigned mask, void* in, void* out, Resolver resolve,
                     Location const& location, Memory memory = Memory::unordered);

/// Ends the grid with Error. Outside of kernels it just throws.
[[noreturn]] void fail(std::string const& what);

/// Index of the calling thread in its block.
unsigned current_thread();

/// Dynamic shared memory of the block.
void* dynamic_shared();
/// Static shared memory: one object per key and block, poisoned when it is first asked for.
void* static_shared(void const* key, std::size_t bytes);

/// cp.async: the copy happens when it is waited for, and the destination is poisoned until then.
void start_async_copy(void* dst, void const* src, bool valid);
void commit_async_copies();
/// Completes all but the `keep` youngest committed groups.
void wait_async_copies(std::size_t keep);

struct Launch {
    std::string kernel;
    dim3 grid;
    dim3 block;
    std::size_t shared_bytes = 0; ///< dynamic
};

/// Why no device could launch this; empty when one could.
std::string refusal(Launch const& launch);

/// Runs the grid; `body(argument)` is one CUDA thread. Throws Error.
void run_grid(Launch const& launch, void (*body)(void*), void* argument);

} // namespace evener::hostcuda
