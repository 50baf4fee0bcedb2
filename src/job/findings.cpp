// SPDX-License-Identifier: Apache-2.0
#include "job/findings.hpp"

#include <algorithm>
#include <tuple>

namespace evener::job {

namespace {

/// "plan.groups[1].ranks" is inside "plan.groups[1]", "plan.groups" and "plan".
bool is_inside(std::string_view part, std::string_view whole) {
    return part.starts_with(whole) &&
           (part.size() == whole.size() || part[whole.size()] == '.' || part[whole.size()] == '[');
}

} // namespace

void Findings::set_place(std::string key, core::SourcePlace place) {
    places_.insert_or_assign(std::move(key), std::move(place));
}

void Findings::add(std::string_view key, std::string message) {
    findings_.push_back({place_of(key), std::move(message)});
    break_key(key);
}

void Findings::add_at(core::SourcePlace place, std::string message) {
    findings_.push_back({std::move(place), std::move(message)});
}

void Findings::add_about(std::initializer_list<std::string_view> keys, std::string message) {
    if (std::ranges::any_of(keys, [this](auto key) { return is_broken(key); }))
        return;
    auto const given =
        std::ranges::find_if(keys, [this](auto key) { return places_.contains(key); });
    findings_.push_back(
        {place_of(given == keys.end() ? *keys.begin() : *given), std::move(message)});
}

bool Findings::is_broken(std::string_view key) const {
    return std::ranges::any_of(broken_, [key](std::string_view broken) {
        return is_inside(key, broken) || is_inside(broken, key);
    });
}

core::SourcePlace Findings::place_of(std::string_view key) const {
    while (!key.empty()) {
        if (auto const found = places_.find(key); found != places_.end())
            return found->second;
        std::size_t const end = key.find_last_of(".[");
        key = end == std::string_view::npos ? std::string_view{} : key.substr(0, end);
    }
    return {file_, 0, 0};
}

void Findings::throw_if_any() const {
    if (findings_.empty())
        return;
    std::vector<core::Finding> sorted = findings_;
    auto const order = [this](core::Finding const& finding) {
        return std::tuple{finding.place.file != file_, finding.place.line, finding.place.column};
    };
    std::ranges::stable_sort(sorted, {}, order);
    throw core::ConfigError{std::move(sorted)};
}

} // namespace evener::job
