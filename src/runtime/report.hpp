// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a person sees while a job runs: one line per step, or a progress bar on a terminal.

#include "io/metrics.hpp"
#include "job/job.hpp"

#include <cstdint>
#include <string>

namespace evener::runtime {

class Reporter {
  public:
    /// `step_flops`: model FLOPs of a step; `matrix_gflops`: what the ranks' products reach
    /// together (0: not measured, its share is left out).
    Reporter(job::Log const& log, std::int64_t steps, double step_flops, double matrix_gflops);
    Reporter(Reporter const&) = delete;
    Reporter& operator=(Reporter const&) = delete;
    ~Reporter() { finish(); }

    /// On rank 0 only, writes the step; elsewhere nothing.
    void step(io::MetricsRecord const& record);
    /// Ends the progress bar's line.
    void finish();

  private:
    std::string line(io::MetricsRecord const& record) const;
    void draw_bar(io::MetricsRecord const& record);

    std::int64_t steps_;
    std::int64_t step_every_;
    double step_flops_;
    double matrix_gflops_;
    bool bar_ = false;
    bool bar_open_ = false;
    double smooth_seconds_ = 0; ///< moving average of step times, for the ETA
};

/// 3725 -> "1:02:05".
std::string duration_text(double seconds);

} // namespace evener::runtime
