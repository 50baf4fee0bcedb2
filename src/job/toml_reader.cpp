// SPDX-License-Identifier: Apache-2.0
#include "job/toml_reader.hpp"

#include "job/suggest.hpp"
#include "job/toml_guard.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace evener::job {

namespace {

constexpr std::size_t most_ranks = 1'000'000;

/// At most `most` bytes of `text`, cut between characters.
std::string_view shortened(std::string_view text, std::size_t most) {
    if (text.size() <= most)
        return text;
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0u) == 0x80u)
        --most; // a continuation byte of UTF-8
    return text.substr(0, most);
}

/// What a wrong value is, for "'key' is ...".
std::string describe_found(toml::node const& node) {
    if (auto const* text = node.as_string()) {
        std::string_view const part = shortened(text->get(), 40);
        return quoted(part) + (part.size() < text->get().size() ? "..." : "");
    }
    if (auto const* whole = node.as_integer())
        return fmt::format("{}", whole->get());
    if (auto const* real = node.as_floating_point())
        return number_text(real->get());
    if (auto const* boolean = node.as_boolean())
        return boolean->get() ? "true" : "false";
    if (node.is_table())
        return "a table";
    if (node.is_array())
        return "a list";
    return "a date or time";
}

std::optional<std::int64_t> whole_number(std::string_view text) {
    std::int64_t value = 0;
    auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
        return std::nullopt;
    return value;
}

/// A table in three spellings: "plan.groups[1]", "[[plan.groups]]", "plan.groups".
struct TableNames {
    std::string full;
    std::string header;
    std::string_view schema;
};

class Reader {
  public:
    /// Places are in `file`; of a setting, `file` is "--set table.key" and has no lines.
    Reader(std::string file, bool has_lines, Findings& findings)
        : file_{std::move(file)}, has_lines_{has_lines}, findings_{findings} {}

