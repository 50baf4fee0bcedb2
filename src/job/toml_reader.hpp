// SPDX-License-Identifier: Apache-2.0
#pragma once

// TOML nodes into the members of a Job, by the schema: names and types are checked here, ranges and
// what must fit together in validate.cpp. The only header that shows toml++. Internal to src/job.

#include "job/findings.hpp"
#include "job/job.hpp"
#include "job/schema.hpp"

// toml++ 3.3 asserts that a table header begins with a name, and reports the error right after
// that: without its assertions "[.a]" is a message also where toml++ is header-only.
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evener::job {

/// Job files are short; a longer one is a mistaken path.
constexpr std::size_t most_job_bytes = 1 << 20;

/// One `table.key=value` of the command line.
struct Setting {
    std::string table;
    std::string key;
    std::string text;  ///< the value as written
    toml::table value; ///< the value under the name "value"

    core::SourcePlace place() const { return {"--set " + table + "." + key, 0, 0}; }
};

/// The file's root table; nothing, and a finding, on a syntax error.
std::optional<toml::table> parse_toml(std::string_view text, std::string const& file,
                                      Findings& findings);

/// Those that can be read; findings for the others.
std::vector<Setting> parse_settings(std::vector<std::string> const& settings, Findings& findings);

/// Reads `root` into `job`; `allowed` are the tables that may stand in it.
void read_tables(toml::table const& root, std::string const& file, std::span<Table const> allowed,
                 Job& job, Findings& findings);

void read_setting(Setting const& setting, Job& job, Findings& findings);

} // namespace evener::job
