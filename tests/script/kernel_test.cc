// socklnd over the kernel's TCP, on the loopback addresses of this machine: both halves, both engines, no privileges.
// The kernel must behave as the simulated TCP does. Where sockets or io_uring are forbidden, the tests are skipped by
// name.
#include <gtest/gtest.h>

#include "tests/free_port.h"
#include "tests/script/once.h"
#include "tests/script/sock_rig.h"

namespace ulnet::test {
namespace {

constexpr const char* kOne = "127.0.0.11@tcp";
constexpr const char* kTwo = "127.0.0.12@tcp";

using EngineMaker = std::function<std::unique_ptr<StreamEngine>()>;

SockNodeOptions kernel_node(const char* nid, const EngineMaker& engine, int32_t conns_per_peer) {
  static const uint16_t port = free_port();
  SockNodeOptions options;
  options.nids = {nid};
  options.tunables.conns_per_peer = conns_per_peer;
  options.config.unprivileged_ports = true;
  options.config.accept_port = port;
  options.config.incarnation = nid == kOne ? 11 : 22;
  options.make_net = [] { return socklnd::make_kernel_net_io(); };
  options.make_engine = engine;
  return options;
}

class SockKernel : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GetParam()) == "epoll") {
      engine_ = [] { return socklnd::make_epoll_engine(256); };
      return;
    }
    Error why;
    const auto probe = socklnd::make_uring_engine(256, &why);
    if (std::string(probe->name()) != "io_uring") GTEST_SKIP() << "io_uring is forbidden here: " << why.what;
    engine_ = [] {
      Error ignored;
      return socklnd::make_uring_engine(256, &ignored);
    };
  }
  EngineMaker engine_;
};

TEST_P(SockKernel, messages_of_all_sizes_both_ways) {
  SockRig rig;
  rig.real_time = true;
  rig.now = Instant{std::chrono::steady_clock::now().time_since_epoch()};
  SockNode& one = rig.add(kernel_node(kOne, engine_, 2));
  SockNode& two = rig.add(kernel_node(kTwo, engine_, 2));
  if (testing::Test::HasFailure()) return;
  uint32_t sent = 0;
  for (int round = 0; round < 10; ++round) {
    for (const uint32_t bytes : {0u, 100u, 5000u, 16384u, 100000u, 1u << 20}) {
      one.put(kTwo, bytes);
      two.put(kOne, bytes);
      ++sent;
    }
    rig.run_for(2ms);
  }
  const auto all = [&] {
    return one.received.size() == sent && two.received.size() == sent && one.unfinished() + two.unfinished() == 0;
  };
  EXPECT_TRUE(rig.run_until(all, 20s)) << one.received.size() << ", " << two.received.size() << " of " << sent << "; "
                                       << one.unfinished() + two.unfinished() << " unfinished; " << one.take_trace();
  for (SockNode* node : {&one, &two})
    for (const Received& got : node->received) EXPECT_TRUE(got.how.error == 0 && payload_right(got));
  for (SockNode* node : {&one, &two})
    for (const TestTx& tx : node->txs) EXPECT_EQ(tx.how.error, 0);
  EXPECT_TRUE(rig.shut_down());
}

TEST_P(SockKernel, stops_and_breaks_with_traffic_under_way) {
  for (int round = 0; round < 20; ++round) {
    SockRig rig({.seed = uint64_t(round) + 1});
    rig.real_time = true;
    rig.now = Instant{std::chrono::steady_clock::now().time_since_epoch()};
    SockNode& one = rig.add(kernel_node(kOne, engine_, 1));
    SockNode& two = rig.add(kernel_node(kTwo, engine_, 1));
    if (testing::Test::HasFailure()) return;
    one.on_header = [&](FakeCore& core, RxSlot& slot) {
      if (rig.rng.one_in(6)) return RxVerdict::kHold;
      if (rig.rng.one_in(60)) return RxVerdict::kProtocolError;
      core.make_room(slot, uint32_t(rig.rng.below(300000)));
      return RxVerdict::kReceive;
    };
    for (int i = 0; i < 12; ++i) {
      one.put(kTwo, uint32_t(rig.rng.below(400000)));
      two.put(kOne, uint32_t(rig.rng.below(400000)));
    }
    rig.run_for(Duration(int64_t(rig.rng.below(8'000'000))));
    FakeCore& core = *one.cores[0];
    if (!core.receiving.empty()) core.lnd->divert(*core.oldest_receiving(), rig.now);
    if (!core.held.empty()) one.resume(0, RxVerdict::kReceive, 10);
    if (one.txs[5].done == 0) core.lnd->cancel(one.txs[5], true, rig.now);
    rig.run_for(1ms);
    EXPECT_TRUE(rig.shut_down()) << round;
  }
}

