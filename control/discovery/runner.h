// Discovery at work in a node: carries out what the machine (discovery.h) decides, and tells it what came of that.
// Those who wait are the workers' parked messages and the `discover` command. Thread: control.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "control/discovery/discovery.h"
#include "control/discovery/ping_ops.h"
#include "control/discovery/ping_queue.h"

namespace ulnet {

struct Control;
struct Event;

/// What the `discover` command learnt of one NID.
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

  /// Messages for this NID wait on a worker: they are answered (Control::resolved) when its peer is up to date, and
  /// sent as they are when it cannot be discovered.
  void resolve(WorkerId worker, PeerNi& ni);
  /// Discovers the peers with these NIDs; `done` comes once, at once or from within turn() or abort().
  void discover(const std::vector<Nid>& nids, bool force, Done done);
  /// What this node says of itself from now on.
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
  /// All peers that are to know this node's newest list of NIs do.
  [[nodiscard]] bool all_told() const;
  /// See Discovery::untold.
  [[nodiscard]] size_t untold(Nid* first) const { return machine_.untold(first); }

  unsigned turn(Instant now);
  [[nodiscard]] Instant next_deadline() const;
  /// Gives up everything with ESHUTDOWN; at_rest() tells when the memory is back.
  void abort();
  [[nodiscard]] bool at_rest() const { return pings_.at_rest() && checks_.at_rest(); }

 private:
  using Told = std::function<void(int32_t error)>;
  struct Batch;
  void send_ping(const PingOp& op) override;
  void send_push(const PingOp& op) override;
  void hurry(uint64_t number) override { pings_.hurry(number); }
  void not_told(uint32_t peer, uint32_t times) override;
  unsigned tell_again(Instant now);
  void start(PingOp op, PingOps::Done done);
  void discovered(uint64_t waiter, int32_t error) override;
  [[nodiscard]] Nid source_for(const Nid& target, uint64_t number) const;
  void wait(PeerNi& ni, bool force, Told told);
  [[nodiscard]] PingData decode(std::span<const std::byte> bytes) const;

  Control& c_;
  PingQueue pings_;
  PingOps checks_;  // of gateways: they wait for no peer that does not answer
  Discovery machine_;
  wire::PingInfo info_;  // ours
  std::shared_ptr<const std::vector<std::byte>> payload_;
  std::map<uint64_t, Told> waiting_;
  std::set<std::pair<Instant, uint32_t>> again_;  // when, and which peer is to be told again
  std::unordered_map<uint32_t, Instant> again_of_;
  uint64_t next_waiter_ = 1;
  bool stopped_ = false;
};

}  // namespace ulnet
