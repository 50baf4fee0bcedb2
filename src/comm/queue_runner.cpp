// SPDX-License-Identifier: Apache-2.0
#include "comm/queue_runner.hpp"

#include "comm/mpi_check.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::comm {

namespace {

/// Runs `body`; any exception begins with the task and becomes a CommError, unless it is the
/// device's.
template <class Body>
decltype(auto) naming(Task const& task, Body&& body) {
    try {
        return body();
    } catch (core::CommError const& error) {
        throw core::CommError{error.error_class(), error.peer(),
                              fmt::format("{}: {}", describe(task), error.what())};
    } catch (core::DeviceError const& error) {
        throw core::DeviceError{error.device_code(), error.fatal(),
                                fmt::format("{}: {}", describe(task), error.what())};
    } catch (std::exception const& error) {
        throw core::CommError{MPI_ERR_OTHER, -1,
                              fmt::format("{}: {}", describe(task), error.what())};
    }
}

} // namespace

Delays::Delays(std::optional<RandomDelays> const& delays, int rank) {
    if (!delays)
        return;
    std::seed_seq seed{static_cast<std::uint32_t>(delays->seed),
                       static_cast<std::uint32_t>(delays->seed >> 32),
                       static_cast<std::uint32_t>(rank)};
    random_.seed(seed);
    max_microseconds_ = delays->max_microseconds;
}

std::chrono::steady_clock::time_point Delays::from_now() {
    auto const now = std::chrono::steady_clock::now();
    if (!enabled())
        return now;
    std::uniform_int_distribution<std::int64_t> distribution{0, max_microseconds_};
    return now + std::chrono::microseconds{distribution(random_)};
}

QueueRunner::QueueRunner(ExchangeContext const& context, Delays& delays, Staging const* staging,
                         DeviceCopies* copies, TransportQueue const& queue, Board& board)
    : context_{&context}, delays_{&delays}, staging_{staging}, copies_{copies}, queue_{&queue},
      board_{&board} {}

QueueRunner::Run QueueRunner::make_run(Task const& task) const {
    return std::visit([this](auto const& work) { return run_of(work); }, task.work);
}

/// Whether it is a message that is copied block by block.
bool QueueRunner::moves_blocks(Task const& task) {
    return (std::holds_alternative<SendTask>(task.work) && !task.outward.empty()) ||
           (std::holds_alternative<ReceiveTask>(task.work) && !task.inward.empty());
}

QueueRunner::Run QueueRunner::run_of_blocks(Task const& task) const {
    if (auto const* const send = std::get_if<SendTask>(&task.work))
        return StagedSend{*context_, *copies_, *send, task.outward.front()};
    return StagedReceive{*context_, *copies_, std::get<ReceiveTask>(task.work),
                         task.inward.front()};
}

QueueRunner::Run QueueRunner::run_of(SendTask const& work) const {
    return MessageRun{*context_, work};
}
QueueRunner::Run QueueRunner::run_of(ReceiveTask const& work) const {
    return MessageRun{*context_, work};
}
QueueRunner::Run QueueRunner::run_of(ReduceTask const& work) const {
    return ReduceRun{*context_, *staging_, work};
}
QueueRunner::Run QueueRunner::run_of(GatherTask const& work) const {
    return GatherRun{*context_, *staging_, work};
}
QueueRunner::Run QueueRunner::run_of(ScalarsTask const& work) const {
    return ScalarsRun{*context_, work};
}

bool QueueRunner::start_next() {
    if (next_ == queue_->tasks.size())
        return false;
    if (queue_->kind != TransportQueue::Kind::receive && !active_.empty())
        return false;
    Task const& task = queue_->tasks[next_];
    if (!board_->done(task.after))
        return false;
    device_awaited_ = copies_ != nullptr && !copies_->done(task.after);
    if (device_awaited_)
        return false;
    if (delays_->enabled()) {
        if (!start_at_)
            start_at_ = delays_->from_now();
        if (Clock::now() < *start_at_)
            return false;
        start_at_.reset();
    }
    board_->start(task.id);
    naming(task, [&] {
        Active& active = active_.emplace_back(Active{&task, std::nullopt, std::nullopt});
        if (copies_ != nullptr && moves_blocks(task))
            active.run = run_of_blocks(task);
        else if (copies_ != nullptr && !task.outward.empty())
            copies_->start_outward(task);
        else
            active.run = make_run(task);
    });
    ++next_;
    return true;
}

/// Whether the copies in front of the task have ended just now.
bool QueueRunner::advance_copies(Active& active) {
    if (!copies_->outward_done(*active.task))
        return false;
    active.run = make_run(*active.task);
    return true;
}

bool QueueRunner::advance_active() {
    bool moved = false;
    for (Active& active : active_) {
        if (active.publish_at)
            continue;
        naming(*active.task, [&] {
            if (!active.run) {
                moved |= advance_copies(active);
                return;
            }
            std::visit(
                [&](auto& run) {
                    moved |= run.advance();
                    if (run.ended())
                        active.publish_at = delays_->from_now();
                },
                *active.run);
        });
    }
    return moved;
}

bool QueueRunner::publish_front() {
    if (active_.empty() || !active_.front().publish_at)
        return false;
    if (delays_->enabled() && Clock::now() < *active_.front().publish_at)
        return false;
    Task const& task = *active_.front().task;
    if (copies_ != nullptr)
        naming(task, [&] {
            if (!moves_blocks(task))
                copies_->start_inward(task);
            else if (!task.inward.empty())
                copies_->note(task.id, kernels::StreamKind::message_in);
        });
    board_->mark(task.id); // the transport itself looks again
    active_.pop_front();
    return true;
}

bool QueueRunner::advance() {
    bool moved = advance_active();
    while (publish_front())
        moved = true;
    while (start_next())
        moved = true;
    return moved;
}

/// In front of the task that started first, or of one of its blocks.
bool QueueRunner::copies_run() const {
    auto const& run = active_.front().run;
    if (!run)
        return true;
    auto const* const send = std::get_if<StagedSend>(&*run);
    return send != nullptr && send->copies_run();
}

bool QueueRunner::delayed() const {
    return start_at_ || device_awaited_ ||
           (!active_.empty() && (active_.front().publish_at || copies_run()));
}

} // namespace evener::comm
