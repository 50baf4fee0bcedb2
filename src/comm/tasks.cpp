// SPDX-License-Identifier: Apache-2.0
#include "comm/tasks.hpp"

#include "comm/exchange.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::comm {

namespace {

char const* name_of(Direction direction) {
    return direction == Direction::forward ? "forward" : "backward";
}

std::string text_of(SendTask const& task) {
    return fmt::format("send of {} bytes to rank {}, tag {}, {}", task.bytes, task.peer.value,
                       task.tag, name_of(task.direction));
}
std::string text_of(ReceiveTask const& task) {
    return fmt::format("receive of {} bytes from rank {}, tag {}, {}", task.bytes, task.peer.value,
                       task.tag, name_of(task.direction));
}
std::string text_of(ReduceTask const& task) {
    return fmt::format("reduction, tag {}", task.tag);
}
std::string text_of(GatherTask const& task) {
    return fmt::format("gather, tag {}", task.tag);
}
std::string text_of(ScalarsTask const&) {
    return "scalars";
}

void check_rank(core::RankId rank, ExchangeContext const& context) {
    EVENER_EXPECT(rank.value >= 0 && rank.value < context.size);
}

/// Shards of ranks of this world; returns the own one.
core::Range check_shards(std::vector<OwnedPart> const& shards, ExchangeContext const& context) {
    core::Range own;
    for (OwnedPart const& part : shards) {
        check_rank(part.owner, context);
        EVENER_EXPECT(part.elements.begin >= 0 && part.elements.size() >= 0);
        if (part.owner.value != context.rank || part.elements.empty())
            continue;
        EVENER_EXPECT(own.empty()); // one shard per owner
        own = part.elements;
    }
    return own;
}

void check_tag(std::int64_t tag, std::int64_t max_tag) {
    EVENER_EXPECT(tag >= 0 && tag <= max_tag);
}

void check_work(SendTask const& task, ExchangeContext const& context, std::int64_t max_tag) {
    check_rank(task.peer, context);
    check_tag(task.tag, max_tag);
    EVENER_EXPECT(task.bytes == 0 || (task.bytes > 0 && task.data != nullptr));
}

void check_work(ReceiveTask const& task, ExchangeContext const& context, std::int64_t max_tag) {
    check_rank(task.peer, context);
    check_tag(task.tag, max_tag);
    EVENER_EXPECT(task.bytes == 0 || (task.bytes > 0 && task.data != nullptr));
}

void check_work(ReduceTask const& task, ExchangeContext const& context, std::int64_t max_tag) {
    check_tag(task.tag, max_tag);
    core::Range const own = check_shards(task.shards, context);
    EVENER_EXPECT(own.empty() || task.reduced != nullptr);
    EVENER_EXPECT(std::is_sorted(task.contributors.begin(), task.contributors.end()));
    for (core::RankId const rank : task.contributors)
        check_rank(rank, context);
    bool const contributes = std::binary_search(task.contributors.begin(), task.contributors.end(),
                                                core::RankId{context.rank});
    EVENER_EXPECT(contributes == (task.gradient != nullptr));
}

void check_work(GatherTask const& task, ExchangeContext const& context, std::int64_t max_tag) {
    check_tag(task.tag, max_tag);
    core::Range const own = check_shards(task.shards, context);
    EVENER_EXPECT(own.empty() || core::overlap(own, task.weights_range) == own);
    EVENER_EXPECT(task.weights_range.empty() || task.weights != nullptr);
    core::DType own_type = core::DType::float32;
    for (OwnedPart const& part : task.shards)
        if (part.owner.value == context.rank)
            own_type = part.type;
    for (Holder const& holder : task.holders) {
        check_rank(holder.rank, context);
        bool const here = holder.rank.value == context.rank;
        if (!own.empty())
            EVENER_EXPECT(holder.type == own_type || (!here && task.master != nullptr));
        if (here)
            for (OwnedPart const& part : task.shards)
                EVENER_EXPECT(core::overlap(part.elements, task.weights_range).size() ==
                              part.elements.size());
    }
}

void check_work(ScalarsTask const& task, ExchangeContext const& context, std::int64_t) {
    EVENER_EXPECT(task.contribute && task.receive && (task.combine || context.rank != 0));
}

} // namespace

std::string describe(Task const& task) {
    return fmt::format("instruction {} ({})", task.id.value,
                       std::visit([](auto const& work) { return text_of(work); }, task.work));
}

void check(Task const& task, ExchangeContext const& context, std::int64_t max_tag) {
    std::visit([&](auto const& work) { check_work(work, context, max_tag); }, task.work);
}

} // namespace evener::comm
