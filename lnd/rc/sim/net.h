// Simulated RDMA devices that see each other, and the provider of each node on them (lnd/rc/rc.h). All of it is on one
// thread, and follows from the seed. Later events are steps in one queue, which each call with a time runs. Bytes
// of writes move in two halves, so that memory which goes back to its owner too early is found out.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "dataplane/base/check.h"
#include "dataplane/base/rng.h"
#include "lnd/rc/rc.h"

namespace ulnet::rc::sim {

/// How devices and wires behave, from now on. `_one_in` n: it happens to one in n; 0: never.
struct Rules {
  Duration delay_min = 2us, delay_max = 20us;  ///< of each operation and each message of the CM
  double bytes_per_ns = 12.5;
  Duration ready_max = 1ms;         ///< until a queue pair is there
  Duration device_max = 0ns;        ///< until the state of a listener's device is known
  Duration reply_max = kAnswerMax;  ///< until a passive side finds that its REP has no answer
  Duration retries_for = 2s;        ///< until a sender finds that nobody acknowledges
  uint32_t lose_one_in = 0;         ///< operations with which the wire between two queue pairs breaks
  uint32_t local_error_one_in = 0;
  uint32_t refuse_one_in = 0;     ///< operations that the peer's device refuses
  uint32_t no_qp_one_in = 0;      ///< queue pairs that the device cannot make
  uint32_t qps_max = UINT32_MAX;  ///< of one device
  uint32_t receives_max = UINT32_MAX, work_max = UINT32_MAX, keys_max = UINT32_MAX, pieces_max = 16;  ///< of a pair
  bool keys_end = true;
};

/// For tests.
struct Counts {
  uint64_t no_buffer = 0;     ///< messages without a receive buffer
  uint64_t stray_writes = 0;  ///< writes that no key allowed
  uint64_t unregistered = 0;  ///< accesses to memory whose region is gone
  uint64_t messages = 0, writes = 0, dropped = 0;
  uint64_t quiet = 0;  ///< messages that were posted with Wake::kNo
};

class SimControl;
class SimWorker;

enum class OpKind : uint8_t { kSend, kWrite, kKeyOpen, kKeyClose };
/// An operation from its post to its completion.
struct Op {
  OpKind kind = OpKind::kSend;
  uint64_t token = 0;
  uint32_t buffer = 0, bytes = 0;  ///< kSend
  std::vector<Segment> from;       ///< kWrite
  uint32_t key = 0;                ///< kWrite, kKeyOpen, kKeyClose
  uint64_t address = 0;            ///< kWrite
  RemoteKey* closing = nullptr;    ///< kKeyClose
  bool flushed = false;
  bool quiet = false;  ///< kSend: Wake::kNo
};

/// For the worker: calls of QpUser.
struct Done {
  enum class Kind : uint8_t { kReceived, kSent, kKeyClosed, kBroken, kDrained } kind;
  uint64_t token = 0;              ///< kSent
  uint32_t buffer = 0, bytes = 0;  ///< kReceived
  RemoteKey* key = nullptr;        ///< kKeyClosed
  Cause cause = Cause::kNone;      ///< kBroken
};

struct SimQp final : Qp {
  QpUser* user = nullptr;
  std::vector<std::byte> memory;
  std::deque<Op> ops;                          ///< under way, in order
  std::deque<uint32_t> posted;                 ///< receive buffers
  std::map<uint32_t, Payload> open;            ///< windows by key
  std::map<uint32_t, Payload> exposed;         ///< closed, if keys do not end
  std::deque<Done> done;                       ///< of its user
  std::set<ConnId>* ready = nullptr;           ///< of its worker: queue pairs with something in `done`
  std::map<ConnId, Instant>* quiet = nullptr;  ///< the same, if none of it wakes the worker
  Instant last_arrival = kNever;
  bool broken = false, drained = false;
};

enum class ConnState : uint8_t {
  kMaking,     ///< the queue pair is being made
  kAsked,      ///< passive: a REQ has come
  kReady,      ///< the queue pair is there, proceed() is to come
  kRequested,  ///< active: the REQ is sent
  kReplied,    ///< passive: the REP is sent
  kEstablished,
  kEnded
};
struct Conn {
  ConnId id = 0;
  SimControl* control = nullptr;
  ConnState state = ConnState::kMaking;
  bool active = false;
  IpAddress local;
  Endpoint remote;
  ListenerId listener = 0;
  ConnId peer = 0;         ///< 0: the peer has no end of it yet, or any more
  bool wire_dead = false;  ///< nothing that this side sends arrives
  bool disconnected = false;
  bool privileged_port = true;  ///< active: its own
  Duration answer_max{};
  std::unique_ptr<SimQp> qp;
};

class Net {
 public:
  explicit Net(uint64_t seed) : rng_(seed) {}
  Rules rules;
  Counts counts;
  std::vector<DialSpec> dials;  ///< for tests
  /// Called for each message that comes to a queue pair.
  std::function<void(std::span<const std::byte> message)> hook;

