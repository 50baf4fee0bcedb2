// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a misspelt name was meant to be. Internal to src/job.

#include <string>
#include <string_view>
#include <vector>

namespace evener::job {

/// Letters to insert, delete, replace or swap with their neighbour to turn `a` into `b`.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidates nearest to `name`, all of them on a tie; empty when none is near.
std::vector<std::string_view> nearest(std::string_view name,
                                      std::vector<std::string_view> const& candidates);

/// Full names ("model.layers") of the keys that `name`, found in `table`, may stand for: near ones
/// of the same table, the name that other programs use, or the same name in another table.
/// `table` is "plan.groups" inside a group and empty outside any table.
std::vector<std::string> suggest_keys(std::string_view name, std::string_view table);

/// The names as "; did you mean 'a' or 'b'?", without `table` where that is theirs; empty if none.
std::string did_you_mean(std::vector<std::string> const& names, std::string_view table = {});

} // namespace evener::job
