// Whether this node forwards for others, and the router buffers for it. Thread: control. The states are LNet's
// (docs/wire/lnet.md §8.4). A router that starts forwards at once, but its ping info does not say so yet. So no node
// routes through the router before the router has heard of all its peers. A router that stops says so at once, and
// forwards for some more time. The workers decide which message goes where (dataplane/stages/forward.h).
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "config/model.h"
#include "config/problem.h"
#include "control/nis/local_nis.h"
#include "control/outbox.h"
#include "control/timers.h"
#include "dataplane/host/memory_source.h"
#include "dataplane/state/router_buffers.h"
#include "lnd/registrar_ctl.h"

namespace ulnet {

class Worker;

/// A block of router buffers and the memory behind it.
class RouterMemory {
 public:
  /// Null when there is no such memory.
  [[nodiscard]] static std::unique_ptr<RouterMemory> make(MemorySource& source, uint32_t numa, WorkerId worker,
                                                          unsigned pool, uint32_t count);
  ~RouterMemory();
  RouterMemory(const RouterMemory&) = delete;
  RouterMemory& operator=(const RouterMemory&) = delete;

  RouterBlock block;
  const WorkerId worker;
  enum class State : uint8_t {
    kRegistering,  ///< a driver needs its memory registered
    kRefused,      ///< a driver refused; tried again
    kGiven,        ///< the worker has the block
    kReleasing,    ///< the worker has given it back, and the drivers do so
  };
  State state = State::kRegistering;
  Segment all{};          ///< its memory, registered if a driver needs that
  bool retiring = false;  ///< the worker has to give the block back, or does not get it

 private:
  RouterMemory(MemorySource& source, WorkerId to) : worker(to), source_(source) {}
  MemorySource& source_;
};

class Routing {
 public:
  struct Deps {
    Outbox& outbox;
    MemorySource& memory;
    Registrar& registrar;
    WorkerGroups groups;
    unsigned workers = 1;
    std::function<void(const std::string&)> log = {};
  };
  Routing(Deps deps, Timers& timers)
      : deps_(std::move(deps)), next_(timers, TimerName::kRouting), again_(timers, TimerName::kRouterMemory) {}

  /// How long a router waits between two states: alive_router_check_interval + router_ping_timeout.
  void set_settle_time(Duration settle) { settle_ = settle; }
  [[nodiscard]] Duration settle_time() const { return settle_; }
  /// Starts forwarding; `at_once`: kEnabled at once (`forwarding: enabled`). Error: ENOMEM, nothing has changed.
  [[nodiscard]] config::Checked<void> enable(bool at_once, Instant now);
  /// Begins to stop forwarding; turn() completes the stop. No effect if the node does not forward.
  void disable(Instant now);
  /// Stops now; messages in router buffers may still leave.
  void abort();
  /// Buffers of the node, over all workers; at least one per worker and pool. While routing is on, pools grow and
  /// shrink at once, by blocks; a block that is in use goes when it is empty. Error: ENOMEM, nothing has changed.
  [[nodiscard]] config::Checked<void> set_buffers(const config::Buffers& buffers);

  /// A worker gave a block back.
  void retired(RouterBlock& block);
  /// Carries state changes on. `idle`: no router buffer is in use. True when the state changed.
  bool turn(Instant now, const std::function<bool()>& idle);

  [[nodiscard]] RoutingState state() const { return state_; }
  /// Whether ping info says that this node routes.
  [[nodiscard]] bool advertised() const { return state_ == RoutingState::kEnabled; }
  [[nodiscard]] const config::Buffers& buffers() const { return buffers_; }
  /// Buffers that the worker has and does not have to give back.
  [[nodiscard]] uint32_t given(WorkerId worker, unsigned pool) const { return buffers_of(worker, pool, false); }
  /// True if no block is at a worker or on its way back.
  [[nodiscard]] bool empty() const { return blocks_.empty(); }

 private:
  [[nodiscard]] uint32_t wanted(WorkerId worker, unsigned pool, const config::Buffers& buffers) const;
  [[nodiscard]] bool fit(const config::Buffers& buffers);
  /// `coming`: also buffers that the worker gets once their memory is registered.
  [[nodiscard]] uint32_t buffers_of(WorkerId worker, unsigned pool, bool coming) const;
  void give(RouterMemory& memory);
  void registered(RouterMemory& memory, const Checked<void>& result);
  void retire(RouterMemory& memory);
  void release(RouterMemory& memory);
  void forget(const RouterMemory& memory);
  void all_given();
  bool try_refused(Instant now);
  [[nodiscard]] bool complete() const;

  Deps deps_;
  RoutingState state_ = RoutingState::kDisabled;
  config::Buffers buffers_;
  Duration settle_ = 110s;
  Instant since_ = kNever;
  Instant starts_ = kNever;  // kStarting: the earliest time of kEnabled
  SlowTimer next_;
  std::vector<std::unique_ptr<RouterMemory>> blocks_;
  bool fresh_ = false;   // the first blocks have not all been given
  bool warned_ = false;  // of refused blocks, since the last time that all were given
  SlowTimer again_;      // refused blocks are tried again
};

/// On a router: finds its nets that have become silent. Each node that routes through the router pings it on each net
/// that both share. So a net without pings for a while does not work, and ping info reports its NIs as down. Source:
/// docs/wire/lnet.md §8.4.
class NetWatch {
 public:
  NetWatch(LocalNis& nis, Timers& timers) : nis_(nis), next_(timers, TimerName::kNetSilent) {}

  /// Sets the time without pings after which a net is silent: alive_router_check_interval + router_ping_timeout.
  void set_limit(Duration limit) { limit_ = limit; }
  /// `source` pinged our NI `target`.
  void pinged(const Nid& target, const Nid& source, Instant now);
  /// Brings LocalNi::silent up to date; true when one has changed. `routing`: this node says that it routes.
  bool turn(Instant now, bool routing);

 private:
  LocalNis& nis_;
  Duration limit_ = 110s;
  std::map<Net, Instant> heard_;  // by net: time of the last ping, or when turn() first saw the net
  SlowTimer next_;
};

}  // namespace ulnet
