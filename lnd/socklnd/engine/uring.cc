// StreamEngine over io_uring. Thread: the worker that owns it, from the first flush() or poll() on. That thread enables
// the ring, and kernels with SINGLE_ISSUER refuse any other. Construction and destruction may happen elsewhere.
// Operations for the ring only fill submission entries, and flush() hands them over with one enter. flush() also lets
// the kernel run what became ready, and poll() reads completions from memory. After construction nothing allocates.
//
// The hard part is sleeping. With DEFER_TASKRUN the kernel completes nothing until this thread enters the ring again. A
// ppoll on the ring's own descriptor does not wake for such deferred work (seen on 6.18). The engine therefore
// registers an eventfd. While the worker is awake the eventfd is switched off, because a signal costs more than a
// completion. pending(), the last call of a worker before it blocks, switches it on.
//
// While the worker turns without sleep, the ring is the slower way: each receive would cost a poll, task work and a
// completion. So sends go to the socket at once, and the ring gets what the socket does not take. Receives of a few hot
// streams are tried in each poll(). A stream is hot if its last receive ended without a sleep. pending() gives the
// receives of hot streams to the ring, so that they wake the worker.
//
// A kernel without memory may refuse submissions for a while. An operation that finds no submission entry then ends
// in the next poll(): with ENOBUFS, or with the bytes that the socket has taken. A cancel is tried again there, and the
// receive of a hot stream stays as it is.
#include <liburing.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/slab.h"
#include "lnd/socklnd/engine/socket_ops.h"
#include "lnd/socklnd/engine/uring_engine.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {
namespace {

/// How often the queue is handed to the kernel for one free entry.
constexpr unsigned kSubmitTries = 4;
/// Tries of one receive that find nothing, after which the ring gets it.
constexpr uint32_t kHotTries = 512;
/// Receives of transfers of this size and more are not tried. Looks in quick succession bring little each, and make the
/// kernel send more acknowledgements.
constexpr uint32_t kBulkBytes = 131072;
/// Sources of events: the ring's completions, `owed_`, `hot_`, `closed_`.
constexpr unsigned kSources = 4;

}  // namespace

UringEngine::~UringEngine() {
  // The ring goes first and releases every descriptor. Sockets that are still attached are reset, because no reader is
  // left.
  if (open_) io_uring_queue_exit(&ring_);
  if (event_fd_ >= 0) ::close(event_fd_);
  streams_.for_each_out([](UringStream& of) {
    if (of.fd < 0) return;
    socket_reset(of.fd);
    ::close(of.fd);
  });
}

namespace {

/// Checks that the kernel supports every operation that is used here. `open` has made the ring.
Result<void> check_operations(io_uring& ring) {
  io_uring_probe* probe = io_uring_get_probe_ring(&ring);
  if (probe == nullptr) return fail(ENOTSUP, "this kernel's io_uring does not report its features");
  bool all = (ring.features & IORING_FEAT_NODROP) != 0 && (ring.features & IORING_FEAT_FAST_POLL) != 0 &&
             (ring.features & IORING_FEAT_SUBMIT_STABLE) != 0;
  for (int op : {IORING_OP_SENDMSG, IORING_OP_RECVMSG, IORING_OP_SEND, IORING_OP_RECV, IORING_OP_ASYNC_CANCEL,
                 IORING_OP_SEND_ZC})  // not used: SEND_ZC means at least Linux 6.0, where POLL_FIRST works
    all = all && io_uring_opcode_supported(probe, op) != 0;
  io_uring_free_probe(probe);
  if (!all) return fail(ENOTSUP, "this kernel's io_uring is older than Linux 6.0");
  return {};
}

}  // namespace

