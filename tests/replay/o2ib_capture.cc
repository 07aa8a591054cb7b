#include "tests/replay/o2ib_capture.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "dataplane/wire/bytes.h"
#include "tests/wire/pcap.h"

namespace ulnet::test {
namespace {

using Bytes = std::span<const std::byte>;

constexpr size_t kEthernet = 14, kIpv4 = 20, kUdp = 8, kBth = 12, kIcrc = 4;
constexpr uint16_t kRocePort = 4791;
constexpr std::byte kSendOnly{0x04}, kImmediate{0xD1};
constexpr uint32_t kMagic = 0x0BE91B91;
constexpr size_t kTypeAt = 6, kNobAt = 8, kSourceAt = 16, kTargetAt = 32, kLnetAt = 48;

uint16_t be16(Bytes in, size_t at) {
  return uint16_t(uint16_t(in[at]) << 8 | uint16_t(in[at + 1]));
}

/// Payload of a SEND Only frame, without the ICRC; empty for any other frame.
Bytes send_only(Bytes frame) {
  constexpr size_t kHeaders = kEthernet + kIpv4 + kUdp + kBth;
  if (frame.size() < kHeaders + kIcrc || be16(frame, 12) != 0x0800 || frame[kEthernet] != std::byte{0x45}) return {};
  const Bytes udp = frame.subspan(kEthernet + kIpv4);
  if (be16(udp, 2) != kRocePort || udp[kUdp] != kSendOnly) return {};
  const size_t padding = size_t(udp[kUdp + 1] >> 4) & 3, bytes = be16(udp, 4);
  if (bytes > udp.size() || bytes < kUdp + kBth + kIcrc + padding) return {};
  return udp.subspan(kUdp + kBth, bytes - kUdp - kBth - kIcrc - padding);
}

/// Sender, queue pair and packet number: a packet that was sent again has the same.
auto identity(Bytes frame) {
  const Bytes bth = frame.subspan(kEthernet + kIpv4 + kUdp, kBth);
  return std::tuple(wire::load<uint32_t>(&frame[kEthernet + 12]), wire::load<uint32_t>(&bth[4]),
                    wire::load<uint32_t>(&bth[8]) & 0xFFFFFF00);
}

}  // namespace

std::vector<ReplayMessage> o2ib_messages(const std::string& path) {
  std::vector<ReplayMessage> all;
  std::set<decltype(identity({}))> seen;
  const std::string error = pcap_frames(path, [&](Duration time, Bytes frame) {
    const Bytes in = send_only(frame);
    if (in.size() < kLnetAt + wire::kHeaderNid4Bytes || wire::load<uint32_t>(in.data()) != kMagic) return;
    if (in[kTypeAt] != kImmediate || !seen.insert(identity(frame)).second) return;
    ReplayMessage& message = all.emplace_back();
    message.began = time;
    message.from = Nid::from_u64(wire::load<uint64_t>(&in[kSourceAt]));
    message.to = Nid::from_u64(wire::load<uint64_t>(&in[kTargetAt]));
    message.decoded = *wire::header_decode_nid4(in.subspan(kLnetAt).first<wire::kHeaderNid4Bytes>());
    const Bytes payload = in.first(wire::load<uint32_t>(&in[kNobAt])).subspan(kLnetAt + wire::kHeaderNid4Bytes);
    EXPECT_EQ(payload.size(), message.decoded.payload_length);
    message.payload.assign(payload.begin(), payload.end());
  });
  EXPECT_EQ(error, "");
  return all;
}

}  // namespace ulnet::test
