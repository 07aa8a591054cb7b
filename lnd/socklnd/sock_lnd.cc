#include "lnd/socklnd/sock_lnd.h"

#include <algorithm>
#include <array>

#include "lnd/socklnd/conn_rx.h"
#include "lnd/socklnd/conn_set.h"
#include "lnd/socklnd/conn_tx.h"
#include "lnd/socklnd/socklnd.h"
#include "lnd/socklnd/status.h"
#include "lnd/socklnd/timers.h"

namespace ulnet::socklnd {

uint32_t SockWorker::bucket_index(NiId ni, PeerNiId peer_ni) const {
  const uint64_t key = ((uint64_t{ni.value} << 32) | peer_ni.value) * 0x9E3779B97F4A7C15ull;
  return uint32_t(key >> 32) % config.set_buckets;
}

ConnSet* SockWorker::find_set(NiId ni, PeerNiId peer_ni, uint32_t pid) {
  auto& chain = bucket(ni, peer_ni);
  for (ConnSet* set = chain.front(); set != nullptr; set = chain.after(*set))
    if (set->ni == ni && set->peer_ni == peer_ni && set->pid == pid) return set;
  return nullptr;
}

void SockLnd::submit(Tx& tx, Instant now) {
  SockWorker& w = worker_;
  w.now = now;
  ++w.tx_count;
  std::fill(std::begin(tx.lnd), std::end(tx.lnd), 0);
  // A user-space peer has its own set under its made-up pid, and is never dialled (docs/wire/socklnd.md §4).
  const bool user = !tx.routed && tx.header.dest_pid != kAnyPid && (tx.header.dest_pid & kUserPidFlag) != 0;
  if (ConnSet* set = w.find_set(tx.ni, tx.peer_ni, user ? tx.header.dest_pid : kLnetPid))
    return set_submit(w, *set, tx);
  if (user) return w.finish(tx, {-EHOSTUNREACH, LndStatus::kRemoteError});
  orphan_add(w, tx);
}

Instant SockLnd::moved(NiId ni, PeerNiId peer_ni, Instant now) {
  worker_.now = now;
  ConnSet* set = worker_.find_set(ni, peer_ni, kLnetPid);
  if (set == nullptr || set->conns.empty()) return kNever;
  bool waits = false;
  Instant moved = set->last_received;
  for (Conn* conn = set->conns.front(); conn != nullptr; conn = set->conns.after(*conn)) {
    waits |= conn_tx_progress(worker_, *conn);
    moved = std::max(moved, conn->tx.progress_at);
  }
  return waits ? moved : now;
}

void SockLnd::resume(RxSlot& slot, Instant now) {
  worker_.now = now;
  conn_rx_resume(worker_, *static_cast<SockSlot&>(slot).conn);
}

void SockLnd::release(RxSlot& slot, Instant now) {
  worker_.now = now;
  conn_rx_release(worker_, static_cast<SockSlot&>(slot));
}

void SockLnd::divert(RxSlot& slot, Instant now) {
  worker_.now = now;
  conn_rx_divert(worker_, *static_cast<SockSlot&>(slot).conn);
}

void SockLnd::cancel(Tx& tx, bool force, Instant now) {
  SockWorker& w = worker_;
  w.now = now;
  const bool expired = tx.deadline <= now;
  const int closed = expired ? -ETIMEDOUT : -EHOSTUNREACH;
  TxState state(tx);
  switch (state.place()) {
    case TxPlace::kOrphan: w.orphans_of(tx.ni, tx.peer_ni).remove(tx); break;
    case TxPlace::kWaiting: state.set()->waiting.remove(tx); break;
    case TxPlace::kQueued: conn_tx_unqueue(*state.conn(), tx); break;
    case TxPlace::kBegun:
      if (force && state.conn()->phase == ConnPhase::kUp) set_close(w, *state.conn()->set, closed, Closing::kAbort);
      return;
    case TxPlace::kZcWait:
      if (force) set_close(w, *state.conn()->set, closed, Closing::kAbort);
      return;
  }
  w.finish(tx, expired ? Completion{-ETIMEDOUT, LndStatus::kNetworkTimeout} : Completion{-ECANCELED, LndStatus::kOk});
}

void SockLnd::event(const StreamEvent& event) {
  Conn& conn = *static_cast<Conn*>(event.owner);
  switch (event.kind) {
    case StreamEventKind::kReceived: conn_rx_received(worker_, conn, event.result); break;
    case StreamEventKind::kSent: conn_tx_sent(worker_, conn, event.result); break;
    case StreamEventKind::kClosed:
      conn.phase = ConnPhase::kClosed;
      conn_release(worker_, conn);
      break;
  }
}

namespace {

/// A message that is completed instead of sent may bring the next: those that join meanwhile wait for the next call.
void start_sends(SockWorker& w) {
  for (uint32_t left = w.dirty.size(); left > 0 && !w.dirty.empty(); --left) conn_tx_start(w, *w.dirty.pop_front());
}

}  // namespace

unsigned SockLnd::poll(unsigned budget, Instant now) {
  SockWorker& w = worker_;
  w.now = now;
  unsigned done = 0;
  for (uint32_t left = w.ready.size(); left > 0 && !w.ready.empty(); --left, ++done)
    conn_rx_continue(w, *w.ready.pop_front());
  // Messages leave before a look at the sockets, which takes as long. Every other turn looks in any case. So does the
  // first turn after a stall, because deadlines are judged later in the turn.
  looked_away_ = !w.dirty.empty() && !looked_away_ && now - looked_at_ < kLookAwayMax;
  if (looked_away_) {
    start_sends(w);
    return done;
  }
  looked_at_ = now;
  const unsigned count = w.engine.poll(std::span(events_).first(std::min(budget, kEventBurst)), now);
  for (unsigned i = 0; i < count; ++i) event(events_[i]);
  return done + count;
}

unsigned SockLnd::timers(Instant now) {
  worker_.now = now;
  return timers_run(worker_);
}

void SockLnd::flush(Instant now) {
  SockWorker& w = worker_;
  w.now = now;
  start_sends(w);
  w.engine.flush();
}

void SockLnd::set_retire(ConnSet& set) {
  SockWorker& w = worker_;
  ULNET_CHECK(set.conns.empty() && set.dying.empty() && set.zc_wait.empty());
  w.bucket(set.ni, set.peer_ni).remove(set);
  w.set_wheel.disarm(set);
  while (Tx* tx = set.waiting.pop_front()) {
    if (set.pid == kLnetPid) {
      orphan_add(w, *tx);
    } else {
      w.finish(*tx, {-EHOSTUNREACH, LndStatus::kRemoteError});
    }
  }
  w.core.to_control(set.gone, SetGoneMsg{set.id});
}

void SockLnd::set_open(ConnSet& set) {
  worker_.bucket(set.ni, set.peer_ni).push_back(set);
  if (set.pid == kLnetPid) orphans_adopt(worker_, set);
}

void SockLnd::tune(const TuneMsg& msg) {
  SockWorker& w = worker_;
  w.config.keepalive = msg.keepalive;
  w.config.min_bulk = msg.min_bulk;
  w.config.zc_min_payload = msg.zc_min_payload;
  w.config.typed_conns = msg.typed_conns;
  w.config.enable_csum = msg.enable_csum;
  w.config.splice = msg.splice;
  for (uint32_t i = 0; i < w.config.set_buckets; ++i)
    for (ConnSet* set = w.buckets[i].front(); set != nullptr; set = w.buckets[i].after(*set)) set_watch(w, *set);
}

void SockLnd::ni_flush(const NiFlushMsg& msg) {
  orphans_fail(worker_, msg.ni, PeerNiId{}, queue_failure(msg.error));
  worker_.core.to_control(*msg.answer, NiFlushedMsg{msg.ni});
}

/// A message with a zero-copy cookie waits for the peer.
uint32_t SockLnd::copied_bytes() const {
  const uint32_t least = worker_.config.zc_min_payload;
  return least == 0 ? kCopiedBytes : std::min(kCopiedBytes, least - 1);
}

void SockLnd::from_control(const LndMsg& msg, Instant now) {
  SockWorker& w = worker_;
  w.now = now;
  switch (ToWorker(msg.kind())) {
    case ToWorker::kSetOpen: return set_open(*msg.as<SetOpenMsg>().set);
    case ToWorker::kConnAdd: {
      const auto add = msg.as<ConnAddMsg>();
      return set_add_conn(w, *add.conn, add.source);
    }
    case ToWorker::kSetClose: {
      const auto close = msg.as<SetCloseMsg>();
      return set_close(w, *close.set, close.error, Closing::kOrderly);
    }
    case ToWorker::kSetProbe: return set_probe(w, *msg.as<SetProbeMsg>().set);
    case ToWorker::kSetFail: {
      const auto fail = msg.as<SetFailMsg>();
      return set_fail_waiting(w, *fail.set, fail.how);
    }
    case ToWorker::kSetTimeout: {
      const auto change = msg.as<SetTimeoutMsg>();
      change.set->timeout = change.timeout;
      return;
    }
    case ToWorker::kTune: return tune(msg.as<TuneMsg>());
    case ToWorker::kSetRetire: return set_retire(*msg.as<SetRetireMsg>().set);
    case ToWorker::kOrphansFail: {
      const auto fail = msg.as<OrphansFailMsg>();
      return orphans_fail(w, fail.ni, fail.peer_ni, fail.how);
    }
    case ToWorker::kNiFlush: return ni_flush(msg.as<NiFlushMsg>());
  }
}

Instant SockLnd::next_deadline() {
  return timers_next(worker_);
}

bool SockLnd::pending() {
  return !worker_.ready.empty() || !worker_.dirty.empty() || worker_.engine.pending();
}

unsigned SockLnd::wait_fds(std::span<int> out) {
  const int fd = worker_.engine.wait_fd();
  if (fd < 0 || out.empty()) return 0;
  out[0] = fd;
  return 1;
}

std::unique_ptr<Lnd> make_sock_lnd(LndCore& core, StreamEngine& engine, const SockConfig& config) {
  return std::make_unique<SockLnd>(core, engine, config);
}

}  // namespace ulnet::socklnd
