// SPDX-License-Identifier: Apache-2.0

// The plug-in's device table: opens Kokkos and oneDNN, turns exceptions into reasons.

#include "kernels/build_id.hpp"
#include "kernels/check.hpp"
#include "kernels/factories.hpp"
#include "kernels/host/operations.hpp"

#include <Kokkos_Core.hpp>

#include <cstdio>
#include <thread>

namespace evener::kernels::host {
namespace {

/// The state behind the table's opaque Device.
struct OpenDevice {
    Context context;
    std::thread::id owner = std::this_thread::get_id();
};

OpenDevice& unwrap(Device* device) {
    return *reinterpret_cast<OpenDevice*>(device);
}

/// Whether `isa` contains all instructions of `part` (the values of cpu_isa are sets of bits).
bool contains(dnnl::cpu_isa isa, dnnl::cpu_isa part) {
    return (static_cast<unsigned>(isa) & static_cast<unsigned>(part)) ==
           static_cast<unsigned>(part);
}

void describe_cpu(Context& context) {
    auto const isa = dnnl::get_effective_cpu_isa(); // honours ONEDNN_MAX_CPU_ISA
    context.bfloat16_products = contains(isa, dnnl::cpu_isa::avx512_core);
    if (contains(isa, dnnl::cpu_isa::avx512_core_amx))
        context.block_products = BlockProducts::amx;
    else if (contains(isa, dnnl::cpu_isa::avx512_core_bf16))
        context.block_products = BlockProducts::avx512_bf16;
}

void start_kokkos(int threads) {
#if KOKKOS_VERSION >= 30700
    Kokkos::initialize(
        Kokkos::InitializationSettings().set_num_threads(threads).set_disable_warnings(true));
#else
    Kokkos::InitArguments arguments;
    arguments.num_threads = threads;
    arguments.disable_warnings = true;
    Kokkos::initialize(arguments);
#endif
}

Device* open(DeviceOptions const* options, Reason* reason) try {
    if (options->threads < 1) {
        refuse(*reason, "a device with %d threads (at least 1 is needed)", options->threads);
        return nullptr;
    }
    if (Kokkos::is_initialized()) {
        refuse(*reason, "the host device is open already (once per process at a time)");
        return nullptr;
    }
    start_kokkos(options->threads);
    auto device = std::make_unique<OpenDevice>();
    device->context.threads = options->threads;
    describe_cpu(device->context);
    return reinterpret_cast<Device*>(device.release());
} catch (std::exception const& error) {
    refuse(*reason, "the host device does not start (%s)", error.what());
    return nullptr;
}

void close(Device* device) {
    delete &unwrap(device);
    Kokkos::finalize();
}

bool supports(Device* device, Element type) {
    return type == Element::float32 || unwrap(device).context.bfloat16_products;
}

Prepared* prepare(Device* device, OperationShape const* shape, std::int64_t* workspace_bytes,
                  Reason* reason) try {
    if (!check(*shape, *reason))
        return nullptr;
    auto operation = make_operation_of(*shape, unwrap(device).context);
    *workspace_bytes = operation->workspace_bytes;
    return reinterpret_cast<Prepared*>(operation.release());
} catch (Refused const& refused) {
    *reason = refused.reason;
    return nullptr;
} catch (std::exception const& error) {
    refuse(*reason, "the operation cannot be prepared (%s)", error.what());
    return nullptr;
}

void release(Device*, Prepared* prepared) {
    delete reinterpret_cast<Operation*>(prepared);
}

int run(Device* device, Prepared* prepared, void* const* operands, void* workspace,
        Reason* reason) try {
    if (std::this_thread::get_id() != unwrap(device).owner) {
        refuse(*reason, "operations run on the thread that opened the host device only");
        return 1;
    }
    reinterpret_cast<Operation*>(prepared)->run({operands}, static_cast<std::byte*>(workspace));
    return 0;
} catch (std::exception const& error) {
    refuse(*reason, "an operation failed (%s)", error.what());
    return 1;
}

/// One line such as "x86-64-v4, oneDNN 2.6.3, Kokkos 3.4.1 (OpenMP)".
char const* description() {
    static char text[128];
    auto const* const onednn = dnnl::version();
    std::snprintf(text, sizeof text, "x86-64-%s, oneDNN %d.%d.%d, Kokkos %d.%d.%d (OpenMP)",
                  EVENER_HOST_LEVEL, onednn->major, onednn->minor, onednn->patch,
                  KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100, KOKKOS_VERSION % 100);
    return text;
}

} // namespace
} // namespace evener::kernels::host

extern "C" [[gnu::visibility("default")]] evener::kernels::DeviceTable const*
evener_device_table() {
    using namespace evener::kernels;
    static DeviceTable const table{
        table_version, EVENER_BUILD_ID, "host",         host::description(),
        host::open,    host::close,     host::supports, host::prepare,
        host::release, host::run,       nullptr,        nullptr,
    };
    return &table;
}
