// Each row of socklnd's record changes something that a peer, the kernel or the journal sees. Each case has three
// trials: with the default, with another number from the start on, and with that number given while the node runs. A
// row that needs a restart has no effect in the third trial. Not covered: the way from a configuration text to the
// numbers.
#include <gtest/gtest.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <cctype>
#include <optional>

#include "dataplane/base/nid_text.h"
#include "tests/congestion_of.h"
#include "tests/free_port.h"
#include "tests/script/row_numbers.h"
#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

using socklnd::sock_config;
using socklnd::sock_setting_fields;
using socklnd::sock_tunable_fields;
using socklnd::sock_tunables;

constexpr const char* kUs = "10.0.0.1@tcp";
constexpr const char* kThem = "10.0.0.2@tcp";
constexpr uint32_t kNone = 0xFFFFFFFF;

// ---- a node from the numbers of the rows ----------------------------------------------------------------------------

enum class When : uint8_t { kNever, kAtStart, kLater };

/// One trial of one node, whose row `key` has or gets another number.
class Trial {
 public:
  Trial(const char* key, int64_t number, When moment) : rig({.pipes = 1}), when(moment) {
    rig.tcp.record = true;
    changed_.set(key, number);
    if (when == When::kAtStart) first_.set(key, number);
  }
  /// Sets a row that the case needs in every trial.
  void set(std::string_view key, int64_t number) {
    first_.set(key, number);
    changed_.set(key, number);
  }
  /// Starts the node on the simulated TCP.
  SockNode& start() { return start({.nids = {kUs}}); }
  /// Starts the node on kernel sockets at 127.0.0.21.
  SockNode& start_on_kernel() {
    port = free_port();
    set("ulnet.unprivileged_ports", 1);  // for dials without privileges
    set("ulnet.accept", 1);
    set("ulnet.accept_port", port);
    rig.real_time = true;
    rig.now = Instant{std::chrono::steady_clock::now().time_since_epoch()};
    SockNodeOptions options{.nids = {"127.0.0.21@tcp"}};
    options.make_net = [] { return socklnd::make_kernel_net_io(); };
    options.make_engine = [] { return socklnd::make_epoll_engine(16); };
    return start(std::move(options));
  }
  [[nodiscard]] const std::vector<int64_t>& first_settings() const { return first_.settings; }
  [[nodiscard]] const std::vector<int64_t>& changed_settings() const { return changed_.settings; }

  SockRig rig;
  const When when;
  uint16_t port = 0;  ///< of the node on kernel sockets

 private:
  SockNode& start(SockNodeOptions options) {
    options.config = sock_config(first_.settings);
    options.tunables = sock_tunables(first_.tunables);
    SockNode& node = rig.add(options);
    if (when != When::kLater) return node;
    socklnd::sock_lnd_retune(*node.control, sock_config(changed_.settings), rig.now);
    EXPECT_TRUE(node.control->ni_tune({1}, changed_.for_running_ni(), rig.now));
    rig.run_for(1ms);
    return node;
  }
  RowNumbers first_{sock_setting_fields(), sock_tunable_fields()}, changed_ = first_;
};

/// The time from now until `done`, in whole seconds. The rig moves its clock on before run_until() looks.
template <class F>
std::string seconds_until(SockRig& rig, F&& done) {
  const Instant begin = rig.now;
  Instant end = kForever;
  rig.also.push_back([&](Instant now) {
    if (end == kForever && done()) end = now;
    return false;
  });
  const bool came = rig.run_until([&] { return end != kForever; }, 200s);
  rig.also.pop_back();
  return came ? std::to_string((end - begin + 500ms) / 1s) + " s" : "never";
}

/// Connections that were dialled to `address`, in the order of their SYNs.
std::vector<const SimConnection*> dialled_to(const SockRig& rig, const char* address) {
  std::vector<const SimConnection*> found;
  for (const SimConnection& connection : rig.tcp.connections)
    if (connection.passive.address == ip(address)) found.push_back(&connection);
  return found;
}

/// Dials the node and sends a HELLO of `nid`; whether the node accepts the connection.
bool accepted_from(SockRig& rig, const char* address, const std::string& nid, bool privileged) {
  RawPeer& peer = rig.foreign(address);
  peer.dial("10.0.0.1", privileged);
  peer.send(raw_request(kUs) + raw_hello(3, nid, kUs, 1));
  rig.run_for(20ms);
  return peer.in.size() >= 56 && u32_at(peer.in, 48) != kNone;
}

