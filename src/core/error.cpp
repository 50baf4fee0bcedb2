// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

#include <fmt/format.h>

namespace evener::core {

namespace {

std::string join(std::vector<Finding> const& findings) {
    std::string text;
    for (Finding const& finding : findings) {
        if (!text.empty())
            text += '\n';
        text += to_string(finding);
    }
    return text;
}

} // namespace

std::string to_string(Finding const& finding) {
    SourcePlace const& place = finding.place;
    if (place.file.empty())
        return "error: " + finding.message;
    if (place.line == 0)
        return fmt::format("{}: error: {}", place.file, finding.message);
    return fmt::format("{}:{}:{}: error: {}", place.file, place.line, place.column,
                       finding.message);
}

ConfigError::ConfigError(std::vector<Finding> findings)
    : Error{ExitCode::bad_input, join(findings)}, findings_{std::move(findings)} {}

ConfigError::ConfigError(std::string const& message)
    : ConfigError{std::vector<Finding>{Finding{SourcePlace{}, message}}} {}

IoError::IoError(std::string path, std::string const& message)
    : Error{ExitCode::file, fmt::format("'{}': {}", path, message)}, path_{std::move(path)} {}

CheckpointError::CheckpointError(std::string path, std::string const& message)
    : Error{ExitCode::file, fmt::format("checkpoint '{}': {}", path, message)}, path_{std::move(
                                                                                    path)} {}

void contract_violation(char const* kind, char const* condition, std::source_location where) {
    throw ContractViolation{fmt::format("{}:{}: {} '{}' in {} (a bug of evener; please report it)",
                                        where.file_name(), where.line(), kind, condition,
                                        where.function_name())};
}

} // namespace evener::core
