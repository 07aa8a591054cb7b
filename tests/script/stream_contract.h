// The base of the tests of the engines' contract: one engine, and one connection of this engine.
#pragma once
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <cstring>

#include "tests/cluster/sim_tcp.h"
#include "tests/unit/engine/rig.h"

namespace ulnet::test {
enum class Which { kUring, kEpoll, kSim };
inline constexpr size_t kBig = 1 << 20;  ///< more bytes than a socket takes while the far end reads none

inline std::byte pattern(uint64_t at) {
  return std::byte(uint8_t((at * 0x9E3779B1u) >> 11));
}

/// The other machine's end of the stream under test.
class FarEnd {
 public:
  virtual ~FarEnd() = default;
  /// Bytes; 0: end of stream; EAGAIN: nothing is there yet; another negative errno: broken.
  virtual int read(std::span<std::byte> out) = 0;
  /// Bytes; 0 or a negative errno: no room.
  virtual int write(std::span<const std::byte> in) = 0;
  /// Sends FIN and goes on reading.
  virtual void finish() = 0;
  virtual void reset() = 0;
};

/// One engine, and one connection with one end at the engine.
class World {
 public:
  virtual ~World() = default;
  /// Lets a little time pass, so that pending events happen.
  virtual void pass() = 0;
  /// Makes a connection with small buffers.
  virtual void connect() = 0;
  std::unique_ptr<StreamEngine> engine;
  std::unique_ptr<FarEnd> far;
  StreamSource near;
  std::string missing;
};

class KernelFarEnd final : public FarEnd {
 public:
  explicit KernelFarEnd(int fd) : fd_(fd) {}
  ~KernelFarEnd() override {
    if (fd_ >= 0) ::close(fd_);
  }
  int read(std::span<std::byte> out) override {
    const ssize_t got = ::recv(fd_, out.data(), out.size(), MSG_DONTWAIT);
    return got < 0 ? -errno : int(got);
  }
  int write(std::span<const std::byte> in) override {
    return int(::send(fd_, in.data(), in.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
  }
  void finish() override { EXPECT_EQ(0, ::shutdown(fd_, SHUT_WR)); }
  void reset() override {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

class KernelWorld final : public World {
 public:
  explicit KernelWorld(Which which) {
    Error why_not;
    engine = which == Which::kUring ? socklnd::make_uring_engine(8, &why_not) : socklnd::make_epoll_engine(8);
    if (which == Which::kUring && std::string(engine->name()) != "io_uring") missing = why_not.what;
  }
  void connect() override {
    const auto [a, b] = socklnd::test::tcp_pair(8192);
    near = {a};
    constexpr int kOn = 1;
    setsockopt(b, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof kOn);
    far = std::make_unique<KernelFarEnd>(b);
  }
  void pass() override {
    if (engine->pending()) return;
    pollfd wait{engine->wait_fd(), POLLIN, 0};
    (void)::poll(&wait, 1, 1);
  }
};

class SimFarEnd final : public FarEnd {
 public:
  SimFarEnd(SimTcp& tcp, NetIo& net, SocketId id) : tcp_(tcp), net_(net), id_(id) {}
  ~SimFarEnd() override {
    if (id_ != 0) net_.close(id_);
  }
  int read(std::span<std::byte> out) override { return net_.read(id_, out); }
  int write(std::span<const std::byte> in) override { return net_.write(id_, in); }
  void finish() override { tcp_.finish(id_); }
  void reset() override {
    tcp_.abort(id_);
    net_.close(std::exchange(id_, 0));
  }

 private:
  SimTcp& tcp_;
  NetIo& net_;
  SocketId id_;
};

class SimWorld final : public World {
 public:
  explicit SimWorld(uint64_t seed) : tcp_({.seed = seed, .send_buffer = 16384, .receive_buffer = 16384, .pipes = 2}) {
    engine = tcp_.engine(8);
    far_net_ = tcp_.net_io({ip("10.0.0.2")});
    near_net_ = tcp_.net_io({ip("10.0.0.1")});
    (void)*far_net_->listen({ip("10.0.0.2"), 988}, 8, {});
  }
  ~SimWorld() override {
    far.reset();
    engine.reset();
  }
  void connect() override {
    const SocketId dialled = *near_net_->connect(ip("10.0.0.1"), {ip("10.0.0.2"), 988}, {});
    SocketId accepted = 0;
    bool connected = false;
    while (accepted == 0 || !connected) {
      pass();
      std::array<NetEvent, 4> events;
      for (const NetEvent& event : std::span(events).first(far_net_->poll(events, now_)))
        if (event.kind == NetEventKind::kAccepted) accepted = event.socket;
      for (const NetEvent& event : std::span(events).first(near_net_->poll(events, now_)))
        connected |= event.kind == NetEventKind::kConnected;
    }
    near = near_net_->detach(dialled);
    far = std::make_unique<SimFarEnd>(tcp_, *far_net_, accepted);
  }
  void pass() override { tcp_.advance(now_ += 50us); }

 private:
  SimTcp tcp_;
  Instant now_{1s};
  std::unique_ptr<NetIo> far_net_, near_net_;
};

struct Case {
  Which which;
  uint64_t seed;
};

/// Sends the pattern and counts the bytes that the engine reports.
class StreamContract : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().which == Which::kSim) {
      world = std::make_unique<SimWorld>(GetParam().seed);
    } else {
      world = std::make_unique<KernelWorld>(GetParam().which);
    }
    if (!world->missing.empty()) GTEST_SKIP() << world->missing;
  }
  StreamEngine& engine() { return *world->engine; }

  void open() {
    told = read_bytes = 0;
    lent.clear();
    sending = receiving = closed = false;
    far_end = -EAGAIN;
    last_sent = last_received = INT32_MAX;
    world->connect();
    const auto attached = engine().attach(world->near, this);
    ASSERT_TRUE(attached.has_value());
    id = *attached;
  }
  /// Sends the next `bytes` of the pattern, in pieces of random sizes. With `lends`, their memory is lent.
  void send(size_t bytes) {
    ASSERT_FALSE(sending);
    if (lends) lent.push_back(std::exchange(memory, {}));
    memory.resize(bytes);
    for (size_t i = 0; i < bytes; ++i) memory[i] = pattern(told + i);
    std::vector<iovec> pieces;
    for (size_t at = 0; at < bytes;) {
      const bool last = pieces.size() == socklnd::kStreamPieces - 1;
      const size_t piece = last ? bytes - at : std::min<size_t>(bytes - at, 1 + rng.below(bytes));
      pieces.push_back({memory.data() + at, piece});
      at += piece;
    }
    sending = true;
    asked = bytes;
    if (lends)
      engine().send_lent(id, pieces, rng.one_in(2));
    else
      engine().send(id, pieces, rng.one_in(2));
  }
  void receive() {
    const iovec piece{scrap.data(), scrap.size()};
    receiving = true;
    engine().receive(id, {&piece, 1}, 0);
  }
  /// Takes the events of the engine.
  void turn() {
    engine().flush();
    std::array<StreamEvent, 4> events;
    for (const StreamEvent& event : std::span(events).first(engine().poll(events, kNever))) take(event);
    world->pass();
  }
  void take(const StreamEvent& event) {
    ASSERT_EQ(event.owner, this);
    ASSERT_FALSE(closed) << "nothing comes after kClosed";
    switch (event.kind) {
      case StreamEventKind::kSent:
        ASSERT_TRUE(sending) << "each send comes back once";
        sending = false;
        last_sent = event.result;
        ASSERT_NE(event.result, 0);
        ASSERT_LE(event.result, int64_t(asked));
        if (event.result > 0) told += uint64_t(event.result);
        if (!lends) std::fill(memory.begin(), memory.end(), std::byte{0xEE});  // ours again
        return;
      case StreamEventKind::kReceived:
        ASSERT_TRUE(receiving) << "each receive comes back once";
        receiving = false;
        last_received = event.result;
        return;
      case StreamEventKind::kClosed:
        closed = true;
        ASSERT_FALSE(sending || receiving) << "what is under way comes back before kClosed";
        return;
    }
  }
  template <class F>
  void until(F&& done) {
    while (!done() && !HasFatalFailure()) turn();
  }
  void close(bool abort) {
    engine().close(id, abort);
    until([&] { return closed; });
  }
  /// The far end reads at most `most` bytes of what has come, and looks at each.
  void far_read(size_t most) {
    std::array<std::byte, 65536> in;
    while (most > 0) {
      far_end = world->far->read(std::span(in).first(std::min(most, in.size())));
      if (far_end <= 0) return;
      for (size_t i = 0; i < size_t(far_end); ++i) ASSERT_EQ(in[i], pattern(read_bytes + i)) << read_bytes + i;
      read_bytes += uint64_t(far_end);
      most -= size_t(far_end);
    }
  }
  /// Until the stream's end at the far end: 0, or an error.
  void far_read_all() {
    until([&] {
      far_read(SIZE_MAX);
      return far_end != -EAGAIN;
    });
  }
  /// A send of more than fits is under way, and part of it is with the transport; the far end has read nothing.
  void send_part() {
    send(kBig);
    until([&] {
      if (!sending) send(kBig);
      return engine().unsent_bytes(id) > 0;
    });
    if (!sending) send(kBig);
  }

  Rng rng{7};
  StreamId id;
  bool lends = false;  ///< sends lend their memory: it stays as it is until the next open()
  std::vector<std::byte> memory;
  std::deque<std::vector<std::byte>> lent;  ///< memory of earlier sends
  std::array<std::byte, 64> scrap{};
  size_t asked = 0;
  bool sending = false, receiving = false, closed = false;
  int last_sent = 0, last_received = 0, far_end = 0;
  uint64_t told = 0;             ///< bytes that kSent reported
  uint64_t read_bytes = 0;       ///< by the far end
  std::unique_ptr<World> world;  ///< ends first: its sockets may have lent memory
};

/// The name of a case.
inline std::string engine_name(const testing::TestParamInfo<Case>& one) {
  if (one.param.which == Which::kUring) return "io_uring";
  if (one.param.which == Which::kEpoll) return "epoll";
  return "sim" + std::to_string(one.param.seed);
}

}  // namespace ulnet::test
