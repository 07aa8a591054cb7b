// The record of a driver. A driver that no other code names carries messages between whole nodes. The value of a row
// reaches the driver's own struct.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "config/apply.h"
#include "config/emit.h"
#include "config/export.h"
#include "config/load.h"
#include "config/schema.h"
#include "config/warn.h"
#include "control/api/show_values.h"
#include "control/lib/boot.h"
#include "control/node.h"
#include "dataplane/base/nid_text.h"
#include "lnd/registry.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kPortal = 9;

Nid nid(const char* text) {
  return nid_parse(text).value();
}
config::DesiredState state_of(const config::ChangeList& changes) {
  config::Problems problems;
  config::DesiredState state = config::state_of(changes, problems);
  EXPECT_TRUE(problems.empty());
  return state;
}

/// A node from a configuration text, made as a process makes it. From here on, no code names a driver.
struct FakeNode {
  FakeNode(const std::string& yaml, uint64_t number) : imported(config::load_text(yaml, "fake.yaml")) {
    EXPECT_TRUE(imported.errors.empty()) << config::problem_text(imported.errors.front());
    drivers = Drivers::open(boot_drivers(state_of(imported.changes)), {.incarnation = number}).value();
    NodeDeps deps;
    deps.seed = deps.incarnation = number;
    deps.lnds = drivers.entries();
    deps.log = [this](const std::string& line) { journal.push_back(line); };
    NodeConfig config;
    config.worker_size.operations = config.worker_size.incoming = 256;
    node = Node::create(config, std::move(deps), Instant{1s}).value();
    imported.changes.insert(imported.changes.begin(), {config::LnetConfigure{}, {}});
    apply(imported.changes);
  }
  void apply(const config::ChangeList& changes) {
    applied = false;
    node->apply(changes, [this](const config::Problems& errors) {
      applied = true;
      EXPECT_TRUE(errors.empty()) << errors.front().what;
    });
  }
  [[nodiscard]] std::string shown() {
    return config::emit(api::net_doc(net_values(node->control(), nid("1@kfi").net()), 1));
  }
  void open() {
    SubmitterSize size;
    size.ops = 64;
    size.mds = 16;
    size.eqs = 2;
    size.segment_blocks = 1;
    application = node->submitter_open(WorkerId{0}, size).value();
    EXPECT_TRUE(node->portal_open(PortalIndex{kPortal}, WorkerId{0}, PortalMode::kSingle, false));
    eq = application->eq_open(64).value();
    const Segment segment{memory.data(), uint32_t(memory.size())};
    md = application->md_bind({.segments = {&segment, 1}, .options = kMdPut | kMdGet | kMdManageRemote, .eq = eq})
             .value();
    EXPECT_TRUE(application->me_attach(PortalIndex{kPortal}, {}, 0, ~0ull, MePosition::kTail, md));
    own_md = application->md_bind({.segments = {&segment, 1}, .eq = eq}).value();
  }
  void take_events() {
    Event events[16];
    for (unsigned i = 0, count = application->eq_poll(eq, events); i < count; ++i) {
      if (events[i].kind == EventKind::kPut) ++puts;
      if (events[i].kind == EventKind::kAck) ++acks;
      if (events[i].kind == EventKind::kReply) ++replies;
      EXPECT_EQ(events[i].status, 0);
    }
  }

  config::Imported imported;
  std::vector<std::string> journal;
  Drivers drivers;
  std::unique_ptr<Node> node;
  bool applied = false;
  Submitter* application = nullptr;
  EqHandle eq;
  MdHandle md, own_md;
  std::vector<std::byte> memory = std::vector<std::byte>(20000);
  unsigned puts = 0, acks = 0, replies = 0;
};

struct Two {
  static std::string yaml(const char* nid, const char* tunables) {
    return fmt::format(
        "net:\n    - net type: kfi\n      local NI(s):\n        - nid: {}\n{}ulnet:\n    fake:\n        room: {}\n"
        "        burst: 3\n",
        nid, tunables, getpid());
  }
  bool run_until(const std::function<bool()>& done) {
    for (const Instant end = now + 60s; now < end; now += 100us) {
      for (FakeNode* one : {&a, &b}) {
        (void)one->node->turn(WorkerId{0}, now);
        (void)one->node->turn_control(now);
        if (one->application != nullptr) one->take_events();
      }
      if (done()) return true;
    }
    return false;
  }
  Instant now{2s};
  FakeNode a{yaml("1@kfi", ""), 1};
  FakeNode b{yaml("2@kfi", "          lnd tunables:\n              burst: 7\n"), 2};
};

