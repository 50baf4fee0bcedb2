// SPDX-License-Identifier: Apache-2.0
#pragma once

// TOML in, a resolved and valid Job out. Everything wrong with the input is collected and thrown
// once as core::ConfigError, each finding with file, line and column. Nothing here touches the file
// system beyond reading the job file: whether data exists is asked where it is opened.

#include "core/error.hpp"
#include "job/job.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace evener::job {

struct ParseOptions {
    /// Ranks that will run the job; 0 = not known (`check`), then the groups' own ranks count.
    std::int64_t ranks = 0;
    /// Called with a line about what was decided for the job in place of its words; may be empty.
    std::function<void(std::string const&)> notice = {};
};

/// `settings` are `table.key=value` from the command line, applied after the file in their order;
/// a value is TOML, and a bare word is a string: {"train.steps=100", "run.name=first"}.
Job parse_job(std::string_view path, std::vector<std::string> const& settings = {},
              ParseOptions const& options = {});

/// The same for text in memory; `name` stands for the file in messages and, without its folder and
/// ".toml", is the default of run.name.
Job parse_job_text(std::string_view text, std::string_view name,
                   std::vector<std::string> const& settings = {}, ParseOptions const& options = {});

/// A text with a [plan] table only, as print_plan writes it. Checked in itself; check_job checks it
/// against a model.
Plan parse_plan_text(std::string_view text, std::string_view name,
                     ParseOptions const& options = {});

/// Throws core::ConfigError (without places) when a resolved job cannot be run: for one that was
/// changed after parsing, such as by giving it another plan.
void check_job(Job const& job, ParseOptions const& options = {});

} // namespace evener::job
