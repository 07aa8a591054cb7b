// An RDMA device, as this provider has opened it: protection domain, completion queues, registered regions and the
// state of its ports. Thread: the CM thread, but for the functions that say otherwise.
#pragma once
#include <infiniband/verbs.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lnd/rc/verbs/messages.h"
#include "lnd/rc/verbs/qp.h"

namespace ulnet::rc::verbs {

class Hca {
 public:
  /// Null: the device cannot be opened. `workers`: of the node.
  [[nodiscard]] static std::unique_ptr<Hca> open(ibv_device* device, unsigned workers);
  /// Requires: no queue pair is left.
  ~Hca();
  Hca(const Hca&) = delete;
  Hca& operator=(const Hca&) = delete;

  [[nodiscard]] ibv_device* device() const { return context_->device; }
  [[nodiscard]] int events_fd() const { return context_->async_fd; }
  [[nodiscard]] ibv_context* context() const { return context_; }
  [[nodiscard]] DeviceFacts facts(uint8_t port);
  /// The device has failed, was removed, or cannot register its memory. Later it is opened again.
  void lost(const char* why_not = "the RDMA device is gone") {
    lost_ = true;
    why_not_ = why_not;
  }
  [[nodiscard]] bool is_lost() const { return lost_; }
  /// Its connection manager has no messages of InfiniBand, which o2iblnd needs.
  [[nodiscard]] bool is_iwarp() const { return device()->transport_type == IBV_TRANSPORT_IWARP; }

  /// Makes a queue pair as near to the needs as the device can; its state is INIT, by `init`. `index` and `generation`:
  /// its place in the worker's table. `conn` is ibv_qp::qp_context. Null: no resources.
  [[nodiscard]] std::unique_ptr<VerbsQp> make_qp(ConnId conn, const QpNeeds& needs, ibv_qp_attr init, int init_mask,
                                                 uint32_t index, uint16_t generation);
  /// The queue pair and its windows at the device. False: the device still has some of them. Requires: its worker does
  /// not use them.
  [[nodiscard]] bool destroy_qp(VerbsQp& qp);
  /// The same, with its memory. If the device refuses to let go, the rest stays with its memory.
  void unmake_qp(std::unique_ptr<VerbsQp> qp);
  /// Tries again to free what the device has refused to let go. True: some of it is left.
  bool free_refused();

  /// Any thread: registers memory, which takes seconds for much of it. Errors: those of the device.
  [[nodiscard]] Result<std::unique_ptr<RegionKeys>> region_register(RegionId region, std::span<std::byte> memory) const;
  /// Any thread. False: the device refuses to let go.
  [[nodiscard]] static bool region_deregister(const RegionKeys& keys) { return ibv_dereg_mr(keys.mr) == 0; }
  /// The workers may use the region from now on.
  void region_publish(std::unique_ptr<RegionKeys> keys);
  /// The workers do not use it any more. Null: there is none.
  [[nodiscard]] std::unique_ptr<RegionKeys> region_withdraw(RegionId region);
  /// The device has refused to let go of it.
  void region_keep(std::unique_ptr<RegionKeys> keys) { refused_regions_.push_back(std::move(keys)); }
  [[nodiscard]] bool has_region(RegionId region) const { return keys_.contains(region); }
  /// Its memory is registered, and connections can use it.
  [[nodiscard]] bool is_ready() const { return !is_lost() && why_not_[0] == 0; }
  /// All regions are registered, and the device may be used; or never, with the reason.
  void ready(const char* why_not) { why_not_ = why_not; }

 private:
  Hca() = default;
  [[nodiscard]] bool probe();
  [[nodiscard]] CompletionQueue* completions(WorkerId worker, uint32_t more);
  [[nodiscard]] std::unique_ptr<CompletionQueue> make_queue(ibv_comp_channel* channel, uint32_t size);
  [[nodiscard]] bool make_buffers(VerbsQp& qp);
  [[nodiscard]] bool let_go(int error) const;
  [[nodiscard]] bool free_qp(VerbsQp& qp);
  void make_windows(VerbsQp& qp, uint32_t count);

  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_device_attr attributes_{};
  bool windows_ = false;  ///< the device has memory windows of type 2
  bool lost_ = false;
  const char* why_not_ = "its memory is being registered";
  struct Completions {
    ibv_comp_channel* channel = nullptr;
    std::vector<std::unique_ptr<CompletionQueue>> queues;  ///< at most kQueuesMax
  };
  std::vector<Completions> completions_;   ///< by worker
  std::unique_ptr<RegionSlot[]> regions_;  ///< kRegionSlots
  std::map<RegionId, std::unique_ptr<RegionKeys>> keys_;
  std::vector<std::unique_ptr<VerbsQp>> refused_;  ///< the device has not let go of them
  /// The same. A window of a queue pair that is about to go may still name them.
  std::vector<std::unique_ptr<RegionKeys>> refused_regions_;
  std::map<uint8_t, uint32_t> best_mbps_;  ///< by port: the highest speed so far
};

}  // namespace ulnet::rc::verbs
