// SPDX-License-Identifier: Apache-2.0
#include "testbed/wan/direction.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace evener::testbed {

void Lateness::add(Nanoseconds late) {
    worst_ = std::max(worst_, late);
    std::size_t bucket = 0;
    for (Nanoseconds us = late / 1000; us > 0 && bucket + 1 < below_.size(); us >>= 1)
        ++bucket;
    ++below_[bucket];
}

std::uint64_t Lateness::quantile_us(double q) const {
    std::uint64_t const total = std::accumulate(below_.begin(), below_.end(), std::uint64_t{0});
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < below_.size(); ++i) {
        seen += below_[i];
        if (total > 0 && static_cast<double>(seen) >= q * static_cast<double>(total))
            return std::uint64_t{1} << i;
    }
    return 0;
}

void Direction::configure(LinkSettings const& settings) {
    if (settings.seed != settings_.seed)
        random_.seed(static_cast<std::uint64_t>(settings.seed));
    settings_ = settings;
}

double Direction::uniform() {
    return static_cast<double>(random_() >> 11) * 0x1p-53;
}

void Direction::accept(std::span<std::uint8_t const> bytes, std::size_t header, Nanoseconds now) {
    SuperPacket const packet{bytes, header};
    std::size_t first = 0; // of the run of survivors
    for (std::size_t k = 0; k <= packet.segments(); ++k) {
        if (k < packet.segments() && survives(packet.wire_bytes(k), now))
            continue;
        if (k > first) {
            last_due_ = std::max(last_due_, busy_until_ + delay());
            waiting_.push_back({last_due_, packet.slice(first, k)});
        }
        first = k + 1;
    }
}

Nanoseconds Direction::delay() {
    double ms = settings_.delay_ms;
    if (settings_.jitter_ms > 0)
        ms += settings_.jitter_ms * (2 * uniform() - 1);
    return static_cast<Nanoseconds>(std::max(0.0, ms) * 1e6);
}

bool Direction::survives(std::size_t bytes, Nanoseconds now) {
    ++counts_.segments_in;
    counts_.bytes_in += bytes;
    if (settings_.down != 0 || is_lost()) {
        ++counts_.lost;
        return false;
    }
    Nanoseconds const start = std::max(now, busy_until_);
    double const per_byte = settings_.nanoseconds_per_byte();
    if (per_byte > 0 && static_cast<double>(start - now) / per_byte + static_cast<double>(bytes) >
                            settings_.queue_bytes()) {
        ++counts_.overflow;
        return false;
    }
    busy_until_ = start + static_cast<Nanoseconds>(static_cast<double>(bytes) * per_byte);
    return true;
}

// Two states: a burst ends with probability 1/burst at each segment, and begins as often as makes the
// share of lost segments `loss` in the long run.
bool Direction::is_lost() {
    if (settings_.loss <= 0)
        return false;
    double const u = uniform();
    if (settings_.burst <= 1)
        return u < settings_.loss;
    double const begins = settings_.loss / (settings_.burst * (1 - settings_.loss));
    in_burst_ = in_burst_ ? u >= 1 / settings_.burst : u < begins;
    return in_burst_;
}

std::optional<Nanoseconds> Direction::next_due() const {
    if (waiting_.empty())
        return std::nullopt;
    return waiting_.front().due;
}

void Direction::release(Nanoseconds now, std::function<bool(Bytes const&)> const& send) {
    for (; !waiting_.empty() && waiting_.front().due <= now; waiting_.pop_front()) {
        lateness_.add(now - waiting_.front().due);
        ++(send(waiting_.front().bytes) ? counts_.packets_out : counts_.refused);
    }
}

void report(std::ostream& out, char const* name, Direction const& direction) {
    LinkCounts const& counts = direction.counts();
    Lateness const& late = direction.lateness();
    out << name << " segments_in=" << counts.segments_in << " bytes_in=" << counts.bytes_in
        << " packets_out=" << counts.packets_out << " lost=" << counts.lost
        << " overflow=" << counts.overflow << " refused=" << counts.refused
        << " late_p50_us=" << late.quantile_us(0.5) << " late_p99_us=" << late.quantile_us(0.99)
        << " late_max_us=" << late.worst() / 1000 << '\n';
}

} // namespace evener::testbed
