// Ping info codec. Control side: the codec allocates. The hard part is the size. The size is given in two ways: by the
// entry count and, with large NIDs, by a byte count in the first entry. A peer may also have cut the info short on
// purpose: a REPLY is truncated to the sink. This is no error: the next ping needs a larger sink.
#include "dataplane/wire/ping_info.h"

#include <algorithm>

#include "dataplane/base/limits.h"
#include "dataplane/wire/bytes.h"

namespace ulnet::wire {
namespace {

constexpr size_t kHeadBytes = 16;
constexpr size_t kEntryBytes = 16;
constexpr uint32_t kDerivedFeatures = kFeatureLargeAddr | kFeaturePrimaryLarge | kFeatureMetadata;

/// Bytes of a large entry: status, then the significant bytes of the NID, rounded up (docs/wire/lnet.md §4.2).
constexpr size_t large_entry_bytes(uint8_t nid_size) {
  return (4 + size_t{nid_size} + 8 + 3) & ~size_t{3};
}

bool is_large(const PingNi& ni) {
  return !ni.nid.fits_u64();
}

/// ANY and lo name no interface of the peer: no message can be sent to them. Such an entry is left out.
bool names_interface(const Nid& nid) {
  return !nid.is_any() && !nid.is_lo();
}

/// Reads the large entries in [offset, announced), as far as they came. False when they do not add up to `announced`.
bool large_decode(std::span<const std::byte> in, size_t offset, size_t announced, bool flip, std::vector<PingNi>& out) {
  while (offset < announced) {
    if (announced - offset < 5) return false;
    if (offset + 5 > in.size()) return true;
    const uint8_t nid_size = uint8_t(in[offset + 4]);
    const size_t entry_bytes = large_entry_bytes(nid_size);
    if (entry_bytes > announced - offset) return false;
    if (offset + entry_bytes > in.size()) return true;
    if (size_t{nid_size} + 8 <= sizeof(Nid)) {
      std::byte raw[sizeof(Nid)]{};
      std::memcpy(raw, in.data() + offset + 4, size_t{nid_size} + 8);
      const Nid nid = nid_load16(raw);
      if (names_interface(nid)) out.push_back({nid, load<uint32_t>(in.data() + offset, flip)});
    }
    offset += entry_bytes;
  }
  return true;
}

/// Full size by the sender's own account, from the first entry. 0 when it contradicts itself.
size_t announced_bytes(const std::byte* entry0, uint32_t features, uint32_t ni_count, bool flip) {
  const size_t small = kHeadBytes + kEntryBytes * ni_count;
  if ((features & kFeatureLargeAddr) == 0) return small;
  const size_t said = load<uint32_t>(entry0 + 12, flip) & ~uint32_t{3};
  return said < small ? 0 : said;
}

}  // namespace

size_t ping_info_size(const PingInfo& info) {
  size_t bytes = kHeadBytes + kEntryBytes;
  for (const PingNi& ni : info.nis) bytes += is_large(ni) ? large_entry_bytes(ni.nid.size) : kEntryBytes;
  return bytes;
}

std::vector<std::byte> ping_info_encode(const PingInfo& info) {
  std::vector<std::byte> out(ping_info_size(info));
  const auto large_count = size_t(std::count_if(info.nis.begin(), info.nis.end(), is_large));
  uint32_t features = info.features & ~kDerivedFeatures;
  if (large_count != 0) features |= kFeatureLargeAddr;
  if (!info.nis.empty() && is_large(info.nis.front())) features |= kFeaturePrimaryLarge;
  store(out.data(), kPingMagic);
  store(out.data() + 4, features);
  store(out.data() + 8, info.pid);
  store(out.data() + 12, uint32_t(1 + info.nis.size() - large_count));
  std::byte* at = out.data() + kHeadBytes;
  store(at, kLoNid.to_u64());
  store(at + 8, info.sequence);
  store(at + 12, uint32_t(large_count != 0 ? out.size() : 0));
  at += kEntryBytes;
  for (const PingNi& ni : info.nis) {
    if (is_large(ni)) continue;
    store(at, ni.nid.to_u64());
    store(at + 8, ni.status);
    at += kEntryBytes;
  }
  for (const PingNi& ni : info.nis) {
    if (!is_large(ni)) continue;
    store(at, ni.status);
    std::memcpy(at + 4, &ni.nid, std::min(size_t{ni.nid.size} + 8, sizeof(Nid)));
    at += large_entry_bytes(ni.nid.size);
  }
  return out;
}

Result<PingDecode> ping_info_decode(std::span<const std::byte> in, uint32_t interfaces_max) {
  if (in.size() < kHeadBytes) return fail(EPROTO, "ping info is shorter than its head", in.size());
  const auto magic = load<uint32_t>(in.data());
  const bool flip = magic == byte_swap(kPingMagic);
  if (magic != kPingMagic && !flip) return fail(EPROTO, "ping info has a wrong magic", magic);
  PingDecode decoded;
  PingInfo& info = decoded.info;
  info.features = load<uint32_t>(in.data() + 4, flip);
  info.pid = load<uint32_t>(in.data() + 8, flip);
  const auto ni_count = load<uint32_t>(in.data() + 12, flip);
  if ((info.features & kFeatureNiStatus) == 0) return fail(EPROTO, "ping info has no NI status", info.features);
  if (ni_count < 1 || ni_count > interfaces_max) return fail(EPROTO, "ping info has too few or too many NIs", ni_count);
  const size_t small_bytes = kHeadBytes + kEntryBytes * ni_count;
  decoded.needed_bytes = small_bytes;
  decoded.truncated = true;
  if (in.size() < kHeadBytes + kEntryBytes) return decoded;

  const std::byte* entry0 = in.data() + kHeadBytes;
  if (load<uint64_t>(entry0, flip) != kLoNid.to_u64()) return fail(EPROTO, "ping info does not begin with 0@lo");
  info.sequence = load<uint32_t>(entry0 + 8, flip);
  decoded.needed_bytes = announced_bytes(entry0, info.features, ni_count, flip);
  if (decoded.needed_bytes == 0) return fail(EPROTO, "ping info states a size below that of its NIs");
  if (decoded.needed_bytes > kMaxPayload) {
    return fail(EPROTO, "ping info states a size that no message can carry", decoded.needed_bytes);
  }
  decoded.truncated = in.size() < decoded.needed_bytes;

  std::vector<PingNi> large;
  if (!large_decode(in, small_bytes, decoded.needed_bytes, flip, large)) {
    return fail(EPROTO, "ping info has large NIs that do not fill its size", decoded.needed_bytes);
  }
  const bool primary_large = (info.features & kFeaturePrimaryLarge) != 0 && !large.empty();
  if (primary_large) info.nis.push_back(large.front());
  for (size_t offset = kHeadBytes + kEntryBytes; offset < small_bytes && offset + kEntryBytes <= in.size();
       offset += kEntryBytes) {
    const Nid nid = nid_from_wire(load<uint64_t>(in.data() + offset, flip));
    if (names_interface(nid)) info.nis.push_back({nid, load<uint32_t>(in.data() + offset + 8, flip)});
  }
  info.nis.insert(info.nis.end(), large.begin() + (primary_large ? 1 : 0), large.end());
  if (info.nis.size() > interfaces_max) return fail(EPROTO, "ping info has too many NIs", info.nis.size());
  return decoded;
}

}  // namespace ulnet::wire