// Goal: PUT, ACK, GET and REPLY pass between two nodes over a driver that no code outside of its file names.
TEST(DriverRecord, fake_driver_carries_messages_between_two_nodes) {
  Two t;
  ASSERT_TRUE(t.run_until([&] { return t.a.applied && t.b.applied; }));
  ASSERT_EQ(t.a.drivers.notes().size(), 2u);
  EXPECT_EQ(t.a.drivers.notes()[1].note.text, fmt::format("room {}", getpid()));
  t.a.open();
  t.b.open();
  std::fill(t.a.memory.begin(), t.a.memory.end(), std::byte{7});
  const PutSpec put{.md = t.a.own_md, .target = {nid("2@kfi"), kLnetPid}, .portal = kPortal, .length = 20000};
  const auto sent = t.a.application->put(put);
  ASSERT_TRUE(sent) << sent.error().what;
  ASSERT_TRUE(t.run_until([&] { return t.a.acks == 1 && t.b.puts == 1; }));
  EXPECT_EQ(t.b.memory, t.a.memory);
  std::fill(t.b.memory.begin(), t.b.memory.end(), std::byte{9});
  ASSERT_TRUE(t.a.application->get(put));
  ASSERT_TRUE(t.run_until([&] { return t.a.replies == 1; }));
  EXPECT_EQ(t.a.memory, t.b.memory);
  for (FakeNode* one : {&t.a, &t.b}) {
    one->node->submitter_close(*std::exchange(one->application, nullptr));
    one->node->stop(t.now);
  }
  ASSERT_TRUE(t.run_until([&] { return t.a.node->stopped() && t.b.node->stopped(); }));
  for (FakeNode* one : {&t.a, &t.b}) EXPECT_EQ(one->node->stop_leftovers(), "");
}

// Goal: the driver's own keys are read, checked, shown, exported and changed while the node runs. A change of a key
// that needs a restart gives a warning.
TEST(DriverRecord, keys_of_the_fake_driver_are_keys_like_all_others) {
  Two t;
  ASSERT_TRUE(t.run_until([&] { return t.a.applied && t.b.applied; }));
  EXPECT_NE(t.a.shown().find("burst: 3\n"), std::string::npos) << t.a.shown();
  EXPECT_NE(t.b.shown().find("burst: 7\n"), std::string::npos) << t.b.shown();
  config::DesiredState& desired = t.a.node->control().desired;
  EXPECT_EQ(config::emit(config::export_ulnet(desired.ulnet)),
            fmt::format("fake:\n    room: {}\n    burst: 3\n", getpid()));

  const config::ChangeList change{{config::UlnetSet{"fake.burst", config::Doc(5)}, {}}};
  EXPECT_TRUE(config::changes_warnings(change, &desired.ulnet).empty());
  for (FakeNode* one : {&t.a, &t.b}) one->apply(change);
  ASSERT_TRUE(t.run_until([&] { return t.a.applied && t.b.applied; }));
  EXPECT_NE(t.a.shown().find("burst: 5\n"), std::string::npos) << t.a.shown();
  EXPECT_EQ(t.a.journal.back(), "fake: burst 5") << "the driver follows while the NI runs";
  EXPECT_NE(t.b.shown().find("burst: 7\n"), std::string::npos) << "the NI's own value wins";

  const config::ChangeList room{{config::UlnetSet{"fake.room", config::Doc(1)}, {}}};
  const auto warnings = config::changes_warnings(room, &desired.ulnet);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_EQ(warnings[0].what, "ulnet.fake.room takes effect at the next start of ulnetd");
  const auto wrong = config::load_text("ulnet:\n  fake:\n    burst: 65\n", "f").errors;
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(config::problem_text(wrong[0]), "f:3:12: ulnet.fake.burst: '65' is out of range; allowed: 1..64 datagrams");
  EXPECT_NE(config::reference_markdown().find("| `local NI(s).lnd tunables.burst` | 0..64 datagrams | 0 |"),
            std::string::npos);
}