Result<void> UringEngine::open() {
  constexpr unsigned kBase =
      IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_R_DISABLED;
  constexpr unsigned kTiers[] = {
      kBase | IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,  // Linux 6.1
      kBase | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,                                // Linux 5.19
      kBase,
  };
  const uint32_t capacity = streams_.capacity();
  int rc = -EINVAL;
  for (const unsigned flags : kTiers) {
    io_uring_params params{};
    params.flags = flags;
    params.cq_entries = std::clamp(4 * capacity, 64u, kUringCompletionsMax);  // receive, send and a cancel of each
    rc = io_uring_queue_init_params(std::clamp(2 * capacity, 32u, kUringSubmissionsMax), &ring_, &params);
    if (rc != -EINVAL) break;
  }
  if (rc == -EPERM) return fail(EPERM, "io_uring is forbidden here (kernel.io_uring_disabled, seccomp or a container)");
  if (rc == -ENOSYS) return fail(ENOSYS, "this kernel has no io_uring");
  if (rc == -ENOMEM) return fail(ENOMEM, "no memory for io_uring (raise the limit of locked memory, ulimit -l)");
  if (rc < 0) return fail(rc, "io_uring_setup failed");
  open_ = true;
  if (auto known = check_operations(ring_); !known) return known;
  event_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (event_fd_ < 0) return fail(errno, "cannot open an eventfd for io_uring");
  rc = io_uring_register_eventfd(&ring_, event_fd_);
  if (rc < 0) return fail(rc, "io_uring refused its eventfd");
  signals(false);
  return {};
}

UringStream& UringEngine::stream(StreamId id) {
  UringStream* found = streams_.find(Handle{id.index, id.generation});
  ULNET_CHECK(found != nullptr);
  return *found;
}

/// Switches the eventfd on or off. seq_cst: the re-check that follows sees everything that the kernel did before it saw
/// "on".
void UringEngine::signals(bool on) {
  if (signals_on_ == on) return;
  signals_on_ = on;
  std::atomic_ref<unsigned>(*ring_.cq.kflags).store(on ? 0 : IORING_CQ_EVENTFD_DISABLED, std::memory_order_seq_cst);
}

