#include "lnd/socklnd/engine/kernel_pipes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <ctime>
#include <tuple>
#include <utility>

#include "dataplane/base/check.h"

namespace ulnet::socklnd {
namespace {

/// The kernel has refused a pipe: this number of payloads go without another attempt.
constexpr uint32_t kRefusedFor = 1000;

/// Keeps a SIGPIPE that this thread raises from the program. splice() has no flag for that.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    sigset_t pending;
    if (sigismember(&before_, SIGPIPE) == 1 && sigpending(&pending) == 0)
      was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  }
  ~NoSigpipe() { (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;
  /// The call has sent less than it might: perhaps because the peer is gone. This raises the signal even if a part was
  /// sent.
  void swallow() const {
    constexpr timespec kNoTime{};
    if (!was_pending_) (void)sigtimedwait(&pipe_, nullptr, &kNoTime);
  }

 private:
  sigset_t pipe_, before_;
  bool was_pending_ = false;
};

/// Are descriptors scarce? The kernel gives the lowest free number, so half of the limit is in use.
bool scarce(int fd) {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 && rlim_t(fd) >= limit.rlim_cur / 2;
}

}  // namespace

bool KernelPipe::open() {
  int fds[2];
  if (::pipe2(fds, O_NONBLOCK | O_CLOEXEC) != 0) return false;
  std::tie(read_fd_, write_fd_) = std::pair(fds[0], fds[1]);
  if (!scarce(write_fd_) && ::fcntl(write_fd_, F_SETPIPE_SZ, kPipeBytes) >= kPipeBytes) return true;
  close();
  return false;
}

void KernelPipe::close() {
  if (read_fd_ < 0) return;
  ::close(std::exchange(read_fd_, -1));
  ::close(std::exchange(write_fd_, -1));
}

void KernelPipe::to_memory(const Payload& window) {
  ULNET_CHECK(out_ == 0 && place + in_ <= window.length);
  PayloadCursor cursor(window);
  cursor.advance(place);
  for (uint32_t left = in_; left > 0;) {
    iovec piece;
    const unsigned pieces = cursor.pieces({&piece, 1}, left);
    const ssize_t got = pieces == 0 ? 0 : ::read(read_fd_, piece.iov_base, piece.iov_len);
    if (got < 0 && errno == EINTR) continue;
    ULNET_CHECK(got > 0);  // the bytes are there
    cursor.advance(uint32_t(got));
    left -= uint32_t(got);
  }
  in_ = 0;
}

/// A pipe with bytes that nobody sends any more is closed: that is quicker than to read them.
void KernelPipe::give_back() {
  if (in_ != out_) close();
  in_ = out_ = place = 0;
  owner_->give(*this);
}

int32_t KernelPipe::move_in(int socket, uint32_t most) {
  ssize_t moved;
  do moved = ::splice(socket, nullptr, write_fd_, nullptr, most, SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
  while (moved < 0 && errno == EINTR);
  if (moved >= 0) {
    in_ += uint32_t(moved);
    return int32_t(moved);
  }
  const int error = errno;
  // The same errno says that nothing has come, and that the pipe is full. In a full pipe, the end of the stream and its
  // errors would never show.
  pollfd pipe{write_fd_, POLLOUT, 0};
  const bool full = error == EAGAIN && in_ > 0 && ::poll(&pipe, 1, 0) == 0;
  return full ? -ENOSPC : -error;
}

uint32_t KernelPipe::lend(std::span<const iovec> pieces) {
  ULNET_CHECK(in_ == 0);
  const ssize_t took = ::vmsplice(write_fd_, pieces.data(), pieces.size(), SPLICE_F_NONBLOCK);
  if (took > 0) in_ = uint32_t(took);
  return in_;
}

int32_t KernelPipe::move_out(int socket, uint32_t most, bool more) {
  ULNET_CHECK(most > 0 && most <= in_ - out_);
  const NoSigpipe guard;
  ssize_t moved;
  do moved = ::splice(read_fd_, nullptr, socket, nullptr, most, SPLICE_F_NONBLOCK | (more ? SPLICE_F_MORE : 0));
  while (moved < 0 && errno == EINTR);
  const int error = errno;
  if (moved < ssize_t(most)) guard.swallow();
  if (moved > 0) out_ += uint32_t(moved);
  return moved < 0 ? -error : moved == 0 ? -EAGAIN : int32_t(moved);
}

KernelPipes::KernelPipes() {
  for (KernelPipe& pipe : all_) {
    pipe.owner_ = this;
    free_.push_back(pipe);
  }
}

KernelPipes::~KernelPipes() {
  for (KernelPipe& pipe : all_) pipe.close();
}

KernelPipe* KernelPipes::take() {
  KernelPipe* pipe = free_.front();
  if (pipe == nullptr) return nullptr;
  if (pipe->read_fd_ < 0) {
    if (no_open_ > 0) {
      --no_open_;
      return nullptr;
    }
    if (!pipe->open()) {
      no_open_ = kRefusedFor;
      return nullptr;
    }
  }
  free_.remove(*pipe);
  return pipe;
}

KernelPipe* KernelPipes::take_lent(std::span<const iovec> pieces) {
  KernelPipe* pipe = take();
  if (pipe == nullptr || pipe->lend(pieces) > 0) return pipe;
  pipe->give_back();
  return nullptr;
}

void KernelPipes::give(KernelPipe& pipe) {
  if (pipe.read_fd_ < 0)
    free_.push_back(pipe);
  else
    free_.push_front(pipe);
}

}  // namespace ulnet::socklnd
