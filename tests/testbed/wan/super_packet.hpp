// SPDX-License-Identifier: Apache-2.0
#pragma once

// The kernel hands over TCP data in pieces of up to 64 KiB ("super-packets") that a network card would
// cut into segments. The link carries them whole, which costs a quarter of the CPU time, but loses and
// queues segments, so a piece can be cut between any two of them.
//   3000 bytes of data with segments of 1448: segments of 1448, 1448 and 104; without the second one
//   two packets are left, [0, 1) and [2, 3)

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace evener::testbed {

using Bytes = std::vector<std::uint8_t>;

/// A view: what it is made from must outlive it.
class SuperPacket {
  public:
    /// `bytes`: a virtio_net_hdr of `header` bytes (0: none, no super-packets), then an IPv4 packet.
    SuperPacket(std::span<std::uint8_t const> bytes, std::size_t header);

    /// 1 for everything but TCP super-packets.
    std::size_t segments() const noexcept { return segments_; }
    /// Bytes of segment k as an IP packet of its own.
    std::size_t wire_bytes(std::size_t k) const noexcept;
    /// Segments [first, last) as one packet of the same form. Its TCP checksum covers the pseudo header
    /// alone, as that of the whole did: the receiving kernel is told to complete it.
    Bytes slice(std::size_t first, std::size_t last) const;

  private:
    std::size_t data_before(std::size_t segment) const noexcept;

    std::span<std::uint8_t const> bytes_;
    std::size_t header_;           // virtio_net_hdr
    std::size_t ip_header_ = 0;    // bytes
    std::size_t both_headers_ = 0; // IP and TCP
    std::size_t segment_size_;     // TCP data in each but the last
    std::size_t segments_ = 1;
};

/// The Internet checksum's ones' complement sum of big-endian words, folded to 16 bits; `start` is added.
std::uint16_t ones_complement_sum(std::span<std::uint8_t const> bytes, std::uint32_t start = 0);

} // namespace evener::testbed
