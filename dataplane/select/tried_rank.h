// Interfaces over which a message has failed: in a choice of path they come after all others, by the number of
// failures. Pure; part of the ranking in chooser.h.
#pragma once
#include <algorithm>
#include <cstdint>

#include "dataplane/select/path.h"

namespace ulnet {

/// Of a net, by the best NI of each side.
struct NetGrade {
  unsigned tried = 0;  ///< failures of the message
  bool down = false;   ///< no link, or health 0
};

class TriedRank {
 public:
  explicit TriedRank(const PathRequest& request) : request_(request) {}
  [[nodiscard]] bool any() const { return request_.tried != nullptr; }
  [[nodiscard]] unsigned at_ni(uint32_t slot) const {
    return any() ? request_.tried->at_ni(uint16_t(slot), request_.tried_any) : 0;
  }
  /// `from`: the local NI of the pair; null: it is not chosen yet.
  [[nodiscard]] unsigned at_peer(uint32_t slot, const NiView* from) const {
    if (!any()) return 0;
    return from == nullptr ? request_.tried->at_peer(slot) : request_.tried->at_peer(slot, from->slot);
  }
  /// To add to Rank::key.
  [[nodiscard]] uint64_t key_of_ni(uint32_t slot) const { return uint64_t{at_ni(slot)} << kShift; }
  [[nodiscard]] uint64_t key_of_peer_ni(uint32_t slot, const NiView* from) const {
    return uint64_t{at_peer(slot, from)} << kShift;
  }
  /// `peer_key`: of the peer's NI with this index.
  template <class PeerKey>
  [[nodiscard]] NetGrade grade_of(const PeerView& peer, const PeerNetView& net, const LocalView& view,
                                  const NetView& local, const PeerKey& peer_key) const {
    uint64_t theirs = Rank::kNone, ours = Rank::kNone;
    for (uint32_t i = net.first; i < net.first + net.count; ++i)
      if (const uint64_t key = peer_key(i); key != Rank::kNone)
        theirs = std::min(theirs, key + key_of_peer_ni(peer.ranks[i].slot, nullptr));
    for (uint32_t i = local.first; i < local.first + local.count; ++i)
      if (const Rank& rank = view.ranks[i]; rank.key != Rank::kNone)
        ours = std::min(ours, rank.key + key_of_ni(rank.slot));
    const auto down = [](uint64_t key) { return (key >> 48 & 0xFF) != 0 || uint16_t(key >> 32) == UINT16_MAX; };
    return {unsigned(theirs >> kShift) + unsigned(ours >> kShift), down(theirs) || down(ours)};
  }
  /// A response has failed over the router of its request.
  [[nodiscard]] bool has_via(const ViewSet& view) const {
    if (!any()) return false;
    const PeerRef via = view.peers->find(request_.via);
    return via && via.ni().slice != nullptr && request_.tried->at_peer(via.ni().slot) > 0;
  }

 private:
  static constexpr unsigned kShift = 56;  // above all bits of Rank::key
  const PathRequest& request_;
};

}  // namespace ulnet
