// SPDX-License-Identifier: Apache-2.0
#pragma once

// metrics.jsonl: one JSON object per line and step, appended and on disk at once, so that a killed
// run loses nothing and tools can follow the file. Every line carries `"schema": 1`; numbers that
// are not finite are written as null, since JSON has no word for them.

#include "io/files.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>

namespace evener::io {

inline constexpr int metrics_schema = 1;

using MetricValue = std::variant<bool, std::int64_t, double, std::string>;

struct MetricsRecord {
    std::int64_t step = 0;
    double loss = 0;                ///< nats per token of this step's batch
    std::optional<double> val_loss; ///< null where not measured at this step
    double grad_norm = 0;           ///< before clipping
    double lr = 0;                  ///< learning rate used by this step
    std::int64_t tokens = 0;        ///< trained on since step 0
    double tokens_per_second = 0;
    double step_seconds = 0;
    std::map<std::string, MetricValue> extensions; ///< further fields, after the ones above
};

/// The line for a record, without the newline.
std::string to_json(MetricsRecord const& record);

class MetricsWriter {
  public:
    /// Opens or creates the file for appending; a torn last line (a killed run) is cut off. Throws
    /// core::IoError, too where it is no regular file.
    explicit MetricsWriter(std::string path);

    /// One write of one whole line, with the lines before it that could not be written. What cannot
    /// be written now (a full disk) is kept for the next call, and the reason returned; else "".
    std::string append(MetricsRecord const& record);
    /// Lines that are kept.
    std::int64_t unwritten() const noexcept { return unwritten_; }

    /// For a resume from `step`: drops the lines of later steps and those that are not a record.
    /// Returns how many were dropped. The file is replaced atomically.
    std::int64_t truncate_to_step(std::int64_t step);

  private:
    void open();

    std::string path_;
    FileDescriptor file_;
    std::string pending_;
    std::int64_t unwritten_ = 0;
};

} // namespace evener::io
