// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"
#include "io/corpus.hpp"
#include "runtime/sampler.hpp"

#include "app/commands.hpp"
#include "app/evaluation.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>

namespace evener::app {

namespace {

core::ExitCode run(comm::MpiSession const& mpi, SampleOptions const& options) {
    core::log::configure(mpi.rank(), core::log::Level::info);
    bool const text = options.tokens.empty();
    if (text && options.prompt.empty())
        throw core::ConfigError{"'--prompt' is empty; give at least one byte to continue"};
    if (options.count < 0 || !(options.temperature >= 0))
        throw core::ConfigError{"'--tokens' (or '--bytes') and '--temperature' must be 0 or more"};
    Evaluation evaluation{mpi, {options.run, 0, 1, runtime::HeadOutput::logits}};
    std::int64_t const vocabulary = evaluation.model->config().vocabulary;
    if (text && vocabulary != io::byte_vocabulary)
        throw core::ConfigError{fmt::format(
            "this model has {} tokens (a model on bytes has {}); give '--prompt-tokens' "
            "instead of '--prompt'",
            vocabulary, io::byte_vocabulary)};
    for (std::int32_t const token : options.tokens)
        if (token < 0 || token >= vocabulary)
            throw core::ConfigError{fmt::format("'--prompt-tokens' has {} (the model has tokens 0 "
                                                "to {}); use ids of its own tokenizer",
                                                token, vocabulary - 1)};
    runtime::Sampler sampler{mpi, *evaluation.session, {options.temperature, options.seed}};
    std::vector<std::int32_t> prompt = options.tokens;
    for (char const c : options.prompt)
        prompt.push_back(static_cast<unsigned char>(c));
    if (mpi.rank() == 0)
        fmt::print("{}", text ? options.prompt : fmt::format("{}", fmt::join(prompt, " ")));
    sampler.generate(prompt, options.count, [&](std::int32_t token) {
        if (mpi.rank() != 0)
            return;
        if (text)
            std::fputc(token, stdout);
        else
            fmt::print(" {}", token);
        std::fflush(stdout);
    });
    if (mpi.rank() == 0)
        std::fputc('\n', stdout);
    return core::ExitCode::done;
}

} // namespace

core::ExitCode sample(SampleOptions const& options) {
    return run_mpi_job([&](comm::MpiSession const& mpi) { return run(mpi, options); });
}

} // namespace evener::app
