#include "tests/unit/rc/fake_rdma.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#undef ibv_query_port
#undef ibv_reg_mr

namespace ulnet::test {
namespace {

std::unique_ptr<FakeRdma>& all() {
  static std::unique_ptr<FakeRdma> one = std::make_unique<FakeRdma>();  // NOLINT
  return one;
}

FakeDevice& device_of(ibv_context* context) {
  return *static_cast<FakeDevice*>(context->abi_compat);
}

int poll_cq(ibv_cq* cq, int most, ibv_wc* out) {
  const std::lock_guard lock(fake().mutex);
  auto& waiting = fake().completions[cq];
  int count = 0;
  for (; count < most && !waiting.empty(); waiting.pop_front()) out[count++] = waiting.front();
  return count;
}

int post_send(ibv_qp*, ibv_send_wr* first, ibv_send_wr**) {
  const std::lock_guard lock(fake().mutex);
  for (; first != nullptr; first = first->next) {
    fake().sends.push_back(first->wr_id);
  }
  return 0;
}

int post_recv(ibv_qp*, ibv_recv_wr* first, ibv_recv_wr**) {
  const std::lock_guard lock(fake().mutex);
  for (; first != nullptr; first = first->next) fake().receives.push_back(first->wr_id);
  return 0;
}

void raise(int fd) {
  const uint64_t one = 1;
  (void)!::write(fd, &one, sizeof one);
}

int notify(ibv_cq* cq, int) {
  const std::lock_guard lock(fake().mutex);
  fake().armed.insert(cq);
  return 0;
}

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type) {
  const std::lock_guard lock(fake().mutex);
  auto* mw = new ibv_mw{};
  mw->context = pd->context;
  fake().windows.insert(mw);
  return mw;
}

int dealloc_mw(ibv_mw* mw) {
  const std::lock_guard lock(fake().mutex);
  if (fake().refuse_window > 0) {
    --fake().refuse_window;
    return EBUSY;
  }
  fake().windows.erase(mw);
  delete mw;
  return 0;
}

}  // namespace

FakeDevice::FakeDevice() {
  device.transport_type = IBV_TRANSPORT_IB;
  std::strcpy(device.name, "fake0");  // NOLINT
  context.device = &device;
  context.abi_compat = this;
  context.async_fd = -1;
  context.ops.poll_cq = poll_cq;
  context.ops.post_send = post_send;
  context.ops.post_recv = post_recv;
  context.ops.req_notify_cq = notify;
  context.ops.alloc_mw = alloc_mw;
  context.ops.dealloc_mw = dealloc_mw;
}

FakeRdma& fake() {
  return *all();
}

FakeRdma::~FakeRdma() {
  for (rdma_cm_id* id : destroyed) delete id;
}

void fake_reset() {
  all() = std::make_unique<FakeRdma>();
}

void complete(ibv_cq* cq, uint64_t name, ibv_wc_status status) {
  ibv_wc wc{};
  wc.wr_id = name;
  wc.status = status;
  const std::lock_guard lock(fake().mutex);
  fake().completions[cq].push_back(wc);
  if (fake().armed.erase(cq) == 1) fake().cq_events.push_back(cq);
}

void cm_event(rdma_cm_id* id, rdma_cm_event_type type) {
  rdma_cm_event event{};
  event.id = id;
  event.event = type;
  const std::lock_guard lock(fake().mutex);
  fake().events.push_back(event);
  raise(fake().channel->fd);
}

void cm_request(rdma_cm_id* listener, rdma_cm_id* id) {
  rdma_cm_event event{};
  event.id = id;
  event.listen_id = listener;
  event.event = RDMA_CM_EVENT_CONNECT_REQUEST;
  const std::lock_guard lock(fake().mutex);
  fake().events.push_back(event);
  raise(fake().channel->fd);
}

