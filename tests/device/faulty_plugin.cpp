// SPDX-License-Identifier: Apache-2.0

// Plug-ins with one fault each, chosen by a definition: another version of the table, another
// build, no exported function, no table.

#include "kernels/build_id.hpp"
#include "kernels/table.hpp"

namespace {

constexpr evener::kernels::DeviceTable table() {
    evener::kernels::DeviceTable result{};
    result.version = evener::kernels::table_version;
    result.build_id = EVENER_BUILD_ID;
    result.kind = "host";
    result.description = "faulty";
#if defined(FAULT_VERSION)
    result.version += 1;
#elif defined(FAULT_BUILD)
    result.build_id = "0123456789abcdef";
#endif
    return result;
}

constexpr evener::kernels::DeviceTable the_table = table();

} // namespace

#if defined(FAULT_SYMBOL)
extern "C" evener::kernels::DeviceTable const* another_function()
#else
extern "C" evener::kernels::DeviceTable const* evener_device_table()
#endif
{
#if defined(FAULT_NULL)
    return the_table.kind == nullptr ? &the_table : nullptr;
#else
    return &the_table;
#endif
}
