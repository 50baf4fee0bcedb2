// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_pass.hpp"

#include <chrono>
#include <thread>

namespace evener::runtime {

using kernels::StreamKind;

namespace {

/// The collectives that the devices run, for messages.
comm::GroupWatch watch(Executable const& executable, device::Group* group) {
    comm::GroupWatch result{group};
    for (IssuedInstruction const& instruction : executable.issued)
        if (instruction.stream == StreamKind::collective)
            result.collectives.emplace_back(instruction.id, instruction.name);
    return result;
}

} // namespace

DevicePass::DevicePass(device::Device const& device, Executable const& executable,
                       device::Group* group)
    : device_{device}, executable_{executable}, copies_{device, executable.instructions,
                                                        watch(executable, group)},
      group_{group}, zero_{device.make_event()}, last_of_stream_{device.make_event()} {
    std::size_t calls = 0;
    for (IssuedInstruction const& instruction : executable.issued) {
        spans_.push_back({device.make_event(), device.make_event(), false});
        calls += instruction.calls.size();
    }
    for (std::size_t i = 0; i < calls; ++i)
        marks_.push_back({device.make_event(), -1, nullptr});
}

void DevicePass::start() {
    copies_.reset();
    for (Span& span : spans_)
        span.used = false;
    used_marks_ = 0;
    device_.record(zero_, StreamKind::compute);
    device_.synchronize(); // so that the host's clock and the device's event mean one moment
    zero_time_ = std::chrono::steady_clock::now();
}

void DevicePass::begin(std::size_t place) {
    IssuedInstruction const& instruction = executable_.issued[place];
    copies_.wait(instruction.stream, instruction.after);
    Span& span = spans_[place];
    device_.record(span.begin, instruction.stream);
    span.used = true;
    if (instruction.stream == StreamKind::compute)
        last_ = &span.begin;
}

void DevicePass::mark(std::int32_t bin) {
    EVENER_EXPECT(used_marks_ < marks_.size());
    Mark& mark = marks_[used_marks_++];
    device_.record(mark.event, StreamKind::compute);
    mark.bin = bin;
    mark.since = last_;
    last_ = &mark.event;
}

void DevicePass::end(std::size_t place) {
    IssuedInstruction const& instruction = executable_.issued[place];
    device_.record(spans_[place].end, instruction.stream);
    copies_.note(instruction.id, instruction.stream);
}

/// With a group in flight nothing may block: a member that is gone shows only to who asks.
void DevicePass::wait_for_device() {
    if (group_ == nullptr) {
        device_.synchronize();
        return;
    }
    try {
        for (std::uint32_t stream = 0; stream < static_cast<std::uint32_t>(StreamKind::count);
             ++stream) {
            device_.record(last_of_stream_, StreamKind{stream});
            while (!device_.done(last_of_stream_)) {
                copies_.check_group();
                std::this_thread::sleep_for(std::chrono::microseconds{20});
            }
        }
    } catch (...) {
        copies_.abort_group();
        throw;
    }
}

void DevicePass::finish(comm::Board& board, std::vector<program::Spent>& clock) {
    wait_for_device();
    double const shift = std::chrono::duration<double>(zero_time_ - board.zero()).count();
    for (std::size_t i = 0; i < spans_.size(); ++i)
        if (spans_[i].used && board.done(executable_.issued[i].id))
            board.set_times(executable_.issued[i].id,
                            {shift + device_.elapsed_seconds(zero_, spans_[i].begin),
                             shift + device_.elapsed_seconds(zero_, spans_[i].end)});
    for (std::size_t i = 0; i < used_marks_; ++i)
        if (marks_[i].bin >= 0)
            clock[static_cast<std::size_t>(marks_[i].bin)] +=
                {device_.elapsed_seconds(*marks_[i].since, marks_[i].event), 0};
}

} // namespace evener::runtime