    core::SourcePlace place(toml::source_region const& region) const {
        if (!has_lines_)
            return {file_, 0, 0};
        return {file_, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
    }

    template <class Owner>
    void read_keys(toml::table const& table, std::span<Key<Owner> const> keys, Owner& owner,
                   TableNames const& names) {
        for (auto&& [written, node] : table) {
            Key<Owner> const* key = find_key(keys, written.str());
            if (key == nullptr)
                unknown_key(written.str(), place(written.source()), names);
            else
                read_key(node, *key, owner, fmt::format("{}.{}", names.full, key->name));
        }
    }

    template <class Owner>
    void read_key(toml::node const& node, Key<Owner> const& key, Owner& owner,
                  std::string const& name) {
        findings_.set_place(name, place(node.source()));
        Slot const slot = key.slot(owner);
        std::visit([&](auto target) { read(node, target, Wanted{name, slot, key.bounds}); }, slot);
    }

    void unknown_key(std::string_view key, core::SourcePlace where, TableNames const& names) {
        std::vector<std::string> const suggested = suggest_keys(key, names.schema);
        findings_.add_at(std::move(where),
                         fmt::format("unknown key {} in {}{}", single_quoted(key), names.header,
                                     did_you_mean(suggested, names.schema)));
        // The key that was meant is not missing too: no second message about it.
        for (std::string_view const name : suggested) {
            std::string_view const own = name.substr(name.rfind('.') + 1);
            bool const same_table = name.substr(0, name.rfind('.')) == names.schema;
            findings_.break_key(same_table ? fmt::format("{}.{}", names.full, own)
                                           : std::string{name});
        }
    }

    static std::string single_quoted(std::string_view name) {
        std::string const text = quoted(shortened(name, 64));
        return fmt::format("'{}'", std::string_view{text}.substr(1, text.size() - 2));
    }

  private:
    struct Wanted {
        std::string_view name;
        Slot const& slot;
        Bounds const& bounds;
    };

    void wrong(toml::node const& node, Wanted const& wanted) {
        findings_.set_place(std::string{wanted.name}, place(node.source()));
        findings_.add(wanted.name,
                      fmt::format("'{}' is {}; use {}", wanted.name, describe_found(node),
                                  describe_values(wanted.slot, wanted.bounds)));
    }

    template <class T, class Node>
    void read_plain(toml::node const& node, T* target, Node const* typed, Wanted const& wanted) {
        if (typed == nullptr)
            wrong(node, wanted);
        else
            *target = typed->get();
    }

    void read(toml::node const& node, bool* target, Wanted const& wanted) {
        read_plain(node, target, node.as_boolean(), wanted);
    }

    void read(toml::node const& node, std::int64_t* target, Wanted const& wanted) {
        read_plain(node, target, node.as_integer(), wanted);
    }

    void read(toml::node const& node, std::uint64_t* target, Wanted const& wanted) {
        std::int64_t value = 0;
        read(node, &value, wanted);
        *target = static_cast<std::uint64_t>(value); // the bounds find a negative one
    }

    void read(toml::node const& node, double* target, Wanted const& wanted) {
        if (auto const* whole = node.as_integer())
            *target = static_cast<double>(whole->get());
        else
            read_plain(node, target, node.as_floating_point(), wanted);
    }

    void read(toml::node const& node, std::string* target, Wanted const& wanted) {
        auto const* text = node.as_string();
        read_plain(node, target, text, wanted);
        auto const is_control = [](char c) {
            return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
        };
        if (text != nullptr && std::ranges::any_of(text->get(), is_control))
            findings_.add(wanted.name,
                          fmt::format("'{}' is {} with a control character; use printable text",
                                      wanted.name, describe_found(node)));
    }

    void read(toml::node const& node, ChoiceSlot const& choice, Wanted const& wanted) {
        auto const* text = node.as_string();
        auto const found =
            text == nullptr ? choice.names.end() : std::ranges::find(choice.names, text->get());
        if (found == choice.names.end())
            wrong(node, wanted);
        else
            choice.set(choice.target, static_cast<std::size_t>(found - choice.names.begin()));
    }

    /// One string stands for a list of one.
    void read(toml::node const& node, std::vector<std::string>* target, Wanted const& wanted) {
        target->clear();
        if (node.is_string())
            return read(node, &target->emplace_back(), wanted);
        read_list(node, target, wanted, [&](toml::node const& element, Wanted const& place) {
            read(element, &target->emplace_back(), place);
        });
    }

    template <class Number>
    void read(toml::node const& node, std::vector<Number>* target, Wanted const& wanted) {
        target->clear();
        read_list(node, target, wanted, [&](toml::node const& element, Wanted const& place) {
            read(element, &target->emplace_back(), place);
        });
    }

    void read(toml::node const& node, std::vector<core::RankId>* target, Wanted const& wanted) {
        target->clear();
        if (node.is_string())
            return read_ranks(node, *target, wanted);
        read_list(node, target, wanted, [&](toml::node const& element, Wanted const& place) {
            read_ranks(element, *target, place);
        });
    }

    void read(toml::node const& node, std::optional<bool>* target, Wanted const& wanted) {
        read(node, &target->emplace(), wanted);
    }

    void read(toml::node const& node, Offload* target, Wanted const& wanted) {
        if (auto const* table = node.as_table())
            read_keys(*table, offload_keys(), *target,
                      {std::string{wanted.name}, fmt::format("[{}]", wanted.name), wanted.name});
        else
            wrong(node, wanted);
    }

    /// The names of what is offloaded; what the list leaves out is not.
    void read(toml::node const& node, std::optional<Offload>* target, Wanted const& wanted) {
        target->emplace();
        auto const add = [&](toml::node const& element, Wanted const& place) {
            auto const* name = element.as_string();
            Key<Offload> const* const key =
                name == nullptr ? nullptr : find_key(offload_keys(), name->get());
            if (key == nullptr)
                wrong(element, place);
            else
                *std::get<bool*>(key->slot(**target)) = true;
        };
        if (node.is_string())
            return add(node, wanted);
        read_list(node, static_cast<std::vector<Offload>*>(nullptr), wanted, add);
    }

    void read(toml::node const& node, std::vector<Group>* target, Wanted const& wanted) {
        read_tables(node, target, wanted, group_keys(), {"", "[[plan.groups]]", "plan.groups"});
    }

    void read(toml::node const& node, std::vector<Chunk>* target, Wanted const& wanted) {
        read_tables(node, target, wanted, chunk_keys(), {"", "[[plan.chunks]]", "plan.chunks"});
    }

    template <class T>
    void read_tables(toml::node const& node, std::vector<T>* target, Wanted const& wanted,
                     std::span<Key<T> const> keys, TableNames const& names) {
        target->clear();
        read_list(node, target, wanted, [&](toml::node const& element, Wanted const& place) {
            T& entry = target->emplace_back();
            if (auto const* table = element.as_table())
                read_keys(*table, keys, entry,
                          {std::string{place.name}, names.header, names.schema});
            else
                wrong(element, place);
        });
    }

    template <class T, class ReadElement>
    void read_list(toml::node const& node, std::vector<T>* /*type of the elements*/,
                   Wanted const& wanted, ReadElement const& read_element) {
        auto const* list = node.as_array();
        if (list == nullptr)
            return wrong(node, wanted);
        for (std::size_t i = 0; i < list->size(); ++i) {
            std::string const name = fmt::format("{}[{}]", wanted.name, i);
            toml::node const& element = *list->get(i);
            findings_.set_place(name, place(element.source()));
            read_element(element, Wanted{name, wanted.slot, wanted.bounds});
        }
    }

    /// A rank, or a range "4-7" of them.
    void read_ranks(toml::node const& node, std::vector<core::RankId>& ranks,
                    Wanted const& wanted) {
        std::optional<std::int64_t> first, last;
        if (auto const* whole = node.as_integer())
            first = last = whole->get();
        if (auto const* text = node.as_string()) {
            std::string_view const range = text->get();
            std::size_t const dash = range.find('-');
            first = whole_number(range.substr(0, dash));
            last = dash == std::string_view::npos ? first : whole_number(range.substr(dash + 1));
        }
        if (!first || !last)
            return wrong(node, wanted);
        if (!within(wanted.bounds, *first) || !within(wanted.bounds, *last) || *first > *last ||
            ranks.size() + static_cast<std::size_t>(*last - *first) >= most_ranks) {
            findings_.add(
                wanted.name,
                fmt::format("'{}' is {} (not a range of ranks from 0 to 999999, the lower "
                            "one first); use {}",
                            wanted.name, describe_found(node),
                            describe_values(wanted.slot, wanted.bounds)));
            return;
        }
        for (std::int64_t rank = *first; rank <= *last; ++rank)
            ranks.emplace_back(rank);
    }

    std::string file_;
    bool has_lines_;
    Findings& findings_;
};

std::string did_you_mean_table(std::string_view name, std::span<Table const> allowed,
                               Findings& findings) {
    std::vector<std::string_view> candidates;
    for (Table const& table : allowed)
        candidates.push_back(table.name);
    std::vector<std::string> suggested;
    for (std::string_view const table : nearest(name, candidates)) {
        suggested.emplace_back(table);
        findings.break_key(table);
    }
    return did_you_mean(suggested);
}

} // namespace

