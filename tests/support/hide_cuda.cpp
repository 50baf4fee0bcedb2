// SPDX-License-Identifier: Apache-2.0

// Loaded in front of a program (LD_PRELOAD) it hides the libraries of CUDA from dlopen, as on a machine
// without them, and says on stderr which one was asked for.

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

extern "C" void* dlopen(char const* name, int flags) {
    using Open = void* (*)(char const*, int);
    static auto const real = reinterpret_cast<Open>(dlsym(RTLD_NEXT, "dlopen"));
    for (char const* const hidden : {"libcuda", "libcudart", "libcublas", "libnccl", "libnvidia"})
        if (name != nullptr && std::strstr(name, hidden) != nullptr) {
            std::fprintf(stderr, "hidden: %s\n", name);
            return real("libhidden-by-a-test.so", flags);
        }
    return real(name, flags);
}
