// SPDX-License-Identifier: Apache-2.0
#include "runtime/report.hpp"

#include "core/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace evener::runtime {

namespace {

constexpr int bar_width = 24;

bool wants_bar(job::Progress progress) {
    if (!core::log::is_root() || progress == job::Progress::never)
        return false;
    return progress == job::Progress::always || isatty(STDERR_FILENO) != 0;
}

} // namespace

std::string duration_text(double seconds) {
    auto const whole = static_cast<std::int64_t>(std::max(0.0, seconds) + 0.5);
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

Reporter::Reporter(job::Log const& log, std::int64_t steps, double step_flops, double matrix_gflops)
    : steps_{steps}, step_every_{std::max<std::int64_t>(1, log.step_every)},
      step_flops_{step_flops}, matrix_gflops_{matrix_gflops}, bar_{wants_bar(log.progress)} {}

std::string Reporter::line(io::MetricsRecord const& record) const {
    std::string text =
        fmt::format("step {:>{}}/{}  loss {:.4f}  grad norm {:.3f}  lr {:.2e}  {:.0f} tok/s",
                    record.step, fmt::formatted_size("{}", steps_), steps_, record.loss,
                    record.grad_norm, record.lr, record.tokens_per_second);
    if (matrix_gflops_ > 0)
        text += fmt::format("  {:.0f}% of matrix rate",
                            100 * step_flops_ / record.step_seconds / (1e9 * matrix_gflops_));
    text += fmt::format("  ETA {}",
                        duration_text(static_cast<double>(steps_ - record.step) * smooth_seconds_));
    if (record.val_loss)
        text += fmt::format("  validation loss {:.4f}", *record.val_loss);
    return text;
}

void Reporter::step(io::MetricsRecord const& record) {
    smooth_seconds_ = smooth_seconds_ == 0 ? record.step_seconds
                                           : 0.9 * smooth_seconds_ + 0.1 * record.step_seconds;
    if (!core::log::is_root())
        return;
    bool const due =
        record.step % step_every_ == 0 || record.step == steps_ || record.val_loss.has_value();
    if (bar_) {
        if (record.val_loss) { // worth a line that stays
            finish();
            core::log::root(core::log::Level::info, "{}", line(record));
        } else {
            draw_bar(record);
        }
    } else if (due) {
        core::log::root(core::log::Level::info, "{}", line(record));
    }
}

void Reporter::draw_bar(io::MetricsRecord const& record) {
    auto const filled =
        static_cast<int>(bar_width * record.step / std::max<std::int64_t>(1, steps_));
    std::string const text = fmt::format("\r[{:#<{}}{:.<{}}] {}\x1b[K", "", filled, "",
                                         bar_width - filled, line(record));
    std::fwrite(text.data(), 1, text.size(), stderr);
    bar_open_ = true;
}

void Reporter::finish() {
    if (bar_open_)
        std::fputc('\n', stderr);
    bar_open_ = false;
}

} // namespace evener::runtime