bool UringEngine::kernel_has_work() const {
  const unsigned flags = std::atomic_ref<unsigned>(*ring_.sq.kflags).load(std::memory_order_seq_cst);
  return (flags & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

void UringEngine::enable() {
  if (enabled_) return;
  const int rc = io_uring_register(unsigned(ring_.ring_fd), IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  ULNET_CHECK(rc == 0);
  enabled_ = true;
}

/// Submits what is queued and lets deferred work run. EINTR, EAGAIN and EBUSY: the rest goes with the next turn.
void UringEngine::enter() {
  enable();
  if (refused()) return;
  const int rc = io_uring_submit_and_get_events(&ring_);
  ULNET_CHECK(rc != -EEXIST && rc != -EBADF);  // another thread than the one that enabled the ring
}

/// A submission entry. Flushes early when the queue is full; null if the kernel takes nothing.
io_uring_sqe* UringEngine::next_sqe() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  for (unsigned tries = 0; sqe == nullptr && tries < kSubmitTries; ++tries) {
    enter();
    sqe = io_uring_get_sqe(&ring_);
  }
  return sqe;
}

Result<StreamId> UringEngine::attach(StreamSource source, void* owner) {
  UringStream* of = streams_.take();
  if (of == nullptr) return fail(ENOSPC, "all stream slots of this worker are in use");
  of->fd = int(source.number);
  of->owner = owner;
  of->receiving = of->sending = of->closing = of->dry = of->bulk = of->hot = of->tx_lent = false;
  of->rx_pipe = of->tx_pipe = nullptr;
  of->readable_from = 1;
  of->cancels = 0;
  of->owed = 0;
  socket_set_blocking(of->fd, true);  // a non-blocking socket would answer EAGAIN instead of waiting in the ring
  const Handle handle = streams_.handle(*of);
  return StreamId{handle.index, handle.generation};
}

void UringEngine::receive(StreamId id, std::span<const iovec> pieces, uint32_t transfer) {
  UringStream& of = stream(id);
  ULNET_CHECK(!of.receiving && !of.closing && !pieces.empty() && pieces.size() <= kStreamPieces);
  of.receiving = true;
  of.rx_pipe = nullptr;
  readable_from(of, 1);
  of.sleeps = sleeps_;
  std::copy(pieces.begin(), pieces.end(), of.rx_pieces);
  of.rx_head.msg_iov = of.rx_pieces;
  of.rx_head.msg_iovlen = pieces.size();
  const bool was_bulk = std::exchange(of.bulk, transfer >= kBulkBytes);
  if (!of.hot || hot_count_ == kHotStreamsMax || was_bulk || of.bulk) {
    if (!give_receive(of)) owe(of, kOwedReceive, -ENOBUFS);
    return;
  }
  of.tries = 0;
  hot_[hot_count_++] = &of;
}

/// Gives the receive to the ring. False: the kernel takes nothing.
bool UringEngine::give_receive(UringStream& of) {
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return false;
  if (of.rx_head.msg_iovlen == 1) {
    io_uring_prep_recv(sqe, of.fd, of.rx_pieces[0].iov_base, of.rx_pieces[0].iov_len, 0);
  } else {
    io_uring_prep_recvmsg(sqe, of.fd, &of.rx_head, 0);
  }
  if (of.dry) sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  tag(sqe, of, UringOp::kReceive);
  return true;
}

void UringEngine::hot_remove(unsigned index) {
  hot_[index] = hot_[--hot_count_];
}

/// The worker is about to sleep: the ring gets the receives of hot streams, as far as the kernel takes them.
void UringEngine::park_hot() {
  while (hot_count_ > 0 && give_receive(*hot_[hot_count_ - 1])) --hot_count_;
}

/// Tries the receives of hot streams. Returns how many events it wrote.
unsigned UringEngine::try_hot(std::span<StreamEvent> out) {
  unsigned filled = 0;
  for (unsigned i = 0; i < hot_count_ && filled < out.size();) {
    UringStream& of = *hot_[i];
    const bool single = of.rx_head.msg_iovlen == 1;
    const ssize_t got = single ? ::recv(of.fd, of.rx_pieces[0].iov_base, of.rx_pieces[0].iov_len, MSG_DONTWAIT)
                               : ::recvmsg(of.fd, &of.rx_head, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      of.dry = true;
      if (++of.tries >= kHotTries && give_receive(of))
        hot_remove(i);
      else
        ++i;
      continue;
    }
    const int error = errno;
    hot_remove(i);
    of.receiving = false;
    of.dry = false;
    out[filled++] = {StreamEventKind::kReceived, got < 0 ? -error : int32_t(got), of.owner};
  }
  return filled;
}

namespace {

/// Copies all pieces to `into`, if they fit. Returns how many bytes they have; 0: too many.
size_t gather(const msghdr& from, std::span<std::byte> into) {
  size_t bytes = 0;
  for (size_t i = 0; i < from.msg_iovlen; ++i) {
    const iovec& piece = from.msg_iov[i];
    if (piece.iov_len > into.size() - bytes) return 0;
    std::memcpy(into.data() + bytes, piece.iov_base, piece.iov_len);
    bytes += piece.iov_len;
  }
  return bytes;
}

}  // namespace

/// Hands the socket what it takes at once. True: the send has ended. Else the ring gets what is left in the pieces.
bool UringEngine::send_now(UringStream& of, int flags) {
  of.sent = 0;
  if (refused()) return false;
  const size_t gathered = gather(of.tx_head, gathered_);
  const ssize_t took = gathered > 0 ? ::send(of.fd, gathered_.data(), gathered, flags | MSG_DONTWAIT)
                                    : ::sendmsg(of.fd, &of.tx_head, flags | MSG_DONTWAIT);
  if (took < 0) {
    if (errno == EAGAIN || errno == EINTR) return false;
    return owe(of, kOwedSend, -errno), true;
  }
  of.sent = uint32_t(took);
  size_t left = size_t(took);
  iovec* piece = of.tx_pieces;
  for (; of.tx_head.msg_iovlen > 0 && left >= piece->iov_len; ++piece, --of.tx_head.msg_iovlen) left -= piece->iov_len;
  if (of.tx_head.msg_iovlen == 0) return owe(of, kOwedSend, int32_t(took)), true;
  *piece = {static_cast<std::byte*>(piece->iov_base) + left, piece->iov_len - left};
  of.tx_head.msg_iov = piece;
  return false;
}

void UringEngine::send(StreamId id, std::span<const iovec> pieces, bool more) {
  UringStream& of = stream(id);
  ULNET_CHECK(!of.sending && !of.closing && !pieces.empty() && pieces.size() <= kStreamPieces);
  const int flags = MSG_NOSIGNAL | (more ? MSG_MORE : 0);
  of.sending = true;
  of.tx_pipe = nullptr;
  std::copy(pieces.begin(), pieces.end(), of.tx_pieces);
  of.tx_head.msg_iov = of.tx_pieces;
  of.tx_head.msg_iovlen = pieces.size();
  if (send_now(of, flags)) return;
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return owe(of, kOwedSend, of.sent > 0 ? int32_t(of.sent) : -ENOBUFS);
  // WAITALL: the kernel goes on by itself when the socket's buffer was full; without it each refill would cost a round.
  // The caller bounds what it gives, so that completions are not withheld for long.
  io_uring_prep_sendmsg(sqe, of.fd, &of.tx_head, unsigned(flags | MSG_WAITALL));
  tag(sqe, of, UringOp::kSend);
}

/// Cancels an operation that is under way, unless it has ended and is only to be reported.
void UringEngine::cancel(UringStream& of, UringOp op) {
  if ((of.owed & (op == UringOp::kReceive ? kOwedReceive : kOwedSend)) != 0) return;
  if (op == UringOp::kReceive) {
    const auto at = std::find(hot_.begin(), hot_.begin() + hot_count_, &of);
    if (at != hot_.begin() + hot_count_) {
      hot_remove(unsigned(at - hot_.begin()));
      return owe(of, kOwedReceive, -ECANCELED);
    }
  }
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return owe(of, op == UringOp::kReceive ? kOwedCancelReceive : kOwedCancelSend);
  io_uring_prep_cancel64(sqe, reinterpret_cast<uintptr_t>(&of) | uintptr_t(op), 0);
  tag(sqe, of, UringOp::kCancel);
  ++of.cancels;
}

void UringEngine::owe(UringStream& of, UringOwed what, int32_t result) {
  if (of.owed == 0) owed_[(owed_head_ + owed_count_++) % owed_.size()] = &of;
  of.owed |= what;
  if (what == kOwedReceive) of.rx_result = result;
  if (what == kOwedSend) of.tx_result = result;
}

/// Reports operations that ended without the ring, and cancels again. Returns how many events it wrote.
unsigned UringEngine::run_owed(std::span<StreamEvent> out) {
  unsigned filled = 0;
  for (uint32_t left = owed_count_; left > 0; --left) {
    UringStream& of = *owed_[owed_head_];
    owed_head_ = uint32_t((owed_head_ + 1) % owed_.size());
    --owed_count_;
    const uint8_t owed = std::exchange(of.owed, uint8_t{0});
    const auto ended = [&](UringOwed what, StreamEventKind kind, int32_t result) {
      if ((owed & what) == 0) return;
      if (filled == out.size()) return owe(of, what, result);
      if (what == kOwedSend)
        send_ended(of);
      else
        of.receiving = false;
      out[filled++] = {kind, of.closing && result < 0 ? -ECANCELED : result, of.owner};
    };
    ended(kOwedReceive, StreamEventKind::kReceived, of.rx_result);
    ended(kOwedSend, StreamEventKind::kSent, of.tx_result);
    if ((owed & kOwedCancelReceive) != 0 && of.receiving) cancel(of, UringOp::kReceive);
    if ((owed & kOwedCancelSend) != 0 && of.sending) cancel(of, UringOp::kSend);
    closed_if_drained(of);
  }
  return filled;
}

void UringEngine::cancel_receive(StreamId id) {
  UringStream& of = stream(id);
  if (of.receiving && !of.closing) cancel(of, UringOp::kReceive);
}

void UringEngine::close(StreamId id, bool abort) {
  UringStream& of = stream(id);
  if (of.closing) return;
  of.closing = true;
  if (abort) {
    socket_reset(of.fd);
  } else {
    socket_shutdown(of.fd);
  }
  if (of.receiving) cancel(of, UringOp::kReceive);
  if (of.sending) cancel(of, UringOp::kSend);
  closed_if_drained(of);
}

/// After the last completion: closes the descriptor. poll() frees the slot when it reports kClosed.
void UringEngine::closed_if_drained(UringStream& of) {
  if (!of.closing || of.receiving || of.sending || of.cancels > 0 || of.owed != 0) return;
  ::close(of.fd);
  of.fd = -1;
  closed_[(closed_head_ + closed_count_++) % closed_.size()] = &of;
}

/// Fills `event`. False if the owner gets no event.
bool UringEngine::complete(const io_uring_cqe& cqe, StreamEvent& event) {
  auto& of = *reinterpret_cast<UringStream*>(uintptr_t(cqe.user_data) & ~kOpMask);
  const auto op = UringOp(uintptr_t(cqe.user_data) & kOpMask);
  const bool piped =
      (op == UringOp::kReceive && of.rx_pipe != nullptr) || (op == UringOp::kSend && of.tx_pipe != nullptr);
  const int32_t result = piped ? piped_ready(of, op, cqe.res) : cqe.res;
  if (piped && result == -EAGAIN) return false;
  switch (op) {
    case UringOp::kReceive:
      of.receiving = false;
      if (piped) break;
      of.hot = of.sleeps == sleeps_;
      of.dry = (cqe.flags & IORING_CQE_F_SOCK_NONEMPTY) == 0;
      break;
    case UringOp::kSend: send_ended(of); break;
    case UringOp::kCancel: --of.cancels; break;
  }
  event.kind = op == UringOp::kReceive ? StreamEventKind::kReceived : StreamEventKind::kSent;
  event.owner = of.owner;
  // A send that was cancelled half-way returns the bytes that went: they must be reported.
  event.result = of.closing && op == UringOp::kReceive && result >= 0 ? -ECANCELED : result;
  if (op == UringOp::kSend && !piped && of.sent > 0) event.result = int32_t(of.sent) + std::max(cqe.res, 0);
  closed_if_drained(of);
  return op != UringOp::kCancel;
}

unsigned UringEngine::poll(std::span<StreamEvent> out, Instant) {
  if (signals_on_) {
    signals(false);
    uint64_t count;
    [[maybe_unused]] const ssize_t drained =
        ::read(event_fd_, &count, sizeof count);  // EAGAIN when it was not signalled
  }
  if (io_uring_cq_ready(&ring_) == 0 && kernel_has_work()) enter();
  if (hot_count_ + owed_count_ + closed_count_ == 0 && io_uring_cq_ready(&ring_) == 0) return 0;
  unsigned filled = 0;
  for (unsigned i = 0; i < kSources; ++i) filled += take((first_source_ + i) % kSources, out.subspan(filled));
  first_source_ = (first_source_ + 1) % kSources;
  return filled;
}

/// Events of one source. Returns how many it wrote.
unsigned UringEngine::take(unsigned source, std::span<StreamEvent> out) {
  switch (source) {
    case 0: return take_completions(out);
    case 1: return owed_count_ > 0 ? run_owed(out) : 0;
    case 2: return hot_count_ > 0 ? try_hot(out) : 0;
    default: return take_closed(out);
  }
}

unsigned UringEngine::take_completions(std::span<StreamEvent> out) {
  unsigned filled = 0;
  unsigned seen = 0;
  unsigned head;
  io_uring_cqe* cqe;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    if (filled == out.size()) break;
    ++seen;
    if (complete(*cqe, out[filled])) ++filled;
  }
  io_uring_cq_advance(&ring_, seen);
  return filled;
}

unsigned UringEngine::take_closed(std::span<StreamEvent> out) {
  unsigned filled = 0;
  while (filled < out.size() && closed_count_ > 0) {
    UringStream& of = *closed_[closed_head_];
    closed_head_ = uint32_t((closed_head_ + 1) % closed_.size());
    --closed_count_;
    out[filled++] = {StreamEventKind::kClosed, 0, of.owner};
    streams_.give(of);
  }
  return filled;
}

void UringEngine::flush() {
  if (io_uring_sq_ready(&ring_) > 0 || kernel_has_work()) enter();
}

bool UringEngine::pending() {
  ++sleeps_;
  signals(true);  // before the checks: later completions signal
  if (hot_count_ > 0) {
    park_hot();
    enter();
  }
  return closed_count_ > 0 || owed_count_ > 0 || hot_count_ > 0 || io_uring_cq_ready(&ring_) > 0 ||
         io_uring_sq_ready(&ring_) > 0 || kernel_has_work();
}

std::unique_ptr<StreamEngine> make_uring_engine(uint32_t streams, Error* why_not, const std::atomic<bool>* refuses) {
  auto engine = std::make_unique<UringEngine>(streams, refuses);
  auto opened = engine->open();
  if (opened) return engine;
  if (why_not != nullptr) *why_not = opened.error();
  return make_epoll_engine(streams);
}

}  // namespace ulnet::socklnd
