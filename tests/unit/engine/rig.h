// One StreamEngine with loopback TCP connections, driven as by a worker: poll, flush, and if idle the re-check and a
// blocking wait. A wait of 10 s without an event fails the test, because a wake-up is lost.
#pragma once
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd::test {

enum class Kind { kUring, kEpoll };
inline std::string kind_name(const testing::TestParamInfo<Kind>& info) {
  return info.param == Kind::kUring ? "io_uring" : "epoll";
}

/// Two connected TCP sockets on 127.0.0.1.
inline std::array<int, 2> tcp_pair(int buffer_bytes = 0) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (buffer_bytes != 0) setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &buffer_bytes, sizeof buffer_bytes);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof at;
  EXPECT_EQ(0, bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof at));
  EXPECT_EQ(0, listen(listener, 8));
  EXPECT_EQ(0, getsockname(listener, reinterpret_cast<sockaddr*>(&at), &bytes));
  const int a = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (buffer_bytes != 0) setsockopt(a, SOL_SOCKET, SO_SNDBUF, &buffer_bytes, sizeof buffer_bytes);
  EXPECT_EQ(0, connect(a, reinterpret_cast<sockaddr*>(&at), sizeof at));
  const int b = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  EXPECT_GE(b, 0);
  ::close(listener);
  return {a, b};
}

inline int open_descriptors() {
  int count = 0;
  for (int fd = 0; fd < 4096; ++fd) count += fcntl(fd, F_GETFD) >= 0;
  return count;
}

class Rig {
 public:
  explicit Rig(Kind kind, uint32_t streams = 64) {
    Error why_not;
    engine = kind == Kind::kUring ? make_uring_engine(streams, &why_not) : make_epoll_engine(streams);
    if (kind == Kind::kUring && std::string(engine->name()) != "io_uring") missing = why_not.what;
  }
  /// The next event; kClosed with a null owner when none came within `wait_ms`.
  StreamEvent next(int wait_ms = 10'000) {
    std::array<StreamEvent, 1> out;
    for (;;) {
      if (engine->poll(out, kNever) == 1) return out[0];
      engine->flush();
      if (engine->pending()) continue;
      pollfd wait{engine->wait_fd(), POLLIN, 0};
      if (ppoll_ms(wait, wait_ms) == 0) return {};
    }
  }
  /// Expects this event as the next one; returns its result.
  int expect(StreamEventKind kind, void* owner) {
    const StreamEvent event = next();
    EXPECT_EQ(int(kind), int(event.kind));
    EXPECT_EQ(owner, event.owner);
    return event.result;
  }
  StreamId attach(int fd, void* owner) {
    auto id = engine->attach({fd}, owner);
    EXPECT_TRUE(id.has_value());
    return *id;
  }
  void receive(StreamId id, void* memory, size_t bytes) {
    const iovec piece{memory, bytes};
    engine->receive(id, {&piece, 1}, 0);
  }
  void send(StreamId id, const void* memory, size_t bytes) {
    const iovec piece{const_cast<void*>(memory), bytes};
    engine->send(id, {&piece, 1}, false);
  }

  std::unique_ptr<StreamEngine> engine;
  std::string missing;  ///< the reason why this machine does not have the engine; "" if it has

 private:
  static int ppoll_ms(pollfd& wait, int ms) {
    int ready;
    do ready = ::poll(&wait, 1, ms);
    while (ready < 0 && errno == EINTR);
    return ready;
  }
};

}  // namespace ulnet::socklnd::test