  /// A node with one device for each address. Lives at most as long as this.
  [[nodiscard]] std::unique_ptr<Provider> make_node(std::vector<IpAddress> addresses, unsigned workers);
  /// Nothing passes between these two addresses any more (or again).
  void cut(const IpAddress& a, const IpAddress& b, bool is_cut = true);
  /// The port of a device goes down or comes back. Nothing passes while it is down.
  void set_port(const IpAddress& address, bool up, const char* why_not = "");
  /// The wire of all connections between these two breaks, as if a cable was pulled: later connections are well.
  void break_wires(const IpAddress& a, const IpAddress& b);
  /// Connections that were not destroyed.
  [[nodiscard]] size_t conns() const { return conns_.size(); }

  // --- For the halves of the provider ---
  /// Runs the steps that are due.
  void run(Instant now);
  [[nodiscard]] Instant next() const { return steps_.empty() ? kForever : steps_.begin()->first.first; }
  [[nodiscard]] Instant now() const { return now_; }
  void later(Duration after, std::function<void()> step) { steps_[{now_ + after, ++last_}] = std::move(step); }
  [[nodiscard]] Duration delay();
  [[nodiscard]] Rng& rng() { return rng_; }
  [[nodiscard]] Conn* find(ConnId id);
  Conn& add(SimControl& control);
  void erase(ConnId id) { conns_.erase(id); }
  [[nodiscard]] bool passes(const IpAddress& a, const IpAddress& b) const {
    return !cuts_.contains(std::minmax(a, b)) && !ports_down.contains(a) && !ports_down.contains(b);
  }
  /// All connections of a node that is gone. Its peers hear nothing.
  void erase_all(const SimControl& control) {
    std::erase_if(conns_, [&](const auto& one) { return one.second.control == &control; });
  }
  [[nodiscard]] SimControl* listener_at(const Endpoint& at, ListenerId& id) const;
  void make_qp(Conn& conn, const QpNeeds& needs);
  /// The other end, while both belong together.
  [[nodiscard]] Conn* peer_of(const Conn& conn);
  void transmit(Conn& conn);
  void break_qp(Conn& conn, Cause cause);
  void drain(Conn& conn);
  /// For the worker.
  void report(SimQp& qp, const Done& done, bool quiet = false);
  [[nodiscard]] static Conn& conn_of(const Qp& qp, Net& net);

  std::map<IpAddress, SimControl*> devices;
  std::map<IpAddress, const char*> ports_down;  ///< and why, if the device has a reason of its own
  std::map<Endpoint, std::pair<SimControl*, ListenerId>> listeners;

 private:
  void arrive(ConnId from, ConnId to, const Op& op, const std::vector<std::byte>& message);
  void message_in(Conn& to, const std::vector<std::byte>& message);
  [[nodiscard]] bool write_in(const Conn& from, Conn& to, const Op& op, bool all);
  void completed(Conn& from);

  Rng rng_;
  Instant now_ = kNever;
  std::map<std::pair<Instant, uint64_t>, std::function<void()>> steps_;
  uint64_t last_ = 0;
  ConnId last_conn_ = 0;
  std::map<ConnId, Conn> conns_;
  std::set<std::pair<IpAddress, IpAddress>> cuts_;
};

}  // namespace ulnet::rc::sim
