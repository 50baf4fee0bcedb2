// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every back end does with the untyped operands of the table: gives them their types.

#include "kernels/bfloat16.hpp"
#include "kernels/types.hpp"

namespace evener::kernels {

/// The operands of one run, by the names of a contract's Operand list.
struct Operands {
    void* const* pointers;

    template <class T>
    T* at(int index) const {
        return static_cast<T*>(pointers[index]);
    }
};

/// Calls `body` with a value of the element's storage type and returns what it returns.
template <class Body>
decltype(auto) with_type(Element type, Body&& body) {
    if (type == Element::float32)
        return body(float{});
    return body(BFloat16{});
}

} // namespace evener::kernels
