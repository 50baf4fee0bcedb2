// SPDX-License-Identifier: Apache-2.0
#include "schedule/draw_facts.hpp"

#include <fmt/format.h>

#include <cmath>

namespace evener::schedule {

namespace {

using namespace program;

struct FactsOf {
    ProgramSet const& set;
    core::RankId rank;

    static Facts compute(Compute const& op, std::string_view kind, Paint paint) {
        return {kind, paint, op.chunk, op.microbatch, op.sequences, {}, {}, {}};
    }
    static Facts message(Message const& op, std::string_view kind, Paint paint) {
        return {kind, paint, op.chunk, op.microbatch, op.sequences, op.peer, {}, op.bytes};
    }
    Facts bucket(core::BucketId id, std::string_view kind, Paint paint) const {
        return {kind, paint, {}, {}, {}, {}, id, {}};
    }
    Facts collective(core::BucketId id, std::string_view kind, core::DType type) const {
        Facts facts = bucket(id, kind, Paint::collective);
        facts.bytes = set.buckets[id.index()].elements * core::bytes_of(type);
        return facts;
    }

    Facts operator()(Forward const& op) const {
        return compute(op, op.evaluate ? "evaluate" : "forward", Paint::forward);
    }
    Facts operator()(Recompute const& op) const {
        return compute(op, "recompute", Paint::recompute);
    }
    Facts operator()(Backward const& op) const { return compute(op, "backward", Paint::backward); }
    Facts operator()(BackwardInput const& op) const {
        return compute(op, "backward_input", Paint::backward_input);
    }
    Facts operator()(BackwardWeight const& op) const {
        return compute(op, "backward_weight", Paint::backward_weight);
    }
    Facts operator()(Send const& op) const { return message(op, "send", Paint::send); }
    Facts operator()(Receive const& op) const { return message(op, "receive", Paint::receive); }
    Facts operator()(GatherParameters const& op) const {
        return collective(op.bucket, "gather_parameters",
                          set.buckets[op.bucket.index()].type_of(rank));
    }
    Facts operator()(ReduceGradients const& op) const {
        return collective(op.bucket, "reduce_gradients", core::DType::float32);
    }
    Facts operator()(MeasureGradients const& op) const {
        return bucket(op.bucket, "measure_gradients", Paint::other);
    }
    Facts operator()(CountTokens const&) const {
        return {"count_tokens", Paint::other, {}, {}, {}, {}, {}, {}};
    }
    Facts operator()(ReduceScalars const&) const {
        return {"reduce_scalars", Paint::collective, {}, {}, {}, {}, {}, {}};
    }
    Facts operator()(UpdateParameters const& op) const {
        return bucket(op.bucket, "update_parameters", Paint::other);
    }
    static Facts copy(Copy const& op, std::string_view kind, Paint paint) {
        return {kind, paint, op.chunk, op.microbatch, {}, {}, op.bucket, op.bytes};
    }
    Facts operator()(Fetch const& op) const { return copy(op, "fetch", Paint::fetch); }
    Facts operator()(Evict const& op) const { return copy(op, "evict", Paint::evict); }
};

/// `value` with three significant digits, without an exponent.
std::string three_digits(double value) {
    double const size = std::abs(value);
    int const digits = size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2;
    return fmt::format("{:.{}f}", value, digits);
}

} // namespace

Facts facts_of(ProgramSet const& set, core::RankId rank, Operation const& operation) {
    return std::visit(FactsOf{set, rank}, operation);
}

std::string queue_name(Queue const& queue) {
    if (!queue.peer.valid())
        return std::string{name_of(queue.kind)};
    return fmt::format("{} {}", name_of(queue.kind), name_of(queue.direction));
}

core::GroupId group_of(Plan const& plan, core::RankId rank) {
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
        if (member_of(plan.groups[g], rank) >= 0)
            return core::GroupId{static_cast<std::int64_t>(g)};
    return {};
}

TimeUnit time_unit(double seconds) {
    if (seconds >= 1)
        return {"s", 1};
    if (seconds >= 1e-3)
        return {"ms", 1e3};
    if (seconds >= 1e-6)
        return {"µs", 1e6};
    return {"ns", 1e9};
}

std::string time_text(double seconds) {
    if (seconds == 0)
        return "0 s";
    TimeUnit const unit = time_unit(std::abs(seconds));
    return fmt::format("{} {}", three_digits(seconds * unit.per_second), unit.name);
}

std::string percent_text(double part, double whole) {
    if (whole == 0 || part == 0)
        return "0 %";
    return fmt::format("{:.1f} %", 100 * part / whole);
}

std::string xml_text(std::string_view text) {
    static constexpr std::string_view unknown = "\xef\xbf\xbd"; // U+FFFD
    std::string escaped;
    for (std::size_t i = 0; i < text.size(); ++i) {
        auto const c = static_cast<unsigned char>(text[i]);
        std::string_view const character = text.substr(i, 3);
        if (c == '&')
            escaped += "&amp;";
        else if (c == '<')
            escaped += "&lt;";
        else if (c == '>')
            escaped += "&gt;";
        else if (c == '"')
            escaped += "&quot;";
        else if (c < 0x20 && c != '\t' && c != '\n')
            escaped += unknown;
        else if (character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf") { // not characters
            escaped += unknown;
            i += 2;
        } else
            escaped += text[i];
    }
    return escaped;
}

} // namespace evener::schedule
