// Each row of o2iblnd's record changes something that a peer or the provider sees. Other rows give the reason why they
// have no effect. Each case has three trials, as in tests/script/rows_test.cc. One has the default, one has another
// number from the start on, and one gets that number while the node runs. The driver makes both halves of node 0.
#include <algorithm>
#include <cctype>

#include "lnd/o2iblnd/fields.h"
#include "tests/script/ib/ib_node.h"
#include "tests/script/row_numbers.h"

namespace ulnet::test {
namespace {

using namespace o2iblnd;

enum class When : uint8_t { kNever, kAtStart, kLater };

/// Two nodes. The row `key` of node 0 has or gets another number.
class Trial {
 public:
  Trial(const char* key, int64_t number, When when) {
    RowNumbers first(ib_setting_fields(), ib_tunable_fields());
    RowNumbers changed = first;
    changed.set(key, number);
    if (when == When::kAtStart) first = changed;
    us = std::make_unique<IbNode>(net, 0, IbNodeOptions{.tunables = first.tunables, .settings = first.settings});
    IbNodeOptions quiet;
    quiet.config.keepalive = 0s;
    quiet.config.use_privileged_port = false;
    them = std::make_unique<IbNode>(net, 1, quiet);
    us->now = them->now = now;
    if (when != When::kLater) return;
    us->driver->retune(changed.settings, now);
    EXPECT_TRUE(us->control->ni_tune(NiId{1}, changed.for_running_ni(), now));
    pass(1ms);
  }
  ~Trial() {
    for (IbNode* one : {us.get(), them.get()}) one->stop();
    for (unsigned i = 0; i < 5000 && !(us->stopped && them->stopped); ++i) pass(1ms);
  }
  void pass(Duration time = 50ms, Duration step = 1ms) {
    for (const Instant until = now + time; now < until; now += step) us->turn(now), them->turn(now);
  }
  /// The time until `done`, in whole seconds.
  template <class F>
  std::string seconds_until(const F& done) {
    const Instant begin = now;
    while (!done() && now < begin + 300s) pass(10ms, 10ms);
    return done() ? std::to_string((now - begin + 500ms) / 1s) + " s" : "never";
  }
  /// A message to the other node. The connection is up then.
  void send_one() {
    us->put(1, ++bits, 100);
    pass();
    EXPECT_EQ(us->unfinished, 0u);
  }

