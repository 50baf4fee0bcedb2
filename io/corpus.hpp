// SPDX-License-Identifier: Apache-2.0
#pragma once

// From text to training data: bytes as tokens (vocabulary 256), the end of the text held out for
// validation. And the yardstick for such data: the loss of a table of n-gram counts.

#include <cstdint>
#include <string>
#include <vector>

namespace evener::io {

inline constexpr std::int64_t byte_vocabulary = 256;

struct PrepareOptions {
    /// Files or patterns (as in a job), read one after the other with nothing between; "-" is
    /// standard input.
    std::vector<std::string> inputs;
    std::string output_folder;
    /// The last part of the whole text, in [0, 1); 0 writes no validation file.
    double validation_fraction = 0.05;
};

struct PrepareReport {
    std::int64_t train_tokens = 0;
    std::int64_t validation_tokens = 0;
    std::vector<std::string> files; ///< written: train.bin (or its shards), then val.bin
    double seconds = 0;
};

/// Writes `train.bin` and `val.bin` (llm.c format) into the output folder. Streams: the text may be
/// larger than memory; what cannot be measured beforehand (a pipe) is first copied to a temporary
/// file in the output folder. Throws core::ConfigError for impossible options, core::IoError for
/// files that cannot be read or written and for a text too short to split.
PrepareReport prepare_bytes(PrepareOptions const& options);

/// Mean negative log probability (nats per byte) that an n-gram table counted on the train file
/// gives the validation file; both hold bytes as tokens, order from 1 to 7. The estimate backs off
/// through all shorter contexts with one pseudo-count each and no tuned number:
///     p_k(byte | k-1 bytes) = (count(context, byte) + p_{k-1}(byte)) / (count(context) + 1),
/// p_0 = 1/256. It is a simple table's loss, not the best an n-gram model can do: heavier smoothing
/// lowers it. Memory grows with the text and its distinct n-grams (about 40 MB for 4 MB of English
/// and order 6).
double ngram_nats_per_byte(std::string const& train_file, std::string const& validation_file,
                           int order);

} // namespace evener::io
