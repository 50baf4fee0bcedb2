// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/nccl.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace evener::kernels::cuda {
namespace {

constexpr char const* library_name = "libnccl.so.2";

/// Throws with the loader's own words about the call that just failed.
[[noreturn]] void fail(char const* what) {
    char const* const text = dlerror();
    throw std::runtime_error{std::string{"NCCL cannot be used, "} + what + " (" +
                             (text != nullptr ? text : "no reason given") +
                             "); install it, or put each GPU into a group of its own"};
}

template <class Function>
void look_up(void* library, char const* name, Function*& function) {
    function = reinterpret_cast<Function*>(dlsym(library, name));
    if (function == nullptr)
        fail(name);
}

/// Never closed: it has threads of its own. NCCL is told to connect the members while a group is
/// made; else the first collective would, and hold up its caller until all peers have come.
Nccl load() {
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    void* const library = dlopen(library_name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library == nullptr)
        fail(library_name);
    Nccl functions{};
    look_up(library, "ncclGetVersion", functions.get_version);
    look_up(library, "ncclGetUniqueId", functions.get_unique_id);
    look_up(library, "ncclCommInitRankConfig", functions.init_rank);
    look_up(library, "ncclCommGetAsyncError", functions.get_async_error);
    look_up(library, "ncclCommDestroy", functions.destroy);
    look_up(library, "ncclCommAbort", functions.abort);
    look_up(library, "ncclGroupStart", functions.group_start);
    look_up(library, "ncclGroupEnd", functions.group_end);
    look_up(library, "ncclReduce", functions.reduce);
    look_up(library, "ncclBroadcast", functions.broadcast);
    look_up(library, "ncclGetErrorString", functions.error_string);
    look_up(library, "ncclGetLastError", functions.last_error);
    return functions;
}

} // namespace

Nccl const& nccl() {
    static Nccl const functions = load();
    return functions;
}

} // namespace evener::kernels::cuda
