// SPDX-License-Identifier: Apache-2.0
#include "textbook.hpp"

#include <algorithm>

namespace evener::schedule::textbook {

using program::Work;
using program::WorkKind;
using Order = std::vector<Work>;

namespace {

constexpr auto F = WorkKind::forward;
constexpr auto B = WorkKind::backward_input;
constexpr auto W = WorkKind::backward_weight;
constexpr auto BW = WorkKind::backward;

void put(Order& order, WorkKind kind, std::int64_t chunk, std::int64_t id) {
    order.push_back({kind, core::ChunkId{chunk}, core::MicrobatchId{id}});
}

} // namespace

program::Plan chain(std::int64_t p, std::int64_t m, std::string const& name, std::int64_t turns,
                    Placement placement) {
    program::Plan plan;
    for (std::int64_t g = 0; g < p; ++g)
        plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
    for (std::int64_t c = 0; c < p * turns; ++c) {
        bool const back = placement == Placement::v && c / p % 2 == 1;
        plan.chunks.push_back({core::GroupId{back ? p - 1 - c % p : c % p}, {c, c + 1}});
    }
    plan.batch_size = m;
    plan.schedule = name;
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

Orders gpipe(std::int64_t p, std::int64_t m) {
    Orders orders;
    for (std::int64_t r = 0; r < p; ++r) {
        Order& order = orders.emplace_back();
        for (std::int64_t i = 0; i < m; ++i)
            put(order, F, r, i);
        for (std::int64_t i = 0; i < m; ++i)
            put(order, BW, r, i);
    }
    return orders;
}

Orders one_f_one_b(std::int64_t p, std::int64_t m, std::int64_t cut, std::int64_t extra) {
    Orders orders;
    for (std::int64_t r = 0; r < p; ++r) {
        Order& order = orders.emplace_back();
        std::int64_t forwards = 0;
        std::int64_t backwards = 0;
        while (forwards < std::min(p - 1 - r + (r < cut ? extra : 0), m))
            put(order, F, r, forwards++);
        while (forwards < m) {
            put(order, F, r, forwards++);
            put(order, BW, r, backwards++);
        }
        while (backwards < m)
            put(order, BW, r, backwards++);
    }
    return orders;
}

Orders zb_h(std::int64_t p, std::int64_t m, std::int64_t strength) {
    Orders orders;
    for (std::int64_t r = 0; r < p; ++r) {
        Order& order = orders.emplace_back();
        std::int64_t forwards = 0;
        std::int64_t inputs = 0;
        std::int64_t weights = 0;
        while (forwards < std::min(strength * (p - 1 - r), m))
            put(order, F, r, forwards++);
        while (forwards < m) {
            put(order, F, r, forwards++);
            put(order, B, r, inputs++);
            if (inputs - weights > strength * r)
                put(order, W, r, weights++);
        }
        while (inputs < m) {
            put(order, B, r, inputs++);
            put(order, W, r, weights++);
        }
        while (weights < m)
            put(order, W, r, weights++);
    }
    return orders;
}

Orders interleaved(std::int64_t p, std::int64_t m, std::int64_t v) {
    Orders orders;
    for (std::int64_t r = 0; r < p; ++r) {
        Order& order = orders.emplace_back();
        auto const forward = [&](std::int64_t k) {
            put(order, F, k / p % v * p + r, k / (p * v) * p + k % p);
        };
        auto const backward = [&](std::int64_t k) {
            put(order, BW, (v - 1 - k / p % v) * p + r, k / (p * v) * p + k % p);
        };
        std::int64_t const warm_up = std::min(2 * (p - 1 - r) + (v - 1) * p, m * v);
        for (std::int64_t k = 0; k < warm_up; ++k)
            forward(k);
        for (std::int64_t k = warm_up; k < m * v; ++k) {
            forward(k);
            backward(k - warm_up);
        }
        for (std::int64_t k = m * v - warm_up; k < m * v; ++k)
            backward(k);
    }
    return orders;
}

Orders breadth_first(std::int64_t p, std::int64_t m, std::int64_t v) {
    Orders orders;
    for (std::int64_t r = 0; r < p; ++r) {
        Order& order = orders.emplace_back();
        for (std::int64_t turn = 0; turn < v; ++turn)
            for (std::int64_t i = 0; i < m; ++i)
                put(order, F, turn * p + r, i);
        for (std::int64_t turn = v - 1; turn >= 0; --turn)
            for (std::int64_t i = m - 1; i >= 0; --i)
                put(order, BW, turn * p + r, i);
    }
    return orders;
}

Orders zb_v(std::int64_t p, std::int64_t wanted) {
    Orders orders;
    std::int64_t const m = std::max(wanted, 2 * p - 1); // the least for which it is written down
    for (std::int64_t r = 0; r < p; ++r) {
        Order& order = orders.emplace_back();
        std::int64_t const out = r;
        std::int64_t const back = 2 * p - 1 - r;
        std::int64_t f0 = 0, f1 = 0, b0 = 0, b1 = 0;
        for (std::int64_t i = 0; i < 2 * (p - r) - 1; ++i)
            put(order, F, out, f0++);
        for (std::int64_t i = 0; i < r; ++i) {
            put(order, F, back, f1++);
            put(order, F, out, f0++);
        }
        for (std::int64_t i = 0; i < p - r; ++i) {
            put(order, F, back, f1++);
            put(order, B, back, b1);
            put(order, W, back, b1++);
        }
        while (f1 < f0 || f0 < m) {
            if (f0 < m)
                put(order, F, out, f0++);
            put(order, B, out, b0);
            put(order, W, out, b0++);
            put(order, F, back, f1++);
            put(order, B, back, b1);
            put(order, W, back, b1++);
        }
        std::int64_t w0 = b0;
        std::int64_t w1 = b1;
        for (std::int64_t i = 0; i < r; ++i) {
            put(order, B, out, b0++);
            put(order, B, back, b1++);
        }
        for (std::int64_t i = 0; i < p - r; ++i) {
            put(order, B, out, b0++);
            put(order, W, out, w0++);
        }
        while (w1 < b1)
            put(order, W, back, w1++);
        while (w0 < b0)
            put(order, W, out, w0++);
        std::erase_if(order, [&](Work const& work) { return work.microbatch.value >= wanted; });
    }
    return orders;
}

} // namespace evener::schedule::textbook
