// Events of rdma_cm and of devices.
#include <algorithm>
#include <cerrno>

#include "lnd/rc/verbs/address.h"
#include "lnd/rc/verbs/cm_ctl.h"

namespace ulnet::rc::verbs {
namespace {

// Reasons in a REJ of the CM. Source: IBTA, 12.6.7.2.
constexpr int kInvalidServiceId = 8, kStaleConnection = 10, kConsumerReject = 28;

Cause cause_of_reject(int reason) {
  switch (reason) {
    case kInvalidServiceId: return Cause::kNoListener;
    case kStaleConnection: return Cause::kStale;
    case kConsumerReject: return Cause::kRejected;
    default: return Cause::kRefused;
  }
}

CmEvent copy_of(const rdma_cm_event& event) {
  CmEvent copy;
  copy.type = event.event;
  copy.status = event.status;
  copy.id = event.id;
  const rdma_cm_id* owner = event.event == RDMA_CM_EVENT_CONNECT_REQUEST ? event.listen_id : event.id;
  copy.context = uint64_t(reinterpret_cast<uintptr_t>(owner->context));
  const rdma_conn_param& param = event.param.conn;
  if (param.private_data != nullptr) {
    copy.bytes = uint8_t(std::min<size_t>(param.private_data_len, copy.data.size()));
    std::copy_n(static_cast<const std::byte*>(param.private_data), copy.bytes, copy.data.begin());
  }
  return copy;
}

std::span<const std::byte> data_of(const CmEvent& event) {
  return {event.data.data(), event.bytes};
}

}  // namespace

bool CmThread::cm_events() {
  rdma_event_channel* channel = channel_.load(std::memory_order_acquire);
  rdma_cm_event* event = nullptr;
  if (channel == nullptr || rdma_get_cm_event(channel, &event) != 0) return false;
  const CmEvent copy = copy_of(*event);
  (void)rdma_ack_cm_event(event);
  on(copy);
  return true;
}

void CmThread::on(const CmEvent& event) {
  if (std::erase(leaving_, event.id) > 0) {
    (void)rdma_destroy_id(event.id);
    return;
  }
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return on_request(event);
  if ((event.context & 1) != 0) {  // a listener
    if (event.type != RDMA_CM_EVENT_DEVICE_REMOVAL) return;
    if (event.context >> 1 > last_opening_) return early_.push_back(event);
    const auto listener = listener_at(event.context >> 1);
    if (listener != listeners_.end() && listener->second.hca != nullptr) device_lost(*listener->second.hca);
    return;
  }
  const ConnId id = event.context >> 1;
  if (CmConn* conn = find(id)) return on_conn(*conn, event);
  if (id % 2 == 0 && id > last_dial_) early_.push_back(event);  // its order is on its way
}

std::map<ListenerId, CmThread::Listener>::iterator CmThread::listener_at(uint64_t opening) {
  return std::find_if(listeners_.begin(), listeners_.end(),
                      [&](const auto& one) { return one.second.opening == opening; });
}

namespace {

/// The source of a REQ. rdma_cm gives the address that the sender wrote into the private data. Over RoCE with IPv4, the
/// queue pair is connected to the address in the GID, so the GID counts.
Endpoint source_of(const rdma_cm_id& id) {
  Endpoint source = endpoint_of(id.route.addr.dst_addr);
  IpAddress gid;
  std::copy_n(id.route.addr.addr.ibaddr.dgid.raw, gid.bytes.size(), gid.bytes.begin());
  if (gid.is_v4()) source.address = gid;
  return source;
}

}  // namespace

void CmThread::on_request(const CmEvent& event) {
  const auto listener = listener_at(event.context >> 1);
  if (listener == listeners_.end()) {
    if (event.context >> 1 > last_opening_) return early_.push_back(event);
    (void)rdma_destroy_id(event.id);  // nobody listens any more: this rejects
    return;
  }
  next_passive_ += 2;
  CmConn& conn = conns_[next_passive_];
  conn.id = next_passive_;
  conn.listener = listener->first;
  conn.cm = event.id;
  conn.phase = ConnPhase::kAsked;
  event.id->context = reinterpret_cast<void*>(uintptr_t(conn_context(conn.id)));
  News news;
  news.event.kind = EventKind::kRequest;
  news.event.conn = conn.id;
  news.event.listener = listener->first;
  news.event.remote = source_of(*event.id);
  news.event.bytes = uint8_t(std::min<size_t>(event.bytes, kRequestDataMax));
  std::copy_n(event.data.begin(), news.event.bytes, news.event.data.begin());
  say(news);
}

void CmThread::on_conn(CmConn& conn, const CmEvent& event) {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (conn.phase != ConnPhase::kResolving) return;
      if (rdma_resolve_route(conn.cm, int(conn.route_ms)) != 0) end(conn, Cause::kUnreachable);
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (conn.phase == ConnPhase::kResolving) make_ready(conn);
      return;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      if (conn.phase != ConnPhase::kRequested) return;
      if (!to_send(conn) || rdma_establish(conn.cm) != 0) {
        (void)rdma_reject(conn.cm, nullptr, 0);
        return end(conn, Cause::kResources);
      }
      conn.phase = ConnPhase::kUp;
      return say(conn, EventKind::kEstablished, Cause::kNone, data_of(event));
    case RDMA_CM_EVENT_ESTABLISHED:
      if (conn.phase != ConnPhase::kReplied) return;
      conn.phase = ConnPhase::kUp;
      return say(conn, EventKind::kEstablished);
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR: return end(conn, Cause::kUnreachable);
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR: return end(conn, event.status == -ETIMEDOUT ? Cause::kNoAnswer : Cause::kRefused);
    case RDMA_CM_EVENT_REJECTED: return end(conn, cause_of_reject(event.status), data_of(event));
    case RDMA_CM_EVENT_DISCONNECTED:
      conn.farewell = false;
      if (conn.phase == ConnPhase::kUp) (void)rdma_disconnect(conn.cm);  // answers the DREQ
      return end(conn, Cause::kPeerClosed);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      if (conn.hca != nullptr) device_lost(*conn.hca);
      return end(conn, Cause::kDevice);
    default: return;
  }
}

