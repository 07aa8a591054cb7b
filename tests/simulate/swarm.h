// Thousands of peers of one node, without thousands of nodes, and the measurements that are made with them. The peers
// are a driver. Behind it each peer answers pings with its list of NIDs, acknowledges pushes, and pushes its own list,
// as docs/wire/lnet.md §5 describes. One worker, one thread, virtual time. The peers do the least that a node does.
// A peer pushes each list once, and never repeats a push without acknowledgement. tests/simulate/cluster.h has real
// nodes among each other.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dataplane/wire/ping_info.h"
#include "lnd/lnd.h"

namespace ulnet::simulate {

inline constexpr uint32_t kSwarmNids = 4;  ///< of each peer
inline constexpr Duration kSwarmDelay = 20us;

/// One peer: its list, and how its own push stands.
struct SwarmPeer {
  uint32_t sequence = 5;
  uint32_t first = 0;   ///< its NIDs are those from here on, kSwarmNids of them: a change of its list moves it
  uint32_t pings = 0;   ///< that came
  uint32_t pushed = 0;  ///< to it
  bool knows = false;   ///< a push of the node came
  bool wants = false;   ///< its own list is to be acknowledged yet
};

class SwarmLnd;
class SwarmControl;

/// The peers and what is on its way between them and the node.
class Swarm {
 public:
  explicit Swarm(uint32_t peers) : peers_(peers) {}

  [[nodiscard]] static Nid nid_of(uint32_t peer, uint32_t index);
  /// All NIDs of the peer now, the primary first.
  [[nodiscard]] std::vector<Nid> nids_of(uint32_t peer) const;
  [[nodiscard]] std::vector<SwarmPeer>& peers() { return peers_; }
  /// Each peer has another list at once, and pushes it.
  void change_all(Instant now);
  /// Peers whose push nobody has acknowledged yet.
  [[nodiscard]] uint32_t unheard() const;
  [[nodiscard]] uint64_t pushes_sent() const { return pushes_sent_; }
  [[nodiscard]] size_t held_most() const { return held_most_; }
  [[nodiscard]] uint64_t protocol_errors() const { return protocol_errors_; }
  /// Pushes that could not be sent, since the node had no room for the peer.
  [[nodiscard]] uint64_t unplaced() const { return unplaced_; }
  [[nodiscard]] Instant next_event() const;

 private:
  friend class SwarmLnd;
  friend class SwarmControl;
  /// A message on its way to the node, in a connection of its own.
  struct Inbound : RxSlot {
    std::vector<std::byte> bytes;
    bool held = false;
  };
  void push_at(uint32_t peer, Instant at);
  void answer(Tx& tx, Instant now);
  void heard(const wire::Header& ack);
  [[nodiscard]] wire::PingInfo info_of(uint32_t peer) const;
  [[nodiscard]] uint32_t peer_of(const Nid& nid) const;
  Inbound& send(const Tx& to_whom, wire::Header header, Instant at);
  void push(uint32_t peer, const Nid& from, const PeerPlace& place, Instant now);

  std::vector<SwarmPeer> peers_;
  std::multimap<Instant, Tx*> outbound_;
  std::multimap<Instant, std::unique_ptr<Inbound>> arriving_;
  std::set<std::pair<Instant, uint32_t>> pushes_;  // when, which peer
  std::map<const RxSlot*, std::unique_ptr<Inbound>> held_;
  NiParams ni_;
  uint64_t pushes_sent_ = 0, protocol_errors_ = 0, unplaced_ = 0;
  size_t held_most_ = 0;
};

/// Worker half.
class SwarmLnd final : public Lnd {
 public:
  SwarmLnd(Swarm& swarm, LndCore& core) : s_(swarm), core_(core) {}
  void submit(Tx& tx, Instant now) override;
  void resume(RxSlot& slot, Instant now) override;
  void release(RxSlot&, Instant) override {}  // nothing is movable
  void divert(RxSlot&, Instant) override {}   // receives end at once
  void cancel(Tx& tx, bool force, Instant now) override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant) override { return 0; }
  void flush(Instant) override {}
  void from_control(const LndMsg&, Instant) override {}
  [[nodiscard]] Instant next_deadline() override { return kForever; }
  [[nodiscard]] bool pending() override { return !ready_.empty(); }
  unsigned wait_fds(std::span<int>) override { return 0; }
  [[nodiscard]] bool idle() const override { return s_.outbound_.empty() && s_.held_.empty(); }

 private:
  void deliver(std::unique_ptr<Swarm::Inbound> message, Instant now);
  void receive(Swarm::Inbound& message, Instant now);

  Swarm& s_;
  LndCore& core_;
  std::deque<std::unique_ptr<Swarm::Inbound>> ready_;  // resumed
};

/// Control half: places a peer that pushes first, as if it connected. Then the messages of the peer go to the worker at
/// once.
class SwarmControl final : public LndControl {
 public:
  SwarmControl(Swarm& swarm, LndControlHost& host) : s_(swarm), host_(host) {}
  [[nodiscard]] Result<void> ni_start(const NiParams& params, Instant now) override;
  void ni_stop(NiId ni, Instant now) override;
  [[nodiscard]] bool names(const PeerSlice&) const override { return true; }  // its peers stay connected
  void from_worker(WorkerId, const LndMsg&, Instant) override {}
  unsigned turn(Instant now) override;
  [[nodiscard]] Instant next_deadline() override;
  void wait_fds(std::vector<int>&) override {}

 private:
  Swarm& s_;
  LndControlHost& host_;
};

/// For each of these numbers: one node discovers that many peers at once, then all of them push another list at the
/// same moment. Prints the costs. Returns "" or the first fault: a wrong final table, a broken bound, or a cost per
/// peer that grows with their number.
[[nodiscard]] std::string run_swarms(const std::vector<uint32_t>& peers);

}  // namespace ulnet::simulate
