// One small random cluster, derived from its seed. Clients and servers are on one or two nets, or on two sides of
// routers, and may have nets of their own. Nodes have mixed versions and one to several NIs. The nodes are real ones
// under a virtual clock (tests/cluster/sim_net), over the in-memory fabric. One cluster in kIbOneIn runs over o2iblnd
// on simulated RDMA devices, one in kRoceOneIn over our RoCE, both mixed with socklnd. One in kTcpOneIn runs over
// socklnd only, one in kRdmaOneIn over remote writes of the fabric. The run stirs the cluster (traffic, changes of
// configuration, faults) and heals it. Then the cluster must reach the state that oracle.h describes. Meanwhile
// choices.h checks each choice of a path. One cluster in kRailedOneIn has several NIs in each node, and most of its
// faults are those of rails.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/cluster/sim_net.h"
#include "tests/simulate/choices.h"
#include "tests/simulate/counts.h"
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
  bool fast = true;            ///< fast_detection
  bool insensitive = false;    ///< health_sensitivity 0: its health values never change
  Duration registration{};     ///< over RDMA devices: time to register memory
  Instant back_at = kForever;  ///< when a killed node starts again

  [[nodiscard]] bool running() const { return node->running(); }
  [[nodiscard]] Control& control() const { return node->node().control(); }
  [[nodiscard]] bool on_net(Net net) const;
  [[nodiscard]] std::string name() const;
};

/// One in this number of seeds connects its cluster by o2iblnd on simulated RDMA devices. If it has two nets or more,
/// one of them may be of socklnd; if there are routers, they are between the two.
inline constexpr uint64_t kIbOneIn = 3;
/// The same over our RoCE on simulated wires.
inline constexpr uint64_t kRoceOneIn = 6;
/// One in this number of seeds connects its cluster by socklnd on simulated TCP.
inline constexpr uint64_t kTcpOneIn = 6;
inline constexpr uint64_t kRdmaOneIn = 7;  ///< of the others

inline constexpr uint64_t kRailedOneIn = 3;

/// A fault of a rail: of a pair of NIs, or of one NI and all others.
enum class RailFault : uint8_t {
  kSilent,    ///< nothing passes
  kHalfOpen,  ///< nothing passes in one direction
  kFlapping,  ///< nothing passes in some moments
  kLinkFlap,  ///< the link goes and comes
  kLossy,     ///< a share of the messages is lost
  kHang,      ///< a node stands still
  kCount
};

class Cluster {
 public:
  Cluster(uint64_t seed, Trace& trace);
  /// Faults and reactions of this run.
  [[nodiscard]] const Counts& counts() const { return counts_; }
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
  void draw_nets(uint64_t shape);
  void join(Member& member);
  [[nodiscard]] test::NodeSpec spec_of(const Member& member) const;
  [[nodiscard]] std::optional<Nid> free_nid(const Member& member, Net net);
  [[nodiscard]] std::vector<Nid> nids_on(const Member& member, Net net) const;
  void draw_nids(Member& member);
  void draw_version(Member& member);
  void right_routes(Member& member);

  // the network (network.cc)
  [[nodiscard]] bool roce() const { return sim_.transport() == test::Transport::kRoce; }
  [[nodiscard]] bool ib() const { return roce() || sim_.transport() == test::Transport::kO2ib; }
  /// Real drivers: an address is its node's for ever.
  [[nodiscard]] bool real() const { return ib() || sim_.transport() == test::Transport::kSockTcp; }
  void set_faults();
  void set_device_faults();
  void set_wire_faults();
  void cut(const Nid& a, const Nid& b, bool one_way);
  void heal_cuts();
  void heal_network();
  [[nodiscard]] uint64_t messages_sent() const;
  void mend(const Nid& a, const Nid& b);
  void lose(const Nid& from, const Nid& to, double share, bool with_error);
  void lose_none(const Nid& from, const Nid& to);
  void hang(Member& member, bool on);

  // faults of rails (rails.cc)
  struct SickRail {
    RailFault fault{};
    std::vector<std::pair<Nid, Nid>> pairs;
    Nid nid;            // the NI whose link flaps; else ANY
    size_t member = 0;  // kHang
    Instant until = kNever;
    Duration period{};  // of a flapping rail
    Instant toggle_at = kForever;
    bool on = false;
  };
  void rail_fault();
  [[nodiscard]] std::vector<std::pair<Nid, Nid>> pairs_of(const Member& member, const Nid& nid);
  void rail_begin(SickRail& rail);
  void rail_end(SickRail& rail);
  void rail_toggle(SickRail& rail);
  void rails_turn();
  void run_stirred(Duration time);
  [[nodiscard]] Instant rails_next() const;

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
  [[nodiscard]] std::string recovered();
  [[nodiscard]] std::string rails_used();
  void count_life(const Member& member);
  void count_health();
  [[nodiscard]] std::string quiet();
  [[nodiscard]] bool wait_ended(Duration limit);
  [[nodiscard]] std::string unreached(Member& from, Member& to);
  void say(const std::string& line) { trace_.say(sim_.now(), line); }
  void run_for(Duration time);
  void report();

  Trace& trace_;
  std::string failure_;  // the first
  Counts counts_;
  ChoiceWatch watch_{counts_};
  mutable test::SimNet sim_;
  Rng rng_;
  std::vector<Net> nets_;  // of a routed cluster: the two sides, then one that no router is on
  std::set<std::pair<Nid, Nid>> cuts_;
  std::set<Nid> links_down_;
  bool routed_ = false;
  bool restless_ = false;          // more changes of configuration than traffic
  bool railed_ = false;            // several NIs in each node, and faults of rails
  int64_t recovery_interval_ = 0;  // s; max_recovery_ping_interval
  std::vector<SickRail> sick_;
  Instant health_look_at_ = kNever;
  std::map<std::pair<size_t, Nid>, uint16_t> health_;  // by member and NI, at the last look
  std::vector<Member> members_;
  std::vector<size_t> journals_said_;
};

/// The first number that is too low after `seeds` runs; "" when there is none.
[[nodiscard]] std::string counts_wrong(const Counts& counts, uint64_t seeds);
[[nodiscard]] std::string text_of(const Counts& counts);

}  // namespace ulnet::simulate
