#include "dataplane/state/portal.h"

#include <algorithm>

#include "dataplane/state/view.h"

namespace ulnet {
namespace {

bool initiator_matches(const ProcessId& wanted, const ProcessId& who, const Nid& source) {
  if (wanted.pid != kAnyPid && wanted.pid != who.pid) return false;
  return wanted.nid.is_any() || wanted.nid == who.nid || wanted.nid == source;
}

Md* first_match(List<Md, MatchTag>& list, const MatchAsk& ask) {
  for (Md* md = list.front(); md != nullptr; md = list.after(*md))
    if (entry_matches(*md, ask)) return md;
  return nullptr;
}

List<Md, MatchTag>& list_of(Portal& portal, const MatchEntry& entry) {
  return entry.ignore_bits == 0 ? portal.exact[Portal::bucket_of(entry.match_bits)] : portal.wild;
}

}  // namespace

bool entry_matches(const Md& md, const MatchAsk& ask) {
  if ((md.options & (ask.is_get ? kMdGet : kMdPut)) == 0) return false;
  if (((md.match.match_bits ^ ask.match_bits) & ~md.match.ignore_bits) != 0) return false;
  return initiator_matches(md.match.initiator, ask.initiator, ask.source);
}

WorkerId portal_home(const PortalView& portal, uint64_t match_bits, WorkerId here, unsigned workers) {
  switch (portal.mode) {
    case PortalMode::kClosed:
    case PortalMode::kSingle: return portal.home;
    case PortalMode::kHashed: return WorkerId{uint16_t(((match_bits * 0x9E3779B97F4A7C15ull) >> 32) % workers)};
    case PortalMode::kPerWorker: return here;
  }
  return portal.home;
}

void portal_attach(Portal& portal, Md& md, const MatchEntry& entry, bool at_head) {
  ULNET_CHECK(md.bound && !md.match.attached);
  md.match = entry;
  md.match.attached = true;
  md.match.order = at_head ? portal.order_first-- : portal.order_last++;
  if (at_head)
    list_of(portal, entry).push_front(md);
  else
    list_of(portal, entry).push_back(md);
  ++portal.entries;
}

void portal_detach(Portal& portal, Md& md) {
  ULNET_CHECK(md.match.attached && portal.entries > 0);
  list_of(portal, md.match).remove(md);
  md.match.attached = false;
  --portal.entries;
}

Md* portal_find(Portal& portal, const MatchAsk& ask) {
  Md* md = first_match(portal.exact[Portal::bucket_of(ask.match_bits)], ask);
  Md* wild = first_match(portal.wild, ask);
  return wild != nullptr && (md == nullptr || wild->match.order < md->match.order) ? wild : md;
}

MatchFound portal_match(Portal& portal, const MatchAsk& ask) {
  Md* md = portal_find(portal, ask);
  if (md == nullptr) return {};
  MatchFound found;
  found.md = md;
  found.offset = std::min((md->options & kMdManageRemote) != 0 ? ask.roffset : md->local_offset, md->length);
  const uint32_t room = std::min(md->length - found.offset, kMaxPayload);  // a GET may ask for any length
  if (ask.rlength > room && (md->options & kMdTruncate) == 0) {
    found.too_long = true;
    return found;
  }
  found.mlength = std::min(ask.rlength, room);
  ULNET_CHECK(found.mlength <= md->length - found.offset && md->threshold > 0);
  md->local_offset = found.offset + found.mlength;
  if (md->threshold != kInfinite) --md->threshold;
  return found;
}

}  // namespace ulnet
