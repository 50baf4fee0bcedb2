// SPDX-License-Identifier: Apache-2.0
#include "job/schema.hpp"

#include <fmt/format.h>

namespace evener::job {

namespace {

std::string range_text(Bounds const& bounds) {
    if (auto const* whole = std::get_if<IntegerBounds>(&bounds)) {
        if (whole->highest == std::numeric_limits<std::int64_t>::max())
            return fmt::format(" from {} on", whole->lowest);
        return fmt::format(" from {} to {}", whole->lowest, whole->highest);
    }
    if (auto const* real = std::get_if<RealBounds>(&bounds)) {
        if (real->lowest_excluded)
            return fmt::format(" above {} and up to {}", real->lowest, real->highest);
        return fmt::format(" from {} to {}{}", real->lowest, real->highest,
                           real->highest_excluded ? " (not included)" : "");
    }
    return "";
}

std::string choice_text(std::span<std::string_view const> names) {
    std::string text;
    for (std::size_t i = 0; i < names.size(); ++i)
        text += fmt::format("{}{}",
                            i == 0                  ? ""
                            : i + 1 == names.size() ? " or "
                                                    : ", ",
                            quoted(names[i]));
    return text;
}

struct Describe {
    Bounds const& bounds;

    std::string operator()(bool*) const { return "true or false"; }
    std::string operator()(std::int64_t*) const { return "a whole number" + range_text(bounds); }
    std::string operator()(std::uint64_t*) const { return "a whole number" + range_text(bounds); }
    std::string operator()(double*) const { return "a number" + range_text(bounds); }
    std::string operator()(std::string*) const { return "a string"; }
    std::string operator()(ChoiceSlot const& choice) const { return choice_text(choice.names); }
    std::string operator()(std::vector<std::string>*) const { return "a list of strings"; }
    std::string operator()(std::vector<std::int64_t>*) const {
        return "a list of whole numbers" + range_text(bounds);
    }
    std::string operator()(std::vector<double>*) const {
        return "a list of numbers" + range_text(bounds);
    }
    std::string operator()(std::vector<core::RankId>*) const {
        return "a list of ranks such as [0, 1, \"4-7\"]";
    }
    std::string operator()(std::optional<bool>*) const { return "true or false"; }
    std::string operator()(Offload*) const { return "a table [plan.offload]"; }
    std::string operator()(std::optional<Offload>*) const {
        std::string text;
        for (Key<Offload> const& key : offload_keys())
            text += fmt::format("{}{}", text.empty() ? "" : ", ", quoted(key.name));
        return fmt::format("a list of any of {}", text);
    }
    std::string operator()(std::vector<Group>*) const { return "tables [[plan.groups]]"; }
    std::string operator()(std::vector<Chunk>*) const { return "tables [[plan.chunks]]"; }
};

} // namespace

bool within(Bounds const& bounds, std::int64_t value) {
    auto const* whole = std::get_if<IntegerBounds>(&bounds);
    return whole == nullptr || (value >= whole->lowest && value <= whole->highest);
}

bool within(Bounds const& bounds, double value) {
    auto const* real = std::get_if<RealBounds>(&bounds);
    if (real == nullptr)
        return true;
    bool const above = real->lowest_excluded ? value > real->lowest : value >= real->lowest;
    bool const below = real->highest_excluded ? value < real->highest : value <= real->highest;
    return above && below; // false for NaN
}

std::string describe_values(Slot const& slot, Bounds const& bounds) {
    return std::visit(Describe{bounds}, slot);
}

std::string number_text(std::int64_t value) {
    return fmt::format("{}", value);
}

std::string number_text(double value) {
    std::string text = fmt::format("{}", value);
    bool const is_whole = text.find_first_not_of("-0123456789") == std::string::npos;
    return is_whole ? text + ".0" : text;
}

std::string quoted(std::string_view text) {
    std::string result{'"'};
    for (char const c : text) {
        auto const code = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            result += {'\\', c};
        else if (code < 0x20 || code == 0x7f)
            result += fmt::format("\\u{:04X}", code);
        else
            result += c;
    }
    return result + '"';
}

} // namespace evener::job
