// The thread of the verbs provider on which everything may block: rdma_cm, queue pairs, and what devices report.
// Memory is registered by the node's helper, but for a device that appears later. Control sends orders and gets news.
// Nothing here reads a clock: the time limits of connections are control's. Thread: the CM thread, but for the
// functions that say otherwise.
#pragma once
#include <pthread.h>
#include <rdma/rdma_cma.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "dataplane/base/ring.h"
#include "lnd/rc/verbs/hca_ctl.h"
#include "lnd/rc/verbs/messages.h"
#include "lnd/rc/verbs/worker.h"

namespace ulnet::rc::verbs {

enum class ConnPhase : uint8_t {
  kResolving,  ///< active: address, then route
  kAsked,      ///< passive: a REQ has come
  kReady,      ///< the queue pair is there, kProceed is to come
  kRequested,  ///< active: the REQ is sent
  kReplied,    ///< passive: the REP is sent
  kUp,
  kEnded
};
struct CmConn {
  ConnId id = 0;
  ListenerId listener = 0;  ///< passive
  rdma_cm_id* cm = nullptr;
  Hca* hca = nullptr;
  ConnPhase phase = ConnPhase::kResolving;
  bool farewell = false;  ///< the DREQ is sent, and not answered
  uint32_t route_ms = 0;
  QpNeeds needs;
  std::unique_ptr<VerbsQp> qp;
};

/// An event of rdma_cm, copied: an event that is kept lets rdma_destroy_id() wait.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  uint64_t context = 0;  ///< of the id, or of the listener's for a request
  uint8_t bytes = 0;
  std::array<std::byte, kReplyDataMax> data{};
};

/// rdma_cm_id::context: of a listener, or of a connection. A listener gets a new number each time it opens. The numbers
/// of connections that this node began are even.
[[nodiscard]] constexpr uint64_t listener_context(uint64_t opening) {
  return opening << 1 | 1;
}
[[nodiscard]] constexpr uint64_t conn_context(ConnId id) {
  return id << 1;
}

inline constexpr size_t kLeavingMax = 256;

class CmThread {
 public:
  /// `stuck` outlives this.
  CmThread(std::vector<VerbsWorker*> workers, StuckBell& stuck);
  /// Any thread: ends the thread, and frees what is left.
  ~CmThread();
  CmThread(const CmThread&) = delete;
  CmThread& operator=(const CmThread&) = delete;
  /// Control, once, before all others. The thread starts with the first device, or the first region. Errors: EMFILE.
  [[nodiscard]] Result<void> open();

  // --- Control ---
  /// Null: this machine has no RDMA device, or rdma_cm or a thread is missing (errno).
  [[nodiscard]] rdma_event_channel* channel();
  [[nodiscard]] bool order(const Order& order);
  [[nodiscard]] bool take(News& news) { return news_.pop(news); }
  [[nodiscard]] bool has_news() const { return !news_.empty(); }
  [[nodiscard]] Signal& news_signal() { return news_signal_; }

  // --- The node's helper, one call at a time: it registers, and waits for the CM thread between ---
  [[nodiscard]] Result<void> region_add(RegionId region, std::span<std::byte> memory);
  void region_remove(RegionId region);

 private:
  enum class RegionStep : uint8_t {
    kPublish,   ///< publish `shares`; then the CM thread names the devices that lack the region
    kWithdraw,  ///< the CM thread takes the region from all devices, and hands out `shares`
    kEnd        ///< of kWithdraw: the devices have refused to let go of `shares`
  };
  /// Passes between the helper and the CM thread while a region is added or removed.
  struct RegionJob {
    struct Share {
      Hca* hca = nullptr;
      std::unique_ptr<RegionKeys> keys;
    };
    RegionStep step = RegionStep::kPublish;
    RegionId region{};
    std::span<std::byte> memory;
    std::vector<Share> shares;
    bool refused = false;  ///< a device that is there cannot register the memory
  };
  struct Place {  // of a worker's table
    std::vector<uint16_t> generations;
    std::vector<uint32_t> free;
  };
  struct Listener {
    Hca* hca = nullptr;
    uint8_t port = 0;
    uint64_t opening = 0;
  };

  // cm_ctl.cc: the loop, and orders.
  [[nodiscard]] bool start();
  void run();
  bool turn();
  void wait();
  void obey(const Order& order);
  void listen(const Order& order);
  void dial(const Order& order);
  void proceed(CmConn& conn, const Order& order);
  void give_up(CmConn& conn);
  void disconnect(CmConn& conn);
  void destroy(CmConn& conn);
  void leave(rdma_cm_id* id);
  void say(const News& news);
  void say(const CmConn& conn, EventKind kind, Cause cause = Cause::kNone, std::span<const std::byte> data = {});
  void end(CmConn& conn, Cause cause, std::span<const std::byte> data = {});
  void end_qp(CmConn& conn, Cause cause);
  [[nodiscard]] bool free_stuck();
  void close();

  // cm_regions_ctl.cc: the helper's half, and the CM thread's.
  void run(RegionJob& job);
  void pass(RegionJob& job, RegionStep step);
  void take_back(RegionJob& job);
  void publish(RegionJob& job);
  void withdraw(RegionJob& job);

  // cm_events_ctl.cc: events of rdma_cm and of devices.
  bool cm_events();
  void on(const CmEvent& event);
  void on_conn(CmConn& conn, const CmEvent& event);
  void on_request(const CmEvent& event);
  void device_events(Hca& hca);
  void on_device(Hca& hca, const ibv_async_event& event);
  void device_lost(Hca& hca);
  void close_lost();
  void tell_device(ListenerId id, const Listener& listener);
  [[nodiscard]] std::map<ListenerId, Listener>::iterator listener_at(uint64_t opening);

  // cm_setup_ctl.cc: devices and queue pairs.
  [[nodiscard]] Hca* hca_of(ibv_device* device);
  void make_ready(CmConn& conn);
  [[nodiscard]] bool to_send(CmConn& conn);
  [[nodiscard]] CmConn* find(ConnId id);

  const std::vector<VerbsWorker*> workers_;
  std::once_flag started_;
  pthread_t thread_{};
  int no_thread_ = -1;  ///< 0: the thread runs; -1: it was not started; else why it could not
  std::atomic<bool> stop_{false};
  std::atomic<rdma_event_channel*> channel_{nullptr};
  Signal orders_signal_, news_signal_;
  SpscRing<Order> orders_{kOrdersMax};
  SpscRing<News> news_{kNewsMax};
  std::atomic<RegionJob*> region_job_{nullptr};
  std::atomic<bool> region_done_{false};
  StuckBell& stuck_;

  std::deque<News> news_waiting_;
  std::deque<CmEvent> early_;                         ///< of ids whose order is on its way
  std::map<RegionId, std::span<std::byte>> regions_;  ///< that all devices have
  bool region_under_way_ = false;                     ///< the helper uses devices
  std::vector<std::unique_ptr<Hca>> hcas_;
  std::map<ListenerId, Listener> listeners_;
  std::map<ConnId, CmConn> conns_;
  /// Whose connection is gone: until the DREQ is answered. At most kLeavingMax, oldest first.
  std::deque<rdma_cm_id*> leaving_;
  std::vector<Place> places_;  ///< by worker
  uint64_t last_opening_ = 0;
  ConnId last_dial_ = 0, next_passive_ = 1;
  bool refused_ = false;  ///< a device has not let go of all that it was to free
};

}  // namespace ulnet::rc::verbs
