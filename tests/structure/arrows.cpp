// SPDX-License-Identifier: Apache-2.0

// Only arrows between two different folders of the table count; libraries of others are free.

#include "arrows.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>

namespace evener::structure {

namespace {

/// "src/core" and "kernels/" -> "core", "kernels".
std::string name_of(std::filesystem::path const& folder) {
    std::string text = folder.generic_string();
    while (!text.empty() && text.back() == '/')
        text.pop_back();
    return text.starts_with("src/") ? text.substr(4) : text;
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    std::istringstream stream{std::string{text}};
    for (std::string part; std::getline(stream, part, separator);)
        parts.push_back(part);
    return parts;
}

std::vector<std::string> matches(std::string const& text, std::regex const& pattern) {
    std::vector<std::string> found;
    for (std::sregex_iterator match{text.begin(), text.end(), pattern}, end; match != end; ++match)
        found.push_back((*match)[1]);
    return found;
}

/// The folder of the table in which a target with this source folder lives.
std::optional<std::string> owner(std::string const& folder, FolderRules const& rules) {
    for (auto const& [name, rule] : rules) {
        std::string const path = rule.path.generic_string();
        if (folder == path || folder.starts_with(path + "/"))
            return name;
    }
    return std::nullopt;
}

} // namespace

std::string read_text(std::filesystem::path const& path) {
    std::ifstream file{path, std::ios::binary};
    if (!file)
        throw core::IoError{path, "cannot be read"};
    return {std::istreambuf_iterator<char>{file}, {}};
}

FolderRules read_rules(std::string_view readme) {
    static std::regex const row{R"(^\| `([a-z/_]+)` \|[^|]*\| ([^|]+) \|$)"};
    static std::regex const word{"([a-z_]+)"};
    FolderRules rules;
    for (std::string const& line : split(readme, '\n')) {
        std::smatch cells;
        if (!std::regex_match(line, cells, row))
            continue;
        std::string path = cells[1];
        if (path.back() == '/')
            path.pop_back();
        FolderRule& rule = rules[name_of(path)];
        rule.path = path;
        rule.may_use_all = cells[2] == "all";
        if (!rule.may_use_all && cells[2] != "nothing")
            for (std::string const& used : matches(cells[2], word))
                rule.may_use.insert(used);
    }
    for (auto const& [name, rule] : rules)
        for (std::string const& used : rule.may_use)
            if (!rules.contains(used))
                throw core::ConfigError{fmt::format(
                    "the folder table lets '{}' use '{}', which has no row", name, used)};
    return rules;
}

std::vector<Arrow> arrows_of_links(std::string_view link_lists, FolderRules const& rules) {
    static std::regex const linked{R"((?:^|[^A-Za-z0-9_])((?:evener_|Evener::)[A-Za-z0-9_]+))"};
    std::map<std::string, std::string> folder_of; // target -> its folder's name
    std::vector<std::vector<std::string>> lines;
    for (std::string const& line : split(link_lists, '\n')) {
        auto columns = split(line, '|');
        columns.resize(3);
        if (auto const name = owner(columns[1], rules))
            folder_of[columns[0]] = *name;
        lines.push_back(std::move(columns));
    }

    std::vector<Arrow> arrows;
    for (auto const& columns : lines) {
        if (!folder_of.contains(columns[0]))
            continue;
        for (std::string target : matches(columns[2], linked)) {
            if (target.starts_with("Evener::"))
                target = "evener_" + target.substr(8);
            if (folder_of.contains(target))
                arrows.push_back({folder_of[columns[0]], folder_of[target],
                                  fmt::format("target {} links {}", columns[0], target)});
        }
    }
    return arrows;
}

std::vector<std::filesystem::path> sources_under(std::filesystem::path const& folder) {
    static std::set<std::string> const endings{".hpp", ".cpp", ".cuh", ".cu"};
    std::vector<std::filesystem::path> files;
    if (std::filesystem::exists(folder))
        for (auto const& entry : std::filesystem::recursive_directory_iterator{folder})
            if (endings.contains(entry.path().extension().string()))
                files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
}

std::vector<Arrow> arrows_of_includes(std::filesystem::path const& root, FolderRules const& rules) {
    static std::regex const include{R"rx(^\s*#\s*include\s+"([a-z_]+)/.*$)rx"};
    std::vector<Arrow> arrows;
    for (auto const& [name, rule] : rules) {
        for (auto const& path : sources_under(root / rule.path)) {
            int number = 0;
            for (std::string const& line : split(read_text(path), '\n')) {
                ++number;
                std::smatch part;
                if (std::regex_match(line, part, include) && rules.contains(part[1]))
                    arrows.push_back(
                        {name, part[1],
                         fmt::format("{}:{}: {}", path.lexically_relative(root).generic_string(),
                                     number, line)});
            }
        }
    }
    return arrows;
}

std::vector<std::string> forbidden(std::vector<Arrow> const& arrows, FolderRules const& rules) {
    std::vector<std::string> lines;
    for (Arrow const& arrow : arrows) {
        FolderRule const& rule = rules.at(arrow.from);
        if (arrow.from != arrow.to && !rule.may_use_all && !rule.may_use.contains(arrow.to))
            lines.push_back(
                fmt::format("'{}' may not use '{}': {}", arrow.from, arrow.to, arrow.where));
    }
    return lines;
}

} // namespace evener::structure