/// A message to the peer, for which the node dials.
void send_one(Trial& trial, SockNode& node) {
  node.put(kThem, 0);
  trial.rig.run_for(20ms);
}

// ---- observations on simulated TCP ----------------------------------------------------------------------------------

std::string engine_is_configured(Trial& trial) {
  const auto driver = socklnd::kSockDriver.open({.settings = trial.first_settings()});
  if (!driver) return driver.error().what;
  if (trial.when == When::kLater) (*driver)->retune(trial.changed_settings(), trial.rig.now);
  return (*driver)->note().text == "epoll: as configured" ? "yes" : "no";
}

std::string trust_in_ports(Trial& trial) {
  SockNode& node = trial.start();
  std::string text = "refuses 10.0.0.9";
  if (accepted_from(trial.rig, "10.0.0.3", "10.0.0.9@tcp", false))
    text = "accepts " + nid_text(node.places.begin()->first);
  trial.rig.foreign("10.0.0.2").listen();
  send_one(trial, node);
  const auto dials = dialled_to(trial.rig, "10.0.0.2");
  return text + ", dials from " + (dials.empty() ? "nowhere" : std::to_string(dials[0]->dialler.port));
}

std::string ports_accepted(Trial& trial) {
  trial.start();
  const bool low = accepted_from(trial.rig, "10.0.0.2", kThem, true);
  const bool high = accepted_from(trial.rig, "10.0.0.3", "10.0.0.3@tcp", false);
  return std::string(low ? "low" : "") + (high ? " and high" : "");
}

std::string port_used(Trial& trial) {
  SockNode& node = trial.start();
  std::string text = "listens at";
  for (const uint16_t port : {uint16_t{988}, uint16_t{4444}}) {
    RawPeer& peer = trial.rig.foreign(port == 988 ? "10.0.0.3" : "10.0.0.4");
    peer.dial("10.0.0.1", true, port);
    trial.rig.run_for(20ms);
    if (peer.connected) text += " " + std::to_string(port);
  }
  send_one(trial, node);
  const auto dials = dialled_to(trial.rig, "10.0.0.2");
  return text + ", dials " + (dials.empty() ? "nothing" : std::to_string(dials[0]->passive.port));
}

std::string request_ends_after(Trial& trial) {
  trial.start();
  RawPeer& peer = trial.rig.foreign("10.0.0.2");
  peer.dial("10.0.0.1");
  return seconds_until(trial.rig, [&] { return peer.end != RawPeer::End::kOpen; });
}

std::string clients_served(Trial& trial) {
  trial.start();
  unsigned served = 0;
  for (int i = 1; i <= 17; ++i) {
    const std::string address = "10.0.1." + std::to_string(i);
    served += accepted_from(trial.rig, address.c_str(), address + "@tcp", true);
  }
  return std::to_string(served);
}

std::string dial_ends_after(Trial& trial) {
  SockNode& node = trial.start();
  RawPeer& silent = trial.rig.foreign("10.0.0.2");
  silent.listen();
  send_one(trial, node);
  return seconds_until(trial.rig, [&] { return silent.end != RawPeer::End::kOpen; });
}

std::string types_dialled(Trial& trial) {
  SockNode& node = trial.start();
  SockNode& peer = trial.rig.add({.nids = {kThem}, .tunables = {.conns_per_peer = 4}});
  node.put(kThem, 100);
  trial.rig.run_for(1s);
  return types_of(trial.rig.tcp) + (peer.received.size() == 1 ? " served" : " of no use");
}

std::string type_of_a_small_message(Trial& trial) {
  SockNode& node = trial.start();
  trial.rig.add({.nids = {kThem}});
  node.put(kThem, 0);
  trial.rig.run_for(1s);
  std::vector<size_t> before;
  for (const SimConnection& connection : trial.rig.tcp.connections) before.push_back(connection.sent[0].size());
  node.put(kThem, 100);
  trial.rig.run_for(1s);
  std::string types;
  for (size_t i = 0; i < before.size(); ++i)
    if (trial.rig.tcp.connections[i].sent[0].size() > before[i])
      types += std::to_string(offered_type(trial.rig.tcp.connections[i]));
  return types;
}

std::string keepalive_after(Trial& trial) {
  trial.start();
  RawPeer& peer = trial.rig.foreign("10.0.0.2");
  peer.dial("10.0.0.1");
  peer.send(raw_request(kUs) + raw_hello(3, kThem, kUs, 3));  // its BULK_OUT is the node's connection for NOOPs
  trial.rig.run_for(20ms);
  peer.in.clear();
  return seconds_until(trial.rig, [&] { return !peer.in.empty(); });
}

