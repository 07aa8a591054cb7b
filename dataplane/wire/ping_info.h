// Ping info: the payload of a ping REPLY and of a push PUT. Source: docs/wire/lnet.md §4. Encoding and validation only;
// control uses the content.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dataplane/base/nid.h"
#include "dataplane/base/result.h"

namespace ulnet::wire {

inline constexpr uint32_t kPingMagic = 0x70696E67;
inline constexpr uint64_t kPingMatchBits = 0x8000000000000000ull;

enum PingFeature : uint32_t {
  kFeatureBase = 0x01,
  kFeatureNiStatus = 0x02,
  kFeatureRteDisabled = 0x04,
  kFeatureMultiRail = 0x08,
  kFeatureDiscovery = 0x10,
  kFeatureLargeAddr = 0x20,
  kFeaturePrimaryLarge = 0x40,
  kFeatureMetadata = 0x80,
  kFeatureCopies = 0x80000000  ///< ours: each request is delivered once, even if copies come (docs/wire/copies.md)
};
/// Ours: the part of the features that names the life of a node with kFeatureCopies.
inline constexpr uint32_t kLifeShift = 16, kLifeMask = 0x7FFF0000;
static_assert((kLifeMask & kFeatureCopies) == 0);
inline constexpr uint32_t kFeaturesOurs = kFeatureCopies | kLifeMask;  ///< absent from kernel nodes
/// The life of the node that reports these features; 0: none is named.
[[nodiscard]] constexpr uint16_t life_in(uint32_t features) {
  return (features & kFeatureCopies) != 0 ? uint16_t((features & kLifeMask) >> kLifeShift) : uint16_t(0);
}
enum NiStatus : uint32_t { kNiUp = 0x15AAC0DE, kNiDown = 0xDEADFACE, kNiInvalid = 0 };

/// One NI as a ping info lists it; host form, not on the wire by itself.
struct PingNi {
  Nid nid;
  uint32_t status = kNiUp;
};

/// A ping info in host form. `nis` leaves 0@lo out; the primary NID comes first. Feature bits LARGE_ADDR and
/// PRIMARY_LARGE are derived on encoding from the NIDs and order.
struct PingInfo {
  uint32_t features = 0;
  uint32_t pid = kLnetPid;
  uint32_t sequence = 0;  ///< NI configuration sequence number, carried in the status word of 0@lo
  std::vector<PingNi> nis;
};

/// Bytes that ping_info_encode() will write.
[[nodiscard]] size_t ping_info_size(const PingInfo& info);
/// Encodes. 4-byte NIDs become 16-byte entries in list order, followed by the large ones in list order. The primary is
/// the first entry of its kind (docs/wire/lnet.md §4.2).
[[nodiscard]] std::vector<std::byte> ping_info_encode(const PingInfo& info);

/// Result of the decoder; not on the wire. When truncated, ping again with a sink of `needed_bytes`.
struct PingDecode {
  PingInfo info;
  size_t needed_bytes = 0;  ///< full size that the sender announced
  bool truncated = false;   ///< fewer bytes came than needed_bytes; info then holds the complete entries that came
};
/// Decodes and validates (docs/wire/lnet.md §4.3); accepts either byte order. Errors: EPROTO, each with its sentence.
/// Checks: magic, NI_STATUS, first entry 0@lo, and that the stated size fits the entries. The NI count is checked
/// twice: the small entries with 0@lo, as upstream counts, and all entries without 0@lo.
[[nodiscard]] Result<PingDecode> ping_info_decode(std::span<const std::byte> in, uint32_t interfaces_max);

}  // namespace ulnet::wire
