// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the sanitizers have to be told about fibers. AddressSanitizer must know on which stack the
// process runs. ThreadSanitizer sees each CUDA thread as a thread of its own: switching between
// fibers orders nothing, only barriers, __syncwarp and atomics do. The layer's own bookkeeping is
// hidden from it (Unseen), so that only the kernel's accesses count.

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define EVENER_HOSTCUDA_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__SANITIZE_THREAD__)
#define EVENER_HOSTCUDA_TSAN 1
extern "C" {
void* __tsan_create_fiber(unsigned flags);
void* __tsan_get_current_fiber();
void __tsan_switch_to_fiber(void* fiber, unsigned flags);
void __tsan_acquire(void* object);
void __tsan_release(void* object);
void AnnotateIgnoreReadsBegin(char const* file, int line);
void AnnotateIgnoreReadsEnd(char const* file, int line);
void AnnotateIgnoreWritesBegin(char const* file, int line);
void AnnotateIgnoreWritesEnd(char const* file, int line);
}
#endif

namespace evener::hostcuda {

/// While it lives ThreadSanitizer sees no access of this thread.
class Unseen {
  public:
#if defined(EVENER_HOSTCUDA_TSAN)
    Unseen() {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
    ~Unseen() {
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
    }
#else
    Unseen() {}
    ~Unseen() {}
#endif
    Unseen(Unseen const&) = delete;
    Unseen& operator=(Unseen const&) = delete;
};

/// All this thread did so far happens before what follows an acquire of the same object.
inline void release([[maybe_unused]] void* object) {
#if defined(EVENER_HOSTCUDA_TSAN)
    __tsan_release(object);
#endif
}

inline void acquire([[maybe_unused]] void* object) {
#if defined(EVENER_HOSTCUDA_TSAN)
    __tsan_acquire(object);
#endif
}

} // namespace evener::hostcuda
