// SPDX-License-Identifier: Apache-2.0
#include "cluster/copies.hpp"

#include "device/memory.hpp"

#include <algorithm>

namespace evener::cluster {

namespace {

constexpr std::int64_t small_bytes = 4096;
constexpr std::int64_t most_bytes = std::int64_t{32} << 20;
constexpr int rounds = 7;

double median_seconds(device::Device const& device, kernels::StreamKind stream, void* dst,
                      void const* src, std::int64_t bytes) {
    device::Event const begin = device.make_event();
    device::Event const end = device.make_event();
    std::vector<double> seconds;
    for (int round = -1; round < rounds; ++round) { // the first one is not counted
        device.record(begin, stream);
        device.copy(stream, dst, src, bytes);
        device.record(end, stream);
        device.synchronize();
        if (round >= 0)
            seconds.push_back(device.elapsed_seconds(begin, end));
    }
    std::nth_element(seconds.begin(), seconds.begin() + rounds / 2, seconds.end());
    return seconds[rounds / 2];
}

program::CopyRate rate_of(device::Device const& device, kernels::StreamKind stream, void* dst,
                          void const* src, std::int64_t large_bytes) {
    double const small = median_seconds(device, stream, dst, src, small_bytes);
    double const large = median_seconds(device, stream, dst, src, large_bytes);
    double const seconds_per_byte =
        std::max(0.0, large - small) / static_cast<double>(large_bytes - small_bytes);
    return {std::max(0.0, small - seconds_per_byte * small_bytes), seconds_per_byte};
}

/// Less where the system locks no more: what the job needs is refused later, with the numbers.
device::Allocation pinned_memory(device::Device const& device, std::int64_t bytes) {
    for (;; bytes /= 2) {
        try {
            return device::Allocation::shared(device, bytes);
        } catch (core::DeviceError const&) {
            if (bytes / 2 < 2 * small_bytes)
                throw;
        }
    }
}

} // namespace

program::CopyRates measure_copies(device::Device const& device) {
    EVENER_EXPECT(device.has_own_memory());
    device::Allocation const pinned = pinned_memory(
        device, std::clamp(device.free_bytes() / 8, 2 * small_bytes, most_bytes) / 4096 * 4096);
    std::int64_t const bytes = pinned.size();
    device::Allocation const own = device::Allocation::on_device(device, bytes);
    return {rate_of(device, kernels::StreamKind::copy_in, own.data(), pinned.data(), bytes),
            rate_of(device, kernels::StreamKind::copy_out, pinned.data(), own.data(), bytes)};
}

std::vector<std::optional<program::CopyRates>> measure_copies(comm::Communicator const& world,
                                                              device::Device const& device) {
    world.barrier();
    std::vector<double> mine;
    if (device.has_own_memory()) {
        program::CopyRates const rates = measure_copies(device);
        mine = {rates.in.latency_seconds, rates.in.seconds_per_byte, rates.out.latency_seconds,
                rates.out.seconds_per_byte};
    }
    std::vector<std::optional<program::CopyRates>> result;
    for (auto const& rank : comm::all_gather_values(world, std::span<double const>{mine})) {
        if (rank.empty())
            result.emplace_back();
        else
            result.push_back(program::CopyRates{{rank[0], rank[1]}, {rank[2], rank[3]}});
    }
    return result;
}

} // namespace evener::cluster
