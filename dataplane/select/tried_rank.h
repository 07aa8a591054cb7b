// Interfaces over which a message has failed: in a choice of path they come after all others, by the number of
// failures. Pure; part of the ranking in chooser.h.
#pragma once
#include <algorithm>
#include <climits>
#include <cstdint>

#include "dataplane/select/path.h"

namespace ulnet {

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
  /// Failures of the NI of each side that has failed least.
  [[nodiscard]] unsigned of_nets(const PeerView& peer, const PeerNetView& net, const LocalView& view,
                                 const NetView& local) const {
    unsigned theirs = UINT_MAX, ours = UINT_MAX;
    for (uint32_t i = net.first; i < net.first + net.count; ++i)
      theirs = std::min(theirs, at_peer(peer.ranks[i].slot, nullptr));
    for (uint32_t i = local.first; i < local.first + local.count; ++i)
      if (view.ranks[i].key != Rank::kNone) ours = std::min(ours, at_ni(view.ranks[i].slot));
    return theirs + ours;
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
