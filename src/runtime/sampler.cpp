// SPDX-License-Identifier: Apache-2.0
#include "runtime/sampler.hpp"

#include "core/random.hpp"

#include <algorithm>
#include <cmath>

namespace evener::runtime {

namespace {

/// The tokens so far, padded behind; causality keeps the padding out of what counts.
class WindowTokens final : public TokenSource {
  public:
    explicit WindowTokens(std::vector<std::int32_t> const& window) : window_{window} {}

    void read(std::int64_t, std::int64_t, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override {
        std::fill(inputs.begin(), inputs.end(), 0);
        std::copy(window_.begin(), window_.end(), inputs.begin());
        std::fill(targets.begin(), targets.end(), -1);
    }
    std::int64_t valid_targets(std::int64_t, std::int64_t) const override { return 0; }

  private:
    std::vector<std::int32_t> const& window_;
};

} // namespace

Sampler::Sampler(comm::MpiSession const& mpi, Session& session, SamplerOptions const& options)
    : mpi_{mpi}, session_{session}, options_{options} {
    program::Plan const& plan = session.plan();
    program::Group const& group = plan.groups[plan.chunks.back().group.index()];
    for (std::size_t member = 0; member < group.ranks.size(); ++member)
        if (!program::sequences_of(plan, group, member, core::MicrobatchId{0}).empty())
            head_rank_ = group.ranks[member].value;
}

std::int32_t Sampler::choose(std::int64_t index) const {
    std::vector<float> const& logits = session_.logits();
    auto const likeliest = std::max_element(logits.begin(), logits.end());
    if (!std::all_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }))
        throw core::Error{core::ExitCode::internal,
                          "the logits are not finite (the checkpoint's parameters are not); use an "
                          "older checkpoint"};
    if (options_.temperature == 0)
        return static_cast<std::int32_t>(likeliest - logits.begin());
    std::vector<double> weights;
    double sum = 0;
    for (float const logit : logits) {
        weights.push_back(
            std::exp((static_cast<double>(logit) - *likeliest) / options_.temperature));
        sum += weights.back();
    }
    double left = sum * core::uniform(options_.seed, 0, static_cast<std::uint64_t>(index));
    for (std::size_t token = 0; token + 1 < weights.size(); ++token) {
        left -= weights[token];
        if (left < 0)
            return static_cast<std::int32_t>(token);
    }
    return static_cast<std::int32_t>(weights.size() - 1);
}

void Sampler::generate(std::vector<std::int32_t> tokens, std::int64_t count,
                       std::function<void(std::int32_t)> const& next) {
    EVENER_EXPECT(!tokens.empty());
    auto const length = static_cast<std::size_t>(session_.model().config().sequence_length);
    std::vector<std::int32_t> window;
    WindowTokens const source{window};
    for (std::int64_t i = 0; i < count; ++i) {
        std::size_t const used = std::min(length, tokens.size());
        window.assign(tokens.end() - static_cast<std::ptrdiff_t>(used), tokens.end());
        session_.set_position(static_cast<std::int64_t>(used) - 1);
        session_.run_evaluate(source);
        std::int32_t token = mpi_.rank() == head_rank_ ? choose(i) : 0;
        auto const bytes = mpi_.world().broadcast(
            std::as_bytes(std::span<std::int32_t const>{&token, 1}), head_rank_);
        std::copy_n(bytes.begin(), sizeof token, reinterpret_cast<std::byte*>(&token));
        tokens.push_back(token);
        next(token);
    }
}

} // namespace evener::runtime
