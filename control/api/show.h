// The output of the show commands: as plain values, and as documents with lnetctl's keys in lnetctl's order. Control
// fills the values. The functions here decide which keys appear at which verbosity. Source: docs/wire/lnetctl.md §3,
// docs/wire/lnet.md §13.
#pragma once
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/doc.h"
#include "config/model.h"
#include "dataplane/base/totals.h"
#include "lnd/lnd.h"

namespace ulnet::api {

using config::Doc;

/// The results of policies (UDSP) for an NI or peer NI; -1 = no priority set.
struct UdspInfo {
  int64_t net_priority = -1, nid_priority = -1;
  std::vector<Nid> preferred_sources;
  std::vector<Nid> preferred_gateways;
};

/// Of an NI or peer NI.
struct HealthShow {
  int64_t health_value = 1000, ping_count = 0;
  int64_t next_ping = 0;    ///< seconds of uptime; 0: none
  bool held = false;        ///< set by hand
  double failure_rate = 0;  ///< failures, each counted less the older it is (control/health/health_value.h)
};
struct LocalHealth : HealthShow {
  int64_t fatal_error = 0;
};

struct LocalNiShow {
  Nid nid;
  bool up = true;
  std::string interface;  ///< empty: not shown (lo)
  InterfaceTotals counted;
  UdspInfo udsp;
  LocalHealth health;
  config::Tunables tunables;
  std::map<std::string, int64_t> lnd_tunables;  ///< effective values; empty: not shown (lo)
  int64_t dev_cpt = -1;
  std::vector<uint16_t> cpts;         ///< effective: empty only while the NI waits, if none were configured
  std::string waits_for;              ///< not empty: why the NI is not there yet; then `nid` may be ANY
  std::string state;                  ///< figure 10 of the documents; empty: not shown (lo)
  std::string speed;                  ///< of the link, if that is why the NI is degraded
  std::string in_use;                 ///< not empty: the NI is being deleted, and this is why it is still there
  std::vector<std::string> warnings;  ///< settings of the machine that disturb the NI
  /// Connections by state, and the sums of their numbers; empty: not shown.
  std::map<std::string, int64_t> connections;
  std::vector<std::pair<const char*, int64_t>> peer_faults;  ///< as LndControl has them; empty: not shown
};

struct NetShow {
  Net net;
  std::vector<LocalNiShow> nis;
  std::string state;  ///< figure 11; empty: not shown (lo)
};

/// `net:`. Verbosity 0: nid, status, interface; 1: + statistics, tunables, CPT; 2, 3: + message and health counters; 4:
/// + udsp, connections, faults of peers.
[[nodiscard]] Doc net_doc(const std::vector<NetShow>& nets, int verbosity);
/// The net lo with its one NI: always the first to be shown, all its counters and tunables 0.
[[nodiscard]] NetShow lo_show(const std::vector<uint16_t>& all_cpts);

struct PeerNiShow {
  Nid nid;
  std::string state = "NA";  ///< "up", "down", or "NA" where aliveness is not known
  std::string ni_state;      ///< figure 13
  int64_t max_ni_tx_credits = 0, available_tx_credits = 0, min_tx_credits = 0, tx_q_num_of_buf = 0;
  int64_t available_rtr_credits = 0, min_rtr_credits = 0, refcount = 1;
  InterfaceTotals counted;
  UdspInfo udsp;
  HealthShow health;
  std::vector<std::pair<Nid, ConnectionShow>> connections;  ///< each with the local NI
};

/// `debug recovery`; empty without NIDs.
[[nodiscard]] Doc recovery_doc(bool peer, const std::vector<Nid>& nids);

/// Where discovery of a peer stands, in the words and letters of the documents of Multi-Rail (control/discovery).
struct DiscoveryShow {
  std::string state, letters;
  int64_t peer_sequence = 0;  ///< of its list of NIs that is known here
  int64_t our_sequence = 0;   ///< of our list that it has acknowledged
  int64_t error = 0;          ///< of the last discovery
};

struct PeerShow {
  Nid primary;
  bool multi_rail = false;
  bool lock_primary = false;
  uint32_t state = 0;  ///< bits of docs/wire/lnet.md §5.1
  std::optional<DiscoveryShow> discovery;
  std::vector<PeerNiShow> nis;  ///< the primary's net first
};

/// `peer:`. Verbosity 0: nid, state; 1: + credits, statistics; 2: + message and health counters; 3: + peer state; 4: +
/// udsp, connections, discovery.
[[nodiscard]] Doc peer_doc(const std::vector<PeerShow>& peers, int verbosity);

struct RouteShow {
  config::RouteConfig route;
  bool up = true;
  bool multi_hop = false;
  std::vector<int64_t> rules;  ///< indexes of the policies whose router matches the gateway
};

/// `route:`. Verbosity 0: net, gateway; 1: + hop, priority, state, type; 4: + udsp.
[[nodiscard]] Doc route_doc(const std::vector<RouteShow>& routes, int verbosity);

struct PoolShow {
  int64_t npages = 0, nbuffers = 0, credits = 0, mincredits = 0;
};
/// The pools of one worker group: tiny, small, large.
using CptPools = std::array<PoolShow, 3>;

/// `routing:` and `buffers:` as one map with both keys; empty while there are no pools. `changing`: the state that is
/// on its way (ulnet's own key); empty: none.
[[nodiscard]] Doc routing_doc(const std::vector<CptPools>& pools, bool enabled, const config::Buffers& buffers,
                              const std::string& changing = {});

/// `statistics:`, the node-wide counters.
[[nodiscard]] Doc stats_doc(const NodeTotals& totals);

/// Messages dropped for one reason.
struct DropShow {
  const char* reason;
  uint64_t count = 0;
  const char* meaning;  ///< and how to mend it
};

/// How a worker's thread has spent its time.
struct WorkerTime {
  std::chrono::milliseconds busy{}, spinning{}, asleep{};
  uint64_t busy_cycles = 0;  ///< of the time-stamp counter; 0 on machines without
};

/// The work of one worker, and the items that wait in rings at the moment.
struct WorkerShow {
  uint16_t worker = 0, group = 0;
  uint32_t peers = 0;              ///< peer NIs that it serves
  std::optional<WorkerTime> time;  ///< where its thread is ours
  uint64_t events = 0, turns_busy = 0;
  std::vector<std::pair<const char*, uint64_t>> turn;  ///< counters by name
  uint32_t ring_size = 0;                              ///< of one ring between two workers
  uint32_t from_workers = 0, to_workers = 0, from_control = 0, to_control = 0;
};

/// Adds the details of `stats show -v`: `drops:` by reason, `drops by ni:` and `workers:`. Verbosity 1 shows the
/// reasons that occurred, verbosity 2 all reasons.
void stats_details_set(Doc& doc, const std::vector<DropShow>& drops, const std::vector<NetShow>& nets,
                       const std::vector<WorkerShow>& workers, int verbosity);

/// One node as ping and discover show it: `- primary nid`, `Multi-Rail`, `peer_ni`. Push it to the list of `ping` or
/// `discover`.
[[nodiscard]] Doc pinged_doc(const Nid& primary, bool multi_rail, const std::vector<Nid>& nids);

}  // namespace ulnet::api
