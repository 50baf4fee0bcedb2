// SPDX-License-Identifier: Apache-2.0
#include "schedule/exact_states.hpp"

#include <algorithm>
#include <tuple>

namespace evener::schedule {

namespace {

std::uint64_t hash(std::vector<Frontier::Counts> const& counts) {
    std::uint64_t result = 0;
    for (Frontier::Counts const& own : counts)
        for (std::int32_t const count : {own.forwards, own.inputs, own.weights})
            result =
                (result ^ static_cast<std::uint64_t>(count)) * 0x9e3779b97f4a7c15u + (result >> 29);
    return result;
}

/// Whether no value of a is later than its counterpart in b.
bool no_later(double const* a, double const* b, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        if (a[i] > b[i])
            return false;
    return true;
}

} // namespace

void StateLayer::clear() {
    states_.clear();
    counts_.clear();
    values_.clear();
    first_.clear();
}

void StateLayer::add(std::vector<Frontier::Counts> const& counts, std::vector<double> const& values,
                     State state, std::vector<Step>& steps, Step const& step) {
    auto const [first, added] = first_.try_emplace(hash(counts), -1);
    for (std::int32_t i = first->second; i >= 0; i = states_[static_cast<std::size_t>(i)].next) {
        State& other = states_[static_cast<std::size_t>(i)];
        if (other.dropped || !std::equal(counts.begin(), counts.end(), this->counts(other)))
            continue;
        double const* const theirs = this->values(other);
        if (no_later(theirs, values.data(), values.size())) {
            other.blocked &= state.blocked; // it stands for both
            return;
        }
        if (no_later(values.data(), theirs, values.size())) {
            state.blocked &= other.blocked;
            other.dropped = true;
        }
    }
    state.values = values_.size();
    state.step = static_cast<std::int32_t>(steps.size());
    state.next = first->second;
    first->second = static_cast<std::int32_t>(states_.size());
    steps.push_back(step);
    states_.push_back(state);
    counts_.insert(counts_.end(), counts.begin(), counts.end());
    values_.insert(values_.end(), values.begin(), values.end());
}

double StateLayer::select(double limit, std::size_t width) {
    std::vector<std::tuple<double, double, std::size_t>> alive; // bound, sum, index
    for (std::size_t i = 0; i < states_.size(); ++i) {
        State& state = states_[i];
        state.dropped = state.dropped || state.bound >= limit;
        if (!state.dropped)
            alive.emplace_back(state.bound, state.sum, i);
    }
    if (alive.size() <= width)
        return no_memory_limit;
    auto const cut = alive.begin() + static_cast<std::ptrdiff_t>(width);
    std::nth_element(alive.begin(), cut, alive.end());
    double least = no_memory_limit;
    for (auto i = cut; i != alive.end(); ++i) {
        states_[std::get<2>(*i)].dropped = true;
        least = std::min(least, std::get<0>(*i));
    }
    return least;
}

} // namespace evener::schedule
