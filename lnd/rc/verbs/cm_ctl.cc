#include "lnd/rc/verbs/cm_ctl.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>

namespace ulnet::rc::verbs {
namespace {

constexpr int kNewsWaitMs = 5;        ///< control does not say that its ring has room again
constexpr int kRefusedWaitMs = 1000;  ///< until a device is to let go again of what it has refused

}  // namespace

CmThread::CmThread(std::vector<VerbsWorker*> workers, StuckBell& stuck)
    : workers_(std::move(workers)), stuck_(stuck), places_(workers_.size()) {
  stuck_.signal = &orders_signal_;
}

CmThread::~CmThread() {
  if (no_thread_ == 0) {
    stop_.store(true, std::memory_order_seq_cst);
    orders_signal_.raise();
    (void)pthread_join(thread_, nullptr);
  }
  close();
}

Result<void> CmThread::open() {
  for (Signal* signal : {&orders_signal_, &news_signal_})
    if (auto opened = signal->open(); !opened) return opened;
  return {};
}

/// Control, or the node's helper. The thread takes no signals: those are for the program's own threads.
bool CmThread::start() {
  std::call_once(started_, [this] {
    sigset_t all, before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const auto entry = [](void* self) -> void* {
      static_cast<CmThread*>(self)->run();
      return nullptr;
    };
    no_thread_ = pthread_create(&thread_, nullptr, entry, this);
    (void)pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (no_thread_ == 0) (void)pthread_setname_np(thread_, "ulnet-rdma");
  });
  errno = no_thread_;
  return no_thread_ == 0;
}

rdma_event_channel* CmThread::channel() {
  rdma_event_channel* channel = channel_.load(std::memory_order_relaxed);
  if (channel != nullptr) return channel;
  channel = rdma_create_event_channel();
  if (channel == nullptr) return nullptr;
  if (!start()) {
    rdma_destroy_event_channel(channel);
    errno = no_thread_;
    return nullptr;
  }
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags >= 0) (void)::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK);
  channel_.store(channel, std::memory_order_release);
  orders_signal_.raise();
  return channel;
}

bool CmThread::order(const Order& order) {
  if (!orders_.push(order)) return false;
  orders_signal_.raise();
  return true;
}

// --- The loop --------------------------------------------------------------------------------------------------------

void CmThread::run() {
  while (!stop_.load(std::memory_order_seq_cst)) {
    wait();
    while (turn()) {
    }
  }
}

/// True: there may be more.
bool CmThread::turn() {
  bool more = false;
  for (; !news_waiting_.empty() && news_.push(news_waiting_.front()); news_waiting_.pop_front()) news_signal_.raise();
  for (Order order; orders_.pop(order); more = true) obey(order);
  if (RegionJob* job = region_job_.exchange(nullptr, std::memory_order_acq_rel); job != nullptr) {
    run(*job);
    more = true;
  }
  if (stuck_.rung.exchange(false, std::memory_order_seq_cst) || refused_) refused_ = free_stuck();
  for (const auto& hca : hcas_) refused_ |= hca->free_refused();
  for (size_t left = early_.size(); left > 0; --left) {
    const CmEvent event = early_.front();
    early_.pop_front();
    on(event);
  }
  if (news_waiting_.empty()) more |= cm_events();
  for (size_t i = 0; i < hcas_.size(); ++i) device_events(*hcas_[i]);
  close_lost();
  return more && !stop_.load(std::memory_order_relaxed);
}

void CmThread::wait() {
  std::vector<pollfd> fds{{.fd = orders_signal_.fd(), .events = POLLIN, .revents = 0}};
  const rdma_event_channel* channel = channel_.load(std::memory_order_acquire);
  if (channel != nullptr && news_waiting_.empty()) fds.push_back({.fd = channel->fd, .events = POLLIN, .revents = 0});
  for (const auto& hca : hcas_)
    if (!hca->is_lost()) fds.push_back({.fd = hca->events_fd(), .events = POLLIN, .revents = 0});
  const bool waits = !news_waiting_.empty() || !early_.empty();
  (void)::poll(fds.data(), nfds_t(fds.size()), waits ? kNewsWaitMs : refused_ ? kRefusedWaitMs : -1);
  orders_signal_.clear();
}

