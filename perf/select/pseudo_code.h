// The choice of NI and peer NI by the pseudo-code of the Multi-Rail high level design, to compare with. Lists of
// objects on the heap are walked one by one; credits are live, sequence numbers shared. Written for one thread: no
// mutex, no atomic operation. Each object fills one cache line; the objects of a kernel fill several.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "dataplane/base/nid.h"

namespace ulnet::perf {

/// `kLiteral`: the text as it stands, where a candidate with as many credits as the best is skipped, so that sequence
/// numbers have no effect. `kMeant`: the sequence number decides between as many credits, as the text around it says.
enum class Reading : uint8_t { kLiteral, kMeant };

namespace pseudo {

struct alignas(64) Ni {
  Ni* next = nullptr;
  Nid nid;
  bool healthy = true;
  uint32_t numa = 0;
  int32_t credits = 256;
  uint32_t sequence = 0;
};
struct NetOfNis {
  Net net;
  Ni* first = nullptr;
};
struct alignas(64) PeerNi {
  PeerNi* next = nullptr;
  const std::vector<const Ni*>* preferred = nullptr;  ///< null: none
  Nid nid;
  bool healthy = true;
  int32_t credits = 8;
  uint32_t sequence = 0;
};
struct PeerNet {
  PeerNet* next = nullptr;
  NetOfNis* net = nullptr;  ///< of this node; null: not connected
  PeerNi* first = nullptr;
  uint32_t priority = 0xFFFFFFFF;
  bool healthy = true;
};
struct Peer {
  PeerNet* first = nullptr;
};
/// Entry of the table of NIDs.
struct Entry {
  Entry* next = nullptr;
  Nid nid;
  Peer* peer = nullptr;
};
struct Table {
  static constexpr size_t kBuckets = 16384;  ///< as many as PeerTable has leaves
  std::vector<Entry*> buckets = std::vector<Entry*>(kBuckets);
  [[nodiscard]] Peer* find(const Nid& nid) const {
    for (const Entry* entry = buckets[nid.hash() % kBuckets]; entry != nullptr; entry = entry->next)
      if (entry->nid == nid) return entry->peer;
    return nullptr;
  }
};
struct Choice {
  Ni* ni = nullptr;
  PeerNi* peer_ni = nullptr;
};

using Distances = std::array<std::array<uint32_t, 4>, 4>;

/// The walk over a net's NIs. Takes the best so far along from net to net, as the text does.
template <Reading kReading>
bool walk_nis(const NetOfNis& net, uint32_t memory, const Distances& distances, uint32_t& best_distance,
              int32_t& best_credits, Ni*& best) {
  bool taken = false;
  for (Ni* ni = net.first; ni != nullptr; ni = ni->next) {
    if (!ni->healthy) continue;
    const uint32_t distance = distances[ni->numa][memory];
    if (distance > best_distance) continue;
    if (distance < best_distance) {
      best_distance = distance;
    } else if (kReading == Reading::kLiteral ? ni->credits <= best_credits : ni->credits < best_credits) {
      continue;
    } else if (best != nullptr && (kReading == Reading::kLiteral || ni->credits == best_credits)) {
      if (int32_t(best->sequence - ni->sequence) <= 0) continue;
      best->sequence = ni->sequence + 1;
    }
    best = ni;
    best_credits = ni->credits;
    taken = true;
  }
  return taken;
}

template <Reading kReading>
PeerNi* walk_peer_nis(const PeerNet& net, const Ni* ni) {
  PeerNi* best = nullptr;
  int32_t best_credits = INT32_MIN;
  bool preferred = false;
  for (PeerNi* one = net.first; one != nullptr; one = one->next) {
    if (!one->healthy) continue;
    bool is_preferred = false;
    if (one->preferred != nullptr)
      for (const Ni* listed : *one->preferred) is_preferred |= listed == ni;
    if (!preferred && is_preferred) {
      preferred = true;
    } else if (preferred && !is_preferred) {
      continue;
    } else if (kReading == Reading::kLiteral ? one->credits <= best_credits : one->credits < best_credits) {
      continue;
    } else if (best != nullptr && (kReading == Reading::kLiteral || one->credits == best_credits)) {
      if (int32_t(best->sequence - one->sequence) <= 0) continue;
      best->sequence = one->sequence + 1;
    }
    best = one;
    best_credits = one->credits;
  }
  return best;
}

/// The whole choice, without the routed part.
template <Reading kReading>
Choice choose(const Table& table, const Nid& dst, uint32_t memory, const Distances& distances) {
  const Peer* peer = table.find(dst);
  if (peer == nullptr) return {};
  Choice choice;
  const PeerNet* best_net = nullptr;
  uint32_t best_priority = 0xFFFFFFFF, best_distance = 255;
  int32_t best_credits = INT32_MIN;
  for (const PeerNet* net = peer->first; net != nullptr; net = net->next) {
    if (net->net == nullptr || !net->healthy) continue;
    if (best_net != nullptr && best_priority < net->priority) continue;
    if (!walk_nis<kReading>(*net->net, memory, distances, best_distance, best_credits, choice.ni)) continue;
    best_net = net;
    best_priority = net->priority;
  }
  if (choice.ni == nullptr) return {};
  choice.peer_ni = walk_peer_nis<kReading>(*best_net, choice.ni);
  return choice;
}

}  // namespace pseudo
}  // namespace ulnet::perf
