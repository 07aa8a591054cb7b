// The relay of a memif port. The test plays the device and the other processes: servers that are away, hang and end,
// and clients that come, go and crowd.
#include "lnd/net/dpdk/memif_relay_ctl.h"
#include "tests/unit/dpdk/memif_ends.h"

namespace ulnet::dpdk {
namespace {

using Answer = MemifRelay::Answer;
using Types = std::vector<int>;

/// Accepts what memif's server would accept, when the test says so.
class Listener {
 public:
  explicit Listener(const DeviceSpec& device) : address_(memif_address(device)) {
    auto fd = memif_listen(address_);
    if (fd) fd_ = *fd;
    EXPECT_TRUE(fd) << fd.error().what;
    EXPECT_EQ(0, ::listen(fd_, 1)) << "the queue of DPDK's server";
  }
  ~Listener() {
    ::close(fd_);
    if (!address_.is_abstract()) ::unlink(address_.socket.sun_path);
  }
  [[nodiscard]] MemifEnd accept() { return MemifEnd(::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK)); }

 private:
  const MemifAddress address_;
  int fd_ = -1;
};

class MemifRelayTest : public testing::TestWithParam<bool> {
 protected:
  [[nodiscard]] DeviceSpec device(const std::string& role) const {
    return *device_spec("memif,id=3,role=" + role + ",socket=" + name_ + (GetParam() ? "" : ",socket-abstract=no"));
  }
  static std::unique_ptr<MemifRelay> make(const DeviceSpec& device) {
    auto made = MemifRelay::make(device);
    EXPECT_TRUE(made) << made.error().what;
    return std::move(*made);
  }
  static MemifEnd connect(const DeviceSpec& device) {
    const auto fd = memif_connect(memif_address(device));
    return MemifEnd(fd ? *fd : -1);
  }
  const std::string name_ = testing::TempDir() + "ulnet-relay-" + std::to_string(::getpid());
};

class MemifClient : public MemifRelayTest {
 protected:
  std::unique_ptr<MemifRelay> relay = make(device("client"));
};

TEST_P(MemifClient, no_server) {
  EXPECT_EQ(Answer::kNoServer, relay->ask_server());
  EXPECT_EQ(Answer::kNoServer, relay->ask_server());
  EXPECT_TRUE(relay->server_lost());
}

TEST_P(MemifClient, greets_once_it_has_accepted) {
  Listener server(device("server"));
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  EXPECT_FALSE(relay->server_lost());
  MemifEnd accepted = server.accept();
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  accepted.send(kHello);
  EXPECT_EQ(Answer::kGreeted, relay->ask_server());
  EXPECT_EQ(Answer::kGreeted, relay->ask_server());
  EXPECT_EQ(-1, server.accept().fd()) << "one connection serves";
}

TEST_P(MemifClient, a_server_ends_behind_the_connection) {
  auto server = std::make_unique<Listener>(device("server"));
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  server->accept().close();
  EXPECT_EQ(Answer::kNoServer, relay->ask_server());
  EXPECT_EQ(Answer::kNone, relay->ask_server()) << "connected again, and not accepted";
  server.reset();
  EXPECT_EQ(Answer::kNoServer, relay->ask_server());
}

// DPDK's own connect would wait here.
TEST_P(MemifClient, a_server_whose_queue_is_full) {
  Listener server(device("server"));
  std::vector<MemifEnd> others;
  for (int i = 0; i < 2; ++i) others.push_back(connect(device("client")));
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  for (MemifEnd& other : others) {
    (void)server.accept();
    other.close();
  }
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  MemifEnd accepted = server.accept();
  accepted.send(kHello);
  EXPECT_EQ(Answer::kGreeted, relay->ask_server());
}

TEST_P(MemifClient, connects_and_is_opened_again) {
  Listener server(device("server"));
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Answer::kNone, relay->ask_server());
    MemifEnd far = server.accept();
    far.send(kHello);
    EXPECT_EQ(Answer::kGreeted, relay->ask_server());
    MemifEnd dpdk = connect(relay->device());
    EXPECT_TRUE(relay->turn(kNever));
    EXPECT_EQ(Types{kHello}, dpdk.all());
    dpdk.send(kInit);
    EXPECT_TRUE(relay->turn(kNever));
    EXPECT_EQ(Types{kInit}, far.all());
    EXPECT_FALSE(relay->connected());
    far.send(kConnected);
    EXPECT_TRUE(relay->turn(kNever));
    EXPECT_TRUE(relay->connected());
    if (round == 0) far.close();  // the other process goes, otherwise the port is reset
    EXPECT_EQ(round == 0, relay->turn(kNever));
    EXPECT_EQ(round == 0, relay->ending());
    EXPECT_EQ(round == 0, relay->server_lost());
    EXPECT_EQ(Types{kConnected}, dpdk.all()) << "it knows nothing of that";
    dpdk.close();
    if (round == 0) continue;
    EXPECT_EQ(Answer::kNone, relay->ask_server());
    EXPECT_EQ(Types{kEnd}, far.all());
  }
}

