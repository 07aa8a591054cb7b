// Messages for peers that this worker's view does not know, or knows to be out of date: parked until control answers.
// Bounded per peer and in all; control always answers, so nothing waits here for ever.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/list.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/slab.h"
#include "dataplane/state/message.h"

namespace ulnet {

struct ParkedPeer : Linked<struct ParkedTag> {
  Nid nid;
  List<Sending, MsgTag> messages;
};

class Parked {
 public:
  Parked(uint32_t peers, WorkerMemory* memory) : slab_(peers, memory) {}

  enum class Result : uint8_t { kAsk, kWaiting, kRefused };
  /// Parks. kAsk: the first for this NID, so control must be asked. kRefused: a bound is reached, the message is not
  /// parked. Messages that others caused, responses and forwarded ones, begin at most half of the places: the rest is
  /// for operations of this node.
  [[nodiscard]] Result park(const Nid& nid, Sending& message) {
    ParkedPeer* peer = find(nid);
    if (peer == nullptr) {
      const bool ours = message.kind == MessageKind::kOperation;
      if (!ours && slab_.out() >= slab_.capacity() / 2) return Result::kRefused;
      peer = slab_.take();
      if (peer == nullptr) return Result::kRefused;
      peer->nid = nid;
      ULNET_CHECK(peer->messages.empty());
      bucket(nid).push_back(*peer);
      peer->messages.push_back(message);
      return Result::kAsk;
    }
    if (peer->messages.size() >= kParkedPerPeerMax) return Result::kRefused;
    peer->messages.push_back(message);
    return Result::kWaiting;
  }
  /// Hands each message parked for `nid` to `take(Sending&)`, oldest first; the NID is forgotten first, so `take` may
  /// park again.
  template <class F>
  void release(const Nid& nid, F&& take) {
    ParkedPeer* peer = find(nid);
    if (peer == nullptr) return;
    List<Sending, MsgTag> messages;
    while (Sending* message = peer->messages.pop_front()) messages.push_back(*message);
    bucket(nid).remove(*peer);
    slab_.give(*peer);
    while (Sending* message = messages.pop_front()) take(*message);
  }
  /// Takes one message out, e.g. because its deadline passed. The NID stays asked for.
  void leave(const Nid& nid, Sending& message) {
    if (ParkedPeer* peer = find(nid)) peer->messages.remove(message);
  }
  [[nodiscard]] bool empty() const { return slab_.out() == 0; }

 private:
  using Bucket = List<ParkedPeer, ParkedTag>;
  [[nodiscard]] Bucket& bucket(const Nid& nid) { return buckets_[nid.hash() % buckets_.size()]; }
  [[nodiscard]] ParkedPeer* find(const Nid& nid) {
    Bucket& here = bucket(nid);
    for (ParkedPeer* peer = here.front(); peer != nullptr; peer = here.after(*peer))
      if (peer->nid == nid) return peer;
    return nullptr;
  }
  Slab<ParkedPeer> slab_;
  std::array<Bucket, 256> buckets_;
};

}  // namespace ulnet
