// How the memory of a peer NI that was removed is given back. Control owns it; views, messages, receives and
// connections point at it. So, in this order: a view without the NI is out, and every worker has passed it; no driver
// names it; and every worker, asked by message, has said that nothing of its own does. An NI that comes back meanwhile
// keeps its memory. A request that waits for an answer names the NI that it was sent to: at most for the transaction
// timeout, and without response tracking until its MD is unlinked. Thread: control.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "control/timers.h"
#include "dataplane/state/inbox.h"
#include "dataplane/state/peer_blocks.h"

namespace ulnet {

class PeerEnds {
 public:
  struct Deps {
    std::function<bool(const PeerSlice&)> named = {};            ///< by some driver
    std::function<bool(Epoch)> passed = {};                      ///< by every worker
    std::function<void(WorkerId, const PeerAskMsg&)> send = {};  ///< none: nothing is ever given back
    std::function<void(PeerNiId)> over = {};                     ///< the memory may be freed
  };
  explicit PeerEnds(Timers& timers) : next_(timers, TimerName::kPeerReclaim) {}
  void set_deps(Deps deps) { deps_ = std::move(deps); }

  /// The NI is in no view from the next one on.
  void begin(const PeerBlocks& blocks, WorkerId server);
  /// The NI is back.
  void cancel(PeerNiId id);
  /// A view with all that was begun before is out.
  void published(Epoch epoch);
  /// A worker's answer to PeerAskMsg.
  void answer(const PeerAnswerMsg& msg, Instant now);
  /// Goes on with those whose time has come; returns how many.
  unsigned turn(Instant now);
  [[nodiscard]] size_t size() const { return ends_.size(); }
  /// Is memory given back at all?
  [[nodiscard]] bool working() const { return bool(deps_.send); }
  /// Does a driver name it?
  [[nodiscard]] bool named(const PeerSlice& slice) const { return deps_.named(slice); }

 private:
  struct End {
    const PeerBlocks* blocks = nullptr;
    WorkerId server = kNoWorker;
    Epoch epoch{};           // of the first view without it
    Instant due = kForever;  // as in due_
    Duration wait{};         // before the last look
    uint64_t asked = 0;      // number of the question that is out; 0: none
    unsigned unanswered = 0;
    bool in_use = false;  // somebody has said so
  };
  void at(PeerNiId id, End& end, Instant when);
  void later(PeerNiId id, End& end, Instant now);
  void ask(PeerNiId id, End& end);

  Deps deps_;
  std::map<PeerNiId, End> ends_;
  std::set<std::pair<Instant, PeerNiId>> due_;
  SlowTimer next_;  // the first of due_
  std::vector<PeerNiId> unpublished_;
  uint64_t questions_ = 0;
};

}  // namespace ulnet
