// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"
#include "runtime/trainer.hpp"

#include "app/commands.hpp"
#include "app/evaluation.hpp"
#include <fmt/format.h>

#include <cmath>

namespace evener::app {

namespace {

core::ExitCode run(comm::MpiSession const& mpi, EvaluateOptions const& options) {
    core::log::configure(mpi.rank(), core::log::Level::info);
    auto const format = io::token_format_named(options.format);
    if (!format)
        throw core::ConfigError{fmt::format("'--format' is '{}'; use auto, llmc, uint16, uint32 "
                                            "or megatron",
                                            options.format)};
    if (options.context < 0 || options.batch < 0)
        throw core::ConfigError{"'--context' and '--batch' must be 1 or more"};
    constexpr std::int64_t most = 1 << 20;
    if (options.context > most || options.batch > most)
        throw core::ConfigError{fmt::format("'--context' is {} and '--batch' is {}; use at most {}",
                                            options.context, options.batch, most)};
    Evaluation evaluation{
        mpi, {options.run, options.context, options.batch, runtime::HeadOutput::losses}};
    std::int64_t const length = evaluation.model->config().sequence_length;
    std::optional<std::int32_t> ignore; // what did not count in training does not count here
    if (evaluation.job.data.ignore_token >= 0)
        ignore = static_cast<std::int32_t>(evaluation.job.data.ignore_token);
    std::optional<io::TokenDataset> data;
    together(mpi, true, [&] {
        data.emplace(options.data, *format, length, ignore);
        data->check_tokens(evaluation.model->config().vocabulary);
        if (options.context == 0)
            return;
        // Short windows are cut out of longer samples, so that few are lost between two.
        std::int64_t longest = 0;
        for (io::TokenFile const& shard : data->shards())
            longest = std::max(longest, shard.tokens() - 1);
        data.emplace(options.data, *format, std::max(length, std::min<std::int64_t>(longest, 256)),
                     ignore);
    });
    std::int64_t const batch = evaluation.session->plan().batch_size;
    double loss = 0;
    if (options.context > 0) {
        runtime::ContextTokens const tokens{*data, options.context, batch};
        loss = runtime::evaluate(*evaluation.session, tokens, tokens.batches());
    } else {
        runtime::ValidationTokens const tokens{*data, batch};
        loss = runtime::evaluate(*evaluation.session, tokens, tokens.batches());
    }
    if (!std::isfinite(loss))
        throw core::AgreedError{core::ExitCode::internal,
                                fmt::format("the loss of '{}' is not finite (its parameters are "
                                            "not); use an older checkpoint",
                                            evaluation.folder)};
    if (mpi.rank() == 0)
        fmt::print("{}: step {}, context {}: loss {:.4f} nats per token "
                   "(perplexity {:.3f})\n",
                   evaluation.folder, evaluation.step, length, loss, std::exp(loss));
    return core::ExitCode::done;
}

} // namespace

core::ExitCode evaluate(EvaluateOptions const& options) {
    return run_mpi_job([&](comm::MpiSession const& mpi) { return run(mpi, options); });
}

} // namespace evener::app
