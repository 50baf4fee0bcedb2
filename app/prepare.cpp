// SPDX-License-Identifier: Apache-2.0
#include "io/corpus.hpp"

#include "app/commands.hpp"
#include <fmt/format.h>

#include <filesystem>

namespace evener::app {

core::ExitCode prepare(PrepareOptions const& options) {
    if (options.ngrams && !(options.validation_fraction > 0))
        throw core::ConfigError{"'--ngrams' needs a held-out part; give '--validation-fraction' "
                                "more than 0"};
    for (std::string const& input : options.inputs)
        for (char const* const name : {"train.bin", "val.bin"}) {
            std::error_code ignored; // one that does not exist is no input
            if (std::filesystem::equivalent(input, options.output + "/" + name, ignored))
                throw core::ConfigError{fmt::format(
                    "'{}' would be replaced by what is made of it; use another '--output'", input)};
        }
    io::PrepareReport const report =
        io::prepare_bytes({options.inputs, options.output, options.validation_fraction});
    fmt::print("{} training tokens, {} validation tokens, {:.1f} s\n", report.train_tokens,
               report.validation_tokens, report.seconds);
    for (std::string const& file : report.files)
        fmt::print("{}\n", file);
    if (options.ngrams) {
        for (int const order : {3, 6})
            fmt::print("{}-gram table: {:.3f} nats per byte on the held-out part\n", order,
                       io::ngram_nats_per_byte(options.output + "/train.bin",
                                               options.output + "/val.bin", order));
    }
    return core::ExitCode::done;
}

} // namespace evener::app
