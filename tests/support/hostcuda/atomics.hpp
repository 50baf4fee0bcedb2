// SPDX-License-Identifier: Apache-2.0
#pragma once

// CUDA's atomics as relaxed atomics of the host, so that ThreadSanitizer tells them from plain
// accesses.

#include <algorithm>
#include <concepts>
#include <type_traits>

namespace evener::hostcuda {

/// Replaces *address by next(*address); returns what was there.
template <class T, class Next>
T exchange_by(T* address, Next next) {
    T old;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    for (;;) {
        T desired = next(old);
        if (__atomic_compare_exchange(address, &old, &desired, true, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED))
            return old;
    }
}

} // namespace evener::hostcuda

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
    return evener::hostcuda::exchange_by(address, [=](T old) { return old + value; });
}

template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
    return evener::hostcuda::exchange_by(address, [=](T old) { return std::max(old, value); });
}

template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
    return evener::hostcuda::exchange_by(address, [=](T old) { return std::min(old, value); });
}

template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
    return evener::hostcuda::exchange_by(address, [=](T) { return value; });
}

template <class T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
    return evener::hostcuda::exchange_by(address,
                                         [=](T old) { return old == expected ? value : old; });
}

template <std::integral T>
T atomicOr(T* address, std::type_identity_t<T> value) {
    return evener::hostcuda::exchange_by(address, [=](T old) { return old | value; });
}

template <std::integral T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
    return evener::hostcuda::exchange_by(address, [=](T old) { return old & value; });
}
// NOLINTEND(readability-identifier-naming)
