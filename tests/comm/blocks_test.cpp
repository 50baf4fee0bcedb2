// SPDX-License-Identifier: Apache-2.0

// Messages of devices with a memory of their own: the steps of their blocks overlap, and the bytes
// arrive whatever the kinds of the two ends.

#include "recording_device.hpp"
#include "transport_support.hpp"

#include <optional>
#include <thread>

namespace evener::comm {
namespace {

using core::InstructionId;
using core::RankId;
using kernels::StreamKind;

constexpr std::int64_t block = 1 << 16;
constexpr InstructionId message{0};
constexpr InstructionId go{1};

/// Rank 0 sends one message to rank 1, by way of a device where a rank has one.
class Blocks : public testing::Test {
  protected:
    void start(std::int64_t bytes, bool device, bool synchronous = false) {
        sends_ = world_rank() == 0;
        data_.assign(static_cast<std::size_t>(bytes), std::byte{0});
        staging_.assign(device ? data_.size() : 0, std::byte{0});
        for (std::size_t i = 0; sends_ && i < data_.size(); ++i)
            data_[i] = expected(i);
        TransportOptions options;
        options.message_block_bytes = block;
        options.synchronous_sends = synchronous;
        if (device) {
            recording_.emplace();
            device_.emplace(recording_->table(), kernels::DeviceOptions{});
            copies_.emplace(*device_, 2);
            copies_->reset();
        }
        make_task(bytes);
        transport_.emplace(MPI_COMM_WORLD, options);
        board_.emplace(2);
        transport_->start(queues_, *board_, copies_ ? &*copies_ : nullptr);
    }

    void make_task(std::int64_t bytes) {
        std::byte* const place = staging_.empty() ? data_.data() : staging_.data();
        Task task{message, {go}, {}};
        if (sends_)
            task.work = SendTask{RankId{1}, Direction::forward, 3, place, bytes};
        else
            task.work = ReceiveTask{RankId{0}, Direction::forward, 3, place, bytes};
        if (!staging_.empty() && sends_)
            task.outward = {{place, data_.data(), bytes}};
        if (!staging_.empty() && !sends_)
            task.inward = {{data_.data(), place, bytes}};
        queues_ = {{sends_ ? TransportQueue::Kind::send : TransportQueue::Kind::receive, {task}}};
    }

    /// The pass and what the device still has to do.
    void finish() {
        transport_->finish();
        while (copies_ && !copies_->done(std::vector{message}))
            std::this_thread::yield();
        for (std::size_t i = 0; i < data_.size(); ++i)
            ASSERT_EQ(data_[i], expected(i)) << "byte " << i;
        transport_.reset();
        copies_.reset();
        device_.reset();
        recording_.reset();
    }

    static std::byte expected(std::size_t i) { return static_cast<std::byte>(i % 253 + 1); }

    /// Copies made on a stream so far; waits for `count` of them, though not for ever.
    std::size_t made(StreamKind stream, std::size_t count) {
        std::size_t found = 0;
        for (int look = 0; look < 2000; ++look) {
            found = 0;
            for (RecordedCopy const& copy : recording_->made())
                found += copy.stream == stream;
            if (found >= count)
                break;
            std::this_thread::sleep_for(std::chrono::milliseconds{5});
            recording_->work();
        }
        return found;
    }

    bool sends_ = false;
    std::vector<std::byte> data_; ///< of the device where there is one
    std::vector<std::byte> staging_;
    std::vector<TransportQueue> queues_;
    std::optional<RecordingDevice> recording_;
    std::optional<device::Device> device_;
    std::optional<DeviceCopies> copies_;
    std::optional<Board> board_;
    std::optional<Transport> transport_;
};

TEST_F(Blocks, AreCopiedOutBeforeTheFirstHasArrived) {
    start(5 * block + 1, true, true);
    if (sends_) {
        board_->publish(go);
        EXPECT_EQ(made(StreamKind::message_out, 6), 6u);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!sends_)
        board_->publish(go); // only now is there a receive
    finish();
}

TEST_F(Blocks, AreCopiedInBeforeTheNextIsSent) {
    start(3 * block, true);
    for (std::size_t sent = 1; sent <= 3; ++sent) {
        if (sends_)
            recording_->allow(1);
        if (sent == 1)
            board_->publish(go);
        if (sends_) {
            EXPECT_EQ(made(StreamKind::message_out, sent), sent);
        } else {
            EXPECT_EQ(made(StreamKind::message_in, sent), sent);
        }
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (sends_)
        recording_->allow(1);
    finish();
}

TEST_F(Blocks, ArriveWholeWhateverTheEndsComputeOn) {
    for (bool const sender : {false, true})
        for (bool const receiver : {false, true})
            for (std::int64_t const bytes :
                 {std::int64_t{1}, block - 1, block, block + 1, 4 * block, 9 * block + 17}) {
                SCOPED_TRACE(testing::Message() << sender << receiver << ' ' << bytes);
                start(bytes, world_rank() == 0 ? sender : receiver);
                board_->publish(go);
                finish();
            }
}

} // namespace
} // namespace evener::comm
