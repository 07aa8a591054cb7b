// StreamEngine over io_uring. Thread: the worker that owns it, from the first flush() or poll() on. That thread enables
// the ring, and kernels with SINGLE_ISSUER refuse any other. Construction and destruction may happen elsewhere. One
// enter per turn: receive/send/close only fill submission entries, and flush() hands them over. flush() also lets the
// kernel run what became ready, and poll() reads completions from memory. After construction nothing allocates.
//
// The hard part is sleeping. With DEFER_TASKRUN the kernel completes nothing until this thread enters the ring again. A
// ppoll on the ring's own descriptor does not wake for such deferred work (seen on 6.18). The engine therefore
// registers an eventfd. While the worker is awake the eventfd is switched off, because a signal costs more than a
// completion. pending(), the last call of a worker before it blocks, switches it on.
//
// A kernel without memory may refuse submissions for a while. An operation that finds no submission entry then ends
// with ENOBUFS in the next poll(); a cancel is tried again there.
#include <liburing.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/slab.h"
#include "lnd/socklnd/engine/socket_ops.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {
namespace {

enum class Op : uintptr_t { kReceive = 0, kSend = 1, kCancel = 2 };
constexpr uintptr_t kOpMask = 3;
/// How often the queue is handed to the kernel for one free entry.
constexpr unsigned kSubmitTries = 4;
/// Operations of a stream for which the submission queue had no room.
enum Late : uint8_t { kLateReceive = 1, kLateSend = 2, kLateCancelReceive = 4, kLateCancelSend = 8 };

/// One attached socket. Data that the kernel reads while an operation is submitted (headers, pieces) has its fixed
/// place here.
struct UringStream {
  int fd = -1;
  void* owner = nullptr;
  bool receiving = false;
  bool sending = false;
  bool closing = false;
  bool dry = false;     ///< the last receive emptied the socket: the next one waits for readiness first
  uint8_t cancels = 0;  ///< cancel requests not yet answered
  uint8_t late = 0;     ///< of Late; the stream is in `late_` while it is not 0
  msghdr rx_head{};
  msghdr tx_head{};
  iovec rx_pieces[kStreamPieces];
  iovec tx_pieces[kStreamPieces];
};
static_assert(alignof(UringStream) > kOpMask);

class UringEngine final : public StreamEngine {
 public:
  UringEngine(uint32_t streams, const std::atomic<bool>* refuses)
      : refuses_(refuses), streams_(streams), closed_(streams), late_(streams) {}
  ~UringEngine() override;
  UringEngine(const UringEngine&) = delete;
  UringEngine& operator=(const UringEngine&) = delete;

  /// Creates the ring. Errors: those of io_uring_setup (EPERM, ENOSYS, ENOMEM ...), ENOTSUP when an operation is
  /// missing.
  [[nodiscard]] Result<void> open();

  [[nodiscard]] Result<StreamId> attach(StreamSource source, void* owner) override;
  void receive(StreamId id, std::span<const iovec> pieces) override;
  void cancel_receive(StreamId id) override;
  void send(StreamId id, std::span<const iovec> pieces, bool more) override;
  void close(StreamId id, bool abort) override;
  [[nodiscard]] uint32_t unsent_bytes(StreamId id) override { return socket_unsent_bytes(stream(id).fd); }
  void resend_within(StreamId id, Duration stalled, Duration within) override {
    socket_resend_within(stream(id).fd, stalled, within);
  }
  unsigned poll(std::span<StreamEvent> out, Instant now) override;
  void flush() override;
  [[nodiscard]] bool pending() override;
  [[nodiscard]] int wait_fd() const override { return event_fd_; }
  [[nodiscard]] const char* name() const override { return "io_uring"; }

 private:
  UringStream& stream(StreamId id);
  void enable();
  void enter();
  [[nodiscard]] io_uring_sqe* next_sqe();
  void cancel(UringStream& of, Op op);
  void later(UringStream& of, Late what);
  [[nodiscard]] unsigned run_late(std::span<StreamEvent> out);
  void signals(bool on);
  [[nodiscard]] bool kernel_has_work() const;
  [[nodiscard]] bool complete(const io_uring_cqe& cqe, StreamEvent& event);
  void closed_if_drained(UringStream& of);

