// Simulated clusters: real Nodes under a virtual clock, over the in-memory fabric, or over real socklnd and o2iblnd on
// simulated TCP and RDMA devices, turned by one thread in seeded order. Same seed, same run. What a test says of a node
// it says in LNet's words: put, get, routes, cut, heal, restart. The destructor checks what must hold at the end of
// every run: each operation ended once, credits and leases home, pools full.
#pragma once
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "control/node.h"
#include "lnd/sim/fabric_ctl.h"
#include "tests/cluster/credits_watch.h"
#include "tests/cluster/delayed_helper.h"
#include "tests/cluster/ib_rig.h"
#include "tests/cluster/roce_net.h"
#include "tests/cluster/sim_tcp.h"

namespace ulnet::test {

enum class Transport : uint8_t {
  kFabric,   ///< the sim LND, with messages
  kRdma,     ///< the sim LND, with remote writes for what is longer than kRdmaAbove
  kSockTcp,  ///< socklnd over simulated TCP
  kO2ib,     ///< o2iblnd over simulated RDMA devices, and socklnd as before
  kRoce,     ///< o2iblnd over our RoCE on simulated wires, but kAdapterNet as kO2ib; socklnd as before
};
inline constexpr uint16_t kAdapterNet = 7;    ///< o2ib7
inline constexpr uint32_t kRdmaAbove = 3976;  ///< as o2iblnd
[[nodiscard]] inline std::string transport_name(Transport transport) {
  constexpr std::array<const char*, 5> kNames{"fabric", "rdma", "socklnd", "o2iblnd", "roce"};
  return kNames[size_t(transport)];
}

/// How many workers the nodes of a test have that runs over every transport. A sanitized program takes ten times as
/// long: there, nodes have the most only.
[[nodiscard]] inline std::vector<unsigned> worker_counts() {
#ifdef ULNET_SANITIZED
  return {3};
#else
  return {1, 3};
#endif
}

class SimNode;

struct SimOptions {
  uint64_t seed = 1;
  Transport transport = Transport::kFabric;
  bool tcp_backs_off = false;  ///< SimTcpOptions::backs_off
  bool check_at_end = true;
  /// Told what must not be; none: it is a failure of the running googletest case.
  std::function<void(const std::string&)> fail;
  /// Called after each turn of a worker; Worker::view is still valid.
  std::function<void(SimNode&, Worker&)> after_turn;
};

struct RouteSpec {
  std::string net;
  std::string gateway;
};

struct NodeSpec {
  std::vector<std::string> nis;        ///< "10.0.0.1@tcp"; the first is the primary NID
  std::vector<std::string> addresses;  ///< over TCP and RDMA devices: those of NIs that it may add later
  unsigned workers = 1;
  uint32_t peers_max = 4096;
  int peer_credits = 8;
  int credits = 256;
  int conns_per_peer = 1;
  uint32_t zc_min_payload = 0;  ///< over TCP
  bool routing = false;
  std::array<int64_t, 3> buffers{16, 16, 4};  ///< tiny, small, large, when routing
  std::vector<RouteSpec> routes;
  int64_t transaction_timeout = 150;  ///< s
  int64_t lnd_timeout = 50;           ///< s
  config::Discovery discovery = config::Discovery::kOn;
  int64_t router_check = 60;  ///< s; alive_router_check_interval
  /// An older version: it knows neither MULTI_RAIL nor DISCOVERY, and a push to it is a protocol error, which closes
  /// the connection that it came over. `discovery` means nothing then.
  bool downrev = false;
  bool like_kernel = false;    ///< ping info without the features that only ulnet has
  std::string replies_as;      ///< every REPLY to this node names that NID as its source; none: its own
  uint32_t operations = 256;   ///< puts and gets in being, half of them kept for control
  uint32_t parked_peers = 64;  ///< for which messages wait
  bool fast_detection = false;
  Duration registration{};  ///< time to register memory; 0: some of up to 200 µs
};

/// Memory of an application, at first zeros. calloc() need not write zeros into pages that nothing has touched. Most
/// tests use little of this memory, and hundreds of nodes would write a gigabyte.
class ZeroedMemory {
 public:
  explicit ZeroedMemory(size_t size) : bytes_(static_cast<std::byte*>(std::calloc(size, 1))), size_(size) {
    ULNET_CHECK(bytes_ != nullptr);
  }
  [[nodiscard]] std::byte* data() const { return bytes_.get(); }
  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] std::span<std::byte> all() const { return {data(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_;
};

class CoreBetween;
class SimNet;

[[nodiscard]] inline IpAddress ip_of(const Nid& nid) {
  IpAddress ip;
  ip.v6 = nid.size != 0;
  ip.bytes = nid.addr;
  return ip;
}

/// The command that runs the current test of this program again.
[[nodiscard]] std::string replay_command();

/// One put or get as a test asks for it.
struct Operation {
  uint32_t length = 64;
  uint64_t match_bits = 0;  ///< 0: a number that no other operation of any node has
  bool ack = true;
  uint32_t offset = 0;  ///< in the target's 1 MiB
};
/// What became of it.
struct Outcome {
  bool get = false;
  bool ended = false;
  int32_t status = 0;
  Instant issued, finished;
};

class SimNode {
 public:
  SimNode(SimNet& net, NodeSpec spec, uint32_t number);
  ~SimNode();

  /// Starts an operation; returns its number, or nothing when the submitter says EAGAIN.
  std::optional<uint64_t> put(const SimNode& to, const Operation& op = {}) { return start(to.nid(), op, false); }
  std::optional<uint64_t> get(const SimNode& from, const Operation& op = {}) { return start(from.nid(), op, true); }
  std::optional<uint64_t> start(const Nid& target, const Operation& op, bool get);
  [[nodiscard]] const Outcome& outcome(uint64_t number) const { return outcomes_.at(number); }
  [[nodiscard]] size_t open_operations() const { return open_; }
  [[nodiscard]] size_t ended(bool well) const { return well ? ended_well_ : ended_badly_; }
  /// Match bits of the PUTs that arrived here, in order of their events.
  [[nodiscard]] const std::vector<uint64_t>& match_bits() const { return arrived_; }
  [[nodiscard]] size_t put_count() const { return arrived_.size(); }

  /// Pings; the answer's error, once it is there.
  void ping(const std::string& nid, Duration timeout = 10s);
  [[nodiscard]] const std::optional<PingAnswer>& ping_answer() const { return ping_answer_; }
  void apply(std::vector<config::Change> changes);
  [[nodiscard]] bool applying() const { return applying_ > 0; }
  [[nodiscard]] const std::vector<std::string>& apply_errors() const { return apply_errors_; }
  /// What it said to its operator.
  [[nodiscard]] const std::vector<std::string>& journal() const { return journal_; }

  /// Kills the process and starts it anew: nothing is said to anybody; what was open here never ends.
  void restart();
  void kill();
  /// Stops as an operator would; "" or what was not at rest.
  std::string stop_cleanly();
  void start_again();
  /// Stopped or killed, it comes back as another.
  void start_again_as(const NodeSpec& spec);
  [[nodiscard]] bool running() const { return node_ != nullptr; }

  [[nodiscard]] Nid nid(size_t index = 0) const;
  [[nodiscard]] Node& node() { return *node_; }
  [[nodiscard]] uint64_t stat(Stat stat) const;
  [[nodiscard]] uint64_t drops(Drop reason) const;
  /// Pushes that came to it while it was downrev, in all its lives.
  [[nodiscard]] uint64_t pushes_refused() const { return pushes_refused_; }
  [[nodiscard]] const NodeSpec& spec() const { return spec_; }
  /// A process that stands still: no thread of it runs. Its connections stay. Ends with its life.
  void hang(bool on);

 private:
  friend class SimNet;
  void boot();
  void add_fabric(NodeDeps& deps);
  void add_tcp(NodeDeps& deps);
  void add_ib(NodeDeps& deps);
  [[nodiscard]] LndCore& core_for(LndCore& core);
  [[nodiscard]] std::vector<Nid> addresses(NetType type) const;
  void configure();
  void open_application();
  void turn_until(const std::function<bool()>& registered);
  void take_events();
  void tell(const std::string& wrong);
  std::string close(Instant limit);
  [[nodiscard]] std::string not_at_rest() const;

  SimNet& net_;
  NodeSpec spec_;
  const uint32_t number_;
  uint32_t fabric_number_ = 0;
  uint64_t life_ = 0;
  std::unique_ptr<socklnd::NetIo> net_io_;
  std::vector<std::unique_ptr<socklnd::StreamEngine>> engines_;
  std::unique_ptr<IbRig> ib_;
  std::vector<std::unique_ptr<CoreBetween>> cores_between_;
  std::unique_ptr<DelayedHelper> helper_;
  std::unique_ptr<Node> node_;
  CreditsWatch watch_;
  Submitter* submitter_ = nullptr;
  std::array<Event, 32> events_;  ///< of the last look; it is costly to make
  EqHandle eq_;
  MdHandle source_md_;
  MdHandle get_md_;
  ZeroedMemory source_, sink_, get_sink_;
  std::map<uint64_t, Outcome> outcomes_;
  std::vector<uint64_t> arrived_;
  std::optional<PingAnswer> ping_answer_;
  std::vector<std::string> apply_errors_;
  std::vector<std::string> journal_;
  int applying_ = 0;
  bool app_open_ = false;
  bool hangs_ = false;
  uint64_t next_operation_ = 1;
  size_t open_ = 0, ended_well_ = 0, ended_badly_ = 0;
  std::map<uint64_t, unsigned> numbered_;  ///< PUTs that arrived with match bits of their own, in all lives
  uint64_t bad_payloads_ = 0, twice_ = 0, pushes_refused_ = 0;
};

class SimNet {
 public:
  explicit SimNet(const SimOptions& options = {});
  ~SimNet();

  /// Builds, configures, and runs until the node is ready.
  SimNode& add_node(const NodeSpec& spec);
  [[nodiscard]] std::deque<std::unique_ptr<SimNode>>& nodes() { return nodes_; }
  [[nodiscard]] Instant now() const { return now_; }
  [[nodiscard]] Rng& rng() { return rng_; }

  /// Turns everything once in seeded order; when nobody had work, time moves to the next event, at most to `limit`.
  void step(Instant limit);
  void run_for(Duration time);
  /// True as soon as `predicate` holds; false when `limit` has passed.
  template <class P>
  bool run_until(P&& predicate, Duration limit) {
    const Instant end = now_ + limit;
    while (!predicate()) {
      if (now_ >= end) return false;
      step(end);
    }
    return true;
  }

  // Faults, between any NIDs of two nodes.
  void cut(SimNode& a, SimNode& b) { link(a, b, true); }
  void heal(SimNode& a, SimNode& b) { link(a, b, false); }
  void reset(SimNode& a, SimNode& b);
  void heal_all();
  // Faults between two NIDs, or of one. Over the fabric, nodes see that a link is down; over TCP, the address is
  // silent.
  void set_cut(const Nid& a, const Nid& b, bool is_cut);
  void reset(const Nid& a, const Nid& b);
  void set_link(const Nid& nid, bool up);
  [[nodiscard]] sim::Fabric& fabric() { return *fabric_; }
  [[nodiscard]] SimTcp& tcp() { return *tcp_; }
  [[nodiscard]] rc::sim::Net& rc() { return *rc_; }
  [[nodiscard]] RoceNet& roce() { return *roce_; }
  /// Ends of reliable connections, over all nodes.
  [[nodiscard]] size_t rc_conns() const { return rc_->conns() + (roce_ != nullptr ? roce_->conns() : 0); }
  /// An RDMA device has this address, else a port.
  [[nodiscard]] bool on_adapter(const Nid& nid) const { return roce_ == nullptr || nid.net().number() == kAdapterNet; }
  [[nodiscard]] Transport transport() const { return options_.transport; }
  /// The seed, and the command that runs the current test again. Each test fixes its own seed.
  [[nodiscard]] std::string replay_hint() const;
  /// Stops every node cleanly; "" or what was not at rest.
  std::string finish();

 private:
  friend class SimNode;
  void link(SimNode& a, SimNode& b, bool cut);
  void fail(const std::string& what) const;
  [[nodiscard]] Instant next_event();
  [[nodiscard]] std::string networks_wrong() const;

  const SimOptions options_;
  Rng rng_;
  Instant now_{1s};
  std::unique_ptr<sim::Fabric> fabric_;
  std::unique_ptr<SimTcp> tcp_;
  std::unique_ptr<rc::sim::Net> rc_;
  std::unique_ptr<RoceNet> roce_;
  std::deque<std::unique_ptr<SimNode>> nodes_;
  std::vector<std::pair<Nid, Nid>> cuts_;
  bool finished_ = false;
};

/// The byte that every payload has at this place of a sink or source: so that overlapping transfers agree.
[[nodiscard]] inline std::byte pattern(uint64_t position) {
  return std::byte(uint8_t((position * 0x9E3779B1u) >> 13));
}

}  // namespace ulnet::test
