// The local NIs of a node, net by net: adding, deleting, and what workers get of them. Thread: control. It does not
// look at peers or routes: what a change of NIs means for those is arranged by the node (node.cc). The hard part is
// deletion: an NI leaves (others are told, it answers on), it closes (workers drain it), then its driver lets go of it,
// and only then, when no view names it any more, its memory is freed.
#pragma once
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/model.h"
#include "config/problem.h"
#include "control/health/health_value.h"
#include "control/outbox.h"
#include "control/publish/publisher.h"
#include "control/timers.h"
#include "dataplane/base/totals.h"
#include "dataplane/host/worker_groups.h"
#include "dataplane/state/slices.h"
#include "lnd/driver.h"
#include "lnd/lnd.h"
#include "lnd/net/kernel/devices.h"

namespace ulnet {

/// Deleting an NI waits so long for what is under way before its connections are closed all the same.
inline constexpr Duration kNiDrainMax = 5s;
/// Before that it serves on until its peers know that it goes, and then until it was idle so long, at most so long.
inline constexpr Duration kNiLeaveIdle = 1s;
inline constexpr Duration kNiLeaveMax = 5s;
inline constexpr Duration kNiLeaveLook = 50ms;  ///< how often it is looked at meanwhile

struct LocalNi {
  NiId id{};
  uint16_t slot = 0;  ///< NiView::slot: no other NI has it, nor had it lately
  Net net;
  Nid nid;
  unsigned lnd = 0;
  config::NiConfig config;                       ///< as asked for
  NiParams params;                               ///< as its driver was told
  Duration transmit_timeout{50s};                ///< of one transmission
  std::vector<WorkerId> workers;                 ///< that serve peers over it
  std::vector<std::shared_ptr<NiSlice>> slices;  ///< by worker
  uint32_t device_numa = UINT32_MAX;
  LinkSpeed speed;            ///< of its link
  bool by_interface = false;  ///< its interface alone stands for it: the NID is the interface's first IPv4 address
  bool fatal = false;         ///< its driver reported the link down
  bool silent = false;        ///< this node routes, and nobody pings it over this net (docs/wire/lnet.md §8.4)
  HealthValue health;
  bool sick = false;  ///< its health fell to 0 and is not whole yet (docs/wire/lnet.md §9)
  struct {
    uint64_t charged = 0, sent = 0, received = 0;  ///< numbers at the last look of Health
    bool avoided = false;                          ///< workers take back what has not begun
    bool pinged = false;                           ///< a recovery ping of it is under way
  } watch;
  InterfaceTotals baseline;  ///< what `stats reset` has set to zero

  // Deletion.
  bool leaving = false;  ///< nobody is told of it any more, and nothing new goes over it
  Instant leave_deadline = kForever;
  Instant idle_since = kNever;
  uint64_t messages_seen = 0;  ///< over it, when it was last looked at
  bool closing = false;
  bool close_sent = false;  ///< NiCloseMsg is out
  bool stop_sent = false;   ///< ni_stop was called
  bool stopped = false;     ///< ni_stopped came
  unsigned undrained = 0;   ///< workers that have not answered NiCloseMsg
  Instant drain_deadline = kForever;

  [[nodiscard]] bool up() const { return !fatal && !silent && !sick; }
  /// True if it works, but over a slow link.
  [[nodiscard]] bool degraded() const { return up() && speed.reduced(); }
  [[nodiscard]] bool usable() const { return !fatal && health.value() > 0; }
  [[nodiscard]] bool going() const { return leaving || closing; }
  [[nodiscard]] uint64_t messages() const;
  /// Messages that were sent or received over it, ever.
  [[nodiscard]] uint64_t counted(NiTraffic which) const;
  /// Messages that name it: on their way out, and coming in or held.
  [[nodiscard]] uint64_t sending() const;
  [[nodiscard]] uint64_t receiving() const;
};

/// An NI that was asked for and cannot be added yet, because its interface or address is not there.
struct WaitingNi {
  Net net;
  config::NiConfig config;
  std::string why;
};

/// Peers that have yet to learn that an NI goes.
struct Untold {
  size_t count = 0;
  Nid first;
};

/// What NIs get that do not say themselves.
struct NiDefaults {
  config::DriverValues driver;           ///< settings that hold for all NIs of a driver
  config::Seconds transmit_timeout{49};  ///< where a time-out of 0 is named: a share of the transaction timeout
};

class LocalNis {
 public:
  struct Deps {
    Mesh& mesh;
    Outbox& outbox;
    Publisher& publisher;
    Devices* devices = nullptr;  ///< may be null: then NIs are added by NID only
    WorkerGroups groups;
    std::vector<const DriverType*> types;  ///< by LND number
    std::vector<LndControl*> lnds;         ///< by LND number
    std::vector<WorkerMemory*> near = {};  ///< by worker; absent or null: the heap
  };
  LocalNis(Deps deps, Timers& timers)
      : deps_(std::move(deps)), look_(timers, TimerName::kNiLeave), drain_(timers, TimerName::kNiDrain) {}

