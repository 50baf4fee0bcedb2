// SPDX-License-Identifier: Apache-2.0
#include "job/suggest.hpp"
#include "job/toml_guard.hpp"
#include "job/toml_reader.hpp"

#include <fmt/format.h>

#include <utility>

namespace evener::job {

namespace {

std::string_view trimmed(std::string_view text) {
    std::size_t const begin = text.find_first_not_of(" \t");
    if (begin == std::string_view::npos)
        return {};
    return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

/// `value = text`, or nothing where that is not one TOML value.
std::optional<toml::table> parse_value(std::string_view text, std::string* why = nullptr) {
    std::string const line = fmt::format("value = {}", text);
    if (auto const refusal = refuse_toml(line)) {
        if (why != nullptr)
            *why = refusal->message;
        return std::nullopt;
    }
    try {
        toml::table table = toml::parse(line);
        if (table.size() == 1)
            return table;
    } catch (toml::parse_error const& error) {
        if (why != nullptr)
            *why = error.description();
    }
    return std::nullopt;
}

std::optional<toml::table> parse_word(std::string_view text) {
    return parse_value(quoted(text));
}

bool is_word_key(Slot const& slot) {
    return std::holds_alternative<std::string*>(slot) || std::holds_alternative<ChoiceSlot>(slot);
}

/// The value as TOML; a bare word is a string, and so is anything given to a key that takes words.
std::optional<toml::table> value_of(Setting const& setting, std::string* why) {
    if (setting.text.empty())
        return parse_word("");
    Table const* table = find_table(setting.table);
    Key<Job> const* key = table == nullptr ? nullptr : find_key(table->keys, setting.key);
    Job scratch;
    bool const takes_word = key != nullptr && is_word_key(key->slot(scratch));
    std::optional<toml::table> value = parse_value(setting.text, why);
    if (value && takes_word && !value->get("value")->is_string())
        return parse_word(setting.text);
    if (!value && setting.text.find_first_of("\"'[{") != 0)
        return parse_word(setting.text);
    return value;
}

} // namespace

std::vector<Setting> parse_settings(std::vector<std::string> const& settings, Findings& findings) {
    std::vector<Setting> result;
    for (std::string const& argument : settings) {
        std::size_t const equals = argument.find('=');
        std::string_view const name = trimmed(std::string_view{argument}.substr(0, equals));
        std::size_t const dot = name.find('.');
        core::SourcePlace const place{fmt::format("--set {}", name), 0, 0};
        if (equals == std::string::npos) {
            findings.add_at(place, "the setting has no value; write --set table.key=value");
            continue;
        }
        if (dot == std::string_view::npos) {
            findings.add_at(place, fmt::format("{} names no table; write --set table.key=value{}",
                                               quoted(name), did_you_mean(suggest_keys(name, ""))));
            continue;
        }
        Setting setting;
        setting.table = name.substr(0, dot);
        setting.key = name.substr(dot + 1);
        setting.text = trimmed(std::string_view{argument}.substr(equals + 1));
        std::string why = "it is more than one value";
        std::optional<toml::table> value;
        if (setting.text.size() > most_job_bytes)
            why = "it is longer than 1 MiB";
        else
            value = value_of(setting, &why);
        if (!value) {
            findings.break_key(name);
            findings.add_at(place, fmt::format("the value cannot be read ({}); write a TOML value, "
                                               "with strings inside lists in quotes",
                                               why));
            continue;
        }
        setting.value = std::move(*value);
        result.push_back(std::move(setting));
    }
    return result;
}

} // namespace evener::job
