// SPDX-License-Identifier: Apache-2.0
#include "app/visibility.hpp"

#include "io/files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

namespace evener::app {

namespace {

bool has_content(std::string const& path, std::string const& content) {
    try {
        return io::read_file(path) == content;
    } catch (core::Error const&) { // absent here, or not to be read
        return false;
    }
}

/// A file system over a network may show a new file a moment later.
bool appears(std::string const& path, std::string const& content) {
    using namespace std::chrono_literals;
    auto const end = std::chrono::steady_clock::now() + 2s;
    while (!has_content(path, content)) {
        if (std::chrono::steady_clock::now() >= end)
            return false;
        std::this_thread::sleep_for(100ms);
    }
    return true;
}

bool can_write(std::string const& path) {
    try {
        io::write_file_atomically(path, "");
        return std::filesystem::remove(path);
    } catch (std::exception const&) { // read-only here, or gone
        return false;
    }
}

} // namespace

std::vector<bool> by_rank(comm::MpiSession const& mpi, bool mine) {
    std::int64_t const value = mine ? 1 : 0;
    std::vector<bool> all;
    for (auto const& rank :
         comm::all_gather_values(mpi.world(), std::span<std::int64_t const>{&value, 1}))
        all.push_back(rank.front() != 0);
    return all;
}

std::vector<bool> ranks_that_share(comm::MpiSession const& mpi, std::string const& folder) {
    // A name that was never there, so that no node remembers its absence.
    std::string const name = mpi.world().broadcast(fmt::format(
        "{}/probe-{}", folder, std::chrono::system_clock::now().time_since_epoch().count()));
    together(mpi, mpi.rank() == 0, [&] { io::write_file_atomically(name, name); });
    std::int64_t mine = 0;
    if (mpi.node().rank() == 0)
        mine = appears(name, name) && can_write(fmt::format("{}-{}", name, mpi.rank())) ? 1 : 0;
    mine = mpi.node().all_max(std::vector<std::int64_t>{mine}).front();
    std::vector<bool> sees = by_rank(mpi, mine != 0);
    together(mpi, mpi.rank() == 0, [&] { std::filesystem::remove(name); });
    return sees;
}

std::vector<bool> ranks_with_file(comm::MpiSession const& mpi, std::string const& path,
                                  std::string const& content) {
    return by_rank(mpi, has_content(path, content));
}

std::string blind_ranks(comm::MpiSession const& mpi, std::vector<bool> const& sees) {
    std::map<std::string, std::vector<std::size_t>> ranks;
    for (std::size_t rank = 0; rank < sees.size(); ++rank)
        if (!sees[rank])
            ranks[mpi.hosts()[rank]].push_back(rank);
    std::string text;
    for (auto const& [host, blind] : ranks)
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", fmt::join(blind, ","), host);
    return text;
}

} // namespace evener::app
