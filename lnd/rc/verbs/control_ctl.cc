#include "lnd/rc/verbs/control_ctl.h"

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "lnd/rc/verbs/address.h"

namespace ulnet::rc::verbs {
namespace {

constexpr int kBacklog = 128;
constexpr uint16_t kPrivilegedPorts = 1023;
/// Between attempts to open the listener of a device that is gone: at first, and at most. An attempt that finds a
/// device registers the memory of the node.
constexpr Duration kAgainAfter = 2s, kAgainMax = 60s;

void* pointer_of(uint64_t context) {
  return reinterpret_cast<void*>(uintptr_t(context));
}

int milliseconds(Duration span) {
  return int(std::clamp<int64_t>(span / 1ms, 1, INT32_MAX));
}

/// From a privileged port, or any. 0, or the errno.
int resolve(rdma_cm_id* id, const DialSpec& spec) {
  SocketAddress to = socket_address(spec.remote);
  for (uint16_t port = spec.privileged_port ? kPrivilegedPorts : 0;; --port) {
    SocketAddress from = socket_address({spec.local, port});
    if (rdma_resolve_addr(id, &from.any, &to.any, milliseconds(spec.resolve_max)) == 0) return 0;
    if (errno != EADDRINUSE || port <= 1) return errno;
  }
}

}  // namespace

VerbsControl::~VerbsControl() {
  for (const auto& [id, listener] : listeners_)
    if (listener.id != nullptr) (void)rdma_destroy_id(listener.id);
}

// --- Orders ----------------------------------------------------------------------------------------------------------

void VerbsControl::order(const Order& order) {
  if (!waiting_.empty() || !cm_.order(order)) waiting_.push_back(order);
}

void VerbsControl::orders_again() {
  while (!waiting_.empty() && cm_.order(waiting_.front())) waiting_.pop_front();
}

/// 0, or the errno.
int VerbsControl::open(ListenerId number, Listener& listener) {
  rdma_event_channel* channel = cm_.channel();
  if (channel == nullptr) return errno;
  rdma_cm_id* id = nullptr;
  Order order;
  order.opening = ++last_opening_;
  if (rdma_create_id(channel, &id, pointer_of(listener_context(order.opening)), RDMA_PS_TCP) != 0) return errno;
  SocketAddress address = socket_address(listener.at);
  int error = rdma_bind_addr(id, &address.any) != 0 ? errno : 0;
  if (error == 0 && id->verbs == nullptr) error = ENODEV;
  if (error == 0 && rdma_listen(id, kBacklog) != 0) error = errno;
  if (error != 0) {
    (void)rdma_destroy_id(id);
    order.kind = OrderKind::kUnlisten;  // the device may have been removed meanwhile, with an event
    this->order(order);
    return error;
  }
  listener.id = id;
  listener.again = kForever;
  order.kind = OrderKind::kListen;
  order.listener = number;
  order.device = id->verbs->device;
  order.port = id->port_num;
  this->order(order);
  return 0;
}

Result<ListenerId> VerbsControl::listen(const Endpoint& at) {
  if (cm_.channel() == nullptr) {
    switch (errno) {
      case EMFILE:
      case ENFILE: return fail(errno, "no file descriptor is left for RDMA devices");
      case EAGAIN: return fail(errno, "no thread is left for RDMA devices");
      case ENOMEM: return fail(errno, "no memory is left for RDMA devices");
      case EACCES:
      case EPERM: return fail(EACCES, "no right to open /dev/infiniband/rdma_cm");
      default:
        return fail(ENODEV,
                    "no RDMA device is on this machine (rdma link), or its kernel has no rdma_ucm (modprobe rdma_ucm)");
    }
  }
  const ListenerId number = last_listener_ + 1;
  Listener listener;
  listener.at = at;
  const int error = open(number, listener);
  switch (error) {
    case 0: break;
    case ENODEV:
    case EADDRNOTAVAIL:
      return fail(ENODEV, "no RDMA device has this address: rdma link shows the devices, rdma link add makes one");
    case EADDRINUSE: return fail(error, "another program listens at this RDMA port");
    case EACCES: return fail(error, "ports below 1024 need CAP_NET_BIND_SERVICE");
    default: return fail(error, "cannot listen at this RDMA port");
  }
  last_listener_ = number;
  listeners_[number] = listener;
  return number;
}

/// Listeners whose device was lost. A device with their address may have appeared.
void VerbsControl::open_again(Instant now) {
  for (auto& [number, listener] : listeners_)
    if (listener.again <= now && open(number, listener) != 0) listener.again = now + kAgainAfter;
}

void VerbsControl::unlisten(ListenerId id) {
  if (rdma_cm_id* open = listeners_.at(id).id) (void)rdma_destroy_id(open);
  listeners_.erase(id);
  Order order;
  order.kind = OrderKind::kUnlisten;
  order.listener = id;
  this->order(order);
}

Device VerbsControl::device(ListenerId id) const {
  const Listener& listener = listeners_.at(id);
  const DeviceFacts& facts = listener.facts;
  return {.name = facts.name.data(),
          .known = listener.known,
          .usable = facts.usable,
          .speed = facts.speed,
          .path_mtu = facts.path_mtu,
          .keys_end = facts.keys_end,
          .why_not = facts.why_not};
}

Result<ConnId> VerbsControl::dial(const DialSpec& spec, Instant now) {
  rdma_event_channel* channel = cm_.channel();
  if (channel == nullptr) return fail(EADDRNOTAVAIL, "this machine has no RDMA device");
  rdma_cm_id* id = nullptr;
  const ConnId number = last_conn_ + 2;
  if (rdma_create_id(channel, &id, pointer_of(conn_context(number)), RDMA_PS_TCP) != 0)
    return fail(errno, "cannot begin an RDMA connection");
  int yes = 1;
  (void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes);
  if (spec.needs.tos >= 0) {
    auto tos = uint8_t(spec.needs.tos);
    (void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos);
  }
  if (const int error = resolve(id, spec); error != 0) {
    (void)rdma_destroy_id(id);
    if (error == ENODEV || error == EADDRNOTAVAIL) return fail(EADDRNOTAVAIL, "no RDMA device has this address");
    if (error == EADDRINUSE) return fail(error, "no source port is left");
    return fail(error, "cannot begin an RDMA connection");
  }
  last_conn_ = number;
  conns_[number] = {.remote = spec.remote};
  limit(conns_[number], number, now + spec.answer_max);
  Order order;
  order.kind = OrderKind::kDial;
  order.conn = number;
  order.id = id;
  order.route_ms = uint32_t(milliseconds(spec.resolve_max));
  order.needs = spec.needs;
  this->order(order);
  return number;
}

void VerbsControl::prepare(ConnId id, const QpNeeds& needs, Instant) {
  Order order;
  order.kind = OrderKind::kPrepare;
  order.conn = id;
  order.needs = needs;
  this->order(order);
}

void VerbsControl::reject(ConnId id, std::span<const std::byte> private_data, Instant) {
  ULNET_CHECK(private_data.size() <= kRejectDataMax);
  Order order;
  order.kind = OrderKind::kReject;
  order.conn = id;
  order.bytes = uint8_t(private_data.size());
  std::copy(private_data.begin(), private_data.end(), order.data.begin());
  this->order(order);
  conns_.erase(id);
}

/// rdma_cm reports nothing to a passive side whose peer went away without an answer.
void VerbsControl::proceed(ConnId id, std::span<const std::byte> private_data, Instant now) {
  const bool active = id % 2 == 0;
  ULNET_CHECK(private_data.size() <= (active ? kRequestDataMax : kReplyDataMax));
  Conn& conn = conns_.at(id);
  if (!active && !conn.settled && !conn.over) limit(conn, id, now + kAnswerMax);
  Order order;
  order.kind = OrderKind::kProceed;
  order.conn = id;
  order.bytes = uint8_t(private_data.size());
  std::copy(private_data.begin(), private_data.end(), order.data.begin());
  this->order(order);
}

void VerbsControl::disconnect(ConnId id, Instant) {
  Conn& conn = conns_.at(id);
  no_limit(conn, id);
  conn.over = true;
  std::erase_if(events_, [&](const Event& event) { return event.conn == id; });
  Order order;
  order.kind = OrderKind::kDisconnect;
  order.conn = id;
  this->order(order);
}

void VerbsControl::destroy(ConnId id, Instant) {
  ULNET_CHECK(conns_.at(id).over);
  no_limit(conns_.at(id), id);
  conns_.erase(id);
  Order order;
  order.kind = OrderKind::kDestroy;
  order.conn = id;
  this->order(order);
}

// --- Events ----------------------------------------------------------------------------------------------------------

void VerbsControl::limit(Conn& conn, ConnId id, Instant until) {
  no_limit(conn, id);
  conn.until = until;
  limits_.emplace(until, id);
}

void VerbsControl::no_limit(Conn& conn, ConnId id) {
  limits_.erase({std::exchange(conn.until, kForever), id});
}

void VerbsControl::time_out(Instant now) {
  while (!limits_.empty() && limits_.begin()->first <= now) {
    const ConnId id = limits_.begin()->second;
    Conn& conn = conns_.at(id);
    no_limit(conn, id);
    conn.over = conn.settled = true;
    events_.push_back({.kind = EventKind::kFailed, .cause = Cause::kNoAnswer, .conn = id, .remote = conn.remote});
    Order order;
    order.kind = OrderKind::kGiveUp;
    order.conn = id;
    this->order(order);
  }
}

void VerbsControl::hear(const News& news, Instant now) {
  const Event& event = news.event;
  if (event.kind == EventKind::kDevice) {
    const auto listener = listeners_.find(event.listener);
    if (listener == listeners_.end()) return;
    Listener& heard = listener->second;
    heard.known = true;
    const DeviceFacts before = std::exchange(heard.facts, news.device);
    const bool same = before.gone && heard.facts.gone && std::string_view(before.why_not) == heard.facts.why_not;
    if (heard.facts.gone && heard.id != nullptr) {
      (void)rdma_destroy_id(std::exchange(heard.id, nullptr));  // the device cannot go before
      heard.again = now + heard.pause;
      heard.pause = std::min<Duration>(2 * heard.pause, kAgainMax);
    }
    if (!heard.facts.gone) heard.pause = kAgainAfter;
    if (!same) events_.push_back(event);
    return;
  }
  if (event.kind == EventKind::kRequest) {
    // A request that came before unlisten() was called.
    if (!listeners_.contains(event.listener)) {
      Order order;
      order.kind = OrderKind::kDestroy;
      order.conn = event.conn;
      return this->order(order);
    }
    conns_[event.conn] = {.remote = event.remote, .listener = event.listener};
    events_.push_back(event);
    return;
  }
  const auto conn = conns_.find(event.conn);
  if (conn == conns_.end() || conn->second.over) return;
  if (event.kind != EventKind::kReady) {
    no_limit(conn->second, event.conn);
    conn->second.settled = true;
  }
  events_.push_back(event);
  events_.back().remote = conn->second.remote;
}

unsigned VerbsControl::poll(std::span<Event> out, Instant now) {
  orders_again();
  cm_.news_signal().clear();
  open_again(now);
  News news;
  while (events_.size() < kNewsMax && cm_.take(news)) hear(news, now);
  if (!cm_.has_news()) time_out(now);  // this call may be late, and news in time
  unsigned count = 0;
  for (; count < out.size() && !events_.empty(); ++count) {
    out[count] = events_.front();
    events_.pop_front();
  }
  if (cm_.has_news()) cm_.news_signal().raise();
  return count;
}

Instant VerbsControl::next_deadline() {
  if (!events_.empty() || !waiting_.empty()) return kNever;
  Instant next = limits_.empty() ? kForever : limits_.begin()->first;
  for (const auto& [id, listener] : listeners_) next = std::min(next, listener.again);
  return next;
}

}  // namespace ulnet::rc::verbs
