// Changes of state: which are announced, and how `watch` delivers them.
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "control/api/requests.h"
#include "control/lnd_host.h"
#include "tests/unit/control/node_rig.h"

namespace ulnet::test {
namespace {

/// A client on tcp with a subscriber, and a router with an NI on tcp and one on tcp1.
class Events : public testing::Test {
 protected:
  NodeRig rig;
  RigNode& client = rig.add({"10.1.0.1@tcp", "10.1.0.3@tcp"});
  RigNode& router = rig.add({"10.1.0.2@tcp", "10.2.0.2@tcp1"});
  Control& c = client.node->control();
  std::vector<std::string> seen;  // "KIND OBJECT FROM-TO: REASON"
  uint64_t last = 0;

  void SetUp() override { listen(); }
  void listen() {
    last = c.events->sequence();
    (void)c.events->subscribe([this](const StateEvent& event) {
      EXPECT_EQ(event.sequence, last + 1) << "no number is left out";
      EXPECT_NE(event.from, event.to) << "announced twice: " << event.object;
      last = event.sequence;
      seen.push_back(fmt::format("{} {} {}-{}: {}", kStateKinds[size_t(event.kind)], event.object, event.from, event.to,
                                 event.reason));
    });
  }
  std::vector<std::string> take() { return std::exchange(seen, {}); }
  using Lines = std::vector<std::string>;
  void link(const std::string& text, bool up) {
    c.lnd_hosts[1]->ni_fatal(c.nis->find(nid(text))->id, !up);
    rig.run_for(10ms);
  }
  bool alive() { return c.routes->routes().at(0).alive; }
  std::string state_now(StateKind kind, const std::string& object) {
    std::string found = "not told";
    c.events->now([&](const StateEvent& event) {
      if (event.kind == kind && event.object == object) found = event.to;
    });
    return found;
  }
  void TearDown() override { rig.stop_all(); }
};

// Goal: each change of an NI is announced once, with its reason and one line in the journal.
TEST_F(Events, of_an_ni_from_its_beginning_to_its_end) {
  ASSERT_EQ(rig.apply(client, NodeRig::net_add("10.1.0.4@tcp")), "");
  EXPECT_EQ(take(), Lines{"ni 10.1.0.4@tcp none-up: added"});
  client.journal.clear();
  link("10.1.0.4@tcp", false);
  link("10.1.0.4@tcp", false);
  EXPECT_EQ(take(), Lines{"ni 10.1.0.4@tcp up-failed: link down"});
  EXPECT_EQ(client.journal, Lines{"10.1.0.4@tcp: link down (up -> failed)"});
  EXPECT_EQ(state_now(StateKind::kNi, "10.1.0.4@tcp"), "failed");
  link("10.1.0.4@tcp", true);
  EXPECT_EQ(take(), Lines{"ni 10.1.0.4@tcp failed-up: link up"});
  config::NetSet health;
  health.nid = nid("10.1.0.4@tcp");
  health.health = 500;
  ASSERT_EQ(rig.apply(client, health), "");
  EXPECT_EQ(take(), Lines{}) << "the health value alone is no state";
  health.health = 0;
  ASSERT_EQ(rig.apply(client, health), "");
  health.health = 1000;
  ASSERT_EQ(rig.apply(client, health), "");
  EXPECT_EQ(take(), (Lines{"ni 10.1.0.4@tcp up-down: health 0: it was set",
                           "ni 10.1.0.4@tcp down-up: health 1000: it was set"}));
  config::NetDel del;
  del.net = net("tcp");
  del.nid = nid("10.1.0.4@tcp");
  ASSERT_EQ(rig.apply(client, del), "");
  EXPECT_EQ(take(), (Lines{"ni 10.1.0.4@tcp up-deleting: being deleted", "ni 10.1.0.4@tcp deleting-none: deleted"}));
  EXPECT_EQ(state_now(StateKind::kNi, "10.1.0.4@tcp"), "not told") << "its memory is gone, too";
}

// Goal: a link that comes up slower than before, or than its device can, degrades its NI until it has that speed.
TEST_F(Events, of_a_link_that_becomes_slow) {
  const LocalNi& ni = *c.nis->find(nid("10.1.0.3@tcp"));
  const auto runs = [&](uint32_t mbps, uint32_t best) { c.lnd_hosts[1]->ni_speed(ni.id, {mbps, best}); };
  runs(0, 0);
  runs(10'000, 0);
  EXPECT_EQ(take(), Lines{}) << "its device names no best speed: it is the one at which the link runs";
  runs(1000, 0);
  runs(1000, 0);
  EXPECT_EQ(take(), Lines{"ni 10.1.0.3@tcp up-degraded: its link runs at 1000 of 10000 Mbit/s"});
  link("10.1.0.3@tcp", false);
  runs(0, 0);
  link("10.1.0.3@tcp", true);
  EXPECT_EQ(take(), (Lines{"ni 10.1.0.3@tcp degraded-failed: link down", "ni 10.1.0.3@tcp failed-up: link up"}));
  runs(10'000, 25'000);
  EXPECT_EQ(take(), Lines{"ni 10.1.0.3@tcp up-degraded: its link runs at 10000 of 25000 Mbit/s"});
  runs(25'000, 25'000);
  EXPECT_EQ(take(), Lines{"ni 10.1.0.3@tcp degraded-up: its link runs at 25000 of 25000 Mbit/s"});
}

// Goal: the reason is built only for a change.
TEST_F(Events, build_no_reason_without_a_change) {
  const LocalNi& ni = *c.nis->find(nid("10.1.0.1@tcp"));
  const auto never = []() -> std::string {
    ADD_FAILURE() << "nothing has changed";
    return "";
  };
  c.events->ni(ni, never);
  ASSERT_EQ(rig.ping(client, "10.1.0.2@tcp").error, 0);
  c.events->peer_ni(*c.peers->find(nid("10.1.0.2@tcp")), never);
  EXPECT_EQ(take(), Lines{}) << "a peer that is met is no change of state";
}

// Goal: a peer NI that cannot be reached is announced once, however often it is tried; and once when it answers.
TEST_F(Events, of_a_peer_ni_that_cannot_be_reached) {
  ASSERT_EQ(rig.ping(client, "10.1.0.2@tcp").error, 0);
  PeerNi& ni = *c.peers->find(nid("10.1.0.2@tcp"));
  client.journal.clear();
  for (int i = 0; i < 5; ++i) c.lnd_hosts[1]->peer_down(ni.id, -ECONNREFUSED);
  rig.run_for(10ms);
  EXPECT_EQ(take(), Lines{"peer_ni 10.1.0.2@tcp up-failed: cannot be reached: Connection refused"});
  EXPECT_EQ(client.journal, Lines{"peer NI 10.1.0.2@tcp: cannot be reached: Connection refused (up -> failed)"});
  EXPECT_EQ(state_now(StateKind::kPeerNi, "10.1.0.2@tcp"), "failed");
  c.lnd_hosts[1]->peer_up(ni.id);
  EXPECT_EQ(take(), Lines{"peer_ni 10.1.0.2@tcp failed-up: can be reached again"});
  EXPECT_EQ(state_now(StateKind::kPeerNi, "10.1.0.2@tcp"), "not told");
}

// Goal: a failed peer NI whose peer is deleted does not stay failed for the subscribers.
TEST_F(Events, of_a_failed_peer_ni_that_is_deleted) {
  ASSERT_EQ(rig.ping(client, "10.1.0.2@tcp").error, 0);
  c.lnd_hosts[1]->peer_down(c.peers->find(nid("10.1.0.2@tcp"))->id, -EHOSTUNREACH);
  (void)take();
  config::PeerDel del;
  del.primary = nid("10.1.0.2@tcp");
  ASSERT_EQ(rig.apply(client, del), "");
  ASSERT_TRUE(rig.run_until([&] { return !seen.empty(); }, 10s));
  EXPECT_EQ(state_now(StateKind::kPeerNi, "10.1.0.2@tcp"), "not told");
}

// Goal: a route and its gateway follow the gateway, with the criterion that decides. A message from a peer NI that its
// node called down makes the peer NI up.
TEST_F(Events, of_a_route_that_goes_down_and_up) {
  rig.start_routing(router);
  auto& ulnet = c.desired.ulnet;
  ulnet.alive_router_check_interval = 5s;
  ulnet.router_ping_timeout = 2s;
  ASSERT_EQ(rig.apply(client, config::LnetConfigure{}), "");
  ASSERT_EQ(rig.apply(client, NodeRig::route_add("tcp1", "10.1.0.2@tcp")), "");
  EXPECT_EQ(take(), (Lines{"gateway 10.1.0.2@tcp none-up: a route leads through it",
                           "route tcp1 10.1.0.2@tcp none-up: added"}));
  rig.run_for(3s);
  EXPECT_EQ(take(), Lines{});
  for (const char* own : {"10.1.0.1@tcp", "10.1.0.3@tcp"}) rig.fabric.cut(nid(own), nid("10.1.0.2@tcp"));
  ASSERT_TRUE(rig.run_until([&] { return !alive(); }, 150s));
  rig.run_for(30s);
  const Lines died = take();
  const auto is = [](const Lines& lines, const std::string& part) {
    return std::count_if(lines.begin(), lines.end(), [&](const auto& one) { return one.find(part) == 0; });
  };
  const std::string all = fmt::format("{}", fmt::join(died, "\n"));
  EXPECT_EQ(is(died, "gateway 10.1.0.2@tcp up-down: "), 1) << all;
  EXPECT_EQ(is(died, "route tcp1 10.1.0.2@tcp up-down: its gateway "), 1) << all;
  EXPECT_EQ(is(died, "route"), 1) << all;
  rig.fabric.heal_all();
  ASSERT_TRUE(rig.run_until([&] { return alive(); }, 70s));
  rig.run_for(3s);
  const Lines back = take();
  const std::string text = fmt::format("{}", fmt::join(back, "\n"));
  EXPECT_EQ(is(back, "route tcp1 10.1.0.2@tcp down-up: its gateway answered its check"), 1) << text;
  EXPECT_EQ(is(back, "gateway 10.1.0.2@tcp down-up: answered its check"), 1) << text;
  EXPECT_EQ(state_now(StateKind::kPeerNi, "10.1.0.2@tcp"), "not told");
  ASSERT_EQ(rig.apply(client, config::RouteDel{.net = net("tcp1"), .gateway = nid("10.1.0.2@tcp")}), "");
  EXPECT_EQ(take(), (Lines{"route tcp1 10.1.0.2@tcp up-none: deleted",
                           "gateway 10.1.0.2@tcp up-none: no route leads through it any more"}));
}

// Goal: the far side of a gateway is a matter of the route, not of the gateway.
TEST_F(Events, of_a_route_whose_far_side_is_down) {
  rig.start_routing(router);
  ASSERT_EQ(rig.apply(client, NodeRig::route_add("tcp1", "10.1.0.2@tcp")), "");
  rig.run_for(3s);
  (void)take();
  Control& r = router.node->control();
  r.lnd_hosts[1]->ni_fatal(r.nis->find(nid("10.2.0.2@tcp1"))->id, true);
  ASSERT_TRUE(rig.run_until([&] { return !alive(); }, 150s));
  EXPECT_EQ(take(), (Lines{"peer_ni 10.2.0.2@tcp1 up-down: its node is silent, or reports it as down",
                           "route tcp1 10.1.0.2@tcp up-down: its gateway reports no NI on the far net that is up"}));
  EXPECT_EQ(state_now(StateKind::kGateway, "10.1.0.2@tcp"), "up");
}

TEST_F(Events, of_routing) {
  ASSERT_EQ(rig.apply(client, config::SetRouting{true}), "");
  rig.run_for(200s);
  ASSERT_EQ(rig.apply(client, config::SetRouting{false}), "");
  rig.run_for(400s);
  Lines routing;
  for (const auto& one : take())
    if (one.starts_with("routing")) routing.push_back(one.substr(0, one.find(':')));
  EXPECT_EQ(routing, (Lines{"routing this node disabled-starting", "routing this node starting-enabled",
                            "routing this node enabled-stopping", "routing this node stopping-disabled"}));
}

/// The node's control socket, and clients of it.
class Watch : public Events {
 protected:
  Watch() : path(std::filesystem::temp_directory_path() / fmt::format("ulnet_watch.{}.sock", getpid())) {
    requests = std::make_unique<NodeRequests>(*client.node, "test");
    server = *api::Server::open({.path = path}, *requests);
    requests->set_server(*server);
    requests->set_real_time([] { return uint64_t{1234567}; });
  }
  void turn() {
    for (int i = 0; i < 1000 && server->poll(rig.now); ++i) {
    }
  }
  struct Client {
    int fd = -1;
    api::FrameReader reader{api::kFrameMax};
    Client() = default;
    Client(Client&& other) noexcept : fd(std::exchange(other.fd, -1)), reader(std::move(other.reader)) {}
    Client(const Client&) = delete;
    ~Client() {
      if (fd >= 0) close(fd);
    }
  };
  Client watcher(const std::string& args) {
    Client one;
    one.fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(connect(one.fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const std::string bytes = api::frame(api::hello_json("test", "1").dump()) +
                              api::frame(R"({"id":1,"verb":"manage","object":"watch","args":)" + args + "}");
    EXPECT_EQ(send(one.fd, bytes.data(), bytes.size(), 0), ssize_t(bytes.size()));
    turn();
    return one;
  }
  /// The answers that have come, without the hello.
  std::vector<config::Json> answers(Client& one) {
    std::vector<config::Json> all;
    char buffer[65536];
    for (ssize_t count = 1; count > 0;) {
      count = recv(one.fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (count > 0) one.reader.feed({buffer, size_t(count)});
      while (auto body = one.reader.next().value())
        if (auto json = *config::json_parse(*body); json.contains("id")) all.push_back(std::move(json));
      turn();
    }
    return all;
  }
  std::vector<config::Json> lines(Client& one) {
    std::vector<config::Json> all;
    for (const auto& answer : answers(one))
      for (const auto& line : answer.at("doc").at("watch")) all.push_back(line);
    return all;
  }
  static Lines words(const std::vector<config::Json>& lines) {
    Lines all;
    for (const auto& line : lines)
      all.push_back(fmt::format("{} {} {} {}", line.value("event", ""), line.value("kind", ""),
                                line.value("object", ""), line.value("to", "")));
    return all;
  }

  std::string path;
  std::unique_ptr<NodeRequests> requests;
  std::unique_ptr<api::Server> server;
};

// Goal: a client gets the present states and then each change, with all its fields.
TEST_F(Watch, sends_the_present_states_and_then_the_changes) {
  rig.start_routing(router);
  ASSERT_EQ(rig.apply(client, NodeRig::route_add("tcp1", "10.1.0.2@tcp")), "");
  const uint64_t before = c.events->sequence();
  Client one = watcher("{}");
  EXPECT_EQ(words(lines(one)),
            (Lines{"now routing this node disabled", "now ni 10.1.0.1@tcp up", "now ni 10.1.0.3@tcp up",
                   "now gateway 10.1.0.2@tcp up", "now route tcp1 10.1.0.2@tcp up"}));
  link("10.1.0.3@tcp", false);
  const auto changes = lines(one);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0], (config::Json{{"event", "change"},
                                      {"seq", before + 1},
                                      {"time_us", 1234},
                                      {"kind", "ni"},
                                      {"object", "10.1.0.3@tcp"},
                                      {"from", "up"},
                                      {"to", "failed"},
                                      {"reason", "link down"},
                                      {"health", 1000}}));
}

TEST_F(Watch, filters_by_kind_and_nid) {
  Client routes = watcher(R"({"kinds":"route,gateway"})"), third = watcher(R"({"nids":["10.1.0.3@tcp"]})");
  EXPECT_EQ(words(lines(routes)), Lines{});
  EXPECT_EQ(words(lines(third)), Lines{"now ni 10.1.0.3@tcp up"});
  link("10.1.0.1@tcp", false);
  link("10.1.0.3@tcp", false);
  EXPECT_EQ(words(lines(routes)), Lines{});
  EXPECT_EQ(words(lines(third)), Lines{"change ni 10.1.0.3@tcp failed"});
  Client wrong = watcher(R"({"kinds":"ni,roots"})");
  const auto refused = answers(wrong);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].at("errors").at(0).at("descr"),
            "unknown kind 'roots'; known: ni, peer_ni, route, gateway, routing");
}

// Goal: one client more than the maximum is refused, and its place is free again when another has left.
TEST_F(Watch, has_a_bound) {
  std::vector<Client> all;
  for (size_t i = 0; i < kWatchersMax; ++i) all.push_back(watcher("{}"));
  Client late = watcher("{}");
  const auto refused = answers(late);
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].at("errors").at(0).at("descr"), "16 clients watch, which is the maximum; end one of them");
  all.pop_back();
  turn();
  Client next = watcher("{}");
  EXPECT_EQ(lines(next).size(), 3u);
}

