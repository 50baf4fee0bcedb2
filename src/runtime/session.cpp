// SPDX-License-Identifier: Apache-2.0
#include "runtime/session.hpp"

#include "runtime/delays.hpp"
#include "runtime/device_staging.hpp"
#include "runtime/issuer.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

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

void Session::run_train(TokenSource const& tokens) {
    EVENER_EXPECT(train_.has_value());
    run(*train_, tokens);
}

void Session::run_evaluate(TokenSource const& tokens) {
    evaluate_state_.step = state_.step;
    run(evaluate_, tokens);
    if (!logits_.empty())
        std::copy_n(shared_logits_, logits_.size(), logits_.begin());
    state_.scalars = evaluate_state_.scalars;
}

std::vector<std::int64_t> Session::sequences_read() const {
    std::set<std::int64_t> sequences;
    auto const add = [&](core::Range range) {
        for (std::int64_t s = range.begin; s < range.end; ++s)
            sequences.insert(s);
    };
    for (Pass const* const pass : {train_ ? &*train_ : nullptr, &evaluate_}) {
        if (pass == nullptr)
            continue;
        for (core::Range const range : pass->state->head_sequences) // whose targets are counted
            add(range);
        for (IssuedInstruction const& instruction : pass->executable.issued)
            for (Call const& call : instruction.calls)
                if (call.kind == Call::Kind::load_inputs || call.kind == Call::Kind::load_targets)
                    add(call.sequences);
    }
    return {sequences.begin(), sequences.end()};
}

void Session::run(Pass& pass, TokenSource const& tokens) {
    tokens.prepare(pass.state->step);
    pass.state->tokens = 0;
    pass.state->next_tokens = 0;
    clock_.assign(static_cast<std::size_t>(boundary_bin(model_)) + 1, {});
    pass.executable.numbers->give(*pass.state);
    pass.board->reset();
    if (pass.device)
        pass.device->start();
    transport_.start(pass.executable.transport, *pass.board,
                     pass.device ? &pass.device->copies() : nullptr);
    try {
        run_instructions(pass, tokens);
    } catch (...) {
        pass.board->fail(std::current_exception());
    }
    if (status_ != nullptr)
        status_->waits(status_words("its messages to end"));
    transport_.finish();
    if (pass.device)
        pass.device->finish(*pass.board, clock_);
}

void Session::run_instructions(Pass& pass, TokenSource const& tokens) {
    Issuer issuer{pass.executable.issued,
                  transport_,
                  *pass.board,
                  {[&](std::size_t place) { begin(pass, place, tokens); },
                   [&](std::size_t place) { return is_whole(pass, place); },
                   [&](std::size_t place) { end(pass, place); },
                   [&](std::size_t place) { say_wait(pass, place); }}};
    issuer.run();
}

namespace {

/// An error of the device gets the instruction's name.
template <class Work>
auto named(IssuedInstruction const& instruction, Work const& work) {
    try {
        return work();
    } catch (core::DeviceError const& error) {
        throw core::DeviceError{error.device_code(), error.fatal(),
                                fmt::format("instruction {} ({}): {}", instruction.id.value,
                                            instruction.name, error.what())};
    }
}

bool is_collective(IssuedInstruction const& instruction) {
    return instruction.stream == kernels::StreamKind::collective;
}

} // namespace

void Session::begin(Pass& pass, std::size_t place, TokenSource const& tokens) {
    IssuedInstruction const& instruction = pass.executable.issued[place];
    if (status_ != nullptr)
        status_->runs(pass.words[instruction.id.index()]);
    random_delay();
    pass.board->start(instruction.id);
    named(instruction, [&] {
        if (!pass.rehearsal_seconds.empty()) {
            if (instruction.stream == kernels::StreamKind::compute)
                sleep_instead(pass, instruction.id);
        } else if (pass.device)
            enqueue(pass, place, tokens);
        else
            execute(pass, instruction, tokens);
    });
}

/// Says the first instruction that this one waits for and that has not ended.
void Session::say_wait(Pass const& pass, std::size_t place) const {
    if (status_ == nullptr)
        return;
    for (core::InstructionId const id : pass.executable.issued[place].after)
        if (!pass.board->done(id)) {
            status_->waits(pass.words[id.index()]);
            return;
        }
}

/// The library may put the last of a collective on the stream while it is asked, and for the first
/// of all it may need the other members.
bool Session::is_whole(Pass const& pass, std::size_t place) const {
    IssuedInstruction const& instruction = pass.executable.issued[place];
    if (!is_collective(instruction) || !pass.rehearsal_seconds.empty())
        return true;
    return named(instruction, [&] {
        bool const ready = exchange_.group->ready();
        pass.device->copies().await_group(!ready);
        return ready;
    });
}

void Session::end(Pass& pass, std::size_t place) {
    if (pass.device && pass.rehearsal_seconds.empty())
        named(pass.executable.issued[place], [&] { pass.device->end(place); });
    random_delay();
    transport_.publish(pass.executable.issued[place].id);
}

void Session::sleep_instead(Pass const& pass, core::InstructionId id) const {
    prctl(PR_SET_TIMERSLACK, 1000UL); // ns; by default sleeps last 50 us longer than asked
    std::this_thread::sleep_for(std::chrono::duration<double>(pass.rehearsal_seconds[id.index()]));
}

