// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collects everything wrong with a job and knows where each key was written. A key with a finding
// is "broken": later checks that involve it are silent, so that one mistake gives one message.
// Internal to src/job. Keys are full names: "model.layers", "plan.groups[1].ranks".

#include "core/error.hpp"

#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace evener::job {

class Findings {
  public:
    explicit Findings(std::string file = {}) : file_{std::move(file)} {}

    void set_place(std::string key, core::SourcePlace place);
    /// The input has the key (set_place was called).
    bool is_given(std::string_view key) const { return places_.contains(key); }

    /// A finding about a key, at its place; breaks the key.
    void add(std::string_view key, std::string message);
    /// The same at a place of its own.
    void add_at(core::SourcePlace place, std::string message);
    /// A finding about how `keys` fit together, at the first one that the job gives; nothing when
    /// one of them is broken.
    void add_about(std::initializer_list<std::string_view> keys, std::string message);

    void break_key(std::string_view key) { broken_.emplace(key); }
    /// The key, a part of it, or what it is a part of has a finding.
    bool is_broken(std::string_view key) const;

    bool empty() const { return findings_.empty(); }
    /// Throws core::ConfigError with all findings in the order of the file, if there are any.
    void throw_if_any() const;

  private:
    core::SourcePlace place_of(std::string_view key) const;

    std::string file_;
    std::map<std::string, core::SourcePlace, std::less<>> places_;
    std::set<std::string, std::less<>> broken_;
    std::vector<core::Finding> findings_;
};

} // namespace evener::job
