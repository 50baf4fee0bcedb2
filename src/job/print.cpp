// SPDX-License-Identifier: Apache-2.0
#include "job/print.hpp"

#include "job/schema.hpp"

#include <fmt/format.h>

namespace evener::job {

namespace {

constexpr std::size_t text_columns = 96;

template <class List, class Text>
std::string list_text(List const& list, Text const& text) {
    std::string result;
    for (auto const& element : list)
        result += (result.empty() ? "" : ", ") + text(element);
    return "[" + result + "]";
}

/// Three or more ranks in a row become a range.
std::string ranks_text(std::vector<core::RankId> const& ranks) {
    std::vector<std::string> parts;
    for (std::size_t begin = 0; begin < ranks.size();) {
        std::size_t end = begin + 1;
        while (end < ranks.size() && ranks[end].value == ranks[end - 1].value + 1)
            ++end;
        if (end - begin < 3)
            end = begin + 1;
        parts.push_back(end - begin == 1
                            ? fmt::format("{}", ranks[begin].value)
                            : fmt::format("\"{}-{}\"", ranks[begin].value, ranks[end - 1].value));
        begin = end;
    }
    return list_text(parts, [](std::string const& part) { return part; });
}

struct ValueText {
    std::string operator()(bool const* value) const { return *value ? "true" : "false"; }
    std::string operator()(std::int64_t const* value) const { return fmt::format("{}", *value); }
    std::string operator()(std::uint64_t const* value) const { return fmt::format("{}", *value); }
    std::string operator()(double const* value) const { return number_text(*value); }
    std::string operator()(std::string const* value) const { return quoted(*value); }
    std::string operator()(ChoiceSlot const& choice) const {
        return quoted(choice.names[choice.get(choice.target)]);
    }
    std::string operator()(std::vector<std::string> const* value) const {
        return list_text(*value, [](std::string const& text) { return quoted(text); });
    }
    std::string operator()(std::vector<std::int64_t> const* value) const {
        return list_text(*value, [](std::int64_t number) { return number_text(number); });
    }
    std::string operator()(std::vector<double> const* value) const {
        return list_text(*value, [](double weight) {
            std::string const text = number_text(weight);
            return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
        });
    }
    std::string operator()(std::vector<core::RankId> const* value) const {
        return ranks_text(*value);
    }
    std::string operator()(std::optional<bool> const* value) const {
        return value->value_or(false) ? "true" : "false";
    }
    std::string operator()(Offload const*) const { return "{}"; } // printed as a table
    std::string operator()(std::optional<Offload> const* value) const {
        Offload offload = value->value_or(Offload{});
        std::vector<std::string> names;
        for (Key<Offload> const& key : offload_keys())
            if (*std::get<bool*>(key.slot(offload)))
                names.push_back(quoted(key.name));
        return list_text(names, [](std::string const& name) { return name; });
    }
    std::string operator()(std::vector<Group> const*) const { return "[]"; } // printed as tables
    std::string operator()(std::vector<Chunk> const*) const { return "[]"; } // likewise
};

std::string value_text(Slot const& slot) {
    return std::visit(ValueText{}, slot);
}

/// Of a resolved job all have a value.
bool is_given(Slot const& slot) {
    if (auto* const* offload = std::get_if<std::optional<Offload>*>(&slot))
        return (*offload)->has_value();
    if (auto* const* recompute = std::get_if<std::optional<bool>*>(&slot))
        return (*recompute)->has_value();
    return true;
}

std::string print_offload(Offload& offload) {
    std::string text = "\n[plan.offload]\n";
    for (Key<Offload> const& key : offload_keys())
        text += fmt::format("{} = {}\n", key.name, value_text(key.slot(offload)));
    return text;
}

template <class T>
std::string print_entries(std::vector<T>& entries, std::span<Key<T> const> keys,
                          std::string_view header) {
    std::string text;
    for (T& entry : entries) {
        text += fmt::format("\n[[{}]]\n", header);
        for (Key<T> const& key : keys) {
            Slot const slot = key.slot(entry);
            auto* const* layers = std::get_if<std::int64_t*>(&slot);
            if (layers != nullptr && **layers == 0 && !within(key.bounds, **layers))
                continue; // not given: the chunks say it
            if (!is_given(slot))
                continue;
            text += fmt::format("{} = {}\n", key.name, value_text(slot));
        }
    }
    return text;
}

std::string print_table(Table const& table, Job& job) {
    std::string text = fmt::format("[{}]\n", table.name);
    std::string entries; // last: in TOML what follows such tables would belong to them
    for (Key<Job> const& key : table.keys) {
        Slot const slot = key.slot(job);
        if (auto* const* groups = std::get_if<std::vector<Group>*>(&slot))
            entries += print_entries(**groups, group_keys(), "plan.groups");
        else if (auto* const* chunks = std::get_if<std::vector<Chunk>*>(&slot))
            entries += print_entries(**chunks, chunk_keys(), "plan.chunks");
        else if (auto* const* offload = std::get_if<Offload*>(&slot))
            entries += print_offload(**offload);
        else
            text += fmt::format("{} = {}\n", key.name, value_text(slot));
    }
    return text + entries;
}

/// `text` in lines of comment.
std::string comment(std::string_view text) {
    std::string result;
    while (text.size() > text_columns) {
        std::size_t const end = text.rfind(' ', text_columns);
        result += fmt::format("# {}\n", text.substr(0, end));
        text.remove_prefix(end + 1);
    }
    return result + fmt::format("# {}\n", text);
}

template <class Owner>
std::string reference_key(Key<Owner> const& key, Owner& defaults, bool required_live) {
    Slot const slot = key.slot(defaults);
    // What strings and switches may be shows in the default; ranges and choices do not.
    bool const has_note = std::holds_alternative<ChoiceSlot>(slot) ||
                          !std::holds_alternative<std::monostate>(key.bounds);
    std::string const note = fmt::format(" ({})", describe_values(slot, key.bounds));
    std::string text = comment(fmt::format("{}{}", key.doc, has_note ? note : ""));
    if (key.example.empty())
        return text + fmt::format("#{} = {}\n\n", key.name, value_text(slot));
    return text + fmt::format("{}{} = {}\n\n", required_live ? "" : "#", key.name, key.example);
}

std::string reference_offload() {
    std::string text =
        comment(fmt::format("{}.", find_key(find_table("plan")->keys, "offload")->doc));
    text += "[plan.offload]\n\n";
    Offload defaults;
    for (Key<Offload> const& key : offload_keys())
        text += reference_key(key, defaults, false);
    return text;
}

template <class T>
std::string reference_entries(std::string_view name, std::span<Key<T> const> keys) {
    std::string text = comment(fmt::format("{}.", find_key(find_table("plan")->keys, name)->doc));
    text += fmt::format("#[[plan.{}]]\n\n", name);
    T defaults;
    for (Key<T> const& key : keys)
        text += reference_key(key, defaults, false);
    return text;
}

bool holds_entries(Slot const& slot) {
    return std::holds_alternative<std::vector<Group>*>(slot) ||
           std::holds_alternative<std::vector<Chunk>*>(slot) || is_table(slot);
}

} // namespace

std::string print_plan(Plan const& plan) {
    Job job;
    job.plan = plan;
    return print_table(*find_table("plan"), job);
}

std::string print_job(Job const& job) {
    Job copy = job; // slots point into a mutable job
    std::string text;
    for (Table const& table : tables())
        text += (text.empty() ? "" : "\n") + print_table(table, copy);
    return text;
}

std::vector<std::string> changed_values(Job const& before, Job const& now) {
    Job a = before; // slots point into mutable jobs
    Job b = now;
    std::vector<std::string> changes;
    for (std::string_view const name : {"model", "data", "train", "optimizer", "precision"})
        for (Table const* table = find_table(name); Key<Job> const& key : table->keys)
            if (std::string const was = value_text(key.slot(a)), is = value_text(key.slot(b));
                was != is)
                changes.push_back(fmt::format("{}.{} {} -> {}", name, key.name, was, is));
    return changes;
}

std::string reference_text() {
    std::string text =
        "# Every key of a job with its default; \"#key = value\" is a key at its default, "
        "the others\n# have none and must be given. Copy what you change. Paths are "
        "relative to the folder that\n# evener is started in; --set table.key=value "
        "overrides a key on the command line.\n";
    Job defaults;
    for (Table const& table : tables()) {
        text += fmt::format("\n# {}.\n[{}]\n\n", table.doc, table.name);
        for (Key<Job> const& key : table.keys)
            if (!holds_entries(key.slot(defaults)))
                text += reference_key(key, defaults, true);
        if (table.name != "plan")
            continue;
        text += reference_offload();
        text += reference_entries("groups", group_keys());
        text += reference_entries("chunks", chunk_keys());
    }
    while (text.ends_with("\n\n"))
        text.pop_back();
    return text;
}

} // namespace evener::job