// --- Devices ---------------------------------------------------------------------------------------------------------

void CmThread::tell_device(ListenerId id, const Listener& listener) {
  News news;
  news.event.kind = EventKind::kDevice;
  news.event.listener = id;
  if (listener.hca != nullptr) {
    news.device = listener.hca->facts(listener.port);
  } else {
    news.device.gone = true;
    news.device.why_not = "the RDMA device cannot be opened";
  }
  say(news);
}

void CmThread::device_lost(Hca& hca) {
  if (hca.is_lost()) return;
  hca.lost();
  for (auto& [id, conn] : conns_)
    if (conn.hca == &hca) end(conn, Cause::kDevice);
  for (const auto& [id, listener] : listeners_)
    if (listener.hca == &hca) tell_device(id, listener);
}

/// Closes lost devices without connections. The workers have dropped their queues with the last queue pair.
void CmThread::close_lost() {
  if (region_under_way_) return;
  const auto unused = [this](const std::unique_ptr<Hca>& hca) {
    return hca->is_lost() &&
           std::none_of(conns_.begin(), conns_.end(), [&](const auto& one) { return one.second.hca == hca.get(); });
  };
  for (const auto& hca : hcas_) {
    if (!unused(hca)) continue;
    for (auto& [id, listener] : listeners_)
      if (listener.hca == hca.get()) listener.hca = nullptr;
  }
  std::erase_if(hcas_, unused);
}

void CmThread::device_events(Hca& hca) {
  if (hca.is_lost()) return;
  ibv_async_event event{};
  while (ibv_get_async_event(hca.context(), &event) == 0) {
    on_device(hca, event);
    ibv_ack_async_event(&event);
  }
  if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) device_lost(hca);
}

void CmThread::on_device(Hca& hca, const ibv_async_event& event) {
  const auto conn_of = [&]() -> CmConn* {
    return find(ConnId(reinterpret_cast<uintptr_t>(event.element.qp->qp_context)));
  };
  switch (event.event_type) {
    case IBV_EVENT_COMM_EST:
      if (CmConn* conn = conn_of(); conn != nullptr && conn->phase == ConnPhase::kReplied)
        (void)rdma_notify(conn->cm, IBV_EVENT_COMM_EST);
      return;
    case IBV_EVENT_QP_FATAL:
      if (CmConn* conn = conn_of()) end(*conn, Cause::kLocal);
      return;
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      if (CmConn* conn = conn_of()) end(*conn, Cause::kRemoteAccess);
      return;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_DEVICE_FATAL: return device_lost(hca);
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
      for (const auto& [id, listener] : listeners_)
        if (listener.hca == &hca) tell_device(id, listener);
      return;
    default: return;
  }
}

}  // namespace ulnet::rc::verbs
