// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.hpp"

#include "runtime/device_staging.hpp"
#include "runtime/issuer.hpp"

#include <algorithm>
#include <cstring>

namespace evener::runtime {

Session::Session(SessionInput input)
    : rank_{input.rank}, model_{input.model}, cache_{input.cache}, transport_{input.transport},
      train_set_{std::move(input.train)}, evaluate_set_{std::move(input.evaluate)},
      options_{input.device_workspace_bytes, input.adamw, input.head, input.keep_gradients},
      exchange_{std::move(input.exchange)}, status_{input.status}, arena_options_{input.arena} {
    auto const sequences = static_cast<std::size_t>(plan().batch_size);
    state_.sequence_losses.resize(sequences);
    evaluate_state_.sequence_losses.resize(sequences);
    unused_tokens_.resize(static_cast<std::size_t>(model_.config().sequence_length));
    if (input.head == HeadOutput::logits)
        logits_.resize(static_cast<std::size_t>(model_.config().vocabulary));
    if (train_set_) {
        train_.emplace();
        train_->state = &state_;
        train_->rehearsal_seconds = std::move(input.rehearsal_seconds);
    }
    evaluate_.state = &evaluate_state_;
    make_pinned();
    make_arena();
    make_executables();
}

std::vector<program::ProgramSet const*> Session::all_sets() const {
    if (!train_set_)
        return {&evaluate_set_};
    return {&*train_set_, &evaluate_set_};
}

/// What is kept between passes, where it lies in that memory.
std::vector<program::Buffer> Session::persistent(program::Memory memory) const {
    std::vector<program::Buffer> buffers;
    for (program::Buffer const& buffer : evaluate_set_.programs[rank_.index()].buffers)
        if (buffer.persistent && buffer.memory == memory)
            buffers.push_back(buffer);
    return buffers;
}

/// Of the size that the programs need; homes of an old one move into it.
void Session::make_pinned() {
    auto const sets = all_sets();
    PinnedNeeds const needs = pinned_needs({.sets = sets,
                                            .rank = rank_,
                                            .model = model_,
                                            .exchange = exchange_,
                                            .own_memory = device().has_own_memory(),
                                            .keep_gradients = options_.keep_gradients,
                                            .logits = !logits_.empty()});
    if (pinned_.take(needs))
        return;
    PinnedMemory larger{device(), rank_, needs};
    for (program::Buffer const& buffer : persistent(program::Memory::pinned))
        if (pinned_.homes() != nullptr)
            std::memcpy(larger.homes() + buffer.offset, pinned_.homes() + buffer.offset,
                        static_cast<std::size_t>(buffer.bytes));
    pinned_ = std::move(larger);
}

/// Of the size that the programs need; the old one's persistent buffers move into it.
void Session::make_arena() {
    auto const bytes = [&](program::ProgramSet const& set) {
        return set.programs[rank_.index()].arena_bytes;
    };
    std::int64_t const needed = std::max(train_set_ ? bytes(*train_set_) : 0, bytes(evaluate_set_));
    if (arena_ != nullptr && arena_->size() >= needed)
        return;
    if (device().has_own_memory())
        require_device_memory(device(), sets().programs[rank_.index()], needed);
    auto larger = std::make_unique<device::Arena>(device(), needed, arena_options_);
    if (arena_ != nullptr)
        for (program::Buffer const& buffer : persistent(program::Memory::device))
            device::move(device(), larger->at(buffer.offset), arena_->at(buffer.offset),
                         buffer.bytes);
    arena_ = std::move(larger);
}

void Session::make_executables() {
    std::byte* const gradients = options_.keep_gradients ? pinned_.gradients() : nullptr;
    memory_ = map_buckets(sets(), rank_, regions(), gradients);
    std::byte* numbers = pinned_.numbers();
    auto const number_bytes = [&](program::ProgramSet const& set) {
        return SharedNumbers::bytes(state_.sequence_losses.size(), square_count(set, rank_));
    };
    if (train_set_) {
        train_->executable = executable_of(*train_set_, state_, numbers);
        numbers += number_bytes(*train_set_);
    }
    shared_logits_ = reinterpret_cast<float*>(numbers + number_bytes(evaluate_set_));
    evaluate_.executable = executable_of(evaluate_set_, evaluate_state_, numbers);
    if (device().has_own_memory())
        stage();
    if (train_set_)
        prepare(*train_, *train_set_);
    prepare(evaluate_, evaluate_set_);
    EVENER_ENSURE(cache_.workspace_bytes() <= options_.device_workspace_bytes);
}

void Session::prepare(Pass& pass, program::ProgramSet const& set) {
    pass.words.clear();
    if (status_ != nullptr)
        for (program::Instruction const& instruction : set.programs[rank_.index()].instructions)
            pass.words.push_back(status_words(program::to_string(instruction.operation)));
    pass.board = std::make_unique<comm::Board>(pass.executable.instructions);
    transport_.prepare(pass.executable.transport);
    if (cache_.device().has_own_memory())
        pass.device =
            std::make_unique<DevicePass>(cache_.device(), pass.executable, exchange_.group);
}

/// Messages, exchanges and loads go through pinned memory.
void Session::stage() {
    std::span<std::byte> const arena{arena_->at(0), static_cast<std::size_t>(arena_->size())};
    StagingLayout const layout{all_sets(), rank_, exchange_};
    DeviceStaging const staging{layout, rank_, arena, pinned_.staging()};
    std::vector<Executable*> executables{&evaluate_.executable};
    if (train_set_)
        executables.push_back(&train_->executable);
    std::byte* tokens = pinned_.tokens();
    for (Executable* const executable : executables) {
        staging.rewrite(executable->transport);
        for (IssuedInstruction& instruction : executable->issued)
            for (Call& call : instruction.calls)
                if (call.kind == Call::Kind::load_inputs || call.kind == Call::Kind::load_targets) {
                    call.staging = tokens;
                    tokens += 4 * call.sequences.size() * model_.config().sequence_length;
                }
    }
    EVENER_ENSURE(tokens <= pinned_.tokens() + pinned_.needs().tokens);
}

Executable Session::executable_of(program::ProgramSet const& set, StepState& state,
                                  std::byte* numbers) {
    return make_executable(
        {.set = set,
         .rank = rank_,
         .model = model_,
         .cache = cache_,
         .regions = regions(),
         .kept_gradients = options_.keep_gradients ? pinned_.gradients() : nullptr,
         .numbers = numbers,
         .exchange = exchange_,
         .device_workspace_bytes = options_.device_workspace_bytes,
         .state = state,
         .adamw = options_.adamw,
         .head = options_.head,
         .logits = logits_.empty() ? nullptr : shared_logits_});
}

void Session::exchange_train(program::ProgramSet set) {
    EVENER_EXPECT(train_set_.has_value());
    EVENER_EXPECT(set.plan.groups == plan().groups && set.plan.chunks == plan().chunks &&
                  set.plan.batch_size == plan().batch_size &&
                  set.plan.microbatch_size == plan().microbatch_size);
    train_set_ = std::move(set);
    train_->rehearsal_seconds.clear();
    make_pinned();
    make_arena();
    make_executables();
}

bool Session::reaches(void const* address) const {
    return !device().has_own_memory() || pinned_.holds(address);
}

void Session::upload(void* dst, void const* src, std::int64_t bytes) const {
    if (reaches(dst))
        std::memcpy(dst, src, static_cast<std::size_t>(bytes));
    else
        device::upload(device(), dst, src, bytes, pinned_.block());
}

void Session::download(void* dst, void const* src, std::int64_t bytes) const {
    if (reaches(src))
        std::memcpy(dst, src, static_cast<std::size_t>(bytes));
    else
        device::download(device(), dst, src, bytes, pinned_.block());
}

void Session::refresh_weights() {
    constexpr std::int64_t block = std::int64_t{1} << 20;
    std::vector<float> wide(block);
    std::vector<std::uint16_t> narrow(block);
    for (BucketMemory const& entry : memory_) {
        if (entry.master == nullptr)
            continue;
        std::byte* const weights = entry.weights_at(entry.shard.begin);
        if (entry.type == core::DType::float32) {
            device::move(device(), weights, entry.master, 4 * entry.shard.size());
            continue;
        }
        for (std::int64_t begin = 0; begin < entry.shard.size(); begin += block) {
            std::int64_t const count = std::min(block, entry.shard.size() - begin);
            download(wide.data(), entry.master + begin, 4 * count);
            std::transform(wide.begin(), wide.begin() + count, narrow.begin(), core::to_bfloat16);
            upload(weights + 2 * begin, narrow.data(), 2 * count);
        }
    }
}

} // namespace evener::runtime