// If the port opens its device again at once, it is refused again.
TEST_P(MemifClient, a_server_refuses_the_handshake) {
  Listener server(device("server"));
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  MemifEnd far = server.accept();
  far.send(kHello);
  EXPECT_EQ(Answer::kGreeted, relay->ask_server());
  MemifEnd dpdk = connect(relay->device());
  EXPECT_TRUE(relay->turn(kNever));
  far.send(8);
  far.close();
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_EQ((Types{kHello, 8}), dpdk.all());
  EXPECT_FALSE(relay->server_lost());
  EXPECT_FALSE(relay->ending());
  EXPECT_FALSE(relay->connected());
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  EXPECT_GE(server.accept().fd(), 0);
}

// Its server has not accepted the connection, and must not lose it.
TEST_P(MemifClient, is_opened_again_before_its_server_has_greeted) {
  Listener server(device("server"));
  EXPECT_EQ(Answer::kNone, relay->ask_server());
  for (int round = 0; round < 20; ++round) {
    MemifEnd dpdk = connect(relay->device());
    if (round % 2 == 0) (void)relay->turn(kNever);
    dpdk.close();
    EXPECT_EQ(Answer::kNone, relay->ask_server());
  }
  MemifEnd far = server.accept();
  EXPECT_EQ(Types{}, far.all());
  far.send(kHello);
  EXPECT_EQ(Answer::kGreeted, relay->ask_server());
  MemifEnd dpdk = connect(relay->device());
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_EQ(Types{kHello}, dpdk.all());
}

class MemifServer : public MemifRelayTest {
 protected:
  /// A client up to the rings in use.
  std::pair<MemifEnd, MemifEnd> connected() {
    MemifEnd client = connect(device("client"));
    EXPECT_TRUE(relay->turn(kNever));
    MemifEnd accepted = dpdk.accept();
    accepted.send(kHello);
    EXPECT_TRUE(relay->turn(kNever));
    EXPECT_EQ(Types{kHello}, client.all());
    accepted.send(kConnected);
    EXPECT_TRUE(relay->turn(kNever));
    EXPECT_EQ(Types{kConnected}, client.all());
    EXPECT_TRUE(relay->connected());
    return {std::move(client), std::move(accepted)};
  }
  std::unique_ptr<MemifRelay> relay = make(device("server"));
  Listener dpdk{relay->device()};
};

TEST_P(MemifServer, parameters_of_the_device) {
  EXPECT_EQ("3", relay->device().parameter("id"));
  EXPECT_EQ("server", relay->device().parameter("role"));
  EXPECT_EQ(GetParam() ? "yes" : "no", relay->device().parameter("socket-abstract"));
  EXPECT_NE(name_, relay->device().parameter("socket"));
  EXPECT_TRUE(make(*device_spec("memif"))->is_client()) << "as DPDK takes it";
}

// Control sleeps on these descriptors. If one stays readable, control is awake all the time.
TEST_P(MemifServer, waits_for_what_it_reads) {
  const auto waits = [&] {
    std::vector<int> fds;
    relay->wait_fds(fds);
    return fds.size();
  };
  EXPECT_EQ(1u, waits()) << "the listener";
  auto [client, accepted] = connected();
  EXPECT_EQ(3u, waits());
  client.close();
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_EQ(0u, waits());
  accepted.close();
  EXPECT_TRUE(relay->release());
  EXPECT_EQ(1u, waits());
  std::vector<MemifEnd> clients;
  for (size_t i = 0; i < 3; ++i) {
    clients.push_back(connect(device("client")));
    (void)relay->turn(kNever);
  }
  EXPECT_EQ(2u, waits()) << "the third has no connection to the device yet";
}

TEST_P(MemifServer, the_device_hears_of_the_end_at_release) {
  auto [client, accepted] = connected();
  client.close();
  MemifEnd next = connect(device("client"));
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_TRUE(relay->ending());
  EXPECT_FALSE(relay->connected());
  EXPECT_FALSE(relay->turn(kNever));
  EXPECT_EQ(Types{}, accepted.all());
  EXPECT_EQ(-1, dpdk.accept().fd()) << "the next client waits";
  EXPECT_FALSE(relay->release());
  EXPECT_EQ(Types{kEnd}, accepted.all());
  EXPECT_TRUE(relay->ending()) << "the device has not let go yet";
  accepted.close();
  EXPECT_TRUE(relay->release());
  EXPECT_FALSE(relay->ending());
  EXPECT_TRUE(relay->turn(kNever));
  MemifEnd second = dpdk.accept();
  second.send(kHello);
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_EQ(Types{kHello}, next.all());
}

