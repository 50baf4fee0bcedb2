// SPDX-License-Identifier: Apache-2.0
#pragma once

// Shared by the tests of src/job: a small valid job, and the messages that a text gives.

#include "core/error.hpp"
#include "job/parse.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace evener::job {

/// The least that a job must say; 6 decoder layers. No final [table] is left open for more keys.
inline std::string const minimal_text = "[model]\npreset = \"tiny\"\n"
                                        "[data]\ntrain = [\"a.bin\"]\n"
                                        "[train]\nsteps = 10\n";

/// Every message of a text, "job.toml:1:2: error: ..."; empty when it is a job.
inline std::vector<std::string> messages_of(std::string_view text,
                                            std::vector<std::string> const& settings = {},
                                            ParseOptions const& options = {}) {
    std::vector<std::string> result;
    try {
        parse_job_text(text, "job.toml", settings, options);
    } catch (core::ConfigError const& error) {
        for (core::Finding const& finding : error.findings())
            result.push_back(core::to_string(finding));
    }
    return result;
}

/// The minimal job with settings.
inline Job job_with(std::vector<std::string> const& settings) {
    return parse_job_text(minimal_text, "job.toml", settings);
}

} // namespace evener::job
