// SPDX-License-Identifier: Apache-2.0
// How a session runs a pass; session.cpp is how it is made.
#include "runtime/delays.hpp"
#include "runtime/issuer.hpp"
#include "runtime/session.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

namespace evener::runtime {

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

} // namespace evener::runtime
