// The views of a node with many peers, as control builds them, for measurements of the choice of a path.
#pragma once
#include <cstdlib>
#include <deque>
#include <memory>
#include <numeric>
#include <vector>

#include "control/publish/peer_table.h"
#include "dataplane/base/rng.h"
#include "dataplane/select/after_choice.h"
#include "dataplane/select/path.h"
#include "dataplane/state/slices.h"

namespace ulnet::perf {

inline constexpr uint32_t kRules = 256;
inline constexpr WorkerId kHome{0}, kServer{1};
inline constexpr Net kTcp = Net::of(NetType::kTcp, 0);
inline constexpr uint32_t kMemoryNode = 1;

inline Nid local_nid(uint32_t i) {
  return Nid::v4(kTcp, 0x0A000001u + i);
}
inline Nid peer_nid(uint32_t peer, uint32_t i) {
  return Nid::v4(kTcp, 0x0B000000u + peer * 256 + i + 1);
}
/// Numbers of the peers in the order in which messages go to them.
inline std::vector<uint32_t> shuffled(uint32_t count, uint64_t seed) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0u);
  Rng rng(seed);
  for (uint32_t i = count; i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  return order;
}

/// The views of a node as control builds them.
class Views {
 public:
  /// With `ruled`, there are kRules rules. The first half gives the NIs of some peers a priority. Each of the others
  /// gives the NIs of some peers lists of preferred local NIs: another list for odd NIs than for even ones. All NIs of
  /// this node have a priority, too.
  Views(uint32_t peers, uint32_t nis, uint32_t peer_nis, bool ruled) : tallies_(peers * peer_nis) {
    request_.numa = kMemoryNode;
    for (uint32_t i = 0; i < nis; ++i) {
      NiView& ni = local_.nis.emplace_back();
      ni.id = NiId{i + 1};
      ni.slot = uint16_t(i);
      ni.nid = local_nid(i);
      ni.tx_credits = 256;
      ni.distances = {20, 20, 20, 20};
      if (ruled) ni.priority = 5;
    }
    local_.nets.push_back({kTcp, kNoPriority, 0, nis});
    rank_nis(local_);
    for (uint32_t rule = 0; ruled && rule < kRules; ++rule) {
      Preferences& list = lists_.emplace_back();
      for (uint32_t i = rule % 2; i < nis; i += 2) list.all.push_back({i + 1, rule});
    }
    for (const uint32_t number : shuffled(peers, 3)) add_peer(number, peer_nis, ruled);
    published_ = table_.snapshot();
    set_.local = &local_;
    set_.peers = published_.get();
    set_.routes = &routes_;
  }
  /// The path of a message of 64 bytes to the first NID of this peer. The choice counts as sent.
  void choose(uint32_t peer) {
    request_.dst = peer_nid(peer, 0);
    const PathChoice choice = choose_path(set_, request_, {kHome, tallies_});
    if (choice.kind != PathKind::kPath) std::abort();
    WorkerNotes notes(tallies_);
    note_sent(notes, choice, 64);
  }

 private:
  void add_peer(uint32_t number, uint32_t peer_nis, bool ruled) {
    auto peer = std::make_shared<PeerView>();
    peer->id = number + 1;
    peer->multi_rail = true;
    for (uint32_t i = 0; i < peer_nis; ++i) {
      PeerNiView& ni = peer->nis.emplace_back();
      ni.nid = peer_nid(number, i);
      ni.slot = slots_++;
      tallies_.ensure(ni.slot, nullptr);
      ni.server = kServer;
      ni.slice = slices_.emplace_back(std::make_unique<PeerSlice>(PeerNiId{ni.slot + 1}, 8, 8)).get();
      ni.tx_credits = 8;
      if (!ruled) continue;
      const uint32_t rule = number % kRules;
      if (rule < kRules / 2)
        ni.priority = rule;
      else
        ni.sources = &lists_[rule - i % 2];
    }
    peer->nets.push_back({kTcp, kNoPriority, 0, peer_nis});
    rank_nis(*peer);
    for (uint32_t i = 0; i < peer_nis; ++i) table_.set(peer->nis[i].nid, peer, i);
  }

  std::vector<std::unique_ptr<PeerSlice>> slices_;
  std::deque<Preferences> lists_;
  LocalView local_;
  RouteTable routes_;
  PeerTableBuilder table_;
  std::shared_ptr<const PeerTable> published_;
  uint32_t slots_ = 0;
  ViewSet set_;
  Tallies tallies_;
  PathRequest request_;
};

}  // namespace ulnet::perf
