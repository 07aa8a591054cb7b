// Worker half of the sim LND: an Lnd over a Fabric (fabric_ctl.h). One connection per local NI and peer NID, in order
// like a TCP stream: a held message stops those behind it, except in the rdma mode. If the window is full, further Txs
// wait here. The hard part: each call into the core may come back in (submit, cancel, resume), so an end is only freed
// in sweep(), between rounds. Test code: it allocates, unlike a real driver.
#pragma once
#include <list>
#include <map>
#include <set>

#include "lnd/sim/conn.h"

namespace ulnet::sim {

class Fabric;

class SimLnd final : public Lnd {
 public:
  /// `node`: from Fabric::add_node(), the same for all halves of a node. Must die before the fabric; what it still has
  /// then is forgotten without a call to the core, and its peers see a reset, as when a process is killed.
  SimLnd(Fabric& fabric, LndCore& core, uint32_t node);
  ~SimLnd() override;

  void submit(Tx& tx, Instant now) override;
  void resume(RxSlot& slot, Instant now) override;
  void release(RxSlot& slot, Instant now) override;
  void divert(RxSlot& slot, Instant now) override;
  void cancel(Tx& tx, bool force, Instant now) override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant now) override;
  void flush(Instant) override {}
  void from_control(const LndMsg& msg, Instant now) override;
  /// Includes the next arrival, so that whoever drives a virtual clock can jump there.
  [[nodiscard]] Instant next_deadline() override;
  [[nodiscard]] bool pending() override;
  unsigned wait_fds(std::span<int>) override { return 0; }
  [[nodiscard]] bool idle() const override;

  // --- For the fabric ----------------------------------------------------------------------------------------------
  /// poll() has something to do at `at`.
  void kick(Instant at) { wake_ = at < wake_ ? at : wake_; }
  /// timers() has something to look at then.
  void remind(Instant at) { timer_bound_ = at < timer_bound_ ? at : timer_bound_; }
  [[nodiscard]] Instant wake() const { return wake_ < timer_bound_ ? wake_ : timer_bound_; }
  [[nodiscard]] uint32_t node() const { return node_; }
  [[nodiscard]] WorkerId worker() const { return core_.worker_id(); }
  using Key = std::pair<NiId, Nid>;
  struct PeerQueue {
    List<Tx, TxTag> waiting;  // no connection yet, or window full
    uint64_t end = 0;         // the living connection
    bool asked = false;       // control is setting one up
  };
  [[nodiscard]] const std::map<Key, PeerQueue>& queues() const { return queues_; }
  [[nodiscard]] const std::set<uint64_t>& ends() const { return ends_; }
  [[nodiscard]] size_t replies_owed() const { return owed_replies_.size(); }

 private:
  enum class Close : uint8_t { kAbort, kOrderly };
  void pump(const Key& key, PeerQueue& queue);
  void ask_connection(const Key& key, PeerQueue& queue, Tx& tx);
  unsigned serve(End& end, unsigned budget, Instant now);
  bool complete_one(End& end, Instant now);
  bool receive_one(End& end, Instant now);
  void open_slot(End& end, Instant now);
  void start_receive(End& end, Instant now);
  void finish_receive(End& end, Completion how, Instant now);
  void close_end(End& end, Completion how, Close close, Instant now);
  void tx_finish(Tx& tx, Completion how, Instant now);
  void take_over(const ConnUpMsg& msg, Instant now);
  void connect_failed(const ConnFailedMsg& msg, Instant now);
  void stop(NiId ni, Instant now);
  [[nodiscard]] Instant wake_of(const End& end) const;
  // Rdma mode (sim_rdma.cc).
  void reply(Tx& tx, Instant now);
  void rdma_receive(End& end, Message message, Instant now);
  void request_open(End& end, Message&& message, Instant now);
  void request_go_on(End& end, Request& request, RxVerdict verdict, Instant now);
  void request_accept(End& end, Request& request, Instant now);
  void request_end(End& end, Request& request, Completion how, Instant now);
  void requests_torn(End& end, Instant now);
  void put_answered(End& end, const Message& answer, Instant now);
  void put_written(End& end, const Message& done, Instant now);
  void get_answered(End& end, const Message& done, Instant now);
  void write_half(End& end, const Message& write);
  [[nodiscard]] Instant stalled_at(const End& end) const;
  bool expire_one(Instant now, Instant& earliest);
  void sweep();
  void tell(const LndMsg& msg);

  Fabric& fabric_;
  LndCore& core_;
  const uint32_t node_;
  std::map<Key, PeerQueue> queues_;
  std::set<uint64_t> ends_;
  uint64_t served_last_ = 0;
  uint64_t submits_ = 0;
  Instant wake_ = kForever;
  Instant timer_bound_ = kForever;
  std::set<NiId> stopped_;   // takes no more
  std::set<NiId> stopping_;  // control waits for the answer
  struct OwedReply {
    uint64_t end = 0;
    uint64_t cookie = 0;  // of kGetDone
  };
  std::map<uint64_t, OwedReply> owed_replies_;  // by token
  std::list<Owed> owed_;                        // to control; those that do not wait are used again
};

}  // namespace ulnet::sim
