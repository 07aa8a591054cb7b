// The worker half of the RoCE provider. Packets that have come are used in poll(): worker.cc finds their queue pair,
// worker_rx.cc takes them. Packets leave in flush() (worker_tx.cc). Thread: one worker; the interface says more
// (lnd/rc/rc.h).
#pragma once
#include <array>
#include <memory>

#include "lnd/rc/roce/allowance.h"
#include "lnd/rc/roce/kept_list.h"
#include "lnd/rc/roce/messages.h"
#include "lnd/rc/roce/qp.h"
#include "lnd/rc/roce/qp_numbers_ctl.h"

namespace ulnet::rc::roce {

/// Shared by the workers of a provider and its control half.
struct Shared {
  Shared(unsigned workers, uint64_t random) : secret(random), handover(workers) {
    for (unsigned i = 0; i < workers; ++i) rings.push_back(std::make_unique<WorkerRings>());
  }
  /// Does this worker have a queue of the port?
  [[nodiscard]] bool has_queue(uint8_t port, WorkerId worker) const {
    return (attached[port].load(std::memory_order_acquire) >> worker.value & 1) != 0;
  }
  const uint64_t secret;  ///< so that nobody can choose which senders share a rate
  Handover handover;
  std::array<std::atomic<uint64_t>, kRocePortsMax> attached{};  ///< bits of workers, each written by its worker
  std::vector<std::unique_ptr<WorkerRings>> rings;              ///< by worker
  Bell control_bell;
};

class RoceWorker final : public Worker {
 public:
  /// `shared` outlives this.
  RoceWorker(WorkerId id, Shared& shared);

  /// The worker's queue of this port, from now on. Before the threads run, or on the worker's.
  void attach(uint8_t port, WorkerPort& queue);
  /// The port is closed: gives back what has come from it. When the worker does not run.
  void detach(uint8_t port);
  /// Any thread reads them.
  [[nodiscard]] Counts& counts(uint8_t port) { return ports_[port].counts; }

  void adopt(Qp& qp, QpUser& user) override;
  void release(Qp& qp) override;
  void receive(Qp& qp, uint32_t buffer) override;
  [[nodiscard]] Posted send(Qp& qp, uint32_t buffer, uint32_t bytes, uint64_t token, Wake wake) override;
  [[nodiscard]] Posted write(Qp& qp, std::span<const Segment> from, uint32_t key, uint64_t address,
                             uint64_t token) override;
  [[nodiscard]] Posted key_open(Qp& qp, RemoteKey& key, const Payload& window) override;
  [[nodiscard]] Posted key_close(Qp& qp, RemoteKey& key) override;
  [[nodiscard]] uint32_t room(const Qp& qp) const override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant now) override;
  void flush(Instant now) override;
  [[nodiscard]] Instant next_deadline() override;
  [[nodiscard]] bool pending() override;
  unsigned wait_fds(std::span<int> out) override;

 private:
  static constexpr unsigned kBatch = 32;        ///< packets taken at once, or sent in a row by one queue pair
  static constexpr unsigned kFlushMax = 256;    ///< packets of one port in one turn
  static constexpr unsigned kTimerBudget = 64;  ///< queue pairs in one turn
  static constexpr Duration kMadWaitMax = 10ms;
  static constexpr uint32_t kLoanBudget = 16;  ///< queue pairs with lent memory, in one turn
  static constexpr Duration kLoanLook = 100us;
  static constexpr Duration kCnpEvery = 50us;  ///< for one queue pair
  // Bounds on packets of strangers (docs/o2ib.md). A message of the CM may wake control on the CPU of the worker, which
  // costs the worker some 200 us.
  static constexpr Rate kUnneededRate{32us, 64};     ///< packets of a port that has none for a user, if others have
  static constexpr Duration kNeedLasts = 1s;         ///< a port counts as one that has, behind such a packet
  static constexpr Rate kMadRate{1ms, 1024};         ///< messages of the CM of one port
  static constexpr Rate kMadSourceRate{8ms, 128};    ///< the same, of one sender
  static constexpr unsigned kMadSourcePlaces = 256;  ///< senders with the same place share a rate
  struct PortQueues {
    WorkerPort* queue = nullptr;
    List<RoceQp, ReadyTag> ready;  ///< with something to send
    Counts counts;
    Instant needed_until = kNever;  ///< kNeedLasts after the last packet for a user
    Allowance taken;                ///< of kUnneededRate
    Allowance mads;
  };

