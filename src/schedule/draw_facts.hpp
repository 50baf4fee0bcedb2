// SPDX-License-Identifier: Apache-2.0
#pragma once

// What pictures and tables say about an instruction, and numbers in words. Internal to this folder.

#include "program/program.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace evener::schedule {

/// Colours of a picture.
enum class Paint : std::uint8_t {
    forward,
    backward_input,
    recompute,
    backward_weight,
    backward, ///< both in one
    other,    ///< norm, tokens, update
    send,
    receive,
    collective,
    fetch,
    evict,
};
inline constexpr std::size_t paint_count = 11;
constexpr bool is_computation(Paint paint) {
    return paint < Paint::send;
}
constexpr bool is_copy(Paint paint) {
    return paint >= Paint::fetch;
}

struct Facts {
    std::string_view kind; ///< as program::to_string names it
    Paint paint = Paint::other;
    core::ChunkId chunk{};
    core::MicrobatchId microbatch{};
    core::Range sequences{};
    core::RankId peer{};
    core::BucketId bucket{};
    std::optional<std::int64_t>
        bytes; ///< of a message or copy, or of the bucket a collective moves
};

Facts facts_of(program::ProgramSet const& set, core::RankId rank,
               program::Operation const& operation);

/// `send forward`; the peer has a column of its own.
std::string queue_name(program::Queue const& queue);

/// The group that the rank is in, or an invalid id.
core::GroupId group_of(program::Plan const& plan, core::RankId rank);

/// A unit of time and how many of them a second has.
struct TimeUnit {
    std::string_view name;
    double per_second = 1;
};
/// The unit in which `seconds` reads best: s, ms, µs or ns.
TimeUnit time_unit(double seconds);

/// Three significant digits and a unit: `61.2 ms`.
std::string time_text(double seconds);
/// `12.3 %`; of nothing: `0 %`.
std::string percent_text(double part, double whole);

/// Text inside XML: markup escaped, characters that XML does not allow replaced.
std::string xml_text(std::string_view text);

} // namespace evener::schedule
