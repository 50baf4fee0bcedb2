// SPDX-License-Identifier: Apache-2.0
#include "support/symbolic_memory.hpp"

#include <algorithm>

namespace evener::support {

std::uint64_t combine(std::uint64_t hash, std::uint64_t value) {
    std::uint64_t x = hash * 0x9e3779b97f4a7c15u + value + 0x632be59bd9b4e019u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

void SymbolicMemory::write(std::int64_t begin, std::int64_t bytes, std::uint64_t value) {
    if (bytes <= 0)
        return;
    std::int64_t const end = begin + bytes;
    auto at = segments_.lower_bound(begin);
    if (at != segments_.begin() && std::prev(at)->second.end > begin) {
        auto const before = std::prev(at);
        Segment rest = before->second;
        before->second.end = begin;
        if (rest.end > end)
            segments_.emplace(end, rest);
        at = segments_.lower_bound(begin);
    }
    while (at != segments_.end() && at->first < end) {
        Segment const rest = at->second;
        at = segments_.erase(at);
        if (rest.end > end)
            at = segments_.emplace(end, rest).first;
    }
    segments_[begin] = {end, value, begin, bytes};
}

std::uint64_t SymbolicMemory::read(std::int64_t begin, std::int64_t bytes) const {
    if (bytes <= 0)
        return 0;
    std::int64_t const end = begin + bytes;
    auto at = segments_.upper_bound(begin);
    if (at != segments_.begin() && std::prev(at)->second.end > begin)
        --at;
    if (at != segments_.end() && at->first == begin && at->second.end == end &&
        at->second.origin == begin && at->second.extent == bytes)
        return at->second.value;
    std::uint64_t hash = 1;
    std::int64_t reached = begin;
    for (; at != segments_.end() && at->first < end; ++at) {
        std::int64_t const from = std::max(begin, at->first);
        if (from > reached)
            hash = combine(hash, garbage_);
        hash = combine(hash, at->second.value);
        hash = combine(hash, static_cast<std::uint64_t>(from - begin));
        hash = combine(hash, static_cast<std::uint64_t>(from - at->second.origin));
        hash = combine(hash, static_cast<std::uint64_t>(std::min(end, at->second.end) - from));
        reached = at->second.end;
    }
    return reached < end ? combine(hash, garbage_) : hash;
}

} // namespace evener::support
