// StreamEngine over epoll and non-blocking sockets: where io_uring is forbidden. Thread: the worker that owns it. Edge
// triggered: a stream is tried as long as nothing says that it would block, then again after its next edge. Operations
// run in flush() and poll(); their results wait in a FIFO of fixed size. After construction nothing allocates.
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/slab.h"
#include "lnd/socklnd/engine/kernel_pipes.h"
#include "lnd/socklnd/engine/socket_ops.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {
namespace {

/// One direction of a stream.
struct Direction {
  bool busy = false;           ///< an operation is under way
  bool ready = true;           ///< nothing has said yet that it would block
  bool queued = false;         ///< in the FIFO of directions to try
  KernelPipe* pipe = nullptr;  ///< moves `bytes` there or from there; null: it uses the pieces
  uint32_t bytes = 0;
  uint32_t moved = 0;  ///< bytes of a send from `pipe` that have gone
  uint32_t count = 0;
  iovec pieces[kStreamPieces];
};

struct EpollStream {
  int fd = -1;
  void* owner = nullptr;
  bool closing = false;
  bool more = false;
  bool lent = false;  ///< the pipe of `tx` belongs to the engine, and goes back there when the send has ended
  Direction rx;
  Direction tx;
};

/// FIFO of fixed size. Requires: never more entries than `capacity`.
template <class T>
class Fifo {
 public:
  explicit Fifo(size_t capacity) : slots_(capacity) {}
  [[nodiscard]] bool empty() const { return count_ == 0; }
  [[nodiscard]] size_t size() const { return count_; }
  void push(const T& item) {
    ULNET_CHECK(count_ < slots_.size());
    slots_[(head_ + count_++) % slots_.size()] = item;
  }
  T pop() {
    const T item = slots_[head_];
    head_ = (head_ + 1) % slots_.size();
    --count_;
    return item;
  }

 private:
  std::vector<T> slots_;
  size_t head_ = 0;
  size_t count_ = 0;
};

struct Finished {
  EpollStream* stream = nullptr;
  StreamEventKind kind = StreamEventKind::kClosed;
  int32_t result = 0;
};

struct Attempt {
  EpollStream* stream = nullptr;
  bool receive = false;
};

/// Entries that one stream has in each FIFO at most. One line per holder.
constexpr size_t kAttemptsPerStream = 1     // its receive
                                      + 1;  // its send
constexpr size_t kFinishedPerStream = 1     // its receive
                                      + 1   // its send
                                      + 1;  // its close

class EpollEngine final : public StreamEngine {
 public:
  explicit EpollEngine(uint32_t streams)
      : epoll_fd_(epoll_create1(EPOLL_CLOEXEC)),
        streams_(streams),
        attempts_(kAttemptsPerStream * streams),
        finished_(kFinishedPerStream * streams) {}
  ~EpollEngine() override {
    streams_.for_each_out([](EpollStream& of) {
      if (of.fd < 0) return;
      socket_reset(of.fd);
      ::close(of.fd);
    });
    if (epoll_fd_ >= 0) ::close(epoll_fd_);
  }
  EpollEngine(const EpollEngine&) = delete;
  EpollEngine& operator=(const EpollEngine&) = delete;

  [[nodiscard]] Result<StreamId> attach(StreamSource source, void* owner) override;
  void receive(StreamId id, std::span<const iovec> pieces, uint32_t transfer) override;
  void cancel_receive(StreamId id) override;
  void send(StreamId id, std::span<const iovec> pieces, bool more) override;
  [[nodiscard]] StreamPipe* pipe_take() override { return pipes_.take(); }
  void receive_piped(StreamId id, StreamPipe& pipe, uint32_t most) override;
  void send_piped(StreamId id, StreamPipe& pipe, uint32_t bytes, bool more) override;
  void send_lent(StreamId id, std::span<const iovec> pieces, bool more) override;
  void close(StreamId id, bool abort) override;
  [[nodiscard]] uint64_t resent_bytes(StreamId id) override { return socket_resent_bytes(stream(id).fd); }
  [[nodiscard]] uint32_t unsent_bytes(StreamId id) override { return socket_unsent_bytes(stream(id).fd); }
  void resend_within(StreamId id, Duration stalled, Duration within) override {
    socket_resend_within(stream(id).fd, stalled, within);
  }
  unsigned poll(std::span<StreamEvent> out, Instant now) override;
  void flush() override { run_attempts(); }
  [[nodiscard]] bool pending() override { return !finished_.empty() || !attempts_.empty(); }
  [[nodiscard]] int wait_fd() const override { return epoll_fd_; }
  [[nodiscard]] const char* name() const override { return "epoll"; }

