// SPDX-License-Identifier: Apache-2.0
#include "app/watching.hpp"

#include "comm/mpi_session.hpp"
#include "core/log.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace evener::app {

std::string status_file(std::string const& out) {
    return out + "/status";
}

std::vector<std::string> positions(std::string const& out) {
    std::vector<std::string> lines = runtime::last_words(runtime::read_status(status_file(out)));
    if (!lines.empty())
        lines.insert(lines.begin(), "the run goes on, or ended without a word:");
    return lines;
}

void print_last_words(std::string const& out) {
    std::string const file = status_file(out);
    std::error_code ignored; // then it stays for the next time
    bool const hung = std::filesystem::remove(runtime::Watchdog::claim_file(file), ignored);
    std::vector<std::string> const lines = runtime::last_words(runtime::read_status(file));
    if (lines.empty())
        return;
    core::log::root(core::log::Level::warn,
                    "the last run ended {}:", hung ? "because nothing moved" : "without a word");
    for (std::string const& line : lines)
        core::log::root(core::log::Level::warn, "  {}", line);
}

std::unique_ptr<runtime::Watchdog> start_watchdog(job::Run const& run, runtime::Status& status,
                                                  runtime::Session const& session,
                                                  double predicted_step_seconds) {
    if (run.watchdog_seconds < 0)
        return nullptr;
    return std::make_unique<runtime::Watchdog>(
        status,
        runtime::WatchdogOptions{
            .seconds = static_cast<double>(run.watchdog_seconds),
            .predicted_step_seconds = predicted_step_seconds,
            .moves = [&session] { return session.moves(); },
            .end_job =
                [](std::vector<std::string> const& lines) {
                    for (std::string const& line : lines)
                        core::log::rank(core::log::Level::error, "{}", line);
                    std::fflush(stderr);
                    alarm(20); // ends this process where the launcher does not answer either
                    comm::MpiSession::abort_job(core::ExitCode::communication);
                }});
}

} // namespace evener::app