  const std::atomic<bool>* const refuses_;  ///< a test's: submissions are refused while it is true
  io_uring ring_{};
  bool open_ = false;
  bool enabled_ = false;
  bool signals_on_ = true;
  int event_fd_ = -1;
  Slab<UringStream> streams_;
  std::vector<UringStream*> closed_;  ///< closed and not yet reported; FIFO in a ring of fixed size
  uint32_t closed_head_ = 0;
  uint32_t closed_count_ = 0;
  std::vector<UringStream*> late_;  ///< each once; FIFO in a ring of fixed size
  uint32_t late_head_ = 0;
  uint32_t late_count_ = 0;
};

UringEngine::~UringEngine() {
  // The ring goes first and releases every descriptor. Sockets that are still attached are reset, because no reader is
  // left.
  if (open_) io_uring_queue_exit(&ring_);
  if (event_fd_ >= 0) ::close(event_fd_);
  streams_.for_each_out([](UringStream& of) {
    if (of.fd < 0) return;
    socket_reset_on_close(of.fd);
    ::close(of.fd);
  });
}

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
  if (refuses_ != nullptr && refuses_->load(std::memory_order_relaxed)) return;
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

/// Marks the entry with its stream and operation. Call it after the prep functions: some of them clear the field.
void tag(io_uring_sqe* sqe, UringStream& of, Op op) {
  sqe->user_data = reinterpret_cast<uintptr_t>(&of) | uintptr_t(op);
}

Result<StreamId> UringEngine::attach(StreamSource source, void* owner) {
  UringStream* of = streams_.take();
  if (of == nullptr) return fail(ENOSPC, "all stream slots of this worker are in use");
  of->fd = int(source.number);
  of->owner = owner;
  of->receiving = of->sending = of->closing = of->dry = false;
  of->cancels = 0;
  of->late = 0;
  socket_set_blocking(of->fd, true);  // a non-blocking socket would answer EAGAIN instead of waiting in the ring
  const Handle handle = streams_.handle(*of);
  return StreamId{handle.index, handle.generation};
}

void UringEngine::receive(StreamId id, std::span<const iovec> pieces) {
  UringStream& of = stream(id);
  ULNET_CHECK(!of.receiving && !of.closing && !pieces.empty() && pieces.size() <= kStreamPieces);
  of.receiving = true;
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return later(of, kLateReceive);
  if (pieces.size() == 1) {
    io_uring_prep_recv(sqe, of.fd, pieces[0].iov_base, pieces[0].iov_len, 0);
  } else {
    std::copy(pieces.begin(), pieces.end(), of.rx_pieces);
    of.rx_head.msg_iov = of.rx_pieces;
    of.rx_head.msg_iovlen = pieces.size();
    io_uring_prep_recvmsg(sqe, of.fd, &of.rx_head, 0);
  }
  if (of.dry) sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  tag(sqe, of, Op::kReceive);
}

void UringEngine::send(StreamId id, std::span<const iovec> pieces, bool more) {
  UringStream& of = stream(id);
  ULNET_CHECK(!of.sending && !of.closing && !pieces.empty() && pieces.size() <= kStreamPieces);
  // WAITALL: the kernel goes on by itself when the socket's buffer was full; without it each refill would cost a round.
  // The caller bounds what it gives, so that completions are not withheld for long.
  const int flags = MSG_NOSIGNAL | MSG_WAITALL | (more ? MSG_MORE : 0);
  of.sending = true;
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return later(of, kLateSend);
  if (pieces.size() == 1) {
    io_uring_prep_send(sqe, of.fd, pieces[0].iov_base, pieces[0].iov_len, flags);
  } else {
    std::copy(pieces.begin(), pieces.end(), of.tx_pieces);
    of.tx_head.msg_iov = of.tx_pieces;
    of.tx_head.msg_iovlen = pieces.size();
    io_uring_prep_sendmsg(sqe, of.fd, &of.tx_head, unsigned(flags));
  }
  tag(sqe, of, Op::kSend);
}

/// Cancels an operation that is under way; a late operation ends by itself.
void UringEngine::cancel(UringStream& of, Op op) {
  if ((of.late & (op == Op::kReceive ? kLateReceive : kLateSend)) != 0) return;
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return later(of, op == Op::kReceive ? kLateCancelReceive : kLateCancelSend);
  io_uring_prep_cancel64(sqe, reinterpret_cast<uintptr_t>(&of) | uintptr_t(op), 0);
  tag(sqe, of, Op::kCancel);
  ++of.cancels;
}

void UringEngine::later(UringStream& of, Late what) {
  if (of.late == 0) late_[(late_head_ + late_count_++) % late_.size()] = &of;
  of.late |= what;
}

/// Ends operations that found no entry, and cancels again. Returns how many events it wrote.
unsigned UringEngine::run_late(std::span<StreamEvent> out) {
  unsigned filled = 0;
  for (uint32_t left = late_count_; left > 0; --left) {
    UringStream& of = *late_[late_head_];
    late_head_ = uint32_t((late_head_ + 1) % late_.size());
    --late_count_;
    const uint8_t late = std::exchange(of.late, uint8_t{0});
    const auto ended = [&](Late what, bool& under_way, StreamEventKind kind) {
      if ((late & what) == 0) return;
      if (filled == out.size()) return later(of, what);
      under_way = false;
      out[filled++] = {kind, of.closing ? -ECANCELED : -ENOBUFS, of.owner};
    };
    ended(kLateReceive, of.receiving, StreamEventKind::kReceived);
    ended(kLateSend, of.sending, StreamEventKind::kSent);
    if ((late & kLateCancelReceive) != 0 && of.receiving) cancel(of, Op::kReceive);
    if ((late & kLateCancelSend) != 0 && of.sending) cancel(of, Op::kSend);
    closed_if_drained(of);
  }
  return filled;
}

void UringEngine::cancel_receive(StreamId id) {
  UringStream& of = stream(id);
  if (of.receiving && !of.closing) cancel(of, Op::kReceive);
}

void UringEngine::close(StreamId id, bool abort) {
  UringStream& of = stream(id);
  if (of.closing) return;
  of.closing = true;
  if (abort) {
    socket_reset_on_close(of.fd);
  } else {
    socket_shutdown(of.fd);
  }
  if (of.receiving) cancel(of, Op::kReceive);
  if (of.sending) cancel(of, Op::kSend);
  closed_if_drained(of);
}

/// After the last completion: closes the descriptor. poll() frees the slot when it reports kClosed.
void UringEngine::closed_if_drained(UringStream& of) {
  if (!of.closing || of.receiving || of.sending || of.cancels > 0 || of.late != 0) return;
  ::close(of.fd);
  of.fd = -1;
  closed_[(closed_head_ + closed_count_++) % closed_.size()] = &of;
}

/// Fills `event`. False if the owner gets no event.
bool UringEngine::complete(const io_uring_cqe& cqe, StreamEvent& event) {
  auto& of = *reinterpret_cast<UringStream*>(uintptr_t(cqe.user_data) & ~kOpMask);
  const auto op = Op(uintptr_t(cqe.user_data) & kOpMask);
  switch (op) {
    case Op::kReceive:
      of.receiving = false;
      of.dry = (cqe.flags & IORING_CQE_F_SOCK_NONEMPTY) == 0;
      break;
    case Op::kSend: of.sending = false; break;
    case Op::kCancel: --of.cancels; break;
  }
  event.kind = op == Op::kReceive ? StreamEventKind::kReceived : StreamEventKind::kSent;
  event.owner = of.owner;
  // A send that was cancelled half-way returns the bytes that went: they must be reported.
  event.result = of.closing && op == Op::kReceive && cqe.res >= 0 ? -ECANCELED : cqe.res;
  closed_if_drained(of);
  return op != Op::kCancel;
}

unsigned UringEngine::poll(std::span<StreamEvent> out, Instant) {
  if (signals_on_) {
    signals(false);
    uint64_t count;
    [[maybe_unused]] const ssize_t drained =
        ::read(event_fd_, &count, sizeof count);  // EAGAIN when it was not signalled
  }
  if (io_uring_cq_ready(&ring_) == 0 && kernel_has_work()) enter();
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
  if (late_count_ > 0) filled += run_late(out.subspan(filled));
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
  signals(true);  // before the checks: later completions signal
  return closed_count_ > 0 || late_count_ > 0 || io_uring_cq_ready(&ring_) > 0 || io_uring_sq_ready(&ring_) > 0 ||
         kernel_has_work();
}

}  // namespace

std::unique_ptr<StreamEngine> make_uring_engine(uint32_t streams, Error* why_not, const std::atomic<bool>* refuses) {
  auto engine = std::make_unique<UringEngine>(streams, refuses);
  auto opened = engine->open();
  if (opened) return engine;
  if (why_not != nullptr) *why_not = opened.error();
  return make_epoll_engine(streams);
}

}  // namespace ulnet::socklnd
