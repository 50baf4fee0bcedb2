// SPDX-License-Identifier: Apache-2.0

// Codes and texts of errors. The text of a code that the fakes returned carries what they found, so
// that a program which prints cudaGetErrorString says it all.

#include "runtime.hpp"

#include <cstdio>
#include <map>
#include <mutex>

namespace evener::hostcuda {
namespace {

struct Faults {
    cudaError_t fatal = cudaSuccess;
    std::map<cudaError_t, std::string> details;
};

Faults& faults() {
    static Faults& instance = *new Faults;
    return instance;
}

thread_local cudaError_t last_error = cudaSuccess;

struct Text {
    char const* name;
    char const* text;
};

Text text_of(cudaError_t code) {
    static std::map<cudaError_t, Text> const texts{
        {cudaSuccess, {"cudaSuccess", "no error"}},
        {cudaErrorInvalidValue, {"cudaErrorInvalidValue", "invalid argument"}},
        {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
        {cudaErrorInvalidConfiguration,
         {"cudaErrorInvalidConfiguration", "invalid configuration argument"}},
        {cudaErrorInvalidMemcpyDirection,
         {"cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"}},
        {cudaErrorInvalidDevice, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
        {cudaErrorNoDevice, {"cudaErrorNoDevice", "no CUDA-capable device is detected"}},
        {cudaErrorInvalidResourceHandle,
         {"cudaErrorInvalidResourceHandle", "invalid resource handle"}},
        {cudaErrorNotReady, {"cudaErrorNotReady", "device not ready"}},
        {cudaErrorHostMemoryAlreadyRegistered,
         {"cudaErrorHostMemoryAlreadyRegistered", "host memory is already registered"}},
        {cudaErrorHostMemoryNotRegistered,
         {"cudaErrorHostMemoryNotRegistered", "host memory is not registered"}},
        {cudaErrorLaunchFailure, {"cudaErrorLaunchFailure", "unspecified launch failure"}},
        {cudaErrorNotSupported, {"cudaErrorNotSupported", "operation not supported"}},
    };
    auto const found = texts.find(code);
    return found == texts.end() ? Text{"cudaErrorUnknown", "unknown error"} : found->second;
}

} // namespace

cudaError_t fatal_code() {
    return faults().fatal;
}

void remember(Fault const& fault) {
    if (fatal_code() != cudaSuccess) // what follows a fatal fault says nothing new
        return;
    if (fault.code() != cudaErrorMemoryAllocation) // programs may ask for too much and go on
        std::fprintf(stderr, "hostcuda: %s\n", fault.what());
    faults().details[fault.code()] = fault.what();
    if (fault.fatal())
        faults().fatal = fault.code();
}

cudaError_t record_error(cudaError_t code) {
    if (code != cudaSuccess)
        last_error = code;
    return code;
}

cudaError_t guarded(std::function<void()> const& body) {
    std::lock_guard const lock{runtime_lock()};
    count_call();
    if (fatal_code() != cudaSuccess)
        return record_error(fatal_code());
    try {
        body();
        return cudaSuccess;
    } catch (Fault const& fault) {
        if (fault.code() != cudaErrorNotReady)
            remember(fault);
        return record_error(fault.code());
    } catch (std::exception const& error) {
        remember({cudaErrorLaunchFailure, Fault::Kind::fatal, error.what()});
        return record_error(cudaErrorLaunchFailure);
    }
}

} // namespace evener::hostcuda

using namespace evener::hostcuda;

extern "C" {

cudaError_t cudaGetLastError() {
    cudaError_t const code = last_error;
    std::lock_guard const lock{runtime_lock()};
    last_error = fatal_code(); // a fatal one stays
    return code;
}

cudaError_t cudaPeekAtLastError() {
    return last_error;
}

char const* cudaGetErrorName(cudaError_t code) {
    return text_of(code).name;
}

char const* cudaGetErrorString(cudaError_t code) {
    static thread_local std::string text;
    text = text_of(code).text;
    std::lock_guard const lock{runtime_lock()};
    auto const& details = faults().details;
    if (auto const found = details.find(code); found != details.end())
        text += ": " + found->second;
    return text.c_str();
}

} // extern "C"
