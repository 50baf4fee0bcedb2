// SPDX-License-Identifier: Apache-2.0

// The fake devices: how many, how large, what they say of themselves.

#include "runtime.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

namespace evener::hostcuda {
namespace {

long number(char const* variable, long otherwise) {
    char const* const text = std::getenv(variable);
    return text && *text ? std::strtol(text, nullptr, 10) : otherwise;
}

void expect_device(int device) {
    if (device < 0 || device >= device_count())
        refuse_call(cudaErrorInvalidDevice,
                    "device " + std::to_string(device) + " of " + std::to_string(device_count()));
}

/// All are equal, unless EVENER_HOSTCUDA_MODELS lists names, by device, with commas.
std::string model_name(int device) {
    char const* const variable = std::getenv("EVENER_HOSTCUDA_MODELS");
    if (!variable || !*variable)
        return "host CPU as GPU";
    std::istringstream names{variable};
    std::string name;
    for (int i = 0; i <= device; ++i)
        std::getline(names, name, ',');
    return name;
}

/// Bus numbers from 1 on.
std::string bus_id(int device) {
    char text[16];
    std::snprintf(text, sizeof text, "0000:%02x:00.0", device + 1);
    return text;
}

} // namespace

int device_count() {
    static int const count = static_cast<int>(number("EVENER_HOSTCUDA_DEVICES", 1));
    return count;
}

std::size_t memory_bytes() {
    static auto const bytes = static_cast<std::size_t>(number("EVENER_HOSTCUDA_MEMORY_MIB", 4096))
                              << 20;
    return bytes;
}

std::size_t pinned_limit() {
    static auto const bytes =
        static_cast<std::size_t>(number("EVENER_HOSTCUDA_PINNED_MIB", 1 << 20)) << 20;
    return bytes;
}

int& current_device() {
    static thread_local int device = 0;
    return device;
}

} // namespace evener::hostcuda

using namespace evener::hostcuda;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
    return guarded([=] {
        *count = device_count();
        if (*count == 0)
            refuse_call(cudaErrorNoDevice, "EVENER_HOSTCUDA_DEVICES is 0");
    });
}

cudaError_t cudaSetDevice(int device) {
    return guarded([=] {
        expect_device(device);
        current_device() = device;
    });
}

cudaError_t cudaGetDevice(int* device) {
    return guarded([=] { *device = current_device(); });
}

cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
    return guarded([=] {
        expect_device(device);
        std::snprintf(text, static_cast<std::size_t>(bytes), "%s", bus_id(device).c_str());
    });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    return guarded([=] {
        expect_device(device);
        cudaDeviceProp& p = *properties = {};
        std::snprintf(p.name, sizeof p.name, "%s", model_name(device).c_str());
        std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "hostcuda %d", device);
        p.totalGlobalMem = memory_bytes();
        p.major = capability() / 10;
        p.minor = capability() % 10;
        p.multiProcessorCount = 4;
        p.warpSize = static_cast<int>(warp_size);
        p.maxThreadsPerBlock = 1024;
        p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
        p.maxThreadsDim[2] = 64;
        p.maxGridSize[0] = 0x7fffffff;
        p.maxGridSize[1] = p.maxGridSize[2] = 65535;
        p.maxThreadsPerMultiProcessor = 2048;
        p.regsPerBlock = p.regsPerMultiprocessor = 65536;
        p.sharedMemPerBlock = 48 * 1024;
        p.sharedMemPerBlockOptin = shared_bytes_limit();
        p.sharedMemPerMultiprocessor = shared_bytes_limit() + 1024;
        p.l2CacheSize = 50 << 20;
        p.unifiedAddressing = 1;
        p.asyncEngineCount = 2;
        p.concurrentKernels = 1;
        p.pciBusID = device + 1;
    });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    return guarded([=] {
        expect_device(device);
        switch (attribute) {
        case cudaDevAttrComputeCapabilityMajor:
            *value = capability() / 10;
            break;
        case cudaDevAttrComputeCapabilityMinor:
            *value = capability() % 10;
            break;
        case cudaDevAttrMultiProcessorCount:
            *value = 4;
            break;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(shared_bytes_limit());
            break;
        default:
            refuse_call(cudaErrorNotSupported,
                        "the fake devices do not know attribute " + std::to_string(attribute));
        }
    });
}

} // extern "C"
