// SPDX-License-Identifier: Apache-2.0

// The link without a network: packets and times are made up here.

#include "core/error.hpp"
#include "support/message.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include "testbed/wan/direction.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

namespace evener::testbed {
namespace {

constexpr std::size_t virtio = 10;
constexpr std::size_t headers = 40; // IPv4 and TCP without options

/// `data` bytes of TCP data, byte i being i mod 251, in segments of `segment`; 0: no super-packet.
Bytes tcp_packet(std::size_t data, std::size_t segment, std::uint32_t sequence = 1000) {
    Bytes bytes(virtio + headers + data);
    bytes[1] = segment > 0 ? 1 : 0;
    bytes[4] = static_cast<std::uint8_t>(segment);
    bytes[5] = static_cast<std::uint8_t>(segment >> 8);
    std::uint8_t* const ip = bytes.data() + virtio;
    ip[0] = 0x45;
    ip[2] = static_cast<std::uint8_t>((headers + data) >> 8);
    ip[3] = static_cast<std::uint8_t>(headers + data);
    ip[9] = 6;
    std::iota(ip + 12, ip + 20, std::uint8_t{10}); // addresses
    for (int i = 0; i < 4; ++i)
        ip[24 + i] = static_cast<std::uint8_t>(sequence >> (24 - 8 * i));
    ip[32] = 0x50; // TCP header of 20 bytes
    ip[33] = 0x99; // CWR, ACK, PSH, FIN
    for (std::size_t i = 0; i < data; ++i)
        bytes[virtio + headers + i] = static_cast<std::uint8_t>(i % 251);
    return bytes;
}

std::uint32_t word(Bytes const& bytes, std::size_t at) {
    return static_cast<std::uint32_t>(bytes[virtio + at]) << 8 | bytes[virtio + at + 1];
}

// Any cut into runs: the pieces' data, by their sequence numbers, is the data of the whole.
TEST(SuperPacket, PiecesHoldTheDataOfTheWhole) {
    for (std::uint64_t const seed : support::seeds("testbed.pieces", 500)) {
        support::Random random{seed};
        auto const data = static_cast<std::size_t>(random.integer(1, 9000));
        auto const segment = static_cast<std::size_t>(random.integer(1, 3000));
        auto const sequence = static_cast<std::uint32_t>(random.bits()); // may wrap around
        Bytes const whole = tcp_packet(data, segment, sequence);
        SuperPacket const packet{whole, virtio};
        ASSERT_EQ(packet.segments(), (data + segment - 1) / segment);

        std::size_t wire = 0;
        std::vector<int> seen(data, 0);
        for (std::size_t first = 0; first < packet.segments();) {
            auto const last = static_cast<std::size_t>(
                random.integer(static_cast<std::int64_t>(first) + 1,
                               static_cast<std::int64_t>(packet.segments())));
            Bytes const piece = packet.slice(first, last);
            std::uint32_t const offset = (word(piece, 24) << 16 | word(piece, 26)) - sequence;
            ASSERT_EQ(offset, first * segment);
            for (std::size_t i = virtio + headers; i < piece.size(); ++i) {
                std::size_t const place = offset + i - virtio - headers;
                ASSERT_LT(place, data);
                ++seen[place];
                ASSERT_EQ(piece[i], place % 251) << "EVENER_TEST_SEED=" << seed;
            }
            ASSERT_EQ(word(piece, 2), piece.size() - virtio);
            bool const is_super = last - first > 1;
            ASSERT_EQ(piece[1], is_super || packet.segments() == 1 ? 1 : 0);
            // FIN and PSH with the last piece, CWR with the first, ACK with all
            int const flags =
                0x10 | (last == packet.segments() ? 0x09 : 0) | (first == 0 ? 0x80 : 0);
            ASSERT_EQ(piece[virtio + 33], flags);
            for (std::size_t k = first; k < last; ++k)
                wire += packet.wire_bytes(k);
            first = last;
        }
        EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
        EXPECT_EQ(wire, data + headers * packet.segments());
    }
}

TEST(SuperPacket, PiecesHaveChecksumsThatAReceiverAccepts) {
    Bytes const whole = tcp_packet(5000, 1448);
    SuperPacket const packet{whole, virtio};
    for (std::size_t first = 0; first < packet.segments(); ++first) {
        Bytes const piece = packet.slice(first, first + 1);
        std::span<std::uint8_t const> const all{piece};
        EXPECT_EQ(ones_complement_sum(all.subspan(virtio, 20)), 0xffff) << "IP header";
        // A receiver adds the TCP header and data to what stands in the field, as it is told to.
        std::uint32_t pseudo = 6 + static_cast<std::uint32_t>(piece.size() - virtio - 20);
        EXPECT_EQ(word(piece, 36), ones_complement_sum(all.subspan(virtio + 12, 8), pseudo));
    }
}

TEST(SuperPacket, SumsWordsAsTheStandardsExampleDoes) {
    Bytes const example{0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7}; // RFC 1071, section 3
    EXPECT_EQ(ones_complement_sum(example), 0xddf2);
    EXPECT_EQ(ones_complement_sum(Bytes{0x01}), 0x0100);
}

LinkSettings settings(std::string const& words) {
    std::istringstream text{"ab " + words + "\nba\n"};
    return read_settings(text, "link.conf").ab;
}

Direction direction(std::string const& words) {
    Direction result;
    result.configure(settings(words));
    return result;
}

/// When each waiting packet leaves.
std::vector<Nanoseconds> departures(Direction& direction) {
    std::vector<Nanoseconds> times;
    while (auto const due = direction.next_due())
        direction.release(*due, [&](Bytes const&) {
            times.push_back(*due);
            return true;
        });
    return times;
}

TEST(Direction, DelaysAndDrainsAtItsRate) {
    Direction link = direction("delay_ms=20 rate_mbit=8"); // 1 byte per microsecond
    Bytes const packet = tcp_packet(960, 0);               // 1000 IP bytes
    for (int i = 0; i < 3; ++i)
        link.accept(packet, virtio, 5'000'000);
    link.accept(packet, virtio, 100'000'000); // long after the queue has drained
    EXPECT_EQ(departures(link),
              (std::vector<Nanoseconds>{26'000'000, 27'000'000, 28'000'000, 121'000'000}));
}

TEST(Direction, DropsWhatTheQueueCannotHold) {
    Direction link = direction("rate_mbit=8 queue_kb=3"); // 3072 bytes
    for (int i = 0; i < 5; ++i)
        link.accept(tcp_packet(960, 0), virtio, 0);
    EXPECT_EQ(departures(link).size(), 3u);
    EXPECT_EQ(link.counts().overflow, 2u);
    EXPECT_EQ(link.counts().segments_in, 5u);
}

TEST(Direction, PassesNothingWhileItIsDownAndEverythingAfterwards) {
    Direction link = direction("down=1");
    link.accept(tcp_packet(9000, 1448), virtio, 0);
    EXPECT_EQ(link.counts().lost, 7u);
    EXPECT_FALSE(link.next_due());
    link.configure(settings("down=0"));
    link.accept(tcp_packet(9000, 1448), virtio, 0);
    EXPECT_EQ(departures(link).size(), 1u);
}

TEST(Direction, NothingOvertakesUnderJitter) {
    Direction link = direction("delay_ms=10 jitter_ms=10 seed=3");
    for (Nanoseconds t = 0; t < 200; ++t)
        link.accept(tcp_packet(100, 0), virtio, t * 100'000);
    auto const times = departures(link);
    ASSERT_EQ(times.size(), 200u);
    EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
    for (std::size_t i = 0; i < times.size(); ++i)
        EXPECT_LE(times[i], static_cast<Nanoseconds>(i) * 100'000 + 20'000'000);
    EXPECT_GT(times.back() - times.front(), 10'000'000);
}

// 40 000 segments: the share lost within 6 standard deviations of what was asked (bursts widen them).
TEST(Direction, LosesTheShareThatIsAskedForInBurstsOfTheLengthAskedFor) {
    for (double const burst : {1.0, 4.0}) {
        Direction link;
        LinkSettings asked;
        asked.loss = 0.02;
        asked.burst = burst;
        link.configure(asked);
        constexpr double segments = 40000;
        Bytes const packet = tcp_packet(10, 0);
        double bursts = 0;
        std::uint64_t lost_before = 0;
        bool was_lost = false;
        for (double i = 0; i < segments; ++i) {
            link.accept(packet, virtio, 0);
            bool const lost = link.counts().lost > std::exchange(lost_before, link.counts().lost);
            bursts += lost && !was_lost ? 1 : 0;
            was_lost = lost;
        }
        auto const lost = static_cast<double>(link.counts().lost);
        EXPECT_NEAR(lost, segments * 0.02, 6 * std::sqrt(segments * 0.02 * 2 * burst));
        EXPECT_NEAR(lost / bursts, burst, 0.2 * burst);
    }
}

TEST(Direction, LosesTheSameSegmentsForTheSameSeed) {
    auto const sent = [](double seed) {
        Direction link;
        LinkSettings asked;
        asked.loss = 0.3;
        asked.seed = seed;
        link.configure(asked);
        std::string fate;
        for (std::uint64_t i = 0; i < 200; ++i) {
            auto const before = link.counts().lost;
            link.accept(tcp_packet(10, 0), virtio, 0);
            fate += link.counts().lost > before ? 'x' : '.';
        }
        return fate;
    };
    EXPECT_EQ(sent(5), sent(5));
    EXPECT_NE(sent(5), sent(6));
    EXPECT_EQ(sent(1), sent(1));
}

TEST(Direction, SaysHowLateItWas) {
    Direction link = direction("delay_ms=1");
    for (int i = 0; i < 99; ++i)
        link.accept(tcp_packet(10, 0), virtio, 0);
    link.release(1'000'000, [](Bytes const&) { return true; });
    link.accept(tcp_packet(10, 0), virtio, 0);
    link.release(1'000'000 + 3'000'000, [](Bytes const&) { return false; });
    std::ostringstream text;
    report(text, "ab", link);
    EXPECT_EQ(text.str(),
              "ab segments_in=100 bytes_in=5000 packets_out=99 lost=0 overflow=0 refused=1 "
              "late_p50_us=1 late_p99_us=1 late_max_us=3000\n");
    EXPECT_EQ(link.lateness().quantile_us(1), 4096u);
}

TEST(LinkSettings, NameEveryWordThatIsNone) {
    support::expect_error<core::ConfigError>(
        [] {
            std::istringstream text{"# comment\nab delay=3 loss=x rate_mbit\nxy loss=0\n"};
            read_settings(text, "link.conf");
        },
        "link.conf:2:4: error: 'delay' is no key of a link\n"
        "link.conf:2:12: error: 'x' is no number from 0 in 'loss=x'\n"
        "link.conf:2:19: error: 'rate_mbit' is no setting, write key=value\n"
        "link.conf:3:1: error: a line begins with ab or ba\n"
        "link.conf: error: a line ab or a line ba is missing");
    support::expect_error<core::ConfigError>([] { settings("loss=1"); },
                                             "link.conf:1:4: error: loss is 1 or more, use down=1");
    EXPECT_EQ(settings("delay_ms=40 rate_mbit=100").queue_bytes(), 1e6);
    EXPECT_EQ(settings("delay_ms=1 rate_mbit=10").queue_bytes(), 128 * 1024);
}

} // namespace
} // namespace evener::testbed