void async_event(ibv_context* context, ibv_event_type type, ibv_qp* qp) {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = qp;
  const std::lock_guard lock(fake().mutex);
  fake().async_events[context].push_back(event);
  raise(context->async_fd);
}

}  // namespace ulnet::test

using ulnet::test::cm_event;
using ulnet::test::fake;

extern "C" {

ibv_context* ibv_open_device(ibv_device* device) {
  // The device is the first member.
  auto* one = reinterpret_cast<ulnet::test::FakeDevice*>(device);
  const std::lock_guard lock(fake().mutex);
  one->context.async_fd = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  fake().open.insert(one);
  return &one->context;
}

/// The kernel frees what is left.
int ibv_close_device(ibv_context* context) {
  const std::lock_guard lock(fake().mutex);
  const auto free_of = [&](auto& all) {
    std::erase_if(all, [&](auto* one) {
      if (one->context != context) return false;
      delete one;
      return true;
    });
  };
  free_of(fake().qps);
  free_of(fake().windows);
  free_of(fake().cqs);
  std::erase_if(fake().regions, [&](const auto& one) {
    if (one.second != context) return false;
    delete one.first;
    return true;
  });
  ::close(context->async_fd);
  fake().open.erase(&ulnet::test::device_of(context));
  return 0;
}

const char* ibv_get_device_name(ibv_device* device) {
  return device->name;
}

int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  *out = {};
  out->max_cqe = ulnet::test::device_of(context).max_cqe;
  out->max_qp_wr = 1 << 14;
  out->vendor_id = ulnet::test::device_of(context).vendor_id;
  out->max_sge = 16;
  out->device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  return 0;
}

int ibv_query_port(ibv_context*, uint8_t, _compat_ibv_port_attr* compat) {
  auto* out = reinterpret_cast<ibv_port_attr*>(compat);
  out->state = IBV_PORT_ACTIVE;
  out->active_mtu = IBV_MTU_4096;
  out->active_speed = 32;
  out->active_width = 2;
  out->link_layer = IBV_LINK_LAYER_INFINIBAND;
  return 0;
}

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  return new ibv_pd{context, 0};
}

int ibv_dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return new ibv_comp_channel{context, ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), 0};
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  ::close(channel->fd);
  delete channel;
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int size, void* cq_context, ibv_comp_channel* channel, int) {
  if (size > ulnet::test::device_of(context).max_cqe) return nullptr;
  const std::lock_guard lock(fake().mutex);
  auto* cq = new ibv_cq{};
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = size;
  fake().cqs.insert(cq);
  return cq;
}

int ibv_destroy_cq(ibv_cq* cq) {
  const std::lock_guard lock(fake().mutex);
  fake().cqs.erase(cq);
  delete cq;
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** context) {
  const std::lock_guard lock(fake().mutex);
  auto& events = fake().cq_events;
  const auto at =
      std::find_if(events.begin(), events.end(), [&](const ibv_cq* one) { return one->channel == channel; });
  if (at == events.end()) {
    errno = fake().channel_error;
    return -1;
  }
  *cq = *at;
  *context = (*at)->cq_context;
  events.erase(at);
  return 0;
}

void ibv_ack_cq_events(ibv_cq*, unsigned) {}

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* wanted) {
  const std::lock_guard lock(fake().mutex);
  auto* qp = new ibv_qp{};
  qp->context = pd->context;
  qp->qp_context = wanted->qp_context;
  fake().qps.insert(qp);
  return qp;
}

int ibv_modify_qp(ibv_qp*, ibv_qp_attr*, int) {
  return 0;
}

int ibv_destroy_qp(ibv_qp* qp) {
  const std::lock_guard lock(fake().mutex);
  if (fake().refuse_qp > 0) {
    --fake().refuse_qp;
    return EBUSY;
  }
  fake().qps.erase(qp);
  delete qp;
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* memory, size_t bytes, int) {
  if (fake().registering) fake().registering(pd->context);
  const std::lock_guard lock(fake().mutex);
  fake().registered_by.push_back(std::this_thread::get_id());
  if (fake().no_memory == pd->context) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = memory;
  mr->length = bytes;
  fake().regions[mr] = pd->context;
  return mr;
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* memory, size_t bytes, uint64_t, unsigned access) {
  return ibv_reg_mr(pd, memory, bytes, int(access));
}

