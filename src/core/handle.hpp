// SPDX-License-Identifier: Apache-2.0
#pragma once

// RAII for C handles. Traits give the Handle type, null() and a close() that never throws.

#include <utility>

namespace evener::core {

template <class Traits>
class UniqueHandle {
  public:
    using Handle = typename Traits::Handle;

    UniqueHandle() = default;
    explicit UniqueHandle(Handle handle) noexcept : handle_{handle} {}
    UniqueHandle(UniqueHandle&& other) noexcept : handle_{other.release()} {}
    UniqueHandle& operator=(UniqueHandle&& other) noexcept {
        if (this != &other)
            reset(other.release());
        return *this;
    }
    ~UniqueHandle() { reset(); }

    Handle get() const noexcept { return handle_; }
    Handle release() noexcept { return std::exchange(handle_, Traits::null()); }
    void reset(Handle handle = Traits::null()) noexcept {
        Handle const old = std::exchange(handle_, handle);
        if (old != Traits::null())
            Traits::close(old);
    }

  private:
    Handle handle_ = Traits::null();
};

} // namespace evener::core