  /// Adds an NI, and its net with the first one; when it fails nothing has changed. Errors: ENETDOWN (no such
  /// interface), EADDRNOTAVAIL (no IPv4 address; name it by NID), EEXIST, ENOSPC (`interfaces_max` or kNisMax), ERANGE
  /// (CPT), EINVAL (no driver for the net), EBUSY (the NID is still being deleted), and what the driver says.
  [[nodiscard]] config::Checked<LocalNi*> add(Net net, const config::NiConfig& config, int64_t interfaces_max,
                                              const NiDefaults& defaults, Instant now);
  /// Changes the driver's settings of a running NI to `lnd_tunables`; when it fails nothing has changed. Errors: what
  /// the driver refuses (EOPNOTSUPP).
  [[nodiscard]] config::Checked<void> tune(LocalNi& ni, const std::map<std::string, int64_t>& lnd_tunables,
                                           const NiDefaults& defaults, Instant now);
  /// Begins to delete the NI: it is closed when others know and it is idle; gone when find(id) is null.
  void leave(LocalNi& ni, Instant now);
  /// An NI that leaves stays after all. Requires: it does not close yet.
  void stay(LocalNi& ni);
  /// Closes it at once.
  void remove(LocalNi& ni, Instant now);
  /// Why an NI that goes is still there, as a sentence without its NID; "" when it does not go. In use is: a message
  /// that goes out or comes in over it, a peer that does not know that it goes, one that used it a moment ago, a
  /// connection that is not closed.
  [[nodiscard]] std::string in_use(const LocalNi& ni, const Untold& untold, Instant now) const;
  [[nodiscard]] const DriverType& type_of(const LocalNi& ni) const { return *deps_.types[ni.lnd]; }
  /// An NI is closing that the workers have not been told of.
  [[nodiscard]] bool closing_now() const;
  /// Nets and NIs in their order, which others see in this node's list: the first is the primary NID.
  [[nodiscard]] std::vector<std::pair<Net, Nid>> order() const;
  /// Puts them in the order of then; what was not there comes last.
  void reorder(const std::vector<std::pair<Net, Nid>>& before);
  /// To call after a view that knows the closing NIs was published: asks the workers to drain them.
  void published();
  /// Carries deletions on; true when an NI has gone or begins to close. `told` is asked whether all peers know those
  /// that leave.
  bool turn(Instant now, const std::function<bool()>& told);
  void drained(const NiSlice& slice);
  void stopped(NiId id);

  /// The driver's settings that the NI works with, by name, also those that nobody set.
  [[nodiscard]] std::map<std::string, int64_t> tunables_in_force(const LocalNi& ni) const;
  [[nodiscard]] LocalNi* find(NiId id);
  [[nodiscard]] LocalNi* find(const Nid& nid);
  /// NIs of the net that are not going, in order of addition.
  [[nodiscard]] std::vector<LocalNi*> on_net(Net net);
  [[nodiscard]] bool net_local(Net net) { return !on_net(net).empty(); }
  /// Nets in order of addition, and within each its NIs.
  struct LocalNet {
    Net net;
    std::list<LocalNi> nis;
  };
  [[nodiscard]] std::list<LocalNet>& nets() { return nets_; }
  /// In the order of nets().
  [[nodiscard]] const std::vector<LocalNi*>& all() const { return nis_; }
  [[nodiscard]] size_t size() const { return nis_.size(); }
  /// Kept for Applier, which adds them when they can be; at most kNisMax.
  [[nodiscard]] std::vector<WaitingNi>& waiting() { return waiting_; }
  /// The first NI of the first net: its NID is the node's primary NID. Null without NIs.
  [[nodiscard]] LocalNi* primary();
  /// Counts additions and deletions: the sequence of ping info (docs/wire/lnet.md §4.2).
  [[nodiscard]] uint32_t sequence() const { return sequence_; }
  /// Its value at the last addition or deletion.
  [[nodiscard]] uint32_t nids_sequence() const { return nids_sequence_; }
  /// For what changes the list in the eyes of others, but is no addition or deletion (link state; docs/wire/lnet.md
  /// §4.5).
  void bump_sequence() { ++sequence_; }
  [[nodiscard]] const WorkerGroups& groups() const { return deps_.groups; }
  [[nodiscard]] unsigned worker_count() const { return deps_.mesh.worker_count; }

 private:
  [[nodiscard]] config::Checked<Devices::Interface> find_address(const config::NiConfig& config, Net net,
                                                                 Nid& nid) const;
  [[nodiscard]] config::Checked<std::vector<WorkerId>> find_workers(const config::NiConfig& config,
                                                                    uint32_t numa) const;
  void give_slices(LocalNi& ni) const;
  void take_tunables(LocalNi& ni, std::vector<int64_t> tunables) const;
  [[nodiscard]] static bool is_idle(LocalNi& ni, Instant now);
  void erase(LocalNi& ni);
  void list_all();

  Deps deps_;
  std::list<LocalNet> nets_;
  std::vector<LocalNi*> nis_;
  std::vector<WaitingNi> waiting_;
  uint32_t next_slot_ = 0;
  uint32_t next_id_ = 1;  // 0 is loopback
  uint32_t sequence_ = 1, nids_sequence_ = 1;
  SlowTimer look_;   // at the NIs that leave
  SlowTimer drain_;  // the first drain_deadline of the NIs that close
};

}  // namespace ulnet