 private:
  EpollStream& stream(StreamId id) {
    EpollStream* found = streams_.find(Handle{id.index, id.generation});
    ULNET_CHECK(found != nullptr);
    return *found;
  }
  void begin(EpollStream& of, Direction& way, std::span<const iovec> pieces);
  void begin_piped(EpollStream& of, Direction& way, StreamPipe& pipe, uint32_t bytes);
  void enqueue(EpollStream& of, Direction& way);
  void run_attempts();
  void attempt(EpollStream& of, Direction& way);
  void finish(EpollStream& of, Direction& way, int32_t result);
  void take_edges();

  int epoll_fd_;
  Slab<EpollStream> streams_;
  KernelPipes pipes_;
  Fifo<Attempt> attempts_;   ///< a direction is in here at most once
  Fifo<Finished> finished_;  ///< per stream at most a receive, a send and kClosed
};

Result<StreamId> EpollEngine::attach(StreamSource source, void* owner) {
  if (epoll_fd_ < 0) return fail(EMFILE, "cannot open an epoll descriptor");
  EpollStream* of = streams_.take();
  if (of == nullptr) return fail(ENOSPC, "all stream slots of this worker are in use");
  of->fd = int(source.number);
  of->owner = owner;
  of->closing = of->more = of->lent = false;
  for (Direction* way : {&of->rx, &of->tx}) {
    ULNET_CHECK(!way->queued);
    way->busy = false;
    way->ready = true;
  }
  socket_set_blocking(of->fd, false);
  epoll_event interest{};
  interest.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;
  interest.data.ptr = of;
  if (epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, of->fd, &interest) != 0) {
    const int code = errno;
    streams_.give(*of);
    return fail(code, "the kernel does not let this socket be polled");
  }
  const Handle handle = streams_.handle(*of);
  return StreamId{handle.index, handle.generation};
}

void EpollEngine::begin(EpollStream& of, Direction& way, std::span<const iovec> pieces) {
  ULNET_CHECK(!way.busy && !of.closing && !pieces.empty() && pieces.size() <= kStreamPieces);
  std::copy(pieces.begin(), pieces.end(), way.pieces);
  way.count = uint32_t(pieces.size());
  way.pipe = nullptr;
  way.busy = true;
  if (way.ready) enqueue(of, way);
}

void EpollEngine::begin_piped(EpollStream& of, Direction& way, StreamPipe& pipe, uint32_t bytes) {
  ULNET_CHECK(!way.busy && !of.closing && bytes > 0);
  way.pipe = &static_cast<KernelPipe&>(pipe);
  way.bytes = bytes;
  way.moved = 0;
  way.busy = true;
  if (way.ready) enqueue(of, way);
}

void EpollEngine::enqueue(EpollStream& of, Direction& way) {
  if (way.queued) return;
  way.queued = true;
  attempts_.push({&of, &way == &of.rx});
}

void EpollEngine::receive(StreamId id, std::span<const iovec> pieces, uint32_t) {
  EpollStream& of = stream(id);
  begin(of, of.rx, pieces);
}

void EpollEngine::send(StreamId id, std::span<const iovec> pieces, bool more) {
  EpollStream& of = stream(id);
  of.more = more;
  begin(of, of.tx, pieces);
}

void EpollEngine::receive_piped(StreamId id, StreamPipe& pipe, uint32_t most) {
  EpollStream& of = stream(id);
  begin_piped(of, of.rx, pipe, most);
}

void EpollEngine::send_piped(StreamId id, StreamPipe& pipe, uint32_t bytes, bool more) {
  EpollStream& of = stream(id);
  of.more = more;
  begin_piped(of, of.tx, pipe, bytes);
}

void EpollEngine::send_lent(StreamId id, std::span<const iovec> pieces, bool more) {
  EpollStream& of = stream(id);
  ULNET_CHECK(!of.tx.busy && !of.closing && !pieces.empty() && pieces.size() <= kStreamPieces);
  KernelPipe* pipe = pipes_.take_lent(pieces);
  if (pipe == nullptr) return send(id, pieces, more);
  of.lent = true;
  of.more = more || pipe->bytes() < bytes_of(pieces);
  begin_piped(of, of.tx, *pipe, pipe->bytes());
}

