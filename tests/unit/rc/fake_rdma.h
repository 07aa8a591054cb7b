// A stand-in for rdma-core: the functions that lnd/rc/verbs calls, without a device. The test program defines them, so
// the linker takes them in place of the libraries. Tests decide which completions come, and what a device refuses.
// Thread: any; a function that the CM thread calls takes the mutex.
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace ulnet::test {

/// A device that can be opened.
struct FakeDevice {
  FakeDevice();
  ibv_device device{};
  ibv_context context{};
  int max_cqe = 1 << 16;
  uint32_t vendor_id = 0;
};

/// All that devices have handed out, and how they behave. One for the program; each test begins with a new one.
struct FakeRdma {
  std::mutex mutex;
  std::set<FakeDevice*> open;
  std::set<ibv_qp*> qps;
  std::set<ibv_cq*> cqs;
  std::set<ibv_mw*> windows;
  std::map<ibv_mr*, ibv_context*> regions;
  std::map<ibv_cq*, std::deque<ibv_wc>> completions;
  std::set<ibv_cq*> armed;                ///< the next completion makes an event
  std::deque<ibv_cq*> cq_events;          ///< not taken yet
  std::vector<uint64_t> sends, receives;  ///< names of requests, as they were posted
  std::vector<std::thread::id> registered_by;
  unsigned refuse_qp = 0, refuse_mr = 0, refuse_window = 0;  ///< destroy calls that fail
  ibv_context* no_memory = nullptr;                          ///< cannot register
  std::function<void(ibv_context* context)> registering;     ///< called by ibv_reg_mr(), without the mutex
  std::map<ibv_context*, std::deque<ibv_async_event>> async_events;
  int channel_error = EAGAIN;        ///< errno of ibv_get_cq_event(), if there is no event
  int no_channel = 0;                ///< errno of rdma_create_event_channel()
  FakeDevice* at_address = nullptr;  ///< the device that all addresses belong to
  std::set<rdma_cm_id*> ids;
  std::vector<rdma_cm_id*> destroyed;  ///< in order
  std::deque<rdma_cm_event> events;
  rdma_event_channel* channel = nullptr;
  ~FakeRdma();
};
[[nodiscard]] FakeRdma& fake();
void fake_reset();
/// A completion of the request with this name.
void complete(ibv_cq* cq, uint64_t name, ibv_wc_status status = IBV_WC_SUCCESS);
void cm_event(rdma_cm_id* id, rdma_cm_event_type type);
/// A REQ that has come to a listener.
void cm_request(rdma_cm_id* listener, rdma_cm_id* id);
void async_event(ibv_context* context, ibv_event_type type, ibv_qp* qp = nullptr);

}  // namespace ulnet::test
