#include "lnd/net/packet/nd.h"

#include "dataplane/wire/bytes.h"

namespace ulnet::dpdk {
namespace {

constexpr uint32_t kSolicitedFlag = 1u << 30;
constexpr uint32_t kOverrideFlag = 1u << 29;
constexpr uint8_t kSourceOption = 1;
constexpr uint8_t kTargetOption = 2;

}  // namespace

Decoded<NdMessage> nd_decode(const IpHeader& ip, Bytes message) {
  if (message.size() < kNdBytes) return drop(FrameDrop::kTruncated);
  const std::byte* at = message.data();
  const auto type = uint8_t(at[0]);
  if ((type != kNdSolicitation && type != kNdAdvertisement) || at[1] != std::byte{0} || ip.ttl != kNdHopLimit)
    return drop(FrameDrop::kNdFormat);
  NdMessage out;
  out.advertisement = type == kNdAdvertisement;
  const auto flags = wire::load<uint32_t>(at + 4, true);
  out.solicited = out.advertisement && (flags & kSolicitedFlag) != 0;
  out.overrides = out.advertisement && (flags & kOverrideFlag) != 0;
  std::memcpy(out.target.bytes.data(), at + 8, 16);
  if (out.target.is_group() || out.target.is_unspecified() || out.target.is_v4()) return drop(FrameDrop::kNdFormat);
  const uint8_t wanted = out.advertisement ? kTargetOption : kSourceOption;
  for (Bytes options = message.subspan(kNdBytes); !options.empty();) {
    if (options.size() < 8) return drop(FrameDrop::kNdFormat);
    const size_t bytes = size_t(options[1]) * 8;
    if (bytes == 0 || bytes > options.size()) return drop(FrameDrop::kNdFormat);
    if (uint8_t(options[0]) == wanted && bytes == 8) {
      out.has_mac = true;
      std::memcpy(out.mac.bytes.data(), options.data() + 2, 6);
      if (out.mac.is_group() || out.mac.is_zero()) return drop(FrameDrop::kNdFormat);
    }
    options = options.subspan(bytes);
  }
  // A probe for duplicates (source ::) names no sender and goes to the group (RFC 4861 §7.1.1).
  if (!out.advertisement && ip.source.is_unspecified() && (out.has_mac || !ip.destination.is_group()))
    return drop(FrameDrop::kNdFormat);
  if (out.solicited && ip.destination.is_group()) return drop(FrameDrop::kNdFormat);
  return out;
}

unsigned nd_encode(const NdMessage& message, std::byte* out) {
  out[0] = std::byte{message.advertisement ? kNdAdvertisement : kNdSolicitation};
  out[1] = std::byte{0};
  wire::store<uint16_t>(out + 2, 0);
  uint32_t flags = 0;
  if (message.advertisement) flags = (message.solicited ? kSolicitedFlag : 0) | (message.overrides ? kOverrideFlag : 0);
  wire::store<uint32_t>(out + 4, flags, true);
  std::memcpy(out + 8, message.target.bytes.data(), 16);
  if (!message.has_mac) return kNdBytes;
  out[24] = std::byte{message.advertisement ? kTargetOption : kSourceOption};
  out[25] = std::byte{1};
  std::memcpy(out + 26, message.mac.bytes.data(), 6);
  return kNdBytesMax;
}

}  // namespace ulnet::dpdk