/// The peer has an untyped connection of version 2, which has checksums and cookies.
RawPeer& version_2_peer(SockRig& rig) {
  RawPeer& peer = rig.foreign("10.0.0.2");
  peer.dial("10.0.0.1");
  peer.send(raw_request(kUs) + raw_hello(2, kThem, kUs, 0));
  rig.run_for(20ms);
  peer.in.clear();
  return peer;
}

std::string checksums(Trial& trial) {
  SockNode& node = trial.start();
  RawPeer& peer = version_2_peer(trial.rig);
  node.put(kThem, 4096);
  trial.rig.run_for(20ms);
  std::string text = u32_at(peer.in, 4) != 0 ? "in messages" : "no";
  peer.in.clear();
  peer.send(raw_put(2, kThem, kUs, 7, 100, 55));  // the cookie requests a NOOP
  trial.rig.run_for(20ms);
  return text + (u32_at(peer.in, 4) != 0 ? ", in NOOPs" : ", no");
}

std::string pipes(Trial& trial) {
  SockNode& node = trial.start();
  node.on_header = [](FakeCore& core, RxSlot& slot) {
    core.make_room(slot, UINT32_MAX);
    slot.may_pipe = true;
    return RxVerdict::kReceive;
  };
  RawPeer& peer = version_2_peer(trial.rig);
  for (uint64_t number = 1; number <= 20; ++number) peer.send(raw_put(2, kThem, kUs, number, 100'000));
  trial.rig.run_for(100ms);
  EXPECT_EQ(node.received.size(), 20u);
  return trial.rig.tcp.pipes.taken > 0 ? "used" : "not used";
}

std::string cookies(Trial& trial) {
  SockNode& node = trial.start();
  RawPeer& peer = version_2_peer(trial.rig);
  std::string text;
  for (const uint32_t bytes : {4095u, 4096u}) {
    peer.in.clear();
    node.put(kThem, bytes);
    trial.rig.run_for(20ms);
    if (u32_at(peer.in, 8) != 0) text += std::to_string(bytes);
  }
  return text;
}

/// Seconds between the first four dials to a machine where no program listens, while messages keep coming.
std::string waits_after_refusals(Trial& trial) {
  SockNode& node = trial.start();
  trial.rig.foreign("10.0.0.2");
  for (int i = 0; i < 300 && trial.rig.tcp.connections.size() < 4; ++i) {
    node.put(kThem, 0);
    trial.rig.run_for(100ms);
  }
  std::string text;
  for (size_t i = 1; i < trial.rig.tcp.connections.size(); ++i) {
    const Duration wait = trial.rig.tcp.connections[i].opened - trial.rig.tcp.connections[i - 1].opened;
    text += (i == 1 ? "" : ", ") + std::to_string((wait + 500ms) / 1s) + " s";
  }
  return text;
}

std::string wait_after_not_now(Trial& trial) {
  SockNode& node = trial.start();
  RawPeer& peer = trial.rig.foreign("10.0.0.2");
  peer.listen();
  send_one(trial, node);
  peer.send(raw_hello(3, kThem, kUs, kNone));
  return seconds_until(trial.rig, [&] { return peer.accepted == 2; });
}

// ---- observations on kernel sockets ---------------------------------------------------------------------------------

sockaddr_in at(const char* address, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  const IpAddress bytes = ip(address);
  std::memcpy(&out.sin_addr, bytes.bytes.data(), 4);
  return out;
}

/// A blocking socket outside of the node.
struct Outside {
  Outside() : fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Outside() { ::close(fd); }
  Outside(const Outside&) = delete;
  Outside& operator=(const Outside&) = delete;
  const int fd;
};

/// The node's socket whose own address (`own`) or whose peer's address is `address`.
std::optional<int> node_socket(const sockaddr_in& address, bool own, int except) {
  for (int fd = 3; fd < 256; ++fd) {
    sockaddr_in found{};
    socklen_t bytes = sizeof found;
    auto* const out = reinterpret_cast<sockaddr*>(&found);
    if (fd == except || (own ? getsockname(fd, out, &bytes) : getpeername(fd, out, &bytes)) != 0) continue;
    if (found.sin_port == address.sin_port && found.sin_addr.s_addr == address.sin_addr.s_addr) return fd;
  }
  return std::nullopt;
}

std::string backlog(Trial& trial) {
  trial.start_on_kernel();
  const auto fd = node_socket(at("127.0.0.21", trial.port), true, -1);
  tcp_info info{};
  socklen_t bytes = sizeof info;
  if (!fd || getsockopt(*fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0) return "no listener";
  return std::to_string(info.tcpi_sacked);  // of a listener: the most that may wait
}

/// `text_of` a socket that the node dialled, and of one that the node accepted.
template <class TextOf>
std::string both_sockets(Trial& trial, TextOf text_of) {
  SockNode& node = trial.start_on_kernel();
  const sockaddr_in there = at("127.0.0.22", trial.port), here = at("127.0.0.21", trial.port);
  const Outside listener, dialler;
  sockaddr_in from{};
  socklen_t bytes = sizeof from;
  EXPECT_EQ(bind(listener.fd, reinterpret_cast<const sockaddr*>(&there), sizeof there), 0);
  EXPECT_EQ(listen(listener.fd, 8), 0);
  if (connect(dialler.fd, reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0) return "no listener";
  EXPECT_EQ(getsockname(dialler.fd, reinterpret_cast<sockaddr*>(&from), &bytes), 0);
  node.put("127.0.0.22@tcp", 0);
  std::optional<int> dialled, accepted;
  const auto both_or_none = [&] {
    dialled = node_socket(there, false, -1);
    accepted = node_socket(from, false, dialler.fd);
    return (dialled && accepted) || node.unfinished() == 0;
  };
  if (!trial.rig.run_until(both_or_none, 10s) || !dialled || !accepted) return "no connections";
  return "dialled " + text_of(*dialled) + ", accepted " + text_of(*accepted);
}

template <int kLevel, int kName>
std::string option(Trial& trial) {
  return both_sockets(trial, [](int fd) {
    int value = 0;
    socklen_t bytes = sizeof value;
    EXPECT_EQ(getsockopt(fd, kLevel, kName, &value, &bytes), 0);
    return std::to_string(value);
  });
}

std::string congestion(Trial& trial) {
  return both_sockets(trial, congestion_of);
}

/// A number of the row that the system does not come to by itself, and what is seen then; null: the system has no
/// other.
struct OtherCongestion {
  int64_t number;
  const char* seen;
};
OtherCongestion other_congestion() {
  const Outside socket;
  const std::string usual = congestion_of(socket.fd);
  if (usual.starts_with("bbr")) return {1, "dialled bbr, accepted bbr"};
  const bool has_cubic = setsockopt(socket.fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5) == 0;
  if (usual == "reno") return {3, has_cubic ? "dialled cubic, accepted cubic" : nullptr};
  return {2, "dialled reno, accepted reno"};
}
const OtherCongestion kOther = other_congestion();

// ---- the table ------------------------------------------------------------------------------------------------------

struct Case {
  const char* key;
  int64_t number;
  std::string (*look)(Trial& trial);
  const char* usual;  ///< seen with the default; null: anything else than `then`
  const char* then;   ///< seen with `number`; null: not on this system
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.key << " = " << c.number;
}

const Case kCases[] = {
    {"ulnet.stream_engine", 2, &engine_is_configured, "no", "yes"},
    {"ulnet.unprivileged_ports", 1, &trust_in_ports, "refuses 10.0.0.9, dials from 1023",
     "accepts 10.0.0.9@tcp, dials from 60999"},
    {"ulnet.accept", 1, &ports_accepted, "low", "low and high"},
    {"ulnet.accept", 2, &ports_accepted, "low", ""},
    {"ulnet.accept_port", 4444, &port_used, "listens at 988, dials 988", "listens at 4444, dials 4444"},
    {"ulnet.accept_backlog", 9, &backlog, "127", "9"},
    {"ulnet.accept_timeout", 9, &request_ends_after, "5 s", "9 s"},
    {"ulnet.memory.connections_per_worker", 16, &clients_served, "17", "16"},
    {"ulnet.socklnd.timeout", 20, &dial_ends_after, "50 s", "20 s"},
    {"ulnet.socklnd.conns_per_peer", 2, &types_dialled, "123 served", "12323 served"},
    {"ulnet.socklnd.typed_conns", 0, &types_dialled, "123 served", "0 served"},
    {"ulnet.socklnd.min_bulk", 196, &type_of_a_small_message, "1", "3"},  // 100 bytes and two headers
    {"ulnet.socklnd.tx_buffer_size", 32768, &option<SOL_SOCKET, SO_SNDBUF>, nullptr, "dialled 65536, accepted 65536"},
    {"ulnet.socklnd.rx_buffer_size", 32768, &option<SOL_SOCKET, SO_RCVBUF>, nullptr, "dialled 65536, accepted 65536"},
    {"ulnet.socklnd.nagle", 1, &option<IPPROTO_TCP, TCP_NODELAY>, "dialled 1, accepted 1", "dialled 0, accepted 0"},
    {"ulnet.socklnd.congestion_control", kOther.number, &congestion, nullptr, kOther.seen},
    {"ulnet.socklnd.keepalive", 20, &keepalive_after, "30 s", "20 s"},
    {"ulnet.socklnd.keepalive", 0, &keepalive_after, "30 s", "never"},
    {"ulnet.socklnd.keepalive_idle", 77, &option<IPPROTO_TCP, TCP_KEEPIDLE>, "dialled 30, accepted 30",
     "dialled 77, accepted 77"},
    {"ulnet.socklnd.keepalive_idle", 0, &option<SOL_SOCKET, SO_KEEPALIVE>, "dialled 1, accepted 1",
     "dialled 0, accepted 0"},
    {"ulnet.socklnd.keepalive_count", 3, &option<IPPROTO_TCP, TCP_KEEPCNT>, "dialled 5, accepted 5",
     "dialled 3, accepted 3"},
    {"ulnet.socklnd.keepalive_intvl", 7, &option<IPPROTO_TCP, TCP_KEEPINTVL>, "dialled 5, accepted 5",
     "dialled 7, accepted 7"},
    {"ulnet.socklnd.enable_csum", 1, &checksums, "no, no", "in messages, in NOOPs"},
    {"ulnet.socklnd.splice", 0, &pipes, "used", "not used"},
    {"ulnet.socklnd.zc_min_payload", 4096, &cookies, "", "4096"},
    {"ulnet.socklnd.min_reconnectms", 3000, &waits_after_refusals, "1 s, 2 s, 4 s", "3 s, 6 s, 12 s"},
    {"ulnet.socklnd.min_reconnectms", 4000, &wait_after_not_now, "1 s", "4 s"},
    {"ulnet.socklnd.max_reconnectms", 2000, &waits_after_refusals, "1 s, 2 s, 4 s", "1 s, 2 s, 2 s"},
    {"ulnet.socklnd.tos", 40, &option<IPPROTO_IP, IP_TOS>, "dialled 0, accepted 0", "dialled 40, accepted 40"},
    {"net.local NI(s).lnd tunables.conns_per_peer", 2, &types_dialled, "123 served", "12323 served"},
    {"net.local NI(s).lnd tunables.timeout", 20, &dial_ends_after, "50 s", "20 s"},
    {"net.local NI(s).lnd tunables.tos", 40, &option<IPPROTO_IP, IP_TOS>, "dialled 0, accepted 0",
     "dialled 40, accepted 40"},
};

std::string seen(const Case& c, When when) {
  Trial trial(c.key, c.number, when);
  std::string text = c.look(trial);
  EXPECT_TRUE(trial.rig.shut_down());
  return text;
}

class SockRow : public testing::TestWithParam<Case> {};

TEST_P(SockRow, has_an_effect) {
  const Case& c = GetParam();
  if (c.then == nullptr) GTEST_SKIP() << "this system has no other value";
  const DriverField* row = RowNumbers(sock_setting_fields(), sock_tunable_fields()).row_of(c.key);
  ASSERT_NE(row, nullptr) << c.key << " is not a row of socklnd";
  const std::string usual = seen(c, When::kNever);
  EXPECT_NE(usual, c.then);
  EXPECT_EQ(usual, c.usual == nullptr ? usual : c.usual);
  EXPECT_EQ(seen(c, When::kAtStart), c.then);
  EXPECT_EQ(seen(c, When::kLater), row->needs_restart ? usual : c.then)
      << (row->needs_restart ? "the row is marked .needs_restart" : "a driver follows a change of this row");
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.key) + "_" + std::to_string(info.param.number);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Rows, SockRow, testing::ValuesIn(kCases), case_name);

// Goal: a new row without a case fails this test.
TEST(SockRows, each_row_has_a_case) {
  for (const auto& rows : {sock_setting_fields(), sock_tunable_fields()})
    for (const DriverField& row : rows) {
      const bool heading = row.type == FieldType::kMap;
      const bool observed = std::any_of(std::begin(kCases), std::end(kCases),
                                        [&](const Case& c) { return std::string_view(c.key) == row.path; });
      EXPECT_TRUE(heading || observed) << row.path << " has no case in kCases";
    }
}

}  // namespace
}  // namespace ulnet::test