void Session::execute(Pass& pass, IssuedInstruction const& instruction, TokenSource const& tokens) {
    using Clock = std::chrono::steady_clock;
    Clock::time_point before = Clock::now();
    for (Call const& next : instruction.calls) {
        if (passes_over(pass, next))
            return;
        call(pass, next, tokens);
        calls_.store(calls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        Clock::time_point const now = Clock::now();
        if (next.bin >= 0)
            clock_[static_cast<std::size_t>(next.bin)] +=
                {std::chrono::duration<double>(now - before).count(), next.amount};
        before = now;
    }
}

/// The same calls, enqueued: their times come from events.
void Session::enqueue(Pass& pass, std::size_t place, TokenSource const& tokens) {
    IssuedInstruction const& instruction = pass.executable.issued[place];
    pass.device->begin(place);
    for (std::size_t i = 0; i < instruction.calls.size(); ++i) {
        Call const& next = instruction.calls[i];
        if (passes_over(pass, next))
            break;
        if (next.parts != nullptr)
            start_collective(next);
        else if (next.kind == Call::Kind::copy)
            cache_.device().copy(instruction.stream, next.operands[0], next.operands[1],
                                 next.bytes);
        else
            call(pass, next, tokens);
        bool const last = i + 1 == instruction.calls.size();
        if (next.bin >= 0)
            clock_[static_cast<std::size_t>(next.bin)] += {0, next.amount};
        if (instruction.stream == kernels::StreamKind::compute &&
            (last || instruction.calls[i + 1].bin != next.bin))
            pass.device->mark(next.bin);
    }
}

void Session::start_collective(Call const& call) const {
    device::Group& group = *exchange_.group;
    if (call.kind == Call::Kind::reduce)
        group.reduce(static_cast<float const*>(call.operands[0]),
                     static_cast<float*>(call.operands[1]), *call.parts);
    else
        group.gather(call.operands[0], call.type, *call.parts);
}

/// Whether the rest of the instruction is left out.
bool Session::passes_over(Pass const& pass, Call const& call) const {
    return call.kind == Call::Kind::skip_if_not_finite && pass.state->skip_nonfinite &&
           !is_finite(pass.state->scalars);
}

void Session::call(Pass& pass, Call const& call, TokenSource const& tokens) {
    StepState& state = *pass.state;
    switch (call.kind) {
    case Call::Kind::kernel:
        cache_.device().run(*call.operation, {call.operands.data(), call.operand_count},
                            pass.executable.workspace);
        break;
    case Call::Kind::load_inputs:
    case Call::Kind::load_targets:
        load(pass, call, tokens);
        break;
    case Call::Kind::copy:
        std::memcpy(call.operands[0], call.operands[1], static_cast<std::size_t>(call.bytes));
        break;
    case Call::Kind::reduce:
    case Call::Kind::gather:
        EVENER_EXPECT(!"a collective of devices on a device that computes in host memory");
        break;
    case Call::Kind::select_row:
        device::enqueue_copy(cache_.device(), call.operands[1],
                             static_cast<std::byte*>(call.operands[0]) + position_ * call.bytes,
                             call.bytes);
        break;
    case Call::Kind::count_tokens:
        for (core::Range const range : state.head_sequences)
            for (std::int64_t s = range.begin; s < range.end; ++s)
                state.next_tokens += tokens.valid_targets(state.step + 1, s);
        break;
    case Call::Kind::skip_if_not_finite:
        break;
    }
}

double Session::compute_seconds() const {
    double seconds = 0;
    for (IssuedInstruction const& instruction : train_->executable.issued)
        if (instruction.stream == kernels::StreamKind::compute) {
            comm::InstructionTimes const times = train_->board->times(instruction.id);
            seconds += times.end - times.start;
        }
    return seconds;
}

program::RankMeasurement Session::train_measurement() const {
    program::RankMeasurement result;
    for (std::int64_t l = 0; l < model_.layer_count(); ++l) {
        auto const bin = [&](LayerPhase phase) {
            return clock_[static_cast<std::size_t>(clock_bin(core::LayerId{l}, phase))];
        };
        result.layers.push_back({bin(LayerPhase::forward), bin(LayerPhase::backward_input),
                                 bin(LayerPhase::backward_weight)});
    }
    result.boundaries = clock_.back();
    return result;
}

void Session::load(Pass& pass, Call const& call, TokenSource const& tokens) {
    auto const length = static_cast<std::size_t>(model_.config().sequence_length);
    void* const place = call.staging != nullptr ? call.staging : call.operands[0];
    auto* dst = static_cast<std::int32_t*>(place);
    for (std::int64_t s = call.sequences.begin; s < call.sequences.end; ++s, dst += length) {
        if (call.kind == Call::Kind::load_inputs) {
            tokens.read(pass.state->step, s, {dst, length}, unused_tokens_);
            check_tokens({dst, length}, 0);
        } else {
            tokens.read(pass.state->step, s, unused_tokens_, {dst, length});
            check_tokens({dst, length}, -1);
            pass.state->tokens +=
                std::count_if(dst, dst + length, [](std::int32_t token) { return token >= 0; });
        }
    }
    if (call.staging != nullptr)
        device::enqueue_copy(cache_.device(), call.operands[0], call.staging,
                             4 * call.sequences.size() * model_.config().sequence_length);
}

/// A token id outside the vocabulary would read and write outside the embedding.
void Session::check_tokens(std::span<std::int32_t const> tokens, std::int32_t lowest) const {
    std::int64_t const vocabulary = model_.config().vocabulary;
    auto const bad = std::find_if(tokens.begin(), tokens.end(), [&](std::int32_t token) {
        return token < lowest || token >= vocabulary;
    });
    if (bad != tokens.end())
        throw core::Error{
            core::ExitCode::bad_input,
            fmt::format("the data holds token {} ('model.vocabulary' is {}); raise it "
                        "or use data made with this vocabulary",
                        *bad, vocabulary)};
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
