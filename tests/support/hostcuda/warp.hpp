// SPDX-License-Identifier: Apache-2.0
#pragma once

// Barriers and warp functions under CUDA's names. The source location is that of the call in the
// kernel. A lane that reads from an inactive one gets poison: on a device it would be undefined.

#include "scheduler.hpp"

#include <bit>
#include <cstring>

namespace evener::hostcuda {

enum class Shuffle { index, up, down, exclusive_or };

template <class T>
struct ShuffleInput {
    T value;
    int argument; ///< lane, distance or lane mask
    int width;
};

template <Shuffle kind>
int source_lane(int lane, int argument, int width) {
    int const first = lane & ~(width - 1);
    int const last = first | (width - 1);
    if constexpr (kind == Shuffle::index)
        return first | (argument & (width - 1));
    else if constexpr (kind == Shuffle::up)
        return lane - argument < first ? lane : lane - argument;
    else if constexpr (kind == Shuffle::down)
        return lane + argument > last ? lane : lane + argument;
    else
        return (lane ^ argument) > last ? lane : lane ^ argument;
}

template <class T, Shuffle kind>
void resolve_shuffle(unsigned active, void** in, void** out) {
    for (unsigned rest = active; rest; rest &= rest - 1) {
        int const lane = std::countr_zero(rest);
        auto const& own = *static_cast<ShuffleInput<T>*>(in[lane]);
        int const source = source_lane<kind>(lane, own.argument, own.width);
        if (active >> source & 1)
            *static_cast<T*>(out[lane]) = static_cast<ShuffleInput<T>*>(in[source])->value;
        else
            std::memset(out[lane], poison, sizeof(T));
    }
}

template <class T, Shuffle kind>
T shuffle(char const* operation, unsigned mask, T value, int argument, int width,
          Location const& location) {
    ShuffleInput<T> in{value, argument, width};
    T out{};
    warp_collective(operation, mask, &in, &out, resolve_shuffle<T, kind>, location);
    return out;
}

inline void resolve_ballot(unsigned active, void** in, void** out) {
    unsigned ballot = 0;
    for (unsigned rest = active; rest; rest &= rest - 1) {
        int const lane = std::countr_zero(rest);
        ballot |= unsigned{*static_cast<int*>(in[lane]) != 0} << lane;
    }
    for (unsigned rest = active; rest; rest &= rest - 1)
        *static_cast<unsigned*>(out[std::countr_zero(rest)]) = ballot;
}

inline void resolve_count(unsigned threads, void** in, void** out) {
    int count = 0;
    for (unsigned i = 0; i < threads; ++i)
        count += *static_cast<int*>(in[i]) != 0;
    for (unsigned i = 0; i < threads; ++i)
        *static_cast<int*>(out[i]) = count;
}

} // namespace evener::hostcuda

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier): CUDA's names
inline void
__syncthreads(evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    evener::hostcuda::block_barrier("__syncthreads", location);
}

inline int
__syncthreads_count(int predicate,
                    evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    int out = 0;
    evener::hostcuda::block_barrier("__syncthreads_count", location, &predicate, &out,
                                    evener::hostcuda::resolve_count);
    return out;
}

inline int
__syncthreads_or(int predicate,
                 evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    return __syncthreads_count(predicate, location) > 0;
}

inline int
__syncthreads_and(int predicate,
                  evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    return __syncthreads_count(!predicate, location) == 0;
}

inline void
__syncwarp(unsigned mask = 0xffffffffu,
           evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    evener::hostcuda::warp_collective("__syncwarp", mask, nullptr, nullptr, nullptr, location,
                                      evener::hostcuda::Memory::ordered);
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32,
              evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    using enum evener::hostcuda::Shuffle;
    return evener::hostcuda::shuffle<T, index>("__shfl_sync", mask, value, lane, width, location);
}

template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32,
                 evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    using enum evener::hostcuda::Shuffle;
    return evener::hostcuda::shuffle<T, up>("__shfl_up_sync", mask, value,
                                            static_cast<int>(distance), width, location);
}

template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32,
                   evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    using enum evener::hostcuda::Shuffle;
    return evener::hostcuda::shuffle<T, down>("__shfl_down_sync", mask, value,
                                              static_cast<int>(distance), width, location);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                  evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    using enum evener::hostcuda::Shuffle;
    return evener::hostcuda::shuffle<T, exclusive_or>("__shfl_xor_sync", mask, value, lane_mask,
                                                      width, location);
}

inline unsigned
__ballot_sync(unsigned mask, int predicate,
              evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    unsigned out = 0;
    evener::hostcuda::warp_collective("__ballot_sync", mask, &predicate, &out,
                                      evener::hostcuda::resolve_ballot, location);
    return out;
}

inline int __any_sync(unsigned mask, int predicate,
                      evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    return __ballot_sync(mask, predicate, location) != 0;
}

inline int __all_sync(unsigned mask, int predicate,
                      evener::hostcuda::Location location = evener::hostcuda::Location::current()) {
    return __ballot_sync(mask, !predicate, location) == 0;
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
