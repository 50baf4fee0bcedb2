// SPDX-License-Identifier: Apache-2.0
#include "runtime/pinned_memory.hpp"

#include "core/size_text.hpp"
#include "device/arena.hpp"
#include "runtime/device_staging.hpp"
#include "runtime/memory_map.hpp"
#include "runtime/shared_numbers.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace evener::runtime {

namespace {

constexpr std::int64_t most_block_bytes = std::int64_t{16} << 20;

std::string parts_of(PinnedNeeds const& needs) {
    std::pair<std::int64_t, char const*> const parts[] = {
        {needs.homes, "for what is offloaded"},
        {needs.staging, "for messages and reductions"},
        {needs.tokens + needs.numbers + needs.gradients + needs.block, "for tokens and numbers"}};
    std::string text;
    for (auto const& [bytes, use] : parts)
        if (bytes > 0)
            text += fmt::format("{}{} {}", text.empty() ? "" : ", ", core::size_text(bytes), use);
    return text;
}

std::string lock_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_MEMLOCK, &limit) != 0)
        return "unknown";
    if (limit.rlim_cur == RLIM_INFINITY)
        return "unlimited";
    return core::size_text(static_cast<std::int64_t>(limit.rlim_cur));
}

[[noreturn]] void refuse(core::RankId rank, PinnedNeeds const& needs, std::string const& why) {
    std::int64_t const available = device::available_memory_bytes();
    throw core::DeviceError{
        0, false,
        fmt::format("rank {} cannot have {} of pinned host memory, {} ({}; the lock limit 'ulimit "
                    "-l' is {}, the node has {} available) raise the limit, offload less, or use "
                    "more ranks or nodes",
                    rank.value, core::size_text(needs.total()), parts_of(needs), why, lock_limit(),
                    available < 0 ? "an unknown amount" : core::size_text(available))};
}

} // namespace

std::int64_t PinnedNeeds::total() const {
    std::int64_t sum = 0;
    for (std::int64_t const part : {homes, staging, tokens, numbers, gradients, block})
        sum += core::round_up(part, 256);
    return sum;
}

std::size_t square_count(program::ProgramSet const& set, core::RankId rank) {
    std::size_t count = 0;
    for (program::Instruction const& instruction : set.programs[rank.index()].instructions)
        if (auto const* op = std::get_if<program::MeasureGradients>(&instruction.operation)) {
            program::Bucket const& bucket = set.buckets[op->bucket.index()];
            count += program::slices_of(bucket, bucket.shard_of(rank)).size();
        }
    return count;
}

/// The first layer reads inputs, the last one targets; each at most once in an instruction.
std::int64_t token_bytes(program::ProgramSet const& set, core::RankId rank,
                         model::Model const& model) {
    std::int64_t sequences = 0;
    for (program::Instruction const& instruction : set.programs[rank.index()].instructions)
        std::visit(
            [&](auto const& op) {
                if constexpr (std::is_base_of_v<program::Compute, std::decay_t<decltype(op)>>)
                    sequences += op.sequences.size() *
                                 ((op.layers.begin == 0) + (op.layers.end == model.layer_count()));
            },
            instruction.operation);
    return 4 * sequences * model.config().sequence_length;
}

PinnedNeeds pinned_needs(PinnedInput const& input) {
    PinnedNeeds needs;
    std::int64_t arena = 0;
    for (program::ProgramSet const* const set : input.sets) {
        program::Program const& program = set->programs[input.rank.index()];
        needs.numbers += SharedNumbers::bytes(static_cast<std::size_t>(set->plan.batch_size),
                                              square_count(*set, input.rank));
        needs.homes = std::max(needs.homes, program.pinned_bytes);
        arena = std::max(arena, program.arena_bytes);
        if (input.own_memory)
            needs.tokens += token_bytes(*set, input.rank, input.model);
    }
    if (input.logits)
        needs.numbers += core::round_up(4 * input.model.config().vocabulary, 64);
    if (input.keep_gradients)
        needs.gradients = kept_gradient_bytes(*input.sets.front(), input.rank);
    if (input.own_memory) {
        needs.staging = StagingLayout{input.sets, input.rank, input.exchange}.bytes();
        needs.block = std::min(arena, most_block_bytes);
    }
    return needs;
}

PinnedMemory::PinnedMemory(device::Device const& device, core::RankId rank,
                           PinnedNeeds const& needs)
    : needs_{needs} {
    std::int64_t const available = device::available_memory_bytes();
    if (device.has_own_memory() && available >= 0 && needs.total() > available)
        refuse(rank, needs, "it is more than the node has");
    try {
        memory_ = device::Allocation::shared(device, needs.total());
    } catch (core::DeviceError const& error) {
        if (!device.has_own_memory())
            throw;
        refuse(rank, needs, error.what());
    }
}

bool PinnedMemory::take(PinnedNeeds const& needs) {
    if (needs.total() > memory_.size())
        return false;
    needs_ = needs;
    return true;
}

std::span<std::byte> PinnedMemory::block() const {
    return {gradients() + behind(needs_.gradients), static_cast<std::size_t>(needs_.block)};
}

bool PinnedMemory::holds(void const* address) const {
    std::less<> const less;
    return !less(address, static_cast<void const*>(memory_.data())) &&
           less(address, static_cast<void const*>(memory_.data() + memory_.size()));
}

void require_device_memory(device::Device const& device, program::Program const& program,
                           std::int64_t bytes) {
    std::int64_t const left = device.free_bytes();
    if (bytes <= left)
        return;
    program::MemoryTable const table = program::memory_table(program);
    std::string rows;
    for (int kind = 0; kind < program::buffer_kind_count; ++kind)
        if (table.bytes[kind] > 0)
            rows += fmt::format("{}{} {}", rows.empty() ? "" : ", ",
                                program::name_of(static_cast<program::BufferKind>(kind)),
                                core::size_text(table.bytes[kind]));
    throw core::DeviceError{
        0, false,
        fmt::format("rank {} needs {} ({} bytes) on device '{}' ({} are free; {}) set "
                    "'plan.recompute' or 'plan.offload', or use a smaller microbatch or more ranks",
                    program.rank.value, core::size_text(bytes), bytes, device.description(),
                    core::size_text(left), rows)};
}

} // namespace evener::runtime