/// Frees all that is left after the last turn. The workers are gone, or use nothing of this any more.
void CmThread::close() {
  for (auto& [id, conn] : conns_) {
    if (conn.cm != nullptr) (void)rdma_destroy_id(conn.cm);
    if (conn.qp != nullptr) conn.hca->unmake_qp(std::move(conn.qp));
  }
  for (rdma_cm_id* id : leaving_) (void)rdma_destroy_id(id);
  if (rdma_event_channel* channel = channel_.load(std::memory_order_relaxed)) rdma_destroy_event_channel(channel);
}

// --- News ------------------------------------------------------------------------------------------------------------

void CmThread::say(const News& news) {
  if (!news_waiting_.empty() || !news_.push(news)) news_waiting_.push_back(news);
  news_signal_.raise();
}

void CmThread::say(const CmConn& conn, EventKind kind, Cause cause, std::span<const std::byte> data) {
  News news;
  news.event.kind = kind;
  news.event.cause = cause;
  news.event.conn = conn.id;
  news.event.listener = conn.listener;
  if (kind == EventKind::kReady) news.event.qp = conn.qp.get();
  news.event.bytes = uint8_t(std::min(data.size(), news.event.data.size()));
  std::copy_n(data.begin(), news.event.bytes, news.event.data.begin());
  say(news);
}

// --- Orders ----------------------------------------------------------------------------------------------------------

CmConn* CmThread::find(ConnId id) {
  const auto found = conns_.find(id);
  return found == conns_.end() ? nullptr : &found->second;
}

void CmThread::obey(const Order& order) {
  if (order.kind == OrderKind::kListen) return listen(order);
  if (order.kind == OrderKind::kDial) return dial(order);
  if (order.kind == OrderKind::kUnlisten) {
    last_opening_ = std::max(last_opening_, order.opening);
    listeners_.erase(order.listener);
    return;
  }
  CmConn* conn = find(order.conn);
  ULNET_CHECK(conn != nullptr);
  switch (order.kind) {
    case OrderKind::kPrepare:
      conn->needs = order.needs;
      if (conn->phase == ConnPhase::kAsked) make_ready(*conn);
      return;
    case OrderKind::kReject:
      if (conn->cm != nullptr) (void)rdma_reject(conn->cm, order.data.data(), order.bytes);
      return destroy(*conn);
    case OrderKind::kProceed: return proceed(*conn, order);
    case OrderKind::kGiveUp: return give_up(*conn);
    case OrderKind::kDisconnect: return disconnect(*conn);
    case OrderKind::kDestroy: return destroy(*conn);
    default: return;
  }
}

void CmThread::listen(const Order& order) {
  last_opening_ = order.opening;
  Listener& listener = listeners_[order.listener];
  listener = {hca_of(order.device), order.port, order.opening};
  tell_device(order.listener, listener);
}

void CmThread::dial(const Order& order) {
  last_dial_ = order.conn;
  CmConn& conn = conns_[order.conn];
  conn.id = order.conn;
  conn.cm = order.id;
  conn.route_ms = order.route_ms;
  conn.needs = order.needs;
}

void CmThread::proceed(CmConn& conn, const Order& order) {
  if (conn.phase != ConnPhase::kReady) return;  // its kFailed is on the way
  rdma_conn_param param{};
  param.private_data = order.data.data();
  param.private_data_len = order.bytes;
  param.flow_control = 1;
  param.retry_count = conn.needs.retry_count;
  param.rnr_retry_count = conn.needs.rnr_retry_count;
  param.qp_num = conn.qp->qp->qp_num;
  if (conn.listener == 0) {
    if (rdma_connect(conn.cm, &param) != 0) return end(conn, Cause::kUnreachable);
    conn.phase = ConnPhase::kRequested;
    return;
  }
  if (!to_send(conn) || rdma_accept(conn.cm, &param) != 0) return end(conn, Cause::kResources);
  conn.phase = ConnPhase::kReplied;
}

