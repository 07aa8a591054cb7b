// A network in memory that connects the sim LNDs of many nodes, in one thread and under a virtual clock. It stands for
// any net type: the control half that a node registers says which. Every choice comes from one seed and every order
// from numbers that the fabric gave out, so the same calls with the same seed give the same run.
//
// What a fault means here is what it means on a reliable connection: a message is lost only because its connection
// breaks, and the sender either sees that (lose_with_error) or had been told OK before (lose_silently).
// LinkRules::loss_breaks = false gives loss of single messages on a living connection, as LNet's own drop rules do.
//
// Time: the fabric knows the latest `now` that any half was called with; faults that a test injects happen then.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dataplane/base/rng.h"
#include "lnd/sim/conn.h"

namespace ulnet::sim {

/// What becomes of one message.
enum class Fate : uint8_t { kPass, kLoseSilently, kLoseWithError, kDuplicate };

/// How one direction of a link (source NID to destination NID) behaves. Chances are 0..1 per message.
struct LinkRules {
  Duration delay_min = 5us;
  Duration delay_max = 5us;
  uint64_t bytes_per_second = 0;  ///< 0 = no limit
  Duration body_delay_max{};      ///< the payload ends up to this much later than its header comes
  double lose_silently = 0;       ///< sender sees OK, the receiver nothing
  double lose_with_error = 0;
  double duplicate = 0;  ///< the receiver sees it twice
  double reorder = 0;    ///< arrives up to reorder_max later and does not hold up those behind it
  Duration reorder_max = 1ms;
  bool loss_breaks = true;   ///< a loss is a broken connection, and takes what follows with it
  bool hold_memory = false;  ///< payload is sent from the Tx's memory: tx_done comes after delivery (zero copy)
  uint32_t window = 16;      ///< messages under way per connection and direction; more wait at the sender
  std::array<Fate, wire::kMsgTypes> fates{};  ///< by message type; kPass = leave it to the chances above
};

struct FabricOptions {
  uint64_t seed = 1;
  LinkRules rules;  ///< of every link without rules of its own
  Duration connect_timeout = 10s;
  Duration connect_retry = 1s;  ///< a request that got no answer is sent again
  /// Rdma mode: payloads and sinks of more bytes go by PUT_REQ and GET_REQ, with remote writes. Connections are
  /// reliable then: each loss breaks one, nothing is duplicated or reordered. UINT32_MAX: no rdma mode.
  uint32_t rdma_above = UINT32_MAX;
  /// Rdma mode: a remote write from or to memory outside the regions of its node is refused, and breaks the connection.
  bool regions = false;
};

/// What happened so far. tx_* and slots_* must be equal in pairs once everything is at rest; what a worker half had
/// when it was destroyed counts as done and closed.
struct FabricCounts {
  uint64_t tx_submitted = 0, tx_done = 0, slots_opened = 0, slots_closed = 0;
  uint64_t launched = 0, lost_silently = 0, lost_with_error = 0, duplicated = 0, reordered = 0;
  uint64_t connections = 0, connects_failed = 0, breaks = 0;
  // Rdma mode. Each GET_REQ that is accepted gets one REPLY from the core; stray_writes stays 0.
  uint64_t put_requests = 0, get_requests = 0, gets_accepted = 0, gets_refused = 0, replies = 0, stray_writes = 0;
  uint64_t unregistered = 0;  ///< refused accesses to memory outside each region; stays 0
};

/// Between control halves: setting a connection up.
struct ControlMail {
  enum class Kind : uint8_t { kRequest, kAccept, kRefuse, kLinkState } kind = Kind::kRequest;
  Nid from;
  Nid to;
  uint64_t attempt = 0;
  uint64_t end = 0;
};

class Fabric {
 public:
  explicit Fabric(const FabricOptions& options) : options_(options), rng_(options.seed) {}
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  // --- For tests: faults -------------------------------------------------------------------------------------------
  /// Rules of all links that have none of their own.
  [[nodiscard]] LinkRules& rules() { return options_.rules; }
  /// Rules of one direction, at first a copy of rules(). Changes hold for messages sent from now on.
  [[nodiscard]] LinkRules& link(const Nid& from, const Nid& to);
  /// Forgets all rules of single links and takes the chances of loss, duplication, reordering out of rules().
  void calm();
  /// Asked for every message; an answer other than kPass overrides the rules.
  std::function<Fate(const Nid& from, const Nid& to, const wire::Header& header)> hook;

  /// Called for each range that a node registers. True: its device has no room for it.
  std::function<bool(std::span<std::byte>)> refuse_region;

  /// Nothing passes in this direction: messages and connection set-up wait or time out, as when packets are dropped.
  void cut_one_way(const Nid& from, const Nid& to);
  void cut(const Nid& a, const Nid& b);
  void partition(const std::vector<Nid>& left, const std::vector<Nid>& right);
  void heal(const Nid& a, const Nid& b);
  /// Undoes every cut, frozen node and link down.
  void heal_all();
  /// Breaks the connection between two NIDs, both sides; it may come up again at once.
  void reset(const Nid& a, const Nid& b);
  /// The interface of a local NI loses its link: control is told (ni_fatal) and nothing passes.
  void link_down(const Nid& nid);
  void link_up(const Nid& nid);
  /// A node that stands still: its halves do nothing, its connections stay.
  void freeze(uint32_t node);
  void thaw(uint32_t node);
  [[nodiscard]] bool frozen(uint32_t node) const { return frozen_.contains(node); }

