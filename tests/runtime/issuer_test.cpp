// SPDX-License-Identifier: Apache-2.0
// Copies and other streams never hold up computations or messages, and nothing waits for ever.
#include "runtime/issuer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace evener::runtime {
namespace {

using core::InstructionId;
using kernels::StreamKind;

/// A pass without a device: instructions by id, some issued, some of the transport.
class Pass {
  public:
    void issue(std::int64_t id, StreamKind stream, std::vector<std::int64_t> const& after) {
        list_.push_back({InstructionId{id}, stream, "", ids(after), {}});
        ++count_;
    }
    /// Of a queue of its own.
    void transport(std::int64_t id, std::vector<std::int64_t> const& after) {
        comm::ScalarsTask nothing{[] { return std::vector<std::byte>(8); },
                                  [](auto const& all) { return all.front(); }, [](auto) {}};
        queues_.push_back(
            {comm::TransportQueue::Kind::collective, {{InstructionId{id}, ids(after), nothing}}});
        ++count_;
    }

    /// All of the instruction is enqueued only when another is done: a collective whose other members
    /// come that late.
    void whole_after(std::int64_t id, std::int64_t other) { whole_after_[id] = other; }

    /// Ids in the order in which they were begun.
    std::vector<std::int64_t> run(comm::TransportOptions const& options = {}) {
        comm::Transport transport{MPI_COMM_SELF, options};
        comm::Board board{count_};
        std::vector<std::int64_t> order;
        Issuer issuer{list_,
                      transport,
                      board,
                      {[&](std::size_t place) {
                           InstructionId const id = list_[place].id;
                           EXPECT_TRUE(board.done(list_[place].after)) << id.value;
                           order.push_back(id.value);
                       },
                       [&](std::size_t place) {
                           std::int64_t const id = list_[place].id.value;
                           auto const behind = whole_after_.find(id);
                           return behind == whole_after_.end() ||
                                  board.done(InstructionId{behind->second});
                       },
                       [&](std::size_t place) { transport.publish(list_[place].id); },
                       {}}};
        transport.start(queues_, board);
        issuer.run();
        transport.finish();
        for (std::size_t i = 0; i < count_; ++i)
            EXPECT_TRUE(board.done(InstructionId{static_cast<std::int64_t>(i)})) << i;
        return order;
    }

  private:
    static std::vector<InstructionId> ids(std::vector<std::int64_t> const& values) {
        std::vector<InstructionId> result;
        for (std::int64_t const value : values)
            result.emplace_back(value);
        return result;
    }

    std::vector<IssuedInstruction> list_;
    std::map<std::int64_t, std::int64_t> whole_after_;
    std::vector<comm::TransportQueue> queues_;
    std::size_t count_ = 0;
};

std::vector<comm::TransportOptions> options() {
    std::vector<comm::TransportOptions> result(4);
    for (std::size_t i = 1; i < result.size(); ++i)
        result[i].random_delays = comm::RandomDelays{i, 500};
    return result;
}

using Order = std::vector<std::int64_t>;

TEST(Issuer, RunsComputationsInListOrder) {
    Pass pass;
    pass.issue(0, StreamKind::compute, {});
    pass.issue(1, StreamKind::compute, {});
    pass.issue(2, StreamKind::compute, {});
    EXPECT_EQ(pass.run(), (Order{0, 1, 2}));
}

// The copy waits for a message that waits for a computation behind the copy in the list.
TEST(Issuer, ACopyDoesNotHoldUpTheComputationBehindIt) {
    for (comm::TransportOptions const& delays : options()) {
        Pass pass;
        pass.transport(0, {2});
        pass.issue(1, StreamKind::copy_in, {0});
        pass.issue(2, StreamKind::compute, {});
        pass.issue(3, StreamKind::compute, {1});
        EXPECT_EQ(pass.run(delays), (Order{2, 1, 3}));
    }
}

// While the thread waits for the last message, a copy comes up that this message waits for.
TEST(Issuer, IssuesCopiesWhileAMessageIsAwaited) {
    for (comm::TransportOptions const& delays : options()) {
        Pass pass;
        pass.issue(0, StreamKind::compute, {});
        pass.transport(1, {0});
        pass.issue(2, StreamKind::copy_out, {1});
        pass.transport(3, {2});
        pass.issue(4, StreamKind::copy_in, {3});
        pass.transport(5, {4});
        pass.issue(6, StreamKind::compute, {5});
        EXPECT_EQ(pass.run(delays), (Order{0, 2, 4, 6}));
    }
}

// A copy on one stream makes one on another ready, which makes the next on the first ready.
TEST(Issuer, FollowsWhatOneStreamMakesReadyOnAnother) {
    Pass pass;
    pass.issue(0, StreamKind::copy_out, {});
    pass.issue(1, StreamKind::copy_in, {0});
    pass.issue(2, StreamKind::collective, {1});
    pass.issue(3, StreamKind::copy_out, {2});
    pass.issue(4, StreamKind::compute, {3});
    EXPECT_EQ(pass.run(), (Order{0, 1, 2, 3, 4}));
}

TEST(Issuer, KeepsTheOrderOfAStreamAndIssuesWhatIsLeftAtTheEnd) {
    for (comm::TransportOptions const& delays : options()) {
        Pass pass;
        pass.issue(0, StreamKind::compute, {});
        pass.transport(1, {0});
        pass.issue(2, StreamKind::copy_out, {1}); // waits at the front,
        pass.issue(3, StreamKind::copy_out, {});  // so this one does
        pass.issue(4, StreamKind::compute, {});
        auto const order = pass.run(delays);
        ASSERT_EQ(order.size(), 4u);
        auto const place = [&](std::int64_t id) { return std::ranges::find(order, id); };
        EXPECT_LT(place(2), place(3));
        EXPECT_LT(place(0), place(4));
    }
}

// The first collective of a group may need the other members, and these a message that this thread
// has yet to make.
TEST(Issuer, GoesOnWhileACollectiveIsNotWhole) {
    Pass pass;
    pass.issue(0, StreamKind::collective, {});
    pass.issue(1, StreamKind::collective, {});
    pass.issue(2, StreamKind::compute, {});
    pass.transport(3, {2});
    pass.issue(4, StreamKind::compute, {1});
    pass.whole_after(0, 3);
    std::vector<std::int64_t> const order = pass.run();
    EXPECT_EQ(order, (std::vector<std::int64_t>{0, 2, 1, 4}));
}

} // namespace
} // namespace evener::runtime
