// Nodes with the RoCE provider over simulated wires, which lose, repeat, reorder and mark packets. All on one thread,
// and on one time line.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "dataplane/base/rng.h"
#include "lnd/rc/joined.h"
#include "lnd/rc/roce/roce.h"

namespace ulnet::test {

/// `_one_in` n: it happens to one packet in n; 0: never.
struct RoceNetRules {
  uint32_t lose_one_in = 0, repeat_one_in = 0, reorder_one_in = 0, mark_one_in = 0, damage_one_in = 0;
  Duration delay = 10us;
  uint16_t mtu = 1500;
  bool scatter = false;             ///< packets come to any queue of a port
  unsigned queue_room = 512;        ///< packets that a port takes in one turn
  uint32_t no_buffer_one_in = 0;    ///< packets for which a port has no buffer when they are sent
  uint32_t lend_one_in = 2;         ///< packets that refer to lent payload until the device is done with them
  bool keep_lent = false;           ///< the device is done with none of them
  uint32_t keep_none_one_in = 4;    ///< packets that a worker must not keep
  size_t receive_depth = SIZE_MAX;  ///< packets that wait in one queue of a port; more are lost
};

class RoceNet;
/// The provider of a node with one port for each of its addresses.
class RoceNode final : public rc::Provider {
 public:
  RoceNode(RoceNet& net, std::vector<rc::IpAddress> addresses, const rc::roce::ProviderOptions& options);
  ~RoceNode();
  rc::Control& control() override { return provider_->control(); }
  rc::Worker& worker(WorkerId id) override { return provider_->worker(id); }
  /// Of one event, over all ports and workers.
  [[nodiscard]] uint64_t count(rc::roce::Count which) const;
  [[nodiscard]] rc::roce::RoceProvider& provider() { return *provider_; }

 private:
  friend class RoceNet;
  class Queue;
  RoceNet& net_;
  const std::vector<rc::IpAddress> addresses_;
  const unsigned workers_;
  std::unique_ptr<rc::roce::RoceProvider> provider_;
  std::vector<std::vector<std::unique_ptr<Queue>>> queues_;  ///< by port and worker
};

class RoceNet {
 public:
  explicit RoceNet(uint64_t seed) : rng(seed) {}
  ~RoceNet() { EXPECT_EQ(packets_out, 0u) << "packets were not given back"; }
  /// `second`: to be joined with another provider (lnd/rc/joined.h).
  [[nodiscard]] std::unique_ptr<RoceNode> make_node(std::vector<rc::IpAddress> addresses, unsigned workers,
                                                    bool second = false) {
    rc::roce::ProviderOptions options{.workers = workers, .seed = rng.next(), .threads = false};
    if (second) options.first_conn = rc::kSecondConns;
    if (second) options.first_listener = rc::kSecondListeners;
    const std::set<rc::IpAddress> once(addresses.begin(), addresses.end());
    return std::make_unique<RoceNode>(*this, std::vector(once.begin(), once.end()), options);
  }
  /// Packets that are on their way arrive.
  void run(Instant to);
  /// Nothing passes between these two addresses any more (or again).
  void cut(const rc::IpAddress& a, const rc::IpAddress& b, bool is_cut = true) {
    if (is_cut)
      cuts_.insert(std::minmax(a, b));
    else
      cuts_.erase(std::minmax(a, b));
  }
  /// Nothing comes to the queue pairs that these two use with each other now. Later connections are well.
  void break_wires(const rc::IpAddress& a, const rc::IpAddress& b);
  /// Also for a node that is not there now.
  void set_link(const rc::IpAddress& address, bool up);
  [[nodiscard]] Instant next() const { return flights_.empty() ? kForever : flights_.begin()->first; }
  /// A packet of a flood. Comes at once, and leaves no trace here.
  void flood(const rc::IpAddress& from, const rc::IpAddress& to, std::vector<std::byte> bytes);
  /// A packet from its IP header on. Anybody may send one.
  void send(const rc::IpAddress& from, const rc::IpAddress& to, std::vector<std::byte> bytes);

  RoceNetRules rules;
  Rng rng;
  Instant now = kNever;
  uint64_t packets = 0;
  uint64_t packets_out = 0;  ///< lent to workers
  uint64_t kept = 0;         ///< of these: for longer than a turn
  uint64_t loans = 0;        ///< packets that referred to lent payload
  std::map<dpdk::FrameDrop, uint64_t> drops;
  /// Of one event, over all nodes, those that are gone among them.
  [[nodiscard]] uint64_t count(rc::roce::Count which) const;
  /// Connections of all nodes that were not destroyed.
  [[nodiscard]] size_t conns() const;

 private:
  friend class RoceNode;
  struct Flight {
    rc::IpAddress from, to;
    std::vector<std::byte> bytes;
  };
  void arrive(const Flight& flight);
  struct Place;
  void put(const Place& place, const Flight& flight);
  std::multimap<Instant, Flight> flights_;
  using QpAt = std::pair<rc::IpAddress, uint32_t>;
  std::set<std::pair<rc::IpAddress, rc::IpAddress>> cuts_;
  std::map<QpAt, rc::IpAddress> seen_;  ///< queue pairs that packets went to, and who sent the last
  std::set<QpAt> dead_;
  std::set<rc::IpAddress> down_;  ///< links
  std::set<RoceNode*> nodes_;
  std::map<rc::roce::Count, uint64_t> gone_;  ///< counts of nodes that are gone
  struct Place {
    RoceNode* node = nullptr;
    size_t port = 0;
  };
  std::map<rc::IpAddress, Place> places_;
};

}  // namespace ulnet::test