std::optional<toml::table> parse_toml(std::string_view text, std::string const& file,
                                      Findings& findings) {
    if (text.size() > most_job_bytes) {
        findings.add_at({file, 0, 0}, fmt::format("the file has {} bytes (a job has at most {}); "
                                                  "give the path of a TOML job",
                                                  text.size(), most_job_bytes));
        return std::nullopt;
    }
    if (auto const refusal = refuse_toml(text)) {
        findings.add_at({file, refusal->line, refusal->column}, refusal->message);
        return std::nullopt;
    }
    try {
        return toml::parse(text, std::string_view{file});
    } catch (toml::parse_error const& error) {
        auto const at = error.source().begin;
        findings.add_at({file, static_cast<int>(at.line), static_cast<int>(at.column)},
                        fmt::format("not TOML: {}", error.description()));
        return std::nullopt;
    }
}

void read_tables(toml::table const& root, std::string const& file, std::span<Table const> allowed,
                 Job& job, Findings& findings) {
    Reader reader{file, true, findings};
    for (auto&& [written, node] : root) {
        std::string_view const name = written.str();
        auto const table = std::ranges::find(allowed, name, &Table::name);
        if (table == allowed.end()) {
            core::SourcePlace where = reader.place(written.source());
            if (node.is_table() || node.is_array_of_tables())
                findings.add_at(std::move(where),
                                fmt::format("unknown table {}{}", Reader::single_quoted(name),
                                            did_you_mean_table(name, allowed, findings)));
            else
                reader.unknown_key(name, std::move(where),
                                   {"", "no table (keys stand below a [table])", ""});
            continue;
        }
        findings.set_place(std::string{name}, reader.place(node.source()));
        if (auto const* content = node.as_table())
            reader.read_keys(*content, table->keys, job,
                             {std::string{name}, fmt::format("[{}]", name), name});
        else
            findings.add(name, fmt::format("'{}' is {}; use a table [{}] with its keys below it",
                                           name, describe_found(node), name));
    }
}

void read_setting(Setting const& setting, Job& job, Findings& findings) {
    Reader reader{setting.place().file, false, findings};
    Table const* table = find_table(setting.table);
    if (table == nullptr) {
        findings.add_at(setting.place(),
                        fmt::format("unknown table {}{}", Reader::single_quoted(setting.table),
                                    did_you_mean_table(setting.table, tables(), findings)));
        return;
    }
    // "plan.offload.parameters": a key of a table in the table.
    std::size_t const dot = std::min(setting.key.find('.'), setting.key.size());
    std::string const first = setting.key.substr(0, dot);
    if (Key<Job> const* const outer = find_key(table->keys, first);
        dot < setting.key.size() && outer != nullptr && is_table(outer->slot(job))) {
        std::string const name = fmt::format("{}.{}", table->name, first);
        std::string const inner_name = setting.key.substr(dot + 1);
        Offload& offload = *std::get<Offload*>(outer->slot(job));
        if (Key<Offload> const* const inner = find_key(offload_keys(), inner_name))
            reader.read_key(*setting.value.get("value"), *inner, offload,
                            fmt::format("{}.{}", name, inner_name));
        else
            reader.unknown_key(inner_name, setting.place(),
                               {name, fmt::format("[{}]", name), name});
        return;
    }
    Key<Job> const* key = find_key(table->keys, setting.key);
    if (key == nullptr)
        reader.unknown_key(setting.key, setting.place(),
                           {setting.table, fmt::format("[{}]", table->name), table->name});
    else
        reader.read_key(*setting.value.get("value"), *key, job,
                        fmt::format("{}.{}", table->name, key->name));
}

} // namespace evener::job
