#include "lnd/net/packet/icmp.h"

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {
namespace {

constexpr uint8_t kRequest4 = 8, kReply4 = 0, kRequest6 = 128, kReply6 = 129;

}  // namespace

Decoded<IcmpHeader> icmp_decode(Bytes message, bool v6) {
  if (message.size() < kIcmpEchoBytes) return drop(FrameDrop::kTruncated);
  const std::byte* at = message.data();
  IcmpHeader out;
  out.type = uint8_t(at[0]);
  out.code = uint8_t(at[1]);
  out.checksum = wire::load<uint16_t>(at + 2, true);
  if (out.type == (v6 ? kRequest6 : kRequest4)) out.kind = IcmpKind::kEchoRequest;
  if (out.type == (v6 ? kReply6 : kReply4)) out.kind = IcmpKind::kEchoReply;
  if (out.kind == IcmpKind::kOther) return out;
  if (out.code != 0) return drop(FrameDrop::kIcmpFormat);
  out.identifier = wire::load<uint16_t>(at + 4, true);
  out.sequence = wire::load<uint16_t>(at + 6, true);
  return out;
}

unsigned icmp_echo_encode(const IcmpHeader& header, bool v6, std::byte* out) {
  const bool request = header.kind == IcmpKind::kEchoRequest;
  out[0] = std::byte{v6 ? (request ? kRequest6 : kReply6) : (request ? kRequest4 : kReply4)};
  out[1] = std::byte{0};
  wire::store<uint16_t>(out + 2, header.checksum, true);
  wire::store<uint16_t>(out + 4, header.identifier, true);
  wire::store<uint16_t>(out + 6, header.sequence, true);
  return kIcmpEchoBytes;
}

void icmp_echo_answer(std::byte* message, bool v6) {
  const auto old_word = wire::load<uint16_t>(message, true);
  const auto new_word = uint16_t((v6 ? kReply6 : kReply4) << 8);
  const auto checksum = wire::load<uint16_t>(message + 2, true);
  wire::store<uint16_t>(message, new_word, true);
  wire::store<uint16_t>(message + 2, checksum_update(checksum, old_word, new_word), true);
}

}  // namespace ulnet::dpdk
