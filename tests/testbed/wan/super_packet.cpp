// SPDX-License-Identifier: Apache-2.0

// Offsets are those of virtio_net_hdr (linux/virtio_net.h), IPv4 (RFC 791) and TCP (RFC 9293).

#include "testbed/wan/super_packet.hpp"

#include "core/error.hpp"

#include <algorithm>

namespace evener::testbed {

namespace {

constexpr std::uint8_t gso_tcp4 = 1; // VIRTIO_NET_HDR_GSO_TCPV4, the only kind the devices ask for
constexpr std::uint8_t tcp_protocol = 6;
constexpr std::uint8_t fin_and_push = 0x09;
constexpr std::uint8_t window_reduced = 0x80;

void put16(std::uint8_t* at, std::size_t value) {
    at[0] = static_cast<std::uint8_t>(value >> 8);
    at[1] = static_cast<std::uint8_t>(value);
}

std::uint32_t get16(std::uint8_t const* at) {
    return static_cast<std::uint32_t>(at[0]) << 8 | at[1];
}

} // namespace

std::uint16_t ones_complement_sum(std::span<std::uint8_t const> bytes, std::uint32_t start) {
    std::uint64_t sum = start;
    for (std::size_t i = 0; i + 1 < bytes.size(); i += 2)
        sum += get16(&bytes[i]);
    if (bytes.size() % 2 != 0)
        sum += static_cast<std::uint32_t>(bytes.back()) << 8;
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return static_cast<std::uint16_t>(sum);
}

SuperPacket::SuperPacket(std::span<std::uint8_t const> bytes, std::size_t header)
    : bytes_{bytes}, header_{header}, segment_size_{bytes.size() - header} {
    if (header == 0 || bytes[1] != gso_tcp4)
        return;
    std::uint8_t const* const ip = bytes.data() + header;
    ip_header_ = static_cast<std::size_t>(ip[0] & 15) * 4;
    both_headers_ = ip_header_ + static_cast<std::size_t>(ip[ip_header_ + 12] >> 4) * 4;
    segment_size_ = static_cast<std::size_t>(bytes[4] | bytes[5] << 8); // gso_size, little-endian
    EVENER_EXPECT(segment_size_ > 0 && header + both_headers_ < bytes.size());
    segments_ = (bytes.size() - header - both_headers_ + segment_size_ - 1) / segment_size_;
}

std::size_t SuperPacket::data_before(std::size_t segment) const noexcept {
    return std::min(segment * segment_size_, bytes_.size() - header_ - both_headers_);
}

std::size_t SuperPacket::wire_bytes(std::size_t k) const noexcept {
    return both_headers_ + data_before(k + 1) - data_before(k);
}

Bytes SuperPacket::slice(std::size_t first, std::size_t last) const {
    if (first == 0 && last == segments_)
        return {bytes_.begin(), bytes_.end()};
    std::size_t const headers = header_ + both_headers_;
    std::size_t const data = data_before(last) - data_before(first);
    Bytes result(headers + data);
    std::copy_n(bytes_.begin(), headers, result.begin());
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(headers + data_before(first)), data,
                result.begin() + static_cast<std::ptrdiff_t>(headers));

    if (last - first == 1) // no super-packet any more: gso_type and gso_size
        result[1] = result[4] = result[5] = 0;
    std::uint8_t* const ip = result.data() + header_;
    put16(ip + 2, both_headers_ + data);
    put16(ip + 4, get16(ip + 4) + first); // identification counts segments
    put16(ip + 10, 0);
    put16(ip + 10, static_cast<std::uint16_t>(~ones_complement_sum({ip, ip_header_})));

    std::uint8_t* const tcp = ip + ip_header_;
    auto const sequence =
        static_cast<std::uint32_t>((get16(tcp + 4) << 16 | get16(tcp + 6)) + data_before(first));
    put16(tcp + 4, sequence >> 16);
    put16(tcp + 6, sequence);
    if (last < segments_)
        tcp[13] &= static_cast<std::uint8_t>(~fin_and_push); // belong to the last segment
    if (first > 0)
        tcp[13] &= static_cast<std::uint8_t>(~window_reduced); // belongs to the first
    auto const tcp_bytes = static_cast<std::uint32_t>(both_headers_ - ip_header_ + data);
    put16(tcp + 16, ones_complement_sum({ip + 12, 8}, tcp_protocol + tcp_bytes)); // addresses
    return result;
}

} // namespace evener::testbed