// Goal: a message that was handed over whole ends well, even if the end of its connection is reported before its bytes.
// If we reset the connection, it ends with an error.
TEST_P(SockKernel, messages_sent_before_the_end_end_well) {
  SockRig rig;
  rig.real_time = true;
  const auto time = [] { return Instant{std::chrono::steady_clock::now().time_since_epoch()}; };
  rig.now = time();
  SockNode& one = rig.add(kernel_node(kOne, engine_, 1));
  SockNode& two = rig.add(kernel_node(kTwo, engine_, 1));
  if (testing::Test::HasFailure()) return;
  for (int round = 0; round < 12; ++round) {
    SCOPED_TRACE(round);
    two.on_header = nullptr;
    const TestTx& before = one.put(kTwo, 100);
    ASSERT_TRUE(rig.run_until([&] { return before.done == 1; }, 20s));
    ASSERT_EQ(before.how.error, 0);
    const auto connected = [&] { return one.control->ni_connections(NiId{1}); };
    ASSERT_TRUE(rig.run_until([&] { return two.received.size() == size_t(round) + 1 && connected() == 3; }, 20s));
    bool refused = false;
    two.on_header = [&](FakeCore&, RxSlot&) {
      refused = true;
      return RxVerdict::kProtocolError;  // ends the connection
    };
    TestTx& tx = one.put(kTwo, 100);
    one.cores[0]->lnd->flush(rig.now);
    ASSERT_EQ(tx.done, 0u);
    const bool we_reset = round % 4 == 3;
    if (we_reset) one.cores[0]->lnd->cancel(tx, true, rig.now);
    for (const Instant end = time() + 20s; !we_reset && !refused && time() < end;) two.turn(time());
    for (int i = 0; i < 10; ++i) two.turn(time());
    ASSERT_TRUE(rig.run_until([&] { return connected() == 0 && tx.done == 1; }, 20s));
    EXPECT_EQ(tx.how.error, we_reset ? -EHOSTUNREACH : 0);
  }
  EXPECT_TRUE(rig.shut_down());
}

// Goal: as SockStop.nothing_arrives_twice, with the engines and the TCP that nodes really have.
TEST_P(SockKernel, nothing_arrives_twice) {
  OnceSums sums;
  for (const Ending ending : kEndings)
    for (uint64_t seed = 1; seed <= 25; ++seed) {
      SCOPED_TRACE(testing::Message() << "ending " << int(ending) << ", seed " << seed);
      SockRig rig({.seed = seed});
      rig.real_time = true;
      rig.now = Instant{std::chrono::steady_clock::now().time_since_epoch()};
      SockNodeOptions options = kernel_node(kOne, engine_, 1);
      options.config.zc_min_payload = seed % 4 < 2 ? 16384 : 0;
      options.config.tx_buffer_bytes = 65536;
      SockNode& us = rig.add(options);
      options = kernel_node(kTwo, engine_, 1);
      options.config.zc_min_payload = 16384;
      options.config.rx_buffer_bytes = 65536;
      SockNode& them = rig.add(options);
      if (testing::Test::HasFailure()) return;
      us.on_header = [](FakeCore&, RxSlot&) { return RxVerdict::kHold; };
      for (const uint32_t bytes : {0u, 100'000u}) us.put(kTwo, bytes);
      ASSERT_TRUE(rig.run_until([&] { return us.unfinished() == 0; }, 20s));
      if (ending == Ending::kTheyReset) them.put(kOne, 1'000'000);  // is held: under way when it is taken back
      check_once(rig, us, them, kTwo, ending, Duration(int64_t(rig.rng.below(2'000'000))), sums);
      EXPECT_TRUE(rig.shut_down());
    }
  EXPECT_GT(sums.again, 50u);
  EXPECT_GT(sums.well, 50u);
}

TEST_P(SockKernel, nobody_listens) {
  SockRig rig;
  rig.real_time = true;
  rig.now = Instant{std::chrono::steady_clock::now().time_since_epoch()};
  SockNode& one = rig.add(kernel_node(kOne, engine_, 1));
  one.put("127.0.0.13@tcp", 10);
  EXPECT_TRUE(rig.run_until([&] { return one.unfinished() == 0; }, 5s));
  EXPECT_EQ(one.txs[0].how.error, -ECONNREFUSED);
  EXPECT_TRUE(rig.shut_down());
}

INSTANTIATE_TEST_SUITE_P(Engines, SockKernel, testing::Values("epoll", "io_uring"),
                         [](const auto& parameter) { return std::string(parameter.param); });

}  // namespace
}  // namespace ulnet::test
