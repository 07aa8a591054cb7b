// One small random cluster, by its seed: clients and servers on one or two nets, or on two sides of routers, perhaps
// with a net of their own besides, nodes of mixed versions with one to several NIs; over the in-memory fabric, or one
// in kTcpOneIn over socklnd. It is stirred (traffic, changes of configuration, faults), then healed, and then it must
// come to the state that oracle.h describes. Nodes are real ones under a virtual clock (tests/cluster/sim_net).
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/cluster/sim_net.h"
#include "tests/simulate/trace.h"

namespace ulnet::simulate {

/// One place of the cluster and the node in it, in whatever life.
struct Member {
  size_t number = 0;
  test::SimNode* node = nullptr;
  bool router = false;
  bool downrev = false;   ///< knows neither MULTI_RAIL nor DISCOVERY, and takes no push
  std::vector<Nid> nids;  ///< of the NIs that it was told to have, the primary first
  std::set<std::pair<Net, Nid>> routes;
  config::Discovery discovery = config::Discovery::kOn;
  bool routing = false;
  Instant back_at = kForever;  ///< when one that was killed comes back

  [[nodiscard]] bool running() const { return node->running(); }
  [[nodiscard]] Control& control() const { return node->node().control(); }
  [[nodiscard]] bool on_net(Net net) const;
  [[nodiscard]] std::string name() const;
};

/// Every so many seeds one cluster is connected by socklnd on simulated TCP.
inline constexpr uint64_t kTcpOneIn = 6;

class Cluster {
 public:
  Cluster(uint64_t seed, Trace& trace);
  /// Builds, stirs, heals, checks. "" when all went as it must, or what did not.
  std::string run();

  [[nodiscard]] std::vector<Member>& members() { return members_; }
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  /// May `from` reach `to` by some NID of its: over a net that both are on, or over routers?
  [[nodiscard]] bool reaches(const Member& from, const Member& to) const;
  [[nodiscard]] bool reaches(const Member& from, const Nid& to) const;

 private:
  // build
  void build();
  void join(Member& member);
  [[nodiscard]] test::NodeSpec spec_of(const Member& member) const;
  [[nodiscard]] std::optional<Nid> free_nid(const Member& member, Net net);
  [[nodiscard]] std::vector<Nid> nids_on(const Member& member, Net net) const;
  void draw_nids(Member& member);
  void draw_version(Member& member);
  void right_routes(Member& member);

  // the network (network.cc)
  [[nodiscard]] bool tcp() const { return sim_.transport() == test::Transport::kSockTcp; }
  void set_faults();
  void cut(const Nid& a, const Nid& b, bool one_way);
  void reset(const Nid& a, const Nid& b);
  void heal_cuts();
  void set_link(const Nid& nid, bool up);
  void heal_network();
  [[nodiscard]] uint64_t messages_sent() const;

  // stir (stir.cc)
  void stir();
  void act();
  void operate();
  void ni_add(Member& member);
  void ni_del(Member& member);
  void peer_add(Member& member);
  void peer_del(Member& member);
  void set_discovery(Member& member);
  void route_change(Member& member);
  void routing_change(Member& member);
  void cut_or_heal(Member& member);
  void link_change(Member& member);
  void stop(Member& member);
  void come_back(Member& member);
  void apply(Member& member, config::Change change, const std::string& what);
  [[nodiscard]] Member& any();
  [[nodiscard]] Member* any_running();
  [[nodiscard]] Nid any_nid();

  // heal and check
  void heal();
  void traffic();
  void ask_all();
  [[nodiscard]] std::string settle(bool asked);
  [[nodiscard]] std::string final_traffic();
  [[nodiscard]] std::string quiet();
  [[nodiscard]] bool wait_ended(Duration limit);
  [[nodiscard]] std::string unreached(Member& from, Member& to);
  void say(const std::string& line) { trace_.say(sim_.now(), line); }
  void run_for(Duration time);
  void report();

  Trace& trace_;
  std::string failure_;  // the first
  mutable test::SimNet sim_;
  Rng rng_;
  std::vector<Net> nets_;  // of a routed cluster: the two sides, then one that no router is on
  std::set<std::pair<Nid, Nid>> cuts_;
  std::set<Nid> links_down_;
  bool routed_ = false;
  bool restless_ = false;  // more changes of configuration than traffic
  std::vector<Member> members_;
  std::vector<size_t> journals_said_;
};

}  // namespace ulnet::simulate
