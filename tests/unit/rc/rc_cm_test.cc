// Control and the CM thread of the verbs provider, over a stand-in for rdma-core.
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <string_view>

#include "lnd/rc/verbs/address.h"
#include "lnd/rc/verbs/control_ctl.h"
#include "lnd/rc/verbs/verbs.h"
#include "tests/unit/rc/fake_rdma.h"

namespace ulnet::rc::verbs {
namespace {

using test::cm_event;
using test::fake;

const Endpoint kHere{IpAddress::of_v4(0x0A000001), 987};

struct CmUser final : QpUser {
  ~CmUser() = default;
  void received(Qp&, uint32_t, uint32_t, Instant) override {}
  void sent(Qp&, uint64_t, Instant) override {}
  void key_closed(Qp&, RemoteKey&, Instant) override {}
  void broken(Qp&, Cause, Instant) override {}
  void drained(Qp&, Instant) override { is_drained = true; }
  bool is_drained = false;
};

struct RcCm : ::testing::Test {
  RcCm() {
    test::fake_reset();
    fake().at_address = &first;
    provider = std::move(*open_provider(1));
  }
  ~RcCm() override { provider.reset(); }
  [[nodiscard]] Control& control() { return provider->control(); }
  [[nodiscard]] Worker& worker() { return provider->worker(WorkerId{0}); }
  /// The next event; waits for the CM thread.
  Event next() {
    Event event;
    for (int i = 0; i < 20'000; ++i) {
      if (control().poll({&event, 1}, now) == 1) return event;
      ::usleep(500);
    }
    ADD_FAILURE() << "no event";
    return event;
  }
  /// The CM thread has done all that control has ordered.
  template <class F>
  void until(const F& there) {
    for (int i = 0; i < 20'000 && !there(); ++i) ::usleep(500);
    EXPECT_TRUE(there());
  }
  ListenerId listen() {
    const auto id = control().listen(kHere);
    EXPECT_TRUE(id);
    const Event event = next();
    EXPECT_EQ(event.kind, EventKind::kDevice);
    return id ? *id : 0;
  }
  ConnId dial() {
    const QpNeeds needs{.receives = 2, .sends = 2, .buffer_bytes = 64, .work = 4};
    return *control().dial({.local = kHere.address, .remote = kHere, .needs = needs}, now);
  }
  [[nodiscard]] static size_t count_of(const auto& what) {
    const std::lock_guard lock(fake().mutex);
    return what.size();
  }
  test::FakeDevice first, second;
  std::unique_ptr<Provider> provider;
  std::array<std::byte, 4096> memory{};
  Instant now = kNever + 1s;
};

TEST_F(RcCm, an_event_of_a_queue_pair_ends_its_connection) {
  const ConnId others[] = {dial(), dial()};
  const ConnId id = dial();
  Qp* qp = nullptr;
  for (unsigned i = 0; i < 3; ++i) {
    const Event event = next();
    ASSERT_EQ(event.kind, EventKind::kReady);
    if (event.conn == id) qp = event.qp;
  }
  ASSERT_NE(qp, nullptr);
  test::async_event(&first.context, IBV_EVENT_QP_ACCESS_ERR, verbs_qp(*qp).qp);
  const Event event = next();
  EXPECT_EQ(event.kind, EventKind::kFailed);
  EXPECT_EQ(event.conn, id);
  EXPECT_EQ(event.cause, Cause::kRemoteAccess);
  for (const ConnId one : {others[0], others[1], id}) {
    control().disconnect(one, now);
    control().destroy(one, now);
  }
  until([&] { return count_of(fake().qps) == 0; });
}

// Goal: while the helper registers, connections are set up, and a device that appears gets the region, too.
TEST_F(RcCm, memory_is_registered_beside_the_cm_thread) {
  listen();
  unsigned calls = 0;
  fake().registering = [&](ibv_context*) {
    if (calls++ > 0) return;
    fake().at_address = &second;
    listen();
  };
  ASSERT_TRUE(control().region_add({1}, memory));
  EXPECT_EQ(fake().registered_by, std::vector(2, std::this_thread::get_id()));
  std::set<ibv_context*> having;
  for (const auto& [mr, context] : fake().regions) having.insert(context);
  EXPECT_EQ(having, (std::set<ibv_context*>{&first.context, &second.context}));
  control().region_remove({1});
  EXPECT_TRUE(fake().regions.empty());
}

TEST_F(RcCm, a_device_that_appears_later_gets_all_regions) {
  ASSERT_TRUE(control().region_add({1}, memory));
  EXPECT_TRUE(fake().regions.empty());
  listen();
  EXPECT_EQ(count_of(fake().regions), 1u);
}

// Goal: a region that one device cannot have is at none.
TEST_F(RcCm, a_region_that_one_device_refuses) {
  listen();
  fake().at_address = &second;
  listen();
  fake().no_memory = &second.context;
  const auto added = control().region_add({1}, memory);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, -ENOMEM);
  EXPECT_TRUE(fake().regions.empty());
  fake().no_memory = nullptr;
  EXPECT_TRUE(control().region_add({1}, memory));
  EXPECT_EQ(fake().regions.size(), 2u);
}

// Goal: connections whose peers do not answer the DREQ do not add up.
TEST_F(RcCm, ids_that_wait_for_the_end_have_a_bound) {
  std::vector<rdma_cm_id*> in_order;
  for (unsigned i = 0; i < kLeavingMax + 10; ++i) {
    const ConnId id = dial();
    ASSERT_EQ(next().kind, EventKind::kReady);
    control().proceed(id, {}, now);
    ASSERT_EQ(next().kind, EventKind::kEstablished);
    {
      const std::lock_guard lock(fake().mutex);
      for (rdma_cm_id* one : fake().ids)
        if (std::find(in_order.begin(), in_order.end(), one) == in_order.end()) in_order.push_back(one);
    }
    control().disconnect(id, now);
    control().destroy(id, now);
    until([&] { return count_of(fake().qps) == 0; });
  }
  until([&] { return count_of(fake().destroyed) == 10; });
  EXPECT_EQ(fake().destroyed, std::vector(in_order.begin(), in_order.begin() + 10)) << "the oldest";
}

TEST_F(RcCm, an_iwarp_device_is_refused) {
  first.device.transport_type = IBV_TRANSPORT_IWARP;
  const ListenerId id = listen();
  EXPECT_FALSE(control().device(id).usable);
  EXPECT_STREQ(control().device(id).why_not, "an iWARP device: o2ib needs InfiniBand or RoCE");
  EXPECT_TRUE(control().region_add({1}, memory)) << "it needs none";
  EXPECT_TRUE(fake().regions.empty());
  const ConnId conn = dial();
  const Event event = next();
  EXPECT_EQ(event.kind, EventKind::kFailed);
  EXPECT_EQ(event.cause, Cause::kDevice);
  control().disconnect(conn, now);
  control().destroy(conn, now);
}

TEST_F(RcCm, a_listener_whose_device_is_lost_is_opened_again) {
  const ListenerId id = listen();
  EXPECT_TRUE(control().device(id).usable);
  ASSERT_TRUE(control().region_add({1}, memory));
  fake().at_address = nullptr;
  test::async_event(&first.context, IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(next().kind, EventKind::kDevice);
  EXPECT_FALSE(control().device(id).usable);
  EXPECT_STREQ(control().device(id).why_not, "the RDMA device is gone");
  EXPECT_EQ(fake().destroyed.size(), 1u) << "the listener keeps the device";
  until([&] { return count_of(fake().open) == 0; });
  Event event;
  EXPECT_EQ(control().next_deadline(), now + 2s);
  now += 2s;
  EXPECT_EQ(control().poll({&event, 1}, now), 0u) << "no device has the address";
  EXPECT_EQ(control().next_deadline(), now + 2s);
  fake().at_address = &second;
  now += 2s;
  event = next();
  EXPECT_EQ(event.kind, EventKind::kDevice);
  EXPECT_EQ(event.listener, id);
  EXPECT_TRUE(control().device(id).usable);
  EXPECT_EQ(control().next_deadline(), kForever);
  EXPECT_EQ(count_of(fake().regions), 1u) << "the new device has the region";
}

// Goal: a lost device stays open until its last queue pair is gone, and the worker has dropped its completion queue.
TEST_F(RcCm, a_lost_device_is_closed_after_its_last_queue_pair) {
  const ConnId id = dial();
  const Event ready = next();
  ASSERT_EQ(ready.kind, EventKind::kReady);
  CmUser user;
  worker().adopt(*ready.qp, user);
  std::array<int, 16> fds{};
  EXPECT_EQ(worker().wait_fds(fds), 2u);
  test::async_event(&first.context, IBV_EVENT_DEVICE_FATAL);
  EXPECT_EQ(next().kind, EventKind::kFailed);
  control().disconnect(id, now);
  until([&] {
    worker().poll(16, now);
    return user.is_drained;
  });
  EXPECT_EQ(count_of(fake().open), 1u);
  worker().release(*ready.qp);
  EXPECT_EQ(worker().wait_fds(fds), 1u) << "the bell alone";
  control().destroy(id, now);
  until([&] { return count_of(fake().open) == 0; });
}

TEST_F(RcCm, why_nothing_can_listen) {
  fake().no_channel = ENOENT;
  EXPECT_EQ(control().listen(kHere).error().code, -ENODEV);
  fake().no_channel = EMFILE;
  EXPECT_EQ(control().listen(kHere).error().code, -EMFILE);
  fake().no_channel = EPERM;
  EXPECT_EQ(control().listen(kHere).error().code, -EACCES);
  fake().no_channel = 0;
  fake().at_address = nullptr;
  EXPECT_EQ(control().listen(kHere).error().code, -ENODEV);
}

// Goal: a passive side whose REP has no answer fails, once.
TEST_F(RcCm, a_reply_has_a_limit) {
  listen();
  rdma_cm_id* listening = *fake().ids.begin();
  rdma_cm_id* asked = nullptr;
  (void)rdma_create_id(fake().channel, &asked, nullptr, RDMA_PS_TCP);
  (void)rdma_bind_addr(asked, nullptr);
  test::cm_request(listening, asked);
  const Event request = next();
  ASSERT_EQ(request.kind, EventKind::kRequest);
  control().prepare(request.conn, {.receives = 2, .sends = 2, .buffer_bytes = 64, .work = 4}, now);
  ASSERT_EQ(next().kind, EventKind::kReady);
  EXPECT_EQ(control().next_deadline(), kForever);
  control().proceed(request.conn, {}, now);
  EXPECT_EQ(control().next_deadline(), now + kAnswerMax);
  now += kAnswerMax;
  const Event event = next();
  EXPECT_EQ(event.kind, EventKind::kFailed);
  EXPECT_EQ(event.cause, Cause::kNoAnswer);
  EXPECT_EQ(control().next_deadline(), kForever);
  control().disconnect(request.conn, now);
  control().destroy(request.conn, now);
}

// Goal: a device that cannot register memory serves no connection, and the others go on. The device is tried again.
TEST_F(RcCm, a_device_that_has_no_memory) {
  const ListenerId good = listen();
  ASSERT_TRUE(control().region_add({1}, memory));
  fake().at_address = &second;
  fake().no_memory = &second.context;
  const ListenerId bad = listen();
  EXPECT_FALSE(control().device(bad).usable);
  EXPECT_TRUE(control().region_add({2}, memory));
  EXPECT_EQ(count_of(fake().regions), 2u) << "both at the first device";
  EXPECT_TRUE(control().device(good).usable);
  const ConnId conn = dial();
  const Event event = next();
  EXPECT_EQ(event.kind, EventKind::kFailed);
  EXPECT_EQ(event.cause, Cause::kDevice);
  control().disconnect(conn, now);
  control().destroy(conn, now);
  EXPECT_STRNE(control().device(bad).why_not, "the RDMA device is gone");
  // Each attempt registers memory, so that the pauses grow.
  Duration pause{};
  for (Instant before = now; pause < 60s && now < before + 600s; now += 100ms) {
    Event news;
    (void)control().poll({&news, 1}, now);
    const Instant next_look = control().next_deadline();
    if (next_look != kForever) pause = std::max(pause, next_look - now);
    ::usleep(200);
  }
  EXPECT_EQ(pause, Duration(60s));
  fake().no_memory = nullptr;
  until([&] {
    now += 100ms;
    Event news;
    (void)control().poll({&news, 1}, now);
    return control().device(bad).usable;
  });
  EXPECT_EQ(count_of(fake().regions), 4u);
}

// Goal: a second listener at a device that has been lost just now has the reason, too.
TEST_F(RcCm, a_device_without_memory_that_two_listen_at) {
  listen();
  ASSERT_TRUE(control().region_add({1}, memory));
  fake().at_address = &second;
  fake().no_memory = &second.context;
  std::atomic<bool> both = false;
  fake().registering = [&](ibv_context*) { until([&] { return both.load(); }); };
  const ListenerId ids[] = {*control().listen(kHere), *control().listen(kHere)};
  both = true;
  for (unsigned i = 0; i < 2; ++i) EXPECT_EQ(next().kind, EventKind::kDevice);
  EXPECT_STRNE(control().device(ids[0]).why_not, "");
  EXPECT_STREQ(control().device(ids[0]).why_not, control().device(ids[1]).why_not);
  fake().registering = nullptr;
}

// Goal: an event that is earlier than the order of its listener is not forgotten.
TEST_F(RcCm, a_device_that_is_removed_while_its_listener_opens) {
  const ListenerId before = listen();
  rdma_cm_id early{};
  early.context = reinterpret_cast<void*>(uintptr_t(listener_context(before + 1)));
  cm_event(&early, RDMA_CM_EVENT_DEVICE_REMOVAL);
  until([&] { return count_of(fake().events) == 0; });
  fake().at_address = &second;
  const ListenerId id = *control().listen(kHere);
  until([&] {
    Event event;
    (void)control().poll({&event, 1}, now);
    return std::string_view(control().device(id).why_not).ends_with("gone");
  });
  EXPECT_TRUE(control().device(before).usable);
}

// Goal: the event of a listener that could not open means no later one.
TEST_F(RcCm, a_device_that_is_removed_while_its_listener_fails_to_open) {
  listen();
  rdma_cm_id early{};
  early.context = reinterpret_cast<void*>(uintptr_t(listener_context(2)));
  cm_event(&early, RDMA_CM_EVENT_DEVICE_REMOVAL);
  until([&] { return count_of(fake().events) == 0; });
  fake().at_address = nullptr;
  EXPECT_FALSE(control().listen(kHere));
  fake().at_address = &second;
  const ListenerId id = listen();
  (void)control().region_add({1}, memory);  // the CM thread has answered: it has done all before
  Event event;
  EXPECT_EQ(control().poll({&event, 1}, now), 0u);
  EXPECT_TRUE(control().device(id).usable);
}

// Goal: a device that goes while it registers takes the region from no other.
TEST_F(RcCm, a_device_that_goes_while_memory_is_registered) {
  listen();
  fake().at_address = &second;
  const ListenerId id = listen();
  fake().registering = [&](ibv_context* context) {
    if (context != &second.context) return;
    test::async_event(context, IBV_EVENT_DEVICE_FATAL);
    while (!std::string_view(control().device(id).why_not).ends_with("gone")) {
      Event event;
      (void)control().poll({&event, 1}, now);
      ::usleep(500);
    }
    fake().no_memory = context;
  };
  EXPECT_TRUE(control().region_add({1}, memory));
  EXPECT_EQ(count_of(fake().regions), 1u);
  fake().registering = nullptr;
}

// Goal: control is late. An answer that came before its limit counts.
TEST_F(RcCm, an_answer_that_came_in_time) {
  const ConnId id = dial();
  ASSERT_EQ(next().kind, EventKind::kReady);
  control().proceed(id, {}, now);
  std::vector<int> fds;
  control().wait_fds(fds);
  pollfd news{fds.at(0), POLLIN, 0};
  ASSERT_EQ(::poll(&news, 1, 10'000), 1);
  now += 60s;
  EXPECT_EQ(next().kind, EventKind::kEstablished);
  control().disconnect(id, now);
  control().destroy(id, now);
}

// Goal: the source of a request is the address that the device talks to, whatever its sender wrote.
TEST_F(RcCm, the_source_of_a_request) {
  listen();
  rdma_cm_id* listening = *fake().ids.begin();
  for (const bool forged : {false, true}) {
    rdma_cm_id* asked = nullptr;
    (void)rdma_create_id(fake().channel, &asked, nullptr, RDMA_PS_TCP);
    (void)rdma_bind_addr(asked, nullptr);
    const IpAddress written = IpAddress::of_v4(0x0A000002), gid = IpAddress::of_v4(0x0A000009);
    const SocketAddress address = socket_address({written, 1023});
    std::memcpy(&asked->route.addr.dst_addr, &address.any, sizeof address.v4);
    if (forged) std::copy_n(gid.bytes.begin(), gid.bytes.size(), asked->route.addr.addr.ibaddr.dgid.raw);
    test::cm_request(listening, asked);
    const Event request = next();
    EXPECT_EQ(request.remote, (Endpoint{forged ? gid : written, 1023}));
    control().reject(request.conn, {}, now);
  }
}

// Goal: a limit ends with its connection, also if control goes on with one that it has given up.
TEST_F(RcCm, a_connection_that_is_given_up_has_no_limit) {
  listen();
  rdma_cm_id* listening = *fake().ids.begin();
  rdma_cm_id* asked = nullptr;
  (void)rdma_create_id(fake().channel, &asked, nullptr, RDMA_PS_TCP);
  (void)rdma_bind_addr(asked, nullptr);
  test::cm_request(listening, asked);
  const Event request = next();
  control().prepare(request.conn, {.receives = 2, .sends = 2, .buffer_bytes = 64, .work = 4}, now);
  ASSERT_EQ(next().kind, EventKind::kReady);
  control().disconnect(request.conn, now);
  control().proceed(request.conn, {}, now);
  control().destroy(request.conn, now);
  EXPECT_EQ(control().next_deadline(), kForever);
  now += 60s;
  Event event;
  EXPECT_EQ(control().poll({&event, 1}, now), 0u);
}

}  // namespace
}  // namespace ulnet::rc::verbs
