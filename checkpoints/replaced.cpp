// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/replaced.hpp"

#include "checkpoints/files.hpp"
#include "checkpoints/manifest.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

namespace evener::checkpoints {

bool is_superseded(std::string const& path, Manifest const& next) {
    if (!files::is_folder(path))
        return false;
    try {
        if (files::names_in(path).empty())
            return true;
        Manifest const old = read_manifest(path);
        return old.state.step == next.state.step && old.state.seed == next.state.seed &&
               old.state.data_fingerprint == next.state.data_fingerprint && old.model == next.model;
    } catch (core::Error const&) { // whatever it is, it is no checkpoint of ours
        return false;
    }
}

std::string move_aside(std::string const& path) {
    std::string aside = path + ".replaced";
    for (int number = 2; files::is_there(aside); ++number)
        aside = fmt::format("{}.replaced-{}", path, number);
    files::rename(path, aside);
    return aside;
}

} // namespace evener::checkpoints