  // --- For tests: driving and checking -----------------------------------------------------------------------------
  /// Number for a new node, to hand to its halves.
  [[nodiscard]] uint32_t add_node() { return ++nodes_; }
  [[nodiscard]] Instant now() const { return now_; }
  /// Earliest moment at which some half has something to do; kForever when all is at rest or stands still.
  [[nodiscard]] Instant next_event() const;
  [[nodiscard]] const FabricCounts& counts() const { return counts_; }
  /// Ranges that the drivers of all nodes have registered.
  [[nodiscard]] size_t regions() const;
  /// What is not at rest, one line each; empty when no Tx, slot, message or connect attempt is under way.
  [[nodiscard]] std::string check_quiescent() const;

  // --- For the halves of the LND -----------------------------------------------------------------------------------
  void see(Instant now) { now_ = now > now_ ? now : now_; }
  [[nodiscard]] FabricCounts& count() { return counts_; }
  [[nodiscard]] const FabricOptions& options() const { return options_; }
  [[nodiscard]] const LinkRules& rules_of(const Nid& from, const Nid& to) const;
  [[nodiscard]] bool passes(const Nid& from, const Nid& to) const;
  [[nodiscard]] Duration draw_delay(const Nid& from, const Nid& to);
  [[nodiscard]] uint64_t next_number() { return ++numbers_; }

  void join(SimLnd& lnd) { lnds_.push_back(&lnd); }
  void leave(SimLnd& lnd);
  void join(SimControl& control) { controls_.push_back(&control); }
  void leave(SimControl& control);
  /// Errors: EADDRINUSE.
  [[nodiscard]] Result<void> listen(const Nid& nid, SimControl& control);
  void unlisten(const Nid& nid) { listeners_.erase(nid); }
  [[nodiscard]] bool is_down(const Nid& nid) const { return down_.contains(nid); }

  [[nodiscard]] End* find_end(uint64_t id);
  /// Has some end this peer NI's slice?
  [[nodiscard]] bool names(const PeerSlice& slice) const;
  /// Both ends of a new connection, or the one of a NID with itself; returns the accepting one (`to`).
  End& connect_ends(const Nid& from, const Nid& to, uint64_t attempt);
  void erase_end(uint64_t id) { ends_.erase(id); }
  /// Sends to the control half that serves mail.to; a request that nobody listens to is refused.
  void post(const ControlMail& mail);
  [[nodiscard]] uint64_t attempt_begin();
  [[nodiscard]] bool attempt_wanted(uint64_t attempt) const { return attempts_.contains(attempt); }
  /// The attempt came to its end; an end made for it and not handed over is given up.
  void attempt_end(uint64_t attempt);
  void abandon(End& end);

  /// Puts the Tx on the wire. Requires: end alive, window not full.
  void launch(End& end, Tx& tx);
  /// The receiver is through with a message: the sender's window opens, lent memory goes home.
  void consumed(const Message& message, const Nid& receiver);
  [[nodiscard]] bool rdma() const { return options_.rdma_above != UINT32_MAX; }
  /// Rdma mode: sends an answer that needs no place in the window.
  void send_answer(End& end, Message&& message);
  /// Rdma mode: writes the payload of `tx` to the peer, then sends `done`. The Tx is done when the peer has all of it.
  void write(End& end, Tx& tx, const Message& done);
  /// May the device of this end access the window? False: it lies outside the regions that its segments name.
  [[nodiscard]] bool may_access(const End& end, const Payload& window);
  /// Lent memory alone goes home.
  void returned(const Message& message, const Nid& receiver);
  /// Takes back what `end` has lent and not got back.
  void tear_loans(End& end);
  /// News of a break reach `end` at `at`. Null, or an earlier break on its way: nothing. `drains`: an orderly end.
  void schedule_break(End* end, Instant at, Completion how, bool drains = false);

 private:
  struct Trip;  // what was drawn for one message
  [[nodiscard]] Fate fate_of(const End& end, const Tx& tx, const LinkRules& rules);
  void launch_request(End& end, Tx& tx, Wire wire, Instant at);
  [[nodiscard]] Wire wire_of(const Tx& tx) const;
  void launch_lost(End& end, Tx& tx, const LinkRules& rules, const Trip& trip, bool silently);
  void deliver_later(End& end, Tx& tx, Instant at, Duration body_time, bool lend, bool duplicate);
  void kick(End& end, Instant at);
  void kick_all();

  FabricOptions options_;
  Rng rng_;
  FabricCounts counts_;
  Instant now_ = kNever;
  uint64_t numbers_ = 0;
  uint32_t nodes_ = 0;
  std::map<std::pair<Nid, Nid>, LinkRules> links_;
  std::set<std::pair<Nid, Nid>> cuts_;
  std::set<Nid> down_;
  std::set<uint32_t> frozen_;
  std::map<Nid, SimControl*> listeners_;
  std::map<uint64_t, std::unique_ptr<End>> ends_;
  std::set<uint64_t> attempts_;
  std::vector<SimLnd*> lnds_;
  std::vector<SimControl*> controls_;
};

}  // namespace ulnet::sim
