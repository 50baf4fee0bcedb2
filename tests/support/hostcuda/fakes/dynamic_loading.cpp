// SPDX-License-Identifier: Apache-2.0

// The glue opens NCCL by name. The linker sends its calls of dlopen and dlsym here (--wrap), where
// every libnccl is the fake one; other libraries are opened as ever.

#include "nccl_functions.hpp"
#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

extern "C" {

// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
void* __real_dlopen(char const* name, int flags);
void* __real_dlsym(void* library, char const* name);

namespace {
char fake_nccl; ///< its address stands for the library
}

void* __wrap_dlopen(char const* name, int flags) {
    char const* const missing = std::getenv("EVENER_HOSTCUDA_NCCL");
    if (name && std::strstr(name, "libnccl"))
        return missing ? __real_dlopen("libnccl-is-missing.so.2", flags) : &fake_nccl;
    return __real_dlopen(name, flags);
}

void* __wrap_dlsym(void* library, char const* name) {
    if (library == &fake_nccl)
        return evener::hostcuda::nccl_function(name);
    return __real_dlsym(library, name);
}
// NOLINTEND(bugprone-reserved-identifier)

} // extern "C"
