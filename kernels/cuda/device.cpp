// SPDX-License-Identifier: Apache-2.0

// Finds, describes, opens and closes devices.

#include "kernels/cuda/open_device.hpp"

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstring>
#include <mutex>

namespace evener::kernels::cuda {
namespace {

constexpr int oldest_capability = 75;

cudaDeviceProp properties_of(int ordinal) {
    cudaDeviceProp properties{};
    EVENER_CUDA(cudaGetDeviceProperties(&properties, ordinal));
    return properties;
}

int driver_version() {
    int version = 0;
    EVENER_CUDA(cudaDriverGetVersion(&version)); // 0 where there is no driver
    return version;
}

/// The line that description() returns, rewritten when a device is opened.
struct Description {
    std::mutex mutex;
    char text[320] = {};

    void write(char const* device) {
        int run_time = 0;
        cudaRuntimeGetVersion(&run_time);
        auto const products = static_cast<int>(cublasLtGetVersion());
        std::scoped_lock const lock{mutex};
        std::snprintf(text, sizeof text, "%sCUDA run time %d.%d, cuBLASLt %d.%d.%d", device,
                      run_time / 1000, run_time % 1000 / 10, products / 10000, products / 100 % 100,
                      products % 100);
    }
};

Description& line() {
    static Description description;
    return description;
}

/// Copies and collectives go first: they are short of work for the multiprocessors, and others wait
/// for what they bring.
void create_streams(OpenDevice& device) {
    int least = 0;
    int greatest = 0;
    EVENER_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    for (std::size_t kind = 0; kind < device.streams.size(); ++kind) {
        bool const computes = static_cast<StreamKind>(kind) == StreamKind::compute;
        EVENER_CUDA(cudaStreamCreateWithPriority(&device.streams[kind], cudaStreamNonBlocking,
                                                 computes ? least : greatest));
    }
    device.context.compute = device.stream(StreamKind::compute);
}

void destroy(OpenDevice* device) {
    for (cudaStream_t const stream : device->streams)
        if (stream != nullptr)
            cudaStreamDestroy(stream);
    if (device->context.products != nullptr)
        cublasLtDestroy(device->context.products);
    delete device;
}

std::unique_ptr<OpenDevice, void (*)(OpenDevice*)> open_device(int ordinal) {
    Reason reason;
    int const devices = count_devices(&reason);
    if (devices <= 0)
        throw std::runtime_error{reason.text};
    if (ordinal < 0 || ordinal >= devices)
        throw std::runtime_error{"there is no CUDA device " + std::to_string(ordinal) +
                                 " (this process sees " + std::to_string(devices) + ")"};
    cudaDeviceProp const properties = properties_of(ordinal);
    int const capability = 10 * properties.major + properties.minor;
    std::string const name = std::string{properties.name} + " (compute capability " +
                             std::to_string(properties.major) + "." +
                             std::to_string(properties.minor) + ")";
    if (capability < oldest_capability)
        throw std::runtime_error{"device " + std::to_string(ordinal) + " is a " + name +
                                 "; 7.5 is the oldest that this plug-in computes on"};
    EVENER_CUDA(cudaSetDevice(ordinal));
    std::unique_ptr<OpenDevice, void (*)(OpenDevice*)> device{new OpenDevice, destroy};
    device->context.ordinal = ordinal;
    device->context.capability = capability;
    device->context.multiprocessors = properties.multiProcessorCount;
    create_streams(*device);
    EVENER_CUDA(cublasLtCreate(&device->context.products));
    line().write((name + ", ").c_str());
    return device;
}

} // namespace

int count_devices(Reason* reason) {
    int devices = 0;
    cudaError_t const status = cudaGetDeviceCount(&devices);
    if (status == cudaSuccess)
        return devices;
    cudaGetLastError();
    int driver = 0; // what a machine without a driver says, too
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    bool const none = status == cudaErrorNoDevice || driver == 0;
    refuse(*reason, "%s (%s: %s)",
           none ? "this process sees no CUDA device" : "the CUDA devices cannot be counted",
           cudaGetErrorName(status), cudaGetErrorString(status));
    return none ? 0 : -1;
}

int describe(int ordinal, DeviceFacts* facts, Reason* reason) {
    return guarded(reason, [&] {
        cudaDeviceProp const properties = properties_of(ordinal);
        *facts = {};
        std::snprintf(facts->name, sizeof facts->name, "%.127s", properties.name);
        EVENER_CUDA(cudaDeviceGetPCIBusId(facts->bus_id, sizeof facts->bus_id, ordinal));
        for (char& letter : facts->bus_id)
            letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
        static_assert(sizeof properties.uuid == sizeof facts->uuid);
        std::memcpy(facts->uuid, &properties.uuid, sizeof facts->uuid);
        facts->memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
        facts->capability_major = properties.major;
        facts->capability_minor = properties.minor;
        facts->driver_version = driver_version();
        return done;
    });
}

Device* open(DeviceOptions const* options, Reason* reason) {
    OpenDevice* opened = nullptr;
    guarded(reason, [&] {
        opened = open_device(options->ordinal).release();
        return done;
    });
    return reinterpret_cast<Device*>(opened);
}

void close(Device* device) {
    OpenDevice* const closing = &unwrap(device);
    cudaSetDevice(closing->context.ordinal);
    destroy(closing);
}

char const* description() {
    if (line().text[0] == '\0')
        line().write("");
    return line().text;
}

} // namespace evener::kernels::cuda
