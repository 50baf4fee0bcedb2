// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the ranks of a run stand: how the last one ended, and what to do when nothing moves.

#include "job/job.hpp"
#include "runtime/session.hpp"
#include "runtime/watchdog.hpp"

#include <memory>
#include <string>
#include <vector>

namespace evener::app {

std::string status_file(std::string const& out);

/// One line for each rank, or ranks that stand at the same, of a run that runs or has died without
/// a word; empty for one that has ended or says nothing.
std::vector<std::string> positions(std::string const& out);

/// Warns how the last run in this folder ended, where it could not say so itself. By rank 0, which
/// holds the folder's lock, before a new status file is made.
void print_last_words(std::string const& out);

/// Null where the job switches it off.
std::unique_ptr<runtime::Watchdog> start_watchdog(job::Run const& run, runtime::Status& status,
                                                  runtime::Session const& session,
                                                  double predicted_step_seconds);

} // namespace evener::app