  [[nodiscard]] Posted post(RoceQp& qp, std::span<const Segment> from, const Request& what);
  void mark_ready(RoceQp& qp);
  void mark_settle(RoceQp& qp);
  void look(RoceQp& qp);
  unsigned look_at_changes();
  void arm(RoceQp& qp);
  void owe(RoceQp& qp);
  void pay();
  [[nodiscard]] bool pay_some();
  void follow(RoceQp& qp, Instant now);
  void await_loans(RoceQp& qp);
  void look_at_loans(Instant now);
  void report(RoceQp& qp, Instant now);
  void settle(RoceQp& qp, Instant now);
  void break_off(RoceQp& qp, Cause cause, Instant now);
  [[nodiscard]] RoceQp* find(const Arrival& arrival, uint32_t number);
  [[nodiscard]] WorkerRings& rings() { return *shared_.rings[id_.value]; }
  [[nodiscard]] std::span<PortQueues> ports() { return std::span(ports_).first(port_count_); }

  // worker_rx.cc
  unsigned take_handed_over(unsigned budget, Instant now);
  unsigned take_from(uint8_t port, unsigned budget, Instant now);
  [[nodiscard]] unsigned share_of(const PortQueues& port, unsigned budget, Instant now) const;
  [[nodiscard]] bool waits_for_its_share(const PortQueues& port) const;
  void needed(const Arrival& arrival, Instant now);
  void came(const Arrival& arrival, Instant now);
  void hand_over(const Arrival& arrival, uint32_t number, Instant now);
  [[nodiscard]] RoceQp* qp_of(const Arrival& arrival, const Packet& packet);
  void mad_came(const Arrival& arrival, const Packet& packet, Instant now);
  [[nodiscard]] bool mad_allowed(const Arrival& arrival, Instant now);
  void drop(const Arrival& arrival, FrameDrop reason, Instant now);
  void give_back(const Arrival& arrival);
  [[nodiscard]] bool put_payload(const Arrival& arrival, const Packet& packet, const Spot& spot);
  [[nodiscard]] bool request_came(RoceQp& qp, const Arrival& arrival, const Packet& packet, Instant now);

  // worker_tx.cc
  void send_mads(Instant now);
  void send_ready(PortQueues& port, Instant now);
  [[nodiscard]] bool transmit(RoceQp& qp, PortQueues& port, unsigned& left, Instant now);
  [[nodiscard]] bool send_answers(RoceQp& qp, PortQueues& port, unsigned& left, Instant now);
  [[nodiscard]] bool send_requests(RoceQp& qp, PortQueues& port, unsigned& left, Instant now);

  const WorkerId id_;
  Shared& shared_;
  std::array<PortQueues, kRocePortsMax> ports_;
  std::unique_ptr<RoceQp*[]> table_;  ///< by place_of_qpn()
  List<RoceQp, SettleTag> settle_;    ///< their user has something to hear
  List<RoceQp, OwedTag> owed_;        ///< control has something to hear
  List<RoceQp, LentTag> lent_;        ///< a port has packets with memory of theirs that has to come back
  Wheel<RoceQp> wheel_;
  std::array<bool, kWorkersMax> handed_to_{};  ///< workers that got packets in this turn
  unsigned port_count_ = 0;                    ///< above the highest that was attached
  std::array<Arrival, kBatch> batch_;
  KeptLists kept_lists_;
  bool control_rings_ = false;  ///< control has something to hear of
  Instant polled_at_ = kNever;
  unsigned first_ring_ = 0;        ///< modulo the workers: where the last poll() began
  unsigned first_port_ = 0;        ///< modulo port_count_: where the last poll() began
  Instant needed_until_ = kNever;  ///< the latest of all ports
  std::array<Allowance, kMadSourcePlaces> mad_sources_;
  uint32_t mad_psn_ = 0;
  Instant mad_waits_ = kNever;  ///< since when the next message of the CM has no room in its port
};

}  // namespace ulnet::rc::roce
