// Everything that the control thread of one Node owns. Members, no rules: those are in the folders beside. Who has a
// Control& is on the control thread; nobody else may have one. What can only be seen here: the order of members is the
// order of destruction, the last first (workers and drivers go before what they point into).
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "config/model.h"
#include "control/discovery/ping_target.h"
#include "control/discovery/pinger.h"
#include "control/events/state_events.h"
#include "control/faults/fault_rules.h"
#include "control/nis/local_nis.h"
#include "control/node_config.h"
#include "control/outbox.h"
#include "control/peers/peer_db.h"
#include "control/policy/policies.h"
#include "control/portals.h"
#include "control/publish/peer_table.h"
#include "control/publish/publisher.h"
#include "control/regions.h"
#include "control/routes/route_db.h"
#include "control/routes/router_checker.h"
#include "control/routes/routing.h"
#include "control/timers.h"
#include "dataplane/base/log_limit.h"
#include "dataplane/base/rng.h"
#include "dataplane/base/totals.h"
#include "dataplane/host/near_memory.h"
#include "dataplane/stages/worker.h"
#include "dataplane/state/self_submitter.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

/// What has to be built anew before the next view goes out.
struct Dirty {
  bool local = true;    ///< NIs
  bool health = false;  ///< health values of NIs
  bool node = true;     ///< node-wide numbers
  bool ping = true;     ///< what pings are answered with
};

/// An answer that waits for the view it speaks of.
struct Resolved {
  WorkerId worker;
  ResolvedMsg msg;
};

/// Why a line that a peer can cause is written to the journal: each cause has a limit of its own.
enum class JournalCause : uint8_t { kReachable, kUnreachable, kDiscovery, kMemory, kRoutes, kHealth, kCount };

class DiscoveryRunner;
class Health;
class CutOff;
class RailProbes;
class LndHost;
class DriverCalls;

struct Control {
  Control(const NodeConfig& config, NodeDeps deps);
  ~Control();

  const NodeConfig config;
  NodeDeps deps;
  Rng rng;
  Instant now = kNever;  ///< of the turn under way
  Timers timers{now};
  config::DesiredState desired;  ///< what was asked for and is in force
  Dirty dirty;
  bool stopping = false;

  std::vector<std::unique_ptr<IdleGate>> gates;  ///< by worker
  IdleGate own_gate;
  IdleGate& gate;  ///< control's: handed in, or own_gate
  PlainMemory own_memory;
  MemorySource& memory;  ///< handed in, or own_memory
  NearMemory near;       ///< of the workers; outlives all that is made in it
  std::unique_ptr<Mesh> mesh;
  std::unique_ptr<Outbox> outbox;
  std::unique_ptr<Publisher> publisher;
  std::unique_ptr<PeerTableBuilder> peer_table;
  ViewParts parts;                                               ///< of the view to come
  uint64_t routes_seen = 0, portals_seen = 0, regions_seen = 0;  ///< revisions that `parts` holds
  uint64_t faults_seen = 0;                                      ///< the same
  bool unpublished = true;                                       ///< `parts` holds what no view has yet
  std::vector<Resolved> resolved;

  std::unique_ptr<LocalNis> nis;
  std::unique_ptr<PeerDb> peers;
  std::unique_ptr<RouteDb> routes;
  std::unique_ptr<Policies> policies;
  std::unique_ptr<RouterChecker> router_checker;
  std::unique_ptr<Routing> routing;
  std::unique_ptr<NetWatch> net_watch;
  std::unique_ptr<StateEvents> events;
  std::unique_ptr<Portals> portals;
  FaultRules faults{config.workers, [this](bool gone) { publish_faults(*this, gone); }};
  std::unique_ptr<Submitters> submitters;
  std::unique_ptr<SelfSubmitter> self_submitter;
  std::unique_ptr<PingTarget> ping_target;
  std::unique_ptr<Pinger> pinger;
  std::unique_ptr<Health> health;
  std::unique_ptr<RailProbes> rail_probes;
  std::unique_ptr<CutOff> cut_off;
  std::unique_ptr<DiscoveryRunner> discovery;
  NodeTotals baseline;  ///< `stats reset`
  bool lo_stopped = false;

  std::vector<std::unique_ptr<LndHost>> lnd_hosts;      ///< by LND
  std::vector<std::unique_ptr<LndControl>> lnds;        ///< by LND
  std::vector<std::unique_ptr<DriverCalls>> lnd_cores;  ///< what the worker halves see, one per worker and LND
  std::vector<Near<Worker>> workers;
  std::unique_ptr<Registrar> registrar;  ///< goes before the drivers that its job calls
  std::unique_ptr<Regions> regions;

  /// For lines that a peer can cause: so many of each cause in a while, then their number.
  void log_limited(JournalCause cause, const std::string& line);
  void log_event(const StateEvent& event, const std::string& line);
  void make_watchers();  ///< net_watch and events
  std::array<LogLimit, size_t(JournalCause::kCount)> log_limits{LogLimit{}, LogLimit{},    LogLimit{100},
                                                                LogLimit{}, LogLimit{100}, LogLimit{100}};
  /// New work that takes memory is to be refused.
  [[nodiscard]] bool memory_low() { return deps.reserve != nullptr && !deps.reserve->restore(); }
  void log(const std::string& line) const {
    if (deps.log) deps.log(line);
  }
};

inline constexpr NiId kLoNi{0};

}  // namespace ulnet