// Goal: `net_set` changes a key on running NIs of the driver whose row names the key, and leaves out keys of other
// drivers. Errors and limits come from the row.
TEST(DriverRecord, net_set_changes_a_key_of_the_fake_driver) {
  Two t;
  ASSERT_TRUE(t.run_until([&] { return t.a.applied && t.b.applied; }));
  const auto net_set = [](const char* fields) {
    return config::change_from_json(*config::json_parse(std::string(R"({"change":"net_set","all":true,)") + fields));
  };
  for (FakeNode* one : {&t.a, &t.b}) one->apply({net_set(R"("conns_per_peer":2,"fake_burst":6})").value()});
  ASSERT_TRUE(t.run_until([&] { return t.a.applied && t.b.applied; }));
  for (FakeNode* one : {&t.a, &t.b}) {
    EXPECT_EQ(one->journal.back(), "fake: burst 6");
    EXPECT_NE(one->shown().find("burst: 6\n"), std::string::npos) << one->shown();
    const std::map<std::string, int64_t> own{{"burst", 6}};
    EXPECT_EQ(one->node->control().desired.nets.front().nis.front().lnd_tunables, own) << "no key of another driver";
  }
  EXPECT_EQ(net_set(R"("fake_burst":65})").error(),
            "net_set: net.local NI(s).lnd tunables.burst: '65' is out of range; allowed: 0..64 datagrams");
  EXPECT_EQ(config::change_wrong(config::NetSet{.all = true, .lnd_tunables = {{"tos", 1}}}), "unknown key 'tos'")
      << "fixed while the NI runs";
}

// Goal: a value for a key of socklnd reaches the driver's struct, whatever the type of the member.
TEST(DriverRecord, values_of_socklnd_reach_its_struct) {
  const auto imported = config::load_text(
      "ulnet:\n  stream_engine: epoll\n  accept: all\n  accept_port: 4444\n  accept_timeout: 7\n  socklnd:\n"
      "    typed_conns: false\n    min_reconnectms: 20\n    keepalive_idle: 9\n    tos: 8\n",
      "f");
  ASSERT_TRUE(imported.errors.empty());
  const auto values = config::driver_values(socklnd::sock_setting_fields(), state_of(imported.changes).ulnet.driver);
  const socklnd::SockConfig config = socklnd::sock_config(values);
  EXPECT_EQ(config.engine, socklnd::EngineChoice::kEpoll);
  EXPECT_EQ(config.accept, socklnd::AcceptMode::kAll);
  EXPECT_EQ(config.accept_port, 4444);
  EXPECT_EQ(config.accept_timeout, 7s);
  EXPECT_FALSE(config.typed_conns);
  EXPECT_EQ(config.min_reconnect, 20ms);
  EXPECT_EQ(config.keepalive_idle, 9);
  EXPECT_EQ(config.tos, 8);
  const std::vector<int64_t> tunables{3, 20, 8};
  EXPECT_EQ(socklnd::sock_tunable_numbers(socklnd::sock_tunables(tunables)), tunables);
}

struct TwoKeys {
  int one = 1, two = 2;
};

// Goal: a copied row that keeps its neighbour's member does not compile.
TEST(DriverRecord, rows_with_one_member_are_found) {
  constexpr SettingRow<TwoKeys> kApart[] = {{.path = "a", .type = FieldType::kInteger, .at = kAt<&TwoKeys::one>},
                                            {.path = "b", .type = FieldType::kInteger, .at = kAt<&TwoKeys::two>}};
  constexpr SettingRow<TwoKeys> kCopied[] = {{.path = "a", .type = FieldType::kInteger, .at = kAt<&TwoKeys::one>},
                                             {.path = "b", .type = FieldType::kInteger, .at = kAt<&TwoKeys::one>}};
  static_assert(rows_apart(kApart) && !rows_apart(kCopied));
}

}  // namespace
}  // namespace ulnet::test
