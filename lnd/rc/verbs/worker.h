// The worker half of the verbs provider. The posts of a turn go to the device in flush(), as one list for each
// queue pair. Completions are taken in poll(). Thread: one worker; the interface says more (lnd/rc/rc.h).
#pragma once
#include <array>
#include <memory>

#include "lnd/rc/verbs/qp.h"

namespace ulnet::rc::verbs {

class VerbsWorker final : public Worker {
 public:
  /// `stuck` outlives this.
  VerbsWorker(WorkerId id, StuckBell& stuck) : id_(id), stuck_(stuck), table_(std::make_unique<VerbsQp*[]>(kQpsMax)) {}
  [[nodiscard]] Bell& bell() { return bell_; }

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
  static constexpr unsigned kBatch = 16;      ///< completions taken at once
  static constexpr Duration kNudgeLook = 5s;  ///< if nothing ends within it, a forgetful device gets a nudge

  [[nodiscard]] Posted begin(VerbsQp& qp, OpKind kind, uint64_t token, ibv_send_wr*& request);
  void mark_dirty(VerbsQp& qp);
  void await(VerbsQp& qp, uint64_t until);
  void look_at_awaited();
  void post_receives(VerbsQp& qp);
  [[nodiscard]] static bool waits(VerbsQp& qp, uint64_t count);
  void post_requests(VerbsQp& qp);
  void nudge(VerbsQp& qp);
  unsigned look_at_forgetful(Instant now);
  void post_failed(VerbsQp& qp);

  void add_queue(CompletionQueue& queue);
  void drop_queue(CompletionQueue& queue);
  [[nodiscard]] bool first_of_channel(unsigned index) const;
  void hear_channels();
  [[nodiscard]] bool arm(ibv_cq* cq, bool& armed);
  unsigned take(ibv_cq* cq, std::span<ibv_wc> out);
  [[nodiscard]] bool take_all(ibv_cq* cq, unsigned budget, unsigned& count, Instant now);
  void completed(const ibv_wc& wc, Instant now);
  void received(VerbsQp& qp, uint32_t buffer, const ibv_wc& wc, Instant now);
  void finish(VerbsQp& qp, uint64_t until, Instant now);
  void report(VerbsQp& qp, const Op& op, Instant now);
  void mark_ending(VerbsQp& qp);
  unsigned look_at_ends(bool all_taken, Instant now);
  unsigned look_at_end(VerbsQp& qp, bool all_taken, Instant now);

  const WorkerId id_;
  StuckBell& stuck_;
  Bell bell_;
  std::unique_ptr<VerbsQp*[]> table_;  ///< by VerbsQp::index
  List<VerbsQp, AllTag> all_;
  List<VerbsQp, DirtyTag> dirty_;      ///< something waits for flush()
  List<VerbsQp, ReadyTag> ready_;      ///< operations end without a completion
  List<VerbsQp, AwaitedTag> awaited_;  ///< with operations whose end wakes the worker, and some whose end has come
  List<VerbsQp, EndingTag> ending_;    ///< failed, or ended by the CM thread; not drained yet
  /// With queue pairs of this worker. Queues of one channel are side by side.
  std::array<CompletionQueue*, kDevicesMax * kQueuesMax> queues_{};
  unsigned queue_count_ = 0;
  Instant nudge_look_ = kForever;       ///< when to look at forgetful devices
  unsigned first_queue_ = 0;            ///< modulo queue_count_: where the last poll() began
  bool queue_dropped_ = false;          ///< in this call of poll()
  std::array<ibv_wc, kBatch> early_{};  ///< completions that pending() has found
  unsigned early_count_ = 0;
};

}  // namespace ulnet::rc::verbs
