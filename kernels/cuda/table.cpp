// SPDX-License-Identifier: Apache-2.0

// The plug-in's device table: prepares and runs operations, turns exceptions into reasons.

#include "kernels/build_id.hpp"
#include "kernels/cuda/open_device.hpp"
#include "kernels/cuda/operations.hpp"
#include "kernels/factories.hpp"

namespace evener::kernels::cuda {
namespace {

bool supports(Device* device, Element type) {
    return type == Element::float32 || unwrap(device).context.has_bfloat16();
}

Prepared* prepare(Device* device, OperationShape const* shape, std::int64_t* workspace_bytes,
                  Reason* reason) {
    OperationPtr operation;
    guarded(reason, [&] {
        if (!check(*shape, *reason))
            return failed;
        try {
            operation = make_operation_of(*shape, use(device).context);
        } catch (Refused const& refused) {
            *reason = refused.reason;
            return failed;
        }
        *workspace_bytes = operation->workspace_bytes;
        return done;
    });
    return reinterpret_cast<Prepared*>(operation.release());
}

void release(Device*, Prepared* prepared) {
    delete reinterpret_cast<Operation*>(prepared);
}

int run(Device* device, Prepared* prepared, void* const* operands, void* workspace,
        Reason* reason) {
    return guarded(reason, [&] {
        cudaStream_t const stream = use(device).context.compute;
        reinterpret_cast<Operation*>(prepared)->run({operands}, static_cast<std::byte*>(workspace),
                                                    stream);
        return done;
    });
}

} // namespace
} // namespace evener::kernels::cuda

extern "C" [[gnu::visibility("default")]] evener::kernels::DeviceTable const*
evener_device_table() {
    using namespace evener::kernels;
    static DeviceTable const table{
        table_version,        EVENER_BUILD_ID,     "cuda",        cuda::description(), cuda::open,
        cuda::close,          cuda::supports,      cuda::prepare, cuda::release,       cuda::run,
        cuda::memory_table(), cuda::group_table(),
    };
    return &table;
}
