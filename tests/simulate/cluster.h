// One small random cluster, derived from its seed. Clients and servers are on one or two nets, or on two sides of
// routers, and may have nets of their own. Nodes have mixed versions and one to several NIs. The nodes are real ones
// under a virtual clock (tests/cluster/sim_net), over the in-memory fabric. One cluster in kTcpOneIn runs over socklnd,
// one in kRdmaOneIn over remote writes. The run stirs the cluster (traffic, changes of configuration, faults) and heals
// it. Then the cluster must reach the state that oracle.h describes.
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
  bool downrev = false;   ///< has neither MULTI_RAIL nor DISCOVERY, and refuses pushes
  std::vector<Nid> nids;  ///< of the configured NIs, the primary first
  std::set<std::pair<Net, Nid>> routes;
  config::Discovery discovery = config::Discovery::kOn;
  bool routing = false;
  Instant back_at = kForever;  ///< when a killed node starts again

  [[nodiscard]] bool running() const { return node->running(); }
  [[nodiscard]] Control& control() const { return node->node().control(); }
  [[nodiscard]] bool on_net(Net net) const;
  [[nodiscard]] std::string name() const;
};

/// One in this number of seeds connects its cluster by socklnd on simulated TCP.
inline constexpr uint64_t kTcpOneIn = 6;
inline constexpr uint64_t kRdmaOneIn = 7;  ///< of the others

class Cluster {
 public:
  Cluster(uint64_t seed, Trace& trace);
  /// Builds, stirs, heals, checks. "" when all went as it must, or what did not.
  std::string run();

  [[nodiscard]] std::vector<Member>& members() { return members_; }
  [[nodiscard]] const std::vector<Member>& members() const { return members_; }
  /// True if `from` reaches some NID of `to`: over a common net, or over routers.
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
