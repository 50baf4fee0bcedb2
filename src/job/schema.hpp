// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one list of keys. Reading, bounds, messages, suggestions, printing and inputs/reference.toml
// all walk it, so a new key is one line in schema.cpp and one member in job.hpp. Internal to
// src/job.

#include "job/job.hpp"

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace evener::job {

/// A member of some enum type, by the index of its word.
struct ChoiceSlot {
    void* target = nullptr;
    std::span<std::string_view const> names;
    std::size_t (*get)(void const*) = nullptr;
    void (*set)(void*, std::size_t) = nullptr;
};

/// Where a key's value lives; the alternative is the key's type.
using Slot =
    std::variant<bool*, std::int64_t*, std::uint64_t*, double*, std::string*, ChoiceSlot,
                 std::vector<std::string>*, std::vector<std::int64_t>*, std::vector<double>*,
                 std::vector<core::RankId>*, std::optional<bool>*, Offload*,
                 std::optional<Offload>*, std::vector<Group>*, std::vector<Chunk>*>;

/// Both ends belong to the range. Of a list: the range of each element.
struct IntegerBounds {
    std::int64_t lowest = std::numeric_limits<std::int64_t>::min();
    std::int64_t highest = std::numeric_limits<std::int64_t>::max();
};

struct RealBounds {
    double lowest = 0.0;
    double highest = 0.0;
    bool lowest_excluded = false;
    bool highest_excluded = false;
};

using Bounds = std::variant<std::monostate, IntegerBounds, RealBounds>;

template <class Owner>
struct Key {
    std::string_view name;
    Slot (*slot)(Owner&) = nullptr;
    Bounds bounds;
    std::string_view doc;
    std::string_view example =
        {}; ///< TOML value; only of keys that have no default to fall back on
};

struct Table {
    std::string_view name;
    std::string_view doc;
    std::span<Key<Job> const> keys;
};

/// In the order of printing.
std::span<Table const> tables();
std::span<Key<Offload> const> offload_keys(); ///< all of them switches
std::span<Key<Group> const> group_keys();
std::span<Key<Chunk> const> chunk_keys();

Table const* find_table(std::string_view name);

template <class Owner>
Key<Owner> const* find_key(std::span<Key<Owner> const> keys, std::string_view name) {
    for (Key<Owner> const& key : keys)
        if (key.name == name)
            return &key;
    return nullptr;
}

/// A key's own keys where it is a table: "offload" of [plan].
inline bool is_table(Slot const& slot) {
    return std::holds_alternative<Offload*>(slot);
}

bool within(Bounds const& bounds, std::int64_t value);
bool within(Bounds const& bounds, double value);

/// What to write, for messages: `a whole number from 1 to 4`, `"auto", "cpu" or "reference"`.
std::string describe_values(Slot const& slot, Bounds const& bounds);

/// The shortest TOML number that reads back as `value`.
std::string number_text(double value);
std::string number_text(std::int64_t value);

/// `text` as a TOML string.
std::string quoted(std::string_view text);

} // namespace evener::job