/// No event of it follows. The id goes, and with it what the peer waits for.
void CmThread::give_up(CmConn& conn) {
  conn.phase = ConnPhase::kEnded;
  if (conn.cm != nullptr) (void)rdma_destroy_id(std::exchange(conn.cm, nullptr));
  end_qp(conn, Cause::kNoAnswer);
}

void CmThread::disconnect(CmConn& conn) {
  const bool up = conn.phase == ConnPhase::kUp;
  conn.phase = ConnPhase::kEnded;
  end_qp(conn, Cause::kClosed);
  if (conn.qp != nullptr) {
    conn.qp->disconnected.store(true, std::memory_order_release);
    workers_[conn.qp->worker.value]->bell().ring();
  }
  if (conn.cm == nullptr) return;
  if (up && rdma_disconnect(conn.cm) == 0) {
    conn.farewell = true;
    return;
  }
  (void)rdma_destroy_id(std::exchange(conn.cm, nullptr));
}

void CmThread::destroy(CmConn& conn) {
  if (conn.qp != nullptr) {
    Place& place = places_[conn.qp->worker.value];
    place.free.push_back(conn.qp->index);
    conn.hca->unmake_qp(std::move(conn.qp));
  }
  if (conn.cm != nullptr) {
    if (conn.farewell)
      leave(conn.cm);
    else
      (void)rdma_destroy_id(conn.cm);
  }
  conns_.erase(conn.id);
}

/// A peer that does not answer keeps the id for a minute. The DREQ is sent before.
void CmThread::leave(rdma_cm_id* id) {
  leaving_.push_back(id);
  if (leaving_.size() <= kLeavingMax) return;
  (void)rdma_destroy_id(leaving_.front());
  leaving_.pop_front();
}

// --- Ends ------------------------------------------------------------------------------------------------------------

void CmThread::end(CmConn& conn, Cause cause, std::span<const std::byte> data) {
  if (conn.phase == ConnPhase::kEnded) return;
  const bool up = conn.phase == ConnPhase::kUp;
  conn.phase = ConnPhase::kEnded;
  end_qp(conn, cause);
  say(conn, up ? EventKind::kClosed : EventKind::kFailed, cause, data);
}

/// From here on, no packet of the peer has an effect. The worker gets back what it has posted.
void CmThread::end_qp(CmConn& conn, Cause cause) {
  if (conn.qp == nullptr || conn.qp->qp == nullptr) return;
  Cause none = Cause::kNone;
  (void)conn.qp->cause.compare_exchange_strong(none, cause, std::memory_order_acq_rel);
  ibv_qp_attr error{};
  error.qp_state = IBV_QPS_ERR;
  (void)ibv_modify_qp(conn.qp->qp, &error, IBV_QP_STATE);
  workers_[conn.qp->worker.value]->bell().ring();
}

/// Queue pairs whose last completions do not come: without the queue pair, nothing is under way either. True: a device
/// has refused to let go of one, whose memory it may still use.
bool CmThread::free_stuck() {
  bool refused = false;
  for (auto& [id, conn] : conns_) {
    if (conn.qp == nullptr || conn.qp->qp == nullptr || !conn.qp->stuck.load(std::memory_order_acquire)) continue;
    if (!conn.hca->destroy_qp(*conn.qp)) {
      refused = true;
      continue;
    }
    conn.qp->gone.store(true, std::memory_order_release);
    workers_[conn.qp->worker.value]->bell().ring();
  }
  return refused;
}

}  // namespace ulnet::rc::verbs
