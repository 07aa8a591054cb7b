#include "lnd/net/dpdk/memif_pair.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace ulnet::dpdk {
namespace {

constexpr uint16_t kTypeConnect = 6, kTypeConnected = 7;  // of messages
constexpr unsigned kMessagesPerTurn = 64;

void close_it(int& fd) {
  if (fd >= 0) ::close(std::exchange(fd, -1));
}

/// Something has come, or the other end is closed.
bool stirs(int fd) {
  char one;
  const ssize_t got = ::recv(fd, &one, 1, MSG_PEEK | MSG_DONTWAIT);
  return got >= 0 || (errno != EAGAIN && errno != EINTR);
}

bool is_closed(int fd) {
  char one;
  const ssize_t got = ::recv(fd, &one, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace

uint16_t MemifPair::Message::type() const {
  uint16_t out = 0;
  if (size >= sizeof out) std::memcpy(&out, bytes.data(), sizeof out);
  return out;
}

MemifPair::~MemifPair() {
  close();
}

MemifPair::Got MemifPair::receive(int from, Message& out) {
  iovec part{out.bytes.data(), out.bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  head.msg_control = control.data();
  head.msg_controllen = CMSG_LEN(sizeof(int));  // with the whole space, a second descriptor would come
  const ssize_t got = ::recvmsg(from, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Got::kNothing;
  out.fd = -1;
  if (const cmsghdr* first = got > 0 ? CMSG_FIRSTHDR(&head) : nullptr;
      first != nullptr && first->cmsg_level == SOL_SOCKET && first->cmsg_type == SCM_RIGHTS)
    std::memcpy(&out.fd, CMSG_DATA(first), sizeof out.fd);
  out.size = size_t(std::max<ssize_t>(got, 0));
  if (got > 0 && (head.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0) return Got::kMessage;
  out.size = 0;
  close_it(out.fd);
  return Got::kEnd;
}

bool MemifPair::send(int to, Message& message) {
  iovec part{message.bytes.data(), message.size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr head{};
  head.msg_iov = &part;
  head.msg_iovlen = 1;
  if (message.fd >= 0) {
    head.msg_control = control.data();
    head.msg_controllen = control.size();
    cmsghdr* first = CMSG_FIRSTHDR(&head);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(first), &message.fd, sizeof message.fd);
  }
  const ssize_t sent = ::sendmsg(to, &head, MSG_DONTWAIT | MSG_NOSIGNAL);
  close_it(message.fd);
  return sent == ssize_t(message.size);
}

bool MemifPair::turn() {
  bool any = false;
  bool more = true;
  for (unsigned i = 0; more && i < kMessagesPerTurn; ++i, any = any || more) {
    switch (stage_) {
      case Stage::kGreeting: more = greeting_turn(); break;
      case Stage::kHandshake: more = handshake_turn(); break;
      case Stage::kConnected:
        more = stirs(client_) || stirs(server_);
        if (more) stage_ = Stage::kEnding;
        break;
      case Stage::kEnding:
      case Stage::kOver: more = false; break;
    }
  }
  return any;
}

bool MemifPair::greeting_turn() {
  const Got got = receive(server_, greeting_);
  if (got == Got::kMessage) {
    greeted_ = true;
    stage_ = Stage::kHandshake;
    return true;
  }
  if (got == Got::kEnd) {
    stage_ = Stage::kEnding;
    return true;
  }
  if (client_ < 0 || !is_closed(client_)) return false;
  close_it(client_);
  return true;
}

bool MemifPair::handshake_turn() {
  if (greeting_.size == 0) return (!connecting_ && pass(client_, server_)) || pass(server_, client_);
  if (client_ >= 0) {
    const bool sent = send(client_, greeting_);
    greeting_.size = 0;
    if (!sent) stage_ = Stage::kEnding;
    return true;
  }
  if (!stirs(server_)) return false;
  stage_ = Stage::kEnding;
  return true;
}

/// One message, if one has come. True: it did something.
bool MemifPair::pass(int from, int to) {
  Message message;
  const Got got = receive(from, message);
  if (got == Got::kNothing) return false;
  const bool connected = from == server_ && message.type() == kTypeConnected;
  if (got == Got::kEnd || !send(to, message)) {
    stage_ = Stage::kEnding;
  } else if (from == client_ && message.type() == kTypeConnect) {
    connecting_ = true;
  } else if (connected) {
    had_rings_ = true;
    stage_ = Stage::kConnected;
  }
  return true;
}

void MemifPair::drop_client() {
  if (!greeting_is_free()) return close();
  close_it(client_);
}

/// A server must have greeted before. DPDK's thread closes its end after it has unmapped the rings.
bool MemifPair::let_go(Side device) {
  if (stage_ == Stage::kGreeting) (void)greeting_turn();
  const int fd = device == Side::kServer ? server_ : client_;
  if (fd < 0) return true;
  if (device == Side::kServer && stage_ == Stage::kGreeting) return false;
  if (!std::exchange(shut_, true)) ::shutdown(fd, SHUT_WR);
  if (device == Side::kServer) stage_ = Stage::kEnding;
  std::array<std::byte, kMessageBytes> left;
  ssize_t got = 1;
  while (got > 0) got = ::recv(fd, left.data(), left.size(), MSG_DONTWAIT);
  return got == 0 || (errno != EAGAIN && errno != EINTR);
}

bool MemifPair::release(Side device) {
  if (!let_go(device)) return false;
  close();
  return true;
}

void MemifPair::close() {
  stage_ = Stage::kOver;
  close_it(greeting_.fd);
  close_it(client_);
  close_it(server_);
}

void MemifPair::wait_fds(std::vector<int>& out) const {
  if (stage_ == Stage::kEnding || stage_ == Stage::kOver) return;
  out.push_back(server_);
  if (!greeting_is_free() && !(connecting_ && stage_ == Stage::kHandshake)) out.push_back(client_);
}

}  // namespace ulnet::dpdk