// Goal: a client that does not read takes bounded memory. Later it gets the number of its lost events, and all present
// states. A client that reads loses nothing meanwhile.
TEST_F(Watch, a_client_that_does_not_read_loses_events_and_gets_their_number) {
  Client deaf = watcher(R"({"kinds":"ni"})"), good = watcher(R"({"kinds":"ni"})");
  (void)lines(good);
  constexpr uint64_t kChanges = 6001;
  const LocalNi& ni = *c.nis->find(nid("10.1.0.3@tcp"));
  uint64_t read = 0;
  for (uint64_t i = 0; i < kChanges; ++i) {
    c.lnd_hosts[1]->ni_fatal(ni.id, !ni.fatal);
    if (i % 100 == 0) read += lines(good).size();
    ASSERT_LE(server->backlog({1, 1}), api::kOutputLow + 4096);
  }
  read += lines(good).size();
  EXPECT_EQ(read, kChanges);
  EXPECT_GT(server->backlog({1, 1}), api::kOutputLow) << "the bound was reached";
  uint64_t got = 0, lost = 0;
  std::string now;
  for (const auto& line : lines(deaf)) {
    if (line.at("event") == "change") ++got;
    if (line.at("event") == "lost") lost += line.at("lost").get<uint64_t>();
    if (line.at("event") == "now" && line.at("object") == "10.1.0.3@tcp") now = line.at("to");
  }
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(got + lost, kChanges);
  EXPECT_EQ(now, "failed") << "the state after the lost events";
}

}  // namespace
}  // namespace ulnet::test
