// Payloads that go through a pipe, in the engine over io_uring: forwarded ones, and those whose memory is lent. The
// ring never gets their bytes: its splice would run on a thread of the kernel. The ring only waits until a socket is
// ready. A receive waits until much has come, because each move costs system calls and acknowledgements. A send is
// tried at once.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dataplane/base/check.h"
#include "lnd/socklnd/engine/uring_engine.h"

namespace ulnet::socklnd {
namespace {

/// The end of a payload, which moves apart, so that little is left to do when the last byte comes.
constexpr uint32_t kPipedEnd = 131072;

/// A receive waits until this number of bytes has come, if `most` are to come: all but the end, or the end. The kernel
/// waits for at most half of the socket's buffer.
constexpr uint32_t at_once(uint32_t most) {
  return std::min(most, std::max(most - std::min(most, kPipedEnd), kPipedEnd));
}

/// Calls of splice() do not block while this lives. Ring operations need a socket that blocks.
class WithoutBlocking {
 public:
  explicit WithoutBlocking(int fd) : fd_(fd) { (void)::fcntl(fd_, F_SETFL, O_NONBLOCK); }
  ~WithoutBlocking() { (void)::fcntl(fd_, F_SETFL, 0); }
  WithoutBlocking(const WithoutBlocking&) = delete;
  WithoutBlocking& operator=(const WithoutBlocking&) = delete;

 private:
  const int fd_;
};

}  // namespace

/// Waits in the ring until the socket is ready for the operation. False: the kernel takes nothing.
bool UringEngine::await(UringStream& of, UringOp op) {
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return false;
  io_uring_prep_poll_add(sqe, of.fd, op == UringOp::kReceive ? POLLIN : POLLOUT);
  tag(sqe, of, op);
  return true;
}

/// The socket says that its peer has sent the last byte, or that it is broken, and each poll for it would end at once.
/// Goes on a little later instead.
bool UringEngine::pause(UringStream& of, UringOp op) {
  static constexpr __kernel_timespec kPause{0, 2'000'000};
  io_uring_sqe* sqe = next_sqe();
  if (sqe == nullptr) return false;
  io_uring_prep_timeout(sqe, const_cast<__kernel_timespec*>(&kPause), 0, 0);
  tag(sqe, of, op);
  return true;
}

int32_t UringEngine::move_in(UringStream& of) {
  if (refused()) return -EAGAIN;
  const WithoutBlocking guard(of.fd);
  return of.rx_pipe->move_in(of.fd, of.rx_most);
}

/// Sends what the socket takes. Returns the result of the send, or EAGAIN if bytes are left.
int32_t UringEngine::move_out(UringStream& of) {
  if (refused()) return -EAGAIN;
  const WithoutBlocking guard(of.fd);
  while (of.sent < of.tx_bytes) {
    const int32_t moved = of.tx_pipe->move_out(of.fd, of.tx_bytes - of.sent, of.tx_more);
    if (moved == -EAGAIN) return moved;
    if (moved < 0) return of.sent > 0 ? int32_t(of.sent) : moved;
    of.sent += uint32_t(moved);
  }
  return int32_t(of.sent);
}

/// The ring reports the socket as readable when this number of bytes is there.
void UringEngine::readable_from(UringStream& of, uint32_t bytes) {
  if (of.readable_from == bytes) return;
  of.readable_from = bytes;
  const int value = int(bytes);
  (void)::setsockopt(of.fd, SOL_SOCKET, SO_RCVLOWAT, &value, sizeof value);
}

void UringEngine::receive_piped(StreamId id, StreamPipe& pipe, uint32_t most) {
  UringStream& of = stream(id);
  ULNET_CHECK(!of.receiving && !of.closing && most > 0);
  of.receiving = true;
  of.hot = false;
  of.bulk = true;
  of.rx_pipe = &static_cast<KernelPipe&>(pipe);
  of.rx_most = most;
  readable_from(of, at_once(most));
  if (!await(of, UringOp::kReceive)) owe(of, kOwedReceive, -ENOBUFS);
}

void UringEngine::receive_any(StreamId id) {
  UringStream& of = stream(id);
  if (of.receiving && !of.closing) readable_from(of, 1);
}

void UringEngine::send_piped(StreamId id, StreamPipe& pipe, uint32_t bytes, bool more) {
  UringStream& of = stream(id);
  ULNET_CHECK(!of.sending && !of.closing && bytes > 0);
  start_out(of, static_cast<KernelPipe&>(pipe), bytes, more);
}

void UringEngine::send_lent(StreamId id, std::span<const iovec> pieces, bool more) {
  UringStream& of = stream(id);
  ULNET_CHECK(!of.sending && !of.closing && !pieces.empty() && pieces.size() <= kStreamPieces);
  KernelPipe* pipe = refused() ? nullptr : pipes_.take_lent(pieces);
  if (pipe == nullptr) return send(id, pieces, more);
  of.tx_lent = true;
  start_out(of, *pipe, pipe->bytes(), more || pipe->bytes() < bytes_of(pieces));
}

void UringEngine::send_ended(UringStream& of) {
  of.sending = false;
  if (std::exchange(of.tx_lent, false)) std::exchange(of.tx_pipe, nullptr)->give_back();
}

/// Sends the next bytes of the pipe, at once as far as the socket takes them.
void UringEngine::start_out(UringStream& of, KernelPipe& pipe, uint32_t bytes, bool more) {
  of.sending = true;
  of.tx_pipe = &pipe;
  of.tx_bytes = bytes;
  of.tx_more = more;
  of.sent = 0;
  const int32_t moved = move_out(of);
  if (moved != -EAGAIN) return owe(of, kOwedSend, moved);
  if (!await(of, UringOp::kSend)) owe(of, kOwedSend, of.sent > 0 ? int32_t(of.sent) : -ENOBUFS);
}

/// The ring has waited for a socket, with this result. Goes on with the operation. Returns its result, or EAGAIN if the
/// ring waits again.
int32_t UringEngine::piped_ready(UringStream& of, UringOp op, int32_t result) {
  const bool receive = op == UringOp::kReceive;
  const bool paused = result == -ETIME;
  if (paused) result = 0;
  const bool ready = paused || (result > 0 && (result & (receive ? POLLIN : POLLOUT)) != 0);
  const bool stop = result >= 0 && (of.closing || (receive && of.cancels > 0));
  const int32_t moved = result < 0 ? result : stop ? -ECANCELED : receive ? move_in(of) : move_out(of);
  if (moved == -EAGAIN && (ready ? await(of, op) : pause(of, op))) return moved;
  const int32_t ended = moved == -EAGAIN ? -ENOBUFS : moved;
  if (receive) {
    of.dry = ended < int32_t(of.rx_most);
    return ended;
  }
  return ended < 0 && of.sent > 0 ? int32_t(of.sent) : ended;
}

}  // namespace ulnet::socklnd