int ibv_dereg_mr(ibv_mr* mr) {
  const std::lock_guard lock(fake().mutex);
  if (fake().refuse_mr > 0) {
    --fake().refuse_mr;
    return EBUSY;
  }
  fake().regions.erase(mr);
  delete mr;
  return 0;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* out) {
  const std::lock_guard lock(fake().mutex);
  auto& waiting = fake().async_events[context];
  if (waiting.empty()) {
    uint64_t count = 0;
    (void)!::read(context->async_fd, &count, sizeof count);
    errno = EAGAIN;
    return -1;
  }
  *out = waiting.front();
  waiting.pop_front();
  return 0;
}

void ibv_ack_async_event(ibv_async_event*) {}

rdma_event_channel* rdma_create_event_channel() {
  if (fake().no_channel != 0) {
    errno = fake().no_channel;
    return nullptr;
  }
  return fake().channel = new rdma_event_channel{::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
}

void rdma_destroy_event_channel(rdma_event_channel* channel) {
  ::close(channel->fd);
  delete channel;
}

int rdma_get_cm_event(rdma_event_channel*, rdma_cm_event** out) {
  const std::lock_guard lock(fake().mutex);
  if (fake().events.empty()) {
    uint64_t count = 0;
    (void)!::read(fake().channel->fd, &count, sizeof count);
    errno = EAGAIN;
    return -1;
  }
  *out = new rdma_cm_event(fake().events.front());
  fake().events.pop_front();
  return 0;
}

int rdma_ack_cm_event(rdma_cm_event* event) {
  delete event;
  return 0;
}

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** out, void* context, rdma_port_space) {
  const std::lock_guard lock(fake().mutex);
  *out = new rdma_cm_id{};
  (*out)->channel = channel;
  (*out)->context = context;
  fake().ids.insert(*out);
  return 0;
}

int rdma_bind_addr(rdma_cm_id* id, sockaddr*) {
  const std::lock_guard lock(fake().mutex);
  errno = ENODEV;
  if (fake().at_address == nullptr) return -1;
  id->verbs = &fake().at_address->context;
  id->port_num = 1;
  return 0;
}

int rdma_listen(rdma_cm_id*, int) {
  return 0;
}

int rdma_set_option(rdma_cm_id*, int, int, void*, size_t) {
  return 0;
}

int rdma_resolve_addr(rdma_cm_id* id, sockaddr*, sockaddr* to, int) {
  if (rdma_bind_addr(id, to) != 0) return -1;
  cm_event(id, RDMA_CM_EVENT_ADDR_RESOLVED);
  return 0;
}

int rdma_resolve_route(rdma_cm_id* id, int) {
  cm_event(id, RDMA_CM_EVENT_ROUTE_RESOLVED);
  return 0;
}

int rdma_destroy_id(rdma_cm_id* id) {
  const std::lock_guard lock(fake().mutex);
  fake().ids.erase(id);
  std::erase_if(fake().events, [&](const rdma_cm_event& event) { return event.id == id; });
  fake().destroyed.push_back(id);
  return 0;
}

int rdma_disconnect(rdma_cm_id*) {
  return 0;
}

int rdma_connect(rdma_cm_id* id, rdma_conn_param*) {
  cm_event(id, RDMA_CM_EVENT_CONNECT_RESPONSE);
  return 0;
}

int rdma_accept(rdma_cm_id*, rdma_conn_param*) {
  return 0;
}

int rdma_establish(rdma_cm_id*) {
  return 0;
}

int rdma_init_qp_attr(rdma_cm_id*, ibv_qp_attr*, int*) {
  return 0;
}

}  // extern "C"
