// Discovery at work in a node: carries out the actions of the machine (discovery.h) and reports their results to it.
// The waiters are the workers' parked messages and the `discover` command. Thread: control.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "control/discovery/discovery.h"
#include "control/discovery/ping_ops.h"

namespace ulnet {

struct Control;
struct Event;

/// Result of the `discover` command for one NID.
struct DiscoverAnswer {
  Nid nid;
  int32_t error = 0;  ///< negative errno; then the rest is empty
  bool multi_rail = false;
  std::vector<Nid> nids;  ///< the primary NID first
};

class DiscoveryRunner final : DiscoveryActions {
 public:
  using Done = std::function<void(std::vector<DiscoverAnswer>)>;

  /// Requires: `control` has its self_submitter.
  explicit DiscoveryRunner(Control& control);

  /// Messages for this NID wait on a worker. Discovers the peer, then answers the worker (Control::resolved). If the
  /// peer cannot be discovered, the messages are sent as they are.
  void resolve(WorkerId worker, PeerNi& ni);
  /// Discovers the peers with these NIDs; `done` comes once, at once or from within turn() or abort().
  void discover(const std::vector<Nid>& nids, bool force, Done done);
  /// Sets the ping info of this node. Peers get a push if a part has changed that they act on.
  void local_changed(const wire::PingInfo& info);
  void push_came(const Event& event, std::span<const std::byte> bytes);
  /// See Discovery::ping_seen.
  void ping_seen(const Nid& from, const wire::PingInfo& info) {
    if (!stopped_) machine_.ping_seen(from, info);
  }
  /// See Discovery::check_gateway.
  void check_gateway(Peer& peer, Net net) { machine_.check_gateway(peer, net); }
  /// The peer's state was changed by an operator.
  void refresh(Peer& peer) { machine_.refresh(peer); }
  [[nodiscard]] uint32_t sequence() const { return machine_.sequence(); }
  /// True if no push of this node's newest list of NIs is under way or due.
  [[nodiscard]] bool all_told() const;
  /// See Discovery::untold.
  [[nodiscard]] size_t untold(Nid* first) const { return machine_.untold(first); }

  unsigned turn(Instant now);
  /// Ends all pings and pushes with ESHUTDOWN; at_rest() is true once their memory is back.
  void abort();
  [[nodiscard]] bool at_rest() const { return waited_.at_rest() && others_.at_rest() && checks_.at_rest(); }

 private:
  using Told = std::function<void(int32_t error)>;
  struct Batch;
  void send_ping(const PingOp& op) override;
  void send_push(const PingOp& op) override;
  void hurry(uint64_t number) override { others_.pass_on(number, waited_); }
  bool not_told(uint32_t peer, uint32_t times) override;
  unsigned tell_again(Instant now);
  void start(PingOp op, PingOps::Done done);
  void discovered(uint64_t waiter, int32_t error) override;
  [[nodiscard]] Nid source_for(const Nid& target, uint64_t number) const;
  void wait(PeerNi& ni, bool force, Told told);
  [[nodiscard]] PingData decode(std::span<const std::byte> bytes) const;

  Control& c_;
  PingOps waited_;  // a waiter needs it, and the peer has not failed: it waits neither behind pushes to thousands of
                    // peers nor behind peers that failed before
  PingOps others_;  // also what was evicted from waited_: operations that had no turn yet come first
  PingOps checks_;  // of gateways: no check waits behind a peer that does not answer
  Discovery machine_;
  wire::PingInfo info_;  // ours
  std::shared_ptr<const std::vector<std::byte>> payload_;
  std::map<uint64_t, Told> waiting_;
  std::set<std::pair<Instant, uint32_t>> again_;  // when to call Discovery::tell_again(), and for which peer id
  std::unordered_map<uint32_t, Instant> again_of_;
  SlowTimer again_timer_;  // the first of again_
  uint64_t next_waiter_ = 1;
  bool stopped_ = false;
};

}  // namespace ulnet