void EpollEngine::cancel_receive(StreamId id) {
  EpollStream& of = stream(id);
  if (of.rx.busy) finish(of, of.rx, -ECANCELED);
}

void EpollEngine::close(StreamId id, bool abort) {
  EpollStream& of = stream(id);
  if (of.closing) return;
  of.closing = true;
  if (abort) {
    socket_reset(of.fd);
  } else {
    socket_shutdown(of.fd);
  }
  ::close(of.fd);
  of.fd = -1;
  if (of.rx.busy) finish(of, of.rx, -ECANCELED);
  if (of.tx.busy) finish(of, of.tx, -ECANCELED);
  finished_.push({&of, StreamEventKind::kClosed, 0});
}

/// The operation comes back. If a part of a send from a pipe has gone, this part is the result.
void EpollEngine::finish(EpollStream& of, Direction& way, int32_t result) {
  way.busy = false;
  if (way.pipe != nullptr && way.moved > 0) result = int32_t(way.moved);
  if (&way == &of.tx && std::exchange(of.lent, false)) std::exchange(way.pipe, nullptr)->give_back();
  finished_.push({&of, &way == &of.rx ? StreamEventKind::kReceived : StreamEventKind::kSent, result});
}

/// Receives or sends once: bytes, or a negative errno.
int32_t try_once(EpollStream& of, Direction& way) {
  const bool receive = &way == &of.rx;
  if (way.pipe != nullptr)
    return receive ? way.pipe->move_in(of.fd, way.bytes) : way.pipe->move_out(of.fd, way.bytes - way.moved, of.more);
  msghdr head{};
  head.msg_iov = way.pieces;
  head.msg_iovlen = way.count;
  ssize_t bytes;
  do {
    bytes = receive ? recvmsg(of.fd, &head, MSG_DONTWAIT)
                    : sendmsg(of.fd, &head, MSG_DONTWAIT | MSG_NOSIGNAL | (of.more ? MSG_MORE : 0));
  } while (bytes < 0 && errno == EINTR);
  return bytes < 0 ? -errno : int32_t(bytes);
}

void EpollEngine::attempt(EpollStream& of, Direction& way) {
  int32_t result = try_once(of, way);
  // A send from a pipe ends when all of it has gone: a lent rest would have to be lent again.
  while (way.pipe != nullptr && &way == &of.tx && result > 0 && (way.moved += uint32_t(result)) < way.bytes)
    result = try_once(of, way);
  if (result == -EAGAIN)
    way.ready = false;  // its next edge lies after this moment, so it cannot be missed
  else
    finish(of, way, result);
}

void EpollEngine::run_attempts() {
  for (size_t rest = attempts_.size(); rest > 0; --rest) {
    const Attempt next = attempts_.pop();
    Direction& way = next.receive ? next.stream->rx : next.stream->tx;
    way.queued = false;
    if (way.busy) attempt(*next.stream, way);
  }
}

void EpollEngine::take_edges() {
  std::array<epoll_event, kPollBudget> edges;
  const int count = epoll_wait(epoll_fd_, edges.data(), int(edges.size()), 0);
  for (int i = 0; i < count; ++i) {
    auto& of = *static_cast<EpollStream*>(edges[size_t(i)].data.ptr);
    const uint32_t what = edges[size_t(i)].events;
    constexpr uint32_t kBroken = EPOLLERR | EPOLLHUP;
    if ((what & (EPOLLIN | EPOLLRDHUP | kBroken)) != 0) of.rx.ready = true;
    if ((what & (EPOLLOUT | kBroken)) != 0) of.tx.ready = true;
    if (of.rx.busy && of.rx.ready) enqueue(of, of.rx);
    if (of.tx.busy && of.tx.ready) enqueue(of, of.tx);
  }
}

unsigned EpollEngine::poll(std::span<StreamEvent> out, Instant) {
  take_edges();
  run_attempts();
  unsigned filled = 0;
  while (filled < out.size() && !finished_.empty()) {
    const Finished next = finished_.pop();
    const bool late = next.stream->closing && next.kind == StreamEventKind::kReceived && next.result >= 0;
    out[filled++] = {next.kind, late ? -ECANCELED : next.result, next.stream->owner};
    if (next.kind == StreamEventKind::kClosed) streams_.give(*next.stream);
  }
  return filled;
}

}  // namespace

std::unique_ptr<StreamEngine> make_epoll_engine(uint32_t streams) {
  return std::make_unique<EpollEngine>(streams);
}

}  // namespace ulnet::socklnd