// DPDK would abort.
TEST_P(MemifServer, clients_that_go_at_once) {
  for (int i = 0; i < 100; ++i) {
    connect(device("client")).close();
    (void)relay->turn(kNever);
    for (MemifEnd accepted = dpdk.accept(); accepted.fd() >= 0; accepted = dpdk.accept()) {
      EXPECT_EQ(Types{}, accepted.all()) << i << ": not before its greeting";
      EXPECT_TRUE(accepted.send(kHello)) << i;
      EXPECT_TRUE(relay->turn(kNever)) << i;
      EXPECT_EQ(Types{kEnd}, accepted.all()) << i;
      accepted.close();
      EXPECT_TRUE(relay->turn(kNever)) << i;
    }
  }
  (void)connected();
}

TEST_P(MemifServer, another_client_is_the_devices_business) {
  auto [client, accepted] = connected();
  MemifEnd second = connect(device("client"));
  EXPECT_TRUE(relay->turn(kNever));
  MemifEnd far = dpdk.accept();
  far.send(kHello);
  EXPECT_TRUE(relay->turn(kNever));
  second.send(kInit);
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_EQ(Types{kInit}, far.all());
  far.send(8);  // already connected
  far.close();
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_EQ((Types{kHello, 8, kEnd}), second.all());
  EXPECT_TRUE(relay->connected());
  EXPECT_FALSE(relay->ending());
}

TEST_P(MemifServer, clients_that_crowd) {
  std::vector<MemifEnd> clients, accepted;
  for (size_t i = 0; i < MemifRelay::kPairsMax + 4; ++i) {
    clients.push_back(connect(device("client")));
    (void)relay->turn(kNever);
    if (MemifEnd far = dpdk.accept(); far.fd() >= 0) accepted.push_back(std::move(far));
  }
  EXPECT_EQ(MemifRelay::kPairsMax, accepted.size());
  for (MemifEnd& far : accepted) far.send(kHello);
  EXPECT_TRUE(relay->turn(kNever));
  EXPECT_FALSE(relay->turn(kNever + MemifRelay::kHandshakePatience - 1ns));
  EXPECT_FALSE(relay->turn(kNever + MemifRelay::kHandshakePatience));
  for (MemifEnd& far : accepted) {
    EXPECT_EQ(Types{kEnd}, far.all());
    far.close();
  }
  EXPECT_TRUE(relay->turn(kNever + MemifRelay::kHandshakePatience));
  EXPECT_GE(dpdk.accept().fd(), 0) << "there is room for those that wait";
}

// DPDK's queue has two connections. None of the clients is lost.
TEST_P(MemifServer, a_device_that_does_not_accept) {
  std::vector<MemifEnd> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(connect(device("client")));
    (void)relay->turn(kNever);
  }
  for (int i = 0; i < 5; ++i) {
    MemifEnd far = dpdk.accept();
    ASSERT_GE(far.fd(), 0) << i;
    far.send(kHello);
    (void)relay->turn(kNever);
    EXPECT_EQ(Types{kHello}, clients[size_t(i)].all()) << i;
  }
}

TEST_P(MemifServer, a_name_that_is_too_long) {
  const std::string fits(sizeof sockaddr_un::sun_path - 6, 'x');
  const auto at = [](const std::string& name) {
    return MemifRelay::make(*device_spec("memif,role=server,socket-abstract=no,socket=" + name));
  };
  const auto refused = at(fits + "x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(-EINVAL, refused.error().code);
  EXPECT_TRUE(at(fits));
}

TEST_P(MemifServer, its_socket_is_taken) {
  const auto second = MemifRelay::make(device("server"));
  ASSERT_FALSE(second);
  EXPECT_EQ(-EADDRINUSE, second.error().code);
  EXPECT_EQ("another port or process listens at memif's socket: give each its own: " + name_, second.error().what);
}

TEST_P(MemifServer, its_socket_file) {
  EXPECT_EQ(!GetParam(), std::filesystem::exists(name_));
  relay.reset();
  EXPECT_FALSE(std::filesystem::exists(name_));
  if (GetParam()) return;
  ::close(*memif_listen(memif_address(device("server"))));  // a process that was killed
  EXPECT_TRUE(std::filesystem::exists(name_));
  EXPECT_NE(nullptr, make(device("server")));
}

const auto kNames = [](const auto& given) { return given.param ? "abstract" : "file"; };
INSTANTIATE_TEST_SUITE_P(names, MemifClient, testing::Bool(), kNames);
INSTANTIATE_TEST_SUITE_P(names, MemifServer, testing::Bool(), kNames);

}  // namespace
}  // namespace ulnet::dpdk