  IbNet net{5};
  Instant now = kNever + 1s;
  std::unique_ptr<IbNode> us, them;
  uint64_t bits = 0;
};

/// The needs of the queue pair that node 0 dials with.
rc::QpNeeds needs_of(Trial& trial) {
  trial.us->put(1, 1, 100);
  trial.pass();
  return trial.net.dials.front().needs;
}
std::string retries(Trial& trial) {
  return std::to_string(needs_of(trial).retry_count);
}
std::string rnr_retries(Trial& trial) {
  return std::to_string(needs_of(trial).rnr_retry_count);
}
std::string pieces(Trial& trial) {
  return std::to_string(needs_of(trial).pieces);
}
std::string traffic_class(Trial& trial) {
  return std::to_string(needs_of(trial).tos);
}

std::string ports(Trial& trial) {
  std::string text = "listens at";
  for (const auto& [at, listener] : trial.net.listeners)
    if (at.address == ib_address(0)) text += " " + std::to_string(at.port);
  (void)needs_of(trial);
  return text + ", dials " + std::to_string(trial.net.dials.front().remote.port);
}

std::string dials_from(Trial& trial) {
  (void)needs_of(trial);
  return trial.net.dials.front().privileged_port ? "below 1024" : "any";
}

std::string accepts_from(Trial& trial) {
  const IbTx& tx = trial.them->put(0, 1, 100);
  trial.pass();
  return tx.done && tx.how.error == 0 ? "any" : "below 1024";
}

std::string noop_after(Trial& trial) {
  trial.send_one();
  const uint64_t before = trial.net.counts.messages;
  return trial.seconds_until([&] { return trial.net.counts.messages > before; });
}

std::string answer_awaited(Trial& trial) {
  (void)needs_of(trial);
  return std::to_string(trial.net.dials.front().answer_max / 1ms) + " ms";
}

std::string connections(Trial& trial) {
  trial.send_one();
  return std::to_string(trial.us->control->ni_connections(NiId{1}));
}

/// Messages of the peer until a NOOP returns its credits.
std::string credits_owed(Trial& trial) {
  trial.send_one();
  for (unsigned count = 1; count <= 2 * kDepth; ++count) {
    const uint64_t before = trial.net.counts.messages;
    trial.them->put(0, count, 100);
    trial.pass();
    if (trial.net.counts.messages == before + 2) return std::to_string(count);
  }
  return "none";
}

/// Messages that come before the first of them is reported as sent.
std::string sends_at_once(Trial& trial) {
  trial.send_one();
  trial.net.rules.delay_min = trial.net.rules.delay_max = 10ms;
  const uint64_t before = trial.net.counts.messages;
  for (unsigned i = 0; i < kDepth - 1; ++i) trial.us->put(1, 100 + i, 100);
  trial.pass(15ms);
  return std::to_string(trial.net.counts.messages - before);
}

struct Case {
  const char* key;
  int64_t number;
  std::string (*look)(Trial& trial);
  const char* usual;  ///< seen with the default
  const char* then;   ///< seen with `number`
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.key << " = " << c.number;
}

constexpr Case kCases[] = {
    {"ulnet.o2iblnd.service", 1234, &ports, "listens at 987, dials 987", "listens at 1234, dials 1234"},
    {"ulnet.o2iblnd.timeout", 40, &answer_awaited, "12500 ms", "10000 ms"},
    {"ulnet.o2iblnd.retry_count", 3, &retries, "5", "3"},
    {"ulnet.o2iblnd.rnr_retry_count", 2, &rnr_retries, "6", "2"},
    {"ulnet.o2iblnd.wrq_sge", 5, &pieces, "2", "5"},
    {"ulnet.o2iblnd.keepalive", 70, &noop_after, "100 s", "70 s"},
    {"ulnet.o2iblnd.keepalive", 0, &noop_after, "100 s", "never"},
    {"ulnet.o2iblnd.keepalive", 20, &noop_after, "100 s", "50 s"},  // not less than the timeout
    {"ulnet.o2iblnd.use_privileged_port", 0, &dials_from, "below 1024", "any"},
    {"ulnet.o2iblnd.require_privileged_port", 1, &accepts_from, "any", "below 1024"},
    {"net.local NI(s).lnd tunables.peercredits_hiw", 6, &credits_owed, "4", "6"},
    {"net.local NI(s).lnd tunables.concurrent_sends", 5, &sends_at_once, "7", "5"},
    {"net.local NI(s).lnd tunables.concurrent_sends", 1, &sends_at_once, "7", "4"},  // not less than half of the depth
    {"net.local NI(s).lnd tunables.conns_per_peer", 3, &connections, "1", "3"},
    {"net.local NI(s).lnd tunables.timeout", 40, &answer_awaited, "12500 ms", "10000 ms"},
    {"net.local NI(s).lnd tunables.tos", 40, &traffic_class, "-1", "40"},
};

std::string seen(const Case& c, When when) {
  Trial trial(c.key, c.number, when);
  return c.look(trial);
}

class IbRow : public testing::TestWithParam<Case> {};

TEST_P(IbRow, has_an_effect) {
  const Case& c = GetParam();
  const DriverField* row = RowNumbers(ib_setting_fields(), ib_tunable_fields()).row_of(c.key);
  ASSERT_NE(row, nullptr) << c.key << " is not a row of o2iblnd";
  EXPECT_EQ(seen(c, When::kNever), c.usual);
  EXPECT_EQ(seen(c, When::kAtStart), c.then);
  EXPECT_EQ(seen(c, When::kLater), row->needs_restart ? c.usual : c.then);
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
  std::string name = std::string(info.param.key) + "_" + std::to_string(info.param.number);
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Rows, IbRow, testing::ValuesIn(kCases), case_name);

TEST(IbRows, each_row_has_a_case_or_no_effect) {
  for (const auto& rows : {ib_setting_fields(), ib_tunable_fields()})
    for (const DriverField& row : rows) {
      const bool plain = row.type == FieldType::kMap || row.no_effect[0] != 0;
      const bool observed = std::any_of(std::begin(kCases), std::end(kCases),
                                        [&](const Case& c) { return std::string_view(c.key) == row.path; });
      EXPECT_TRUE(plain != observed) << row.path << " has no case in kCases, or one too many";
    }
}

// Goal: the NI shows the values in force, as lnetctl does: for peer_credits 8, 32 and 4.
TEST(IbRows, choices_of_the_driver_are_shown) {
  const auto shown = [](int32_t peer_credits, const IbTunables& tunables) {
    IbNet net{1};
    IbNode node(net, 0, {.peer_credits = peer_credits, .tunables = ib_tunable_numbers(tunables)});
    const IbTunables in_force = ib_tunables(node.control->ni_tunables(NiId{1}));
    node.stop();
    for (Instant now = kNever + 1s; !node.stopped; now += 1ms) node.turn(now);
    return std::vector<int64_t>{in_force.peercredits_hiw, in_force.concurrent_sends, in_force.conns_per_peer,
                                in_force.timeout / 1s};
  };
  EXPECT_EQ(shown(8, {}), (std::vector<int64_t>{4, 8, 1, 50}));
  EXPECT_EQ(shown(32, {.timeout = 0s, .conns_per_peer = 0}), (std::vector<int64_t>{16, 32, 1, 50}));
  EXPECT_EQ(shown(4, {.peercredits_hiw = 3, .concurrent_sends = 100}), (std::vector<int64_t>{4, 16, 1, 50}));
  EXPECT_EQ(shown(32, {.peercredits_hiw = 100, .concurrent_sends = 1}), (std::vector<int64_t>{31, 16, 1, 50}));
}

// Goal: another timeout holds for messages that wait on a connection that is up.
TEST(IbRows, timeout_of_a_connection_that_is_up) {
  Trial trial("none", 0, When::kNever);
  trial.send_one();
  trial.them->on_header = [](RxSlot&) { return RxVerdict::kHold; };
  IbTx& tx = trial.us->put(1, 2, 500'000);
  trial.pass();
  RowNumbers numbers(ib_setting_fields(), ib_tunable_fields());
  numbers.set("net.local NI(s).lnd tunables.timeout", 7);
  EXPECT_TRUE(trial.us->control->ni_tune(NiId{1}, numbers.for_running_ni(), trial.now));
  EXPECT_EQ(trial.seconds_until([&] { return tx.done; }), "7 s");
  EXPECT_EQ(tx.how.error, -ETIMEDOUT);
  while (!trial.them->held.empty()) trial.them->resume(*trial.them->held.front(), RxVerdict::kReceive);
}

// Goal: a connection that is idle follows a change of the setting at once.
TEST(IbRows, keepalive_of_a_connection_that_is_up) {
  Trial trial("ulnet.o2iblnd.keepalive", 0, When::kAtStart);
  trial.send_one();
  trial.pass(200s, 1s);
  const uint64_t before = trial.net.counts.messages;
  RowNumbers numbers(ib_setting_fields(), ib_tunable_fields());
  const auto retune = [&](int64_t seconds) {
    numbers.set("ulnet.o2iblnd.keepalive", seconds);
    trial.us->driver->retune(numbers.settings, trial.now);
  };
  retune(60);
  trial.pass();
  EXPECT_EQ(trial.net.counts.messages, before + 1) << "silent for 200 s";
  EXPECT_EQ(trial.seconds_until([&] { return trial.net.counts.messages > before + 1; }), "60 s");
  retune(0);
  trial.pass(200s, 1s);
  EXPECT_EQ(trial.net.counts.messages, before + 2);
}

/// A provider that notes its regions, with no device.
class Regions final : public rc::Provider, rc::Control {
 public:
  rc::Control& control() override { return *this; }
  rc::Worker& worker(WorkerId) override { std::abort(); }
  Result<void> region_add(RegionId region, std::span<std::byte> memory) override {
    if (refuses_) return fail(ENOMEM, "no more");
    EXPECT_EQ(region, kStagingRegion);
    memory.front() = memory.back() = std::byte{1};
    bytes_ += memory.size();
    added_ = memory;
    return {};
  }
  void region_remove(RegionId region) override {
    EXPECT_EQ(region, kStagingRegion);
    EXPECT_EQ(added_.front(), std::byte{1}) << "the memory is there";
    bytes_ -= added_.size();
  }
  Regions(size_t& registered, bool refuse) : bytes_(registered), refuses_(refuse) {}

 private:
  Result<rc::ListenerId> listen(const rc::Endpoint&) override { return fail(ENODEV, "no device"); }
  void unlisten(rc::ListenerId) override {}
  rc::Device device(rc::ListenerId) const override { return {}; }
  Result<rc::ConnId> dial(const rc::DialSpec&, Instant) override { return fail(EADDRNOTAVAIL, "no device"); }
  void prepare(rc::ConnId, const rc::QpNeeds&, Instant) override {}
  void reject(rc::ConnId, std::span<const std::byte>, Instant) override {}
  void proceed(rc::ConnId, std::span<const std::byte>, Instant) override {}
  void disconnect(rc::ConnId, Instant) override {}
  void destroy(rc::ConnId, Instant) override {}
  unsigned poll(std::span<rc::Event>, Instant) override { return 0; }
  Instant next_deadline() override { return kForever; }
  void wait_fds(std::vector<int>&) override {}
  size_t& bytes_;
  const bool refuses_;
  std::span<std::byte> added_;
};

// Goal: the driver registers staging memory for all workers, and takes it back before the memory goes.
TEST(IbDriver, owns_staging_memory) {
  size_t registered = 0;
  auto driver = make_ib_driver({.workers = 3}, std::make_unique<Regions>(registered, false), true);
  ASSERT_TRUE(driver);
  EXPECT_EQ(registered, 3 * kStagingBytes);
  driver->reset();
  EXPECT_EQ(registered, 0u);
  const auto refused = make_ib_driver({.workers = 3}, std::make_unique<Regions>(registered, true), true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, -ENOMEM);
}

// Goal: a node that started without a device registers nothing. A device that comes later gives an error with the way
// to mend it.
TEST(IbDriver, started_without_a_device) {
  IbNet net{1};
  IbNode host(net, 0);
  IbLndControl control(host, host.provider->control(), {.service = 1234, .register_memory = false});
  EXPECT_EQ(control.regions_above(), UINT32_MAX);
  NiParams params;
  params.nid = ib_nid(0);
  const auto started = control.ni_start(params, kNever + 1s);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, -ENODEV);
  EXPECT_NE(std::string(started.error().what).find("start it again"), std::string::npos);
  EXPECT_EQ(net.listeners.size(), 1u) << "that of the host";
  host.stop();
  for (Instant now = kNever + 1s; !host.stopped; now += 1ms) host.turn(now);
}

// Goal: stamps of NIs are microseconds, the driver is given nanoseconds.
TEST(IbDriver, incarnation) {
  Trial trial("none", 0, When::kNever);
  uint64_t stamp = 0;
  trial.them->on_header = [&](RxSlot& slot) {
    stamp = static_cast<In&>(slot).conn->facts.ends.dst_stamp;
    return RxVerdict::kReceive;
  };
  trial.send_one();
  EXPECT_EQ(stamp, ib_stamp(0));
}

}  // namespace
}  // namespace ulnet::test
