// SPDX-License-Identifier: Apache-2.0
#include "io/corpus.hpp"

#include "app/commands.hpp"
#include <fmt/format.h>

namespace evener::app {

core::ExitCode prepare(PrepareOptions const& options) {
    io::PrepareReport const report =
        io::prepare_bytes({options.inputs, options.output, options.validation_fraction});
    fmt::print("{} training tokens, {} validation tokens, {:.1f} s\n", report.train_tokens,
               report.validation_tokens, report.seconds);
    for (std::string const& file : report.files)
        fmt::print("{}\n", file);
    if (options.ngrams) {
        if (report.validation_tokens == 0)
            throw core::ConfigError{"'--ngrams' needs a held-out part; give "
                                    "'--validation-fraction' more than 0"};
        for (int const order : {3, 6})
            fmt::print("{}-gram table: {:.3f} nats per byte on the held-out part\n", order,
                       io::ngram_nats_per_byte(options.output + "/train.bin",
                                               options.output + "/val.bin", order));
    }
    return core::ExitCode::done;
}

} // namespace evener::app
