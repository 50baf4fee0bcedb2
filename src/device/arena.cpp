// SPDX-License-Identifier: Apache-2.0
#include "device/arena.hpp"

#include "core/size_text.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

namespace evener::device {

namespace {

constexpr std::int64_t huge_page_bytes = std::int64_t{2} << 20;

constexpr char const* remedy = "use more ranks or nodes, a smaller microbatch or a smaller model";

void check_available(std::int64_t bytes) {
    std::int64_t const available = available_memory_bytes();
    if (available >= 0 && bytes > available)
        throw core::DeviceError{
            ENOMEM, false,
            fmt::format("this rank's arena takes {} (the node has {} available) {}",
                        core::size_text(bytes), core::size_text(available), remedy)};
}

void touch(std::byte* base, std::int64_t bytes, int threads) {
    std::int64_t const pages = core::div_up(bytes, huge_page_bytes);
    std::int64_t const parts =
        std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(pages, 1));
    std::vector<std::jthread> workers;
    for (std::int64_t part = 0; part < parts; ++part) {
        std::int64_t const begin = std::min(bytes, pages * part / parts * huge_page_bytes);
        std::int64_t const end = std::min(bytes, pages * (part + 1) / parts * huge_page_bytes);
        auto const clear = [=] {
            std::memset(base + begin, 0, static_cast<std::size_t>(end - begin));
        };
        if (part + 1 < parts)
            workers.emplace_back(clear);
        else
            clear();
    }
}

} // namespace

Arena::Arena(std::int64_t bytes, ArenaOptions const& options) : bytes_{bytes} {
    map(options);
}

Arena::Arena(Device const& device, std::int64_t bytes, ArenaOptions const& options)
    : bytes_{bytes} {
    if (!device.has_own_memory()) {
        map(options);
        return;
    }
    allocation_ = Allocation::on_device(device, bytes);
    base_ = allocation_.data();
    clear(device);
}

/// Buffers are written before they are read; zeros make a mistake there the same in every run.
void Arena::clear(Device const& device) {
    kernels::OperationShape shape;
    shape.kind = kernels::OperationKind::clear;
    shape.clear = {bytes_};
    PreparedOperation const operation = device.prepare(shape);
    std::array<void*, kernels::ClearOperand::count> const operands{base_};
    EVENER_ENSURE(operation.workspace_bytes() == 0);
    device.run(operation, operands, nullptr);
    device.synchronize();
}

void Arena::map(ArenaOptions const& options) {
    std::int64_t const bytes = bytes_;
    EVENER_EXPECT(bytes >= 0);
    if (bytes == 0)
        return;
    check_available(bytes);
    std::int64_t const mapping_bytes = core::round_up(bytes, huge_page_bytes) + huge_page_bytes;
    void* const mapping = mmap(nullptr, static_cast<std::size_t>(mapping_bytes),
                               PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED)
        throw core::DeviceError{errno, false,
                                fmt::format("an arena of {} cannot be allocated ({}) {}",
                                            core::size_text(bytes), std::strerror(errno), remedy)};
    mapping_ = static_cast<std::byte*>(mapping);
    mapping_bytes_ = mapping_bytes;
    auto const address = reinterpret_cast<std::uintptr_t>(mapping);
    base_ = mapping_ + (core::round_up(static_cast<std::int64_t>(address), huge_page_bytes) -
                        static_cast<std::int64_t>(address));
    // Advice only: where huge pages are off the arena works as well, only slower.
    madvise(base_, static_cast<std::size_t>(bytes), MADV_HUGEPAGE);
    touch(base_, bytes, options.threads);
}

Arena::~Arena() {
    if (mapping_ != nullptr)
        munmap(mapping_, static_cast<std::size_t>(mapping_bytes_));
}

} // namespace evener::device
