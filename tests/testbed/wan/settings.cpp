// SPDX-License-Identifier: Apache-2.0
#include "testbed/wan/settings.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace evener::testbed {

namespace {

double* value_of(LinkSettings& settings, std::string const& key) {
    constexpr std::array<std::pair<char const*, double LinkSettings::*>, 8> keys{
        {{"delay_ms", &LinkSettings::delay_ms},
         {"jitter_ms", &LinkSettings::jitter_ms},
         {"rate_mbit", &LinkSettings::rate_mbit},
         {"queue_kb", &LinkSettings::queue_kb},
         {"loss", &LinkSettings::loss},
         {"burst", &LinkSettings::burst},
         {"seed", &LinkSettings::seed},
         {"down", &LinkSettings::down}}};
    for (auto const& [name, member] : keys)
        if (key == name)
            return &(settings.*member);
    return nullptr;
}

/// What is wrong with `word`, or "".
std::string apply(std::string const& word, LinkSettings& settings) {
    std::size_t const equals = word.find('=');
    if (equals == std::string::npos)
        return "'" + word + "' is no setting, write key=value";
    double* const value = value_of(settings, word.substr(0, equals));
    if (value == nullptr)
        return "'" + word.substr(0, equals) + "' is no key of a link";
    std::string const number = word.substr(equals + 1);
    char* end = nullptr;
    double const parsed = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !std::isfinite(parsed) || parsed < 0)
        return "'" + number + "' is no number from 0 in '" + word + "'";
    *value = parsed;
    return settings.loss >= 1 ? "loss is 1 or more, use down=1" : "";
}

} // namespace

double LinkSettings::queue_bytes() const {
    if (queue_kb > 0)
        return queue_kb * 1024;
    return std::max(128.0 * 1024, rate_mbit * 125 * 2 * delay_ms); // 1 Mbit/s x 1 ms = 125 bytes
}

BothDirections read_settings(std::istream& text, std::string const& file) {
    BothDirections result;
    std::vector<core::Finding> findings;
    bool has_ab = false;
    bool has_ba = false;
    int line_number = 0;
    for (std::string line; std::getline(text, line);) {
        ++line_number;
        std::istringstream words{line};
        std::string direction;
        if (!(words >> direction) || direction.front() == '#')
            continue;
        if (direction != "ab" && direction != "ba") {
            findings.push_back({{file, line_number, 1}, "a line begins with ab or ba"});
            continue;
        }
        (direction == "ab" ? has_ab : has_ba) = true;
        LinkSettings& settings = direction == "ab" ? result.ab : result.ba;
        for (std::string word; words >> word;)
            if (std::string const problem = apply(word, settings); !problem.empty()) {
                std::size_t const end =
                    words.eof() ? line.size() : static_cast<std::size_t>(words.tellg());
                findings.push_back(
                    {{file, line_number, static_cast<int>(end - word.size()) + 1}, problem});
            }
    }
    if (!has_ab || !has_ba)
        findings.push_back({{file}, "a line ab or a line ba is missing"});
    if (!findings.empty())
        throw core::ConfigError{std::move(findings)};
    return result;
}

} // namespace evener::testbed
