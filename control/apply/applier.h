// Applies lists of changes to a running node. First a list is checked as a whole against the configuration in force
// (config/apply.h, changes_apply); then its changes are carried out one after the other. If a change fails, the changes
// before it are undone: then order, routes, health values and discovered peers are as before, too. So a list is applied
// whole or not at all. Lists are carried out one after the other. NIs of one list leave together. Once no change of the
// list can fail any more, the next list begins while these NIs still leave. Thread: control.
#pragma once
#include <functional>
#include <list>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/apply.h"
#include "control/control.h"
#include "control/timers.h"

namespace ulnet {

class Applier {
 public:
  /// Gets one entry for each change that cannot be applied; empty: all changes are in force.
  using Done = std::function<void(const config::Problems&)>;
  /// Gets lines for the client, before Done: why a change waits, and warnings, which begin with kWarning. The lines go
  /// to the journal, too.
  using Note = std::function<void(const std::string&)>;

  explicit Applier(Control& control) : c_(control), next_(control.timers, TimerName::kChanges) {}

  /// Takes a list and returns its number. `done` comes once, from within turn(), withdraw() or abort().
  uint64_t submit(config::ChangeList changes, Done done, Note note = {});
  /// Removes a list that has not begun; its `done` comes with ECANCELED. No effect on a list that has begun or ended.
  void withdraw(uint64_t number);
  /// Carries lists on; returns work done.
  unsigned turn(Instant now);
  [[nodiscard]] bool idle() const { return jobs_.empty() && leaving_.empty(); }
  /// Ends all lists with ESHUTDOWN; changes that were carried out stay.
  void abort();

  /// Sets the networks of the configuration file, which `lnet configure --all` adds.
  void set_configured_networks(config::ChangeList changes) { networks_ = std::move(changes); }
  /// While it is set, `routing: enable` enables at once, without the waiting time of `set routing 1`.
  void set_start_up(bool on) { start_up_ = on; }
  /// On: an NI whose interface or address is not there waits for it. Off: such an NI is refused, as in a process that
  /// needs its one NI and nothing else.
  void set_wait_for_devices(bool on) { wait_for_devices_ = on; }
  /// Called before `lnet unconfigure`; returns "", or the user of the node.
  void set_in_use(std::function<std::string()> in_use) { in_use_ = std::move(in_use); }
  /// Called when a list that holds changes of `ulnet:` keys is in force.
  void set_ulnet_changed(std::function<void()> changed) { ulnet_changed_ = std::move(changed); }

 private:
  enum class Step : uint8_t { kDone, kWait, kFailed };
  struct Job {
    uint64_t number = 0;
    config::ChangeList changes;
    std::vector<size_t> origin;  // by change: place in the list as submitted
    Done done;
    Note note;
    bool started = false;
    size_t next = 0;
    config::DesiredState before, after;
    std::vector<std::pair<Net, Nid>> order;   // of the NIs, before
    std::vector<Route> routes;                // before
    std::vector<NiId> leaving;                // NIs that must leave before the job is done
    Instant explain_at = kForever;            // when explain() is due: why the job takes so much time
    std::vector<std::function<bool()>> undo;  // called last first; false: not undone yet, call it again
    bool undoing = false;
    bool ulnet = false;     // holds changes of `ulnet:` keys
    bool in_force = false;  // the job may still wait for the gateways' first checks
    PolicyStep policies;
    config::Problems errors;
  };
  unsigned run_jobs();
  void set_timer();
  void start(Job& job);
  [[nodiscard]] Step carry_out(Job& job);
  [[nodiscard]] bool must_wait_for_gateways(Job& job);
  void finish(std::list<Job>& jobs, std::list<Job>::iterator job);
  [[nodiscard]] bool all_left(Job& job);
  unsigned turn_leaving();
  [[nodiscard]] bool is_in_force(const config::PlacedChange& change);
  [[nodiscard]] bool is_in_force(const config::NetAdd& change);
  [[nodiscard]] bool is_not_for_here(const config::PlacedChange& change) const;
  [[nodiscard]] bool is_own(const Nid& nid, const std::vector<Nid>& others) const;
  [[nodiscard]] bool skips(Job& job, const config::PeerAdd& change);
  [[nodiscard]] bool skips(Job& job, const config::RouteAdd& change);
  [[nodiscard]] config::ChangeList expand(const config::ChangeList& changes, std::vector<size_t>& origin,
                                          config::Problems& errors);
  [[nodiscard]] std::vector<config::NetDel> each_ni(const config::NetDel& del);
  void put_in_force(Job& job);
  void note(Job& job, const std::string& line);
  void explain(Job& job);
  void advise(Job& job, const Nid& nid);
  void name_nis();
  // NIs that wait for their interface (applier_waiting.cc).
  [[nodiscard]] bool waits(Job& job, const config::NetAdd& change, const config::Problem& error);
  [[nodiscard]] bool waits(const config::RouteConfig& route) const;
  std::vector<WaitingNi> stop_waiting(Net net, const std::string& interface, const std::optional<Nid>& nid);
  [[nodiscard]] unsigned retry_waiting();
  void begin_remove(Job& job, LocalNi& ni, bool at_once);
  [[nodiscard]] bool undo_all(Job& job);
  void undo_peers(Job& job, const Nid& primary, const std::vector<Nid>& nids);

  Step run(Job&, const config::LnetConfigure&) { return Step::kDone; }
  Step run(Job& job, const config::LnetUnconfigure& change);
  Step run(Job& job, const config::NetAdd& change);
  Step run(Job&, const config::NetAddMatching&) { return Step::kDone; }  // expanded before
  Step run(Job& job, const config::NetDel& change);
  Step run(Job& job, const config::NetSet& change);
  Step run(Job& job, const config::RouteAdd& change);
  Step run(Job& job, const config::RouteDel& change);
  Step run(Job& job, const config::PeerAdd& change);
  Step run(Job& job, const config::PeerDel& change);
  Step run(Job& job, const config::PeerSet& change);
  Step run(Job&, const config::SetValue&) { return Step::kDone; }
  Step run(Job& job, const config::SetRouting& change);
  Step run(Job& job, const config::SetBuffers& change);
  Step run(Job&, const config::UdspAdd&) { return Step::kDone; }
  Step run(Job&, const config::UdspDel&) { return Step::kDone; }
  Step run(Job& job, const config::UlnetSet& change);
  [[nodiscard]] config::Checked<LocalNi*> ni_add(Net net, const config::NiConfig& ni,
                                                 const config::DesiredState& state);
  [[nodiscard]] bool ni_back(NiId id, Net net, const config::NiConfig& config, const HealthValue& health);
  void set_health(HealthValue& health, int64_t value) const;
  Step tune(Job& job, LocalNi& ni, const std::map<std::string, int64_t>& lnd_tunables);
  Step refuse(Job& job, int code, std::string what);

  Control& c_;
  SlowTimer next_;
  uint64_t last_number_ = 0;
  Instant now_ = kNever;
  Instant retry_at_ = kNever;
  Instant retry_waiting_at_ = kForever;
  std::list<Job> jobs_;
  std::list<Job> leaving_;  // in force, but NIs have not left yet, or peers have no results of policies yet
  config::ChangeList networks_;
  std::function<std::string()> in_use_;
  std::function<void()> ulnet_changed_;
  std::set<std::string> advised_;  // lines about the machine that the journal has; bounded
  bool start_up_ = false;
  bool wait_for_devices_ = false;
};

}  // namespace ulnet
