// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two ways in which work is spread over the threads (Kokkos on OpenMP). Neither decides the
// order of a sum: bodies write disjoint results, whoever runs them.

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <type_traits>

namespace evener::kernels::host {

template <class Body>
void on_threads(std::int64_t parts, Body const& body) {
    using Policy = Kokkos::RangePolicy<Kokkos::OpenMP, Kokkos::IndexType<std::int64_t>>;
    if (parts == 1)
        body(std::int64_t{0});
    else if (parts > 1)
        Kokkos::parallel_for(Policy(0, parts), [&body](std::int64_t part) { body(part); });
}

/// body(begin, end) or body(begin, end, worker) over [0, count), one range per thread, none below
/// `grain` (a piece of work that is worth waking a thread: some 10 microseconds). A worker is below
/// `threads` and may own a part of the workspace.
template <class Body>
void over_ranges(int threads, std::int64_t count, std::int64_t grain, Body const& body) {
    std::int64_t const wanted = (count + grain - 1) / std::max<std::int64_t>(grain, 1);
    std::int64_t const parts = std::min<std::int64_t>(threads, wanted);
    on_threads(parts, [&](std::int64_t part) {
        std::int64_t const begin = count * part / parts;
        std::int64_t const end = count * (part + 1) / parts;
        if constexpr (std::is_invocable_v<Body, std::int64_t, std::int64_t, std::int64_t>)
            body(begin, end, part);
        else
            body(begin, end);
    });
}

/// body(task, worker) for tasks of unequal length: the next one goes to the worker that is free. A
/// worker (0 .. threads - 1) is one thread at a time, so it may own a part of the workspace.
template <class Body>
void over_tasks(int threads, std::int64_t count, Body const& body) {
    std::atomic<std::int64_t> next{0};
    on_threads(std::min<std::int64_t>(threads, count), [&](std::int64_t worker) {
        for (std::int64_t task = next++; task < count; task = next++)
            body(task, worker);
    });
}

/// Rows that make up some 10 microseconds of work on `cols` elements each.
inline std::int64_t row_grain(std::int64_t cols) {
    return std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(cols, 1));
}
inline constexpr std::int64_t element_grain = 16384;

} // namespace evener::kernels::host
