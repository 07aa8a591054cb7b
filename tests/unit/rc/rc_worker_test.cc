// The worker half of the verbs provider, over a stand-in for rdma-core.
#include <gtest/gtest.h>

#include <tuple>

#include "lnd/rc/verbs/worker.h"
#include "tests/unit/rc/fake_rdma.h"

namespace ulnet::rc::verbs {
namespace {

using test::complete;
using test::fake;

struct WorkerUser final : QpUser {
  ~WorkerUser() = default;
  void received(Qp&, uint32_t buffer, uint32_t, Instant) override { buffers.push_back(buffer); }
  void sent(Qp&, uint64_t token, Instant) override { tokens.push_back(token); }
  void key_closed(Qp&, RemoteKey&, Instant) override {}
  void broken(Qp&, Cause why, Instant) override { cause = why; }
  void drained(Qp&, Instant) override { is_drained = true; }
  std::vector<uint32_t> buffers;
  std::vector<uint64_t> tokens;
  Cause cause = Cause::kNone;
  bool is_drained = false;
};

/// A queue pair as the CM thread makes one.
struct RcWorker : ::testing::Test {
  RcWorker() {
    test::fake_reset();
    (void)worker.bell().signal.open();
    (void)stuck_signal.open();
    stuck.signal = &stuck_signal;
    channel = {&device.context, -1, 0};
    fill(queue, channel, cq, send_cq);
    ibv.context = &device.context;
    qp.conn = 2;
    qp.receives = qp.sends = 4;
    qp.buffer_bytes = 64;
    qp.work = 22;
    qp.ring = 24;  // no power of two
    qp.pieces = 1;
    qp.receive_memory = memory.data();
    qp.send_memory = memory.data() + 4 * 64;
    qp.qp = &ibv;
    qp.cq = &queue;
    qp.buffers = &buffers;
    qp.ops = std::make_unique<Op[]>(qp.ring);
    qp.requests = std::make_unique<ibv_send_wr[]>(qp.ring);
    qp.sges = std::make_unique<ibv_sge[]>(qp.ring);
    qp.receive_requests = std::make_unique<ibv_recv_wr[]>(qp.receives);
    qp.receive_sges = std::make_unique<ibv_sge[]>(qp.receives);
  }
  void fill(CompletionQueue& its, ibv_comp_channel& its_channel, ibv_cq& receives, ibv_cq& sends) {
    for (ibv_cq* one : {&receives, &sends}) {
      one->context = &device.context;
      one->channel = &its_channel;
      one->cq_context = &its;
    }
    its.receives = &receives;
    its.sends = &sends;
    its.channel = &its_channel;
  }
  ~RcWorker() override {
    if (qp.is_drained) worker.release(qp);
  }
  /// The bell that adopt() rings is heard.
  void adopt() {
    worker.adopt(qp, user);
    worker.poll(16, now);
    (void)worker.pending();
  }
  void end() {
    qp.cause.store(Cause::kClosed);
    qp.disconnected.store(true);
    worker.bell().ring();
  }
  [[nodiscard]] bool signal_is_readable() { return worker.bell().signal.clear(); }

  test::FakeDevice device;
  ibv_comp_channel channel{};
  ibv_cq cq{}, send_cq{};
  ibv_qp ibv{};
  ibv_mr buffers{};
  CompletionQueue queue;
  std::array<std::byte, 8 * 64> memory{};
  Signal stuck_signal;
  StuckBell stuck;
  VerbsWorker worker{WorkerId{0}, stuck};
  VerbsQp qp;
  WorkerUser user;
  Instant now = kNever + 1s;
};

// Goal: the ring of operations goes on where a counter of 32 bits would begin again.
TEST_F(RcWorker, counts_of_operations_beyond_32_bits) {
  adopt();
  const uint64_t before = (uint64_t{1} << 32) - 11;
  qp.head = qp.posted = qp.tail = before;
  std::vector<uint64_t> expected;
  for (uint64_t token = 1; token <= 100; token += 5) {
    for (uint64_t i = 0; i < 5; ++i) {
      ASSERT_EQ(worker.send(qp, 0, 1, token + i, Wake::kYes), Posted::kYes);
      expected.push_back(token + i);
    }
    worker.flush(now);
    EXPECT_EQ(worker.room(qp), token == 1 ? 17u : 12u);
    if (token == 1) continue;  // from here on, 5 to 10 are under way
    const size_t done = fake().sends.size() - 6;
    complete(&send_cq, fake().sends[done]);
    worker.poll(16, now);
    EXPECT_EQ(user.tokens, std::vector(expected.begin(), expected.end() - 5)) << token;
  }
}

TEST_F(RcWorker, a_message_that_is_too_long_is_a_fault_of_the_peer) {
  adopt();
  worker.receive(qp, 0);
  complete(&cq, fake().receives.at(0), IBV_WC_LOC_LEN_ERR);
  worker.poll(16, now);
  EXPECT_EQ(user.cause, Cause::kRemoteAccess);
}

TEST_F(RcWorker, an_operation_that_is_too_long_is_a_fault_of_this_side) {
  adopt();
  ASSERT_EQ(worker.send(qp, 0, 1, 1, Wake::kYes), Posted::kYes);
  worker.flush(now);
  complete(&send_cq, fake().sends.at(0), IBV_WC_LOC_LEN_ERR);
  worker.poll(16, now);
  EXPECT_EQ(user.cause, Cause::kLocal);
}

// Goal: messages that have come before the end are reported, even if the worker is late: their queue pair stays.
TEST_F(RcWorker, no_queue_pair_is_stuck_before_its_user_has_heard_of_the_end) {
  adopt();
  for (uint32_t i = 0; i < 2; ++i) worker.receive(qp, i);
  for (const uint64_t name : fake().receives) complete(&cq, name);
  end();
  worker.poll(1, now);
  EXPECT_EQ(worker.next_deadline(), kForever);
  now += 10s;
  worker.timers(now);
  EXPECT_FALSE(qp.stuck);
  EXPECT_FALSE(stuck.rung);
  while (user.cause == Cause::kNone) worker.poll(1, now);
  EXPECT_EQ(user.buffers.size(), 2u);
}

TEST_F(RcWorker, a_queue_pair_whose_completions_do_not_come_is_stuck) {
  adopt();
  worker.receive(qp, 0);
  end();
  for (unsigned i = 0; i < 3; ++i) worker.poll(16, now);
  EXPECT_EQ(user.cause, Cause::kClosed);
  EXPECT_FALSE(user.is_drained);
  EXPECT_EQ(worker.next_deadline(), now + 5s);
  worker.timers(now + 5s);
  EXPECT_TRUE(qp.stuck);
  EXPECT_TRUE(stuck.rung);
  EXPECT_EQ(worker.next_deadline(), kForever);
  qp.gone = true;
  worker.poll(16, now);
  EXPECT_TRUE(user.is_drained);
}

// Goal: the worker takes the bell between its two halves. The signal that comes then wakes the worker once.
TEST_F(RcWorker, a_signal_that_comes_after_its_bell_was_taken) {
  adopt();
  worker.bell().rung.store(true);
  worker.poll(16, now);
  worker.bell().signal.raise();
  EXPECT_FALSE(worker.pending());
  EXPECT_FALSE(signal_is_readable());
}

// Goal: the worker polls the queues that its queue pairs have, and waits for each channel once.
TEST_F(RcWorker, queues_of_one_channel) {
  adopt();
  ibv_cq cq2{}, cq3{}, sends2{}, sends3{};
  ibv_comp_channel channel2{&device.context, -1, 0};
  CompletionQueue queue2, queue3;
  fill(queue2, channel2, cq2, sends2);
  fill(queue3, channel, cq3, sends3);
  VerbsQp other2, other3;
  WorkerUser user2, user3;
  uint32_t index = 0;
  for (auto [other, its_user, its_queue] : {std::tuple{&other2, &user2, &queue2}, {&other3, &user3, &queue3}}) {
    other->index = ++index;
    other->cq = its_queue;
    other->work = other->receives = 1;
    worker.adopt(*other, *its_user);
    other->cause = Cause::kClosed;
    other->disconnected = true;
  }
  std::array<int, 8> fds{};
  EXPECT_EQ(worker.wait_fds(fds), 3u) << "the bell and two channels";
  const uint64_t name = RequestName{RequestTag::kReceive, 0, 2, 0}.pack();
  other3.receives_posted = 1;
  complete(&cq3, name);
  for (unsigned i = 0; i < 3; ++i) worker.poll(16, now);
  EXPECT_EQ(user3.buffers.size(), 1u);
  EXPECT_TRUE(user2.is_drained && user3.is_drained);
  worker.release(other2);
  EXPECT_EQ(worker.wait_fds(fds), 2u);
  worker.release(other3);
  complete(&cq3, name);
  worker.poll(16, now);
  EXPECT_EQ(fake().completions[&cq3].size(), 1u) << "no queue pair is left there";
}

TEST_F(RcWorker, a_ring_before_sleep_is_not_lost) {
  adopt();
  worker.bell().ring();
  EXPECT_TRUE(worker.pending());
  EXPECT_TRUE(worker.pending()) << "until the worker has looked";
  worker.poll(16, now);
  EXPECT_FALSE(worker.pending());
}

// Goal: the end of a message wakes the worker if the worker waits for the end, or if the peer has sent a message since.
TEST_F(RcWorker, ends_that_nobody_waits_for_do_not_wake) {
  adopt();
  const auto is_armed = [&] { return fake().armed.contains(&send_cq); };
  const auto sleeps = [&] { return !worker.pending(); };
  ASSERT_EQ(worker.send(qp, 0, 1, 1, Wake::kNo), Posted::kYes);
  worker.flush(now);
  ASSERT_TRUE(sleeps());
  EXPECT_TRUE(fake().armed.contains(&cq));
  EXPECT_FALSE(is_armed());
  complete(&send_cq, fake().sends.at(0));
  EXPECT_TRUE(sleeps());
  worker.poll(16, now);
  EXPECT_EQ(user.tokens, std::vector<uint64_t>{1}) << "a turn takes it";

  ASSERT_EQ(worker.send(qp, 0, 1, 2, Wake::kNo), Posted::kYes);
  worker.receive(qp, 0);
  worker.flush(now);
  complete(&cq, fake().receives.at(0));
  EXPECT_FALSE(sleeps());
  worker.poll(16, now);
  EXPECT_EQ(user.buffers.size(), 1u);
  EXPECT_TRUE(sleeps());
  EXPECT_TRUE(is_armed()) << "the message may be the answer";
  complete(&send_cq, fake().sends.at(1));
  EXPECT_FALSE(sleeps());
  worker.poll(16, now);
  EXPECT_EQ(user.tokens.size(), 2u);
  EXPECT_TRUE(sleeps());
  EXPECT_FALSE(is_armed());

  ASSERT_EQ(worker.send(qp, 0, 1, 3, Wake::kNo), Posted::kYes);
  ASSERT_EQ(worker.send(qp, 1, 1, 4, Wake::kYes), Posted::kYes);
  worker.flush(now);
  EXPECT_TRUE(sleeps());
  EXPECT_TRUE(is_armed());
}

// Goal: the same if the caller waits for room, and if the queue pair ends.
TEST_F(RcWorker, a_worker_that_waits_for_room_or_the_end_is_woken) {
  adopt();
  for (uint32_t i = 0; i < qp.work; ++i) ASSERT_EQ(worker.send(qp, 0, 1, i + 1, Wake::kNo), Posted::kYes);
  worker.flush(now);
  EXPECT_FALSE(worker.pending());
  EXPECT_FALSE(fake().armed.contains(&send_cq));
  EXPECT_EQ(worker.send(qp, 0, 1, 99, Wake::kNo), Posted::kNoRoom);
  EXPECT_FALSE(worker.pending());
  EXPECT_TRUE(fake().armed.contains(&send_cq));
  complete(&send_cq, fake().sends.back());
  EXPECT_TRUE(worker.pending());
  worker.poll(16, now);
  ASSERT_EQ(worker.send(qp, 0, 1, 100, Wake::kNo), Posted::kYes);
  worker.flush(now);
  end();
  worker.poll(16, now);
  EXPECT_EQ(user.cause, Cause::kClosed);
  EXPECT_FALSE(worker.pending());
  EXPECT_TRUE(fake().armed.contains(&send_cq)) << "it drains";
  complete(&send_cq, fake().sends.back(), IBV_WC_WR_FLUSH_ERR);
  EXPECT_TRUE(worker.pending());
  worker.poll(16, now);
  EXPECT_TRUE(user.is_drained);
}

// Goal: one queue that always has more than the budget does not keep the worker from another.
TEST_F(RcWorker, a_busy_queue_leaves_the_others_their_share) {
  adopt();
  ibv_cq cq2{}, sends2{};
  ibv_comp_channel channel2{&device.context, -1, 0};
  CompletionQueue queue2;
  fill(queue2, channel2, cq2, sends2);
  VerbsQp other;
  WorkerUser its_user;
  other.index = 1;
  other.cq = &queue2;
  other.work = other.receives = 1;
  worker.adopt(other, its_user);
  other.receives_posted = 1;
  complete(&cq2, RequestName{RequestTag::kReceive, 0, 1, 0}.pack());
  const uint64_t stale = RequestName{RequestTag::kReceive, 7, 0, 0}.pack();
  for (unsigned call = 0; call < 2; ++call) {
    for (unsigned i = 0; i < 16; ++i) complete(&cq, stale);
    worker.poll(16, now);
  }
  EXPECT_EQ(its_user.buffers.size(), 1u);
  other.cause = Cause::kClosed;
  other.disconnected = true;
  worker.bell().ring();
  for (unsigned i = 0; i < 8 && !its_user.is_drained; ++i) worker.poll(64, now);
  ASSERT_TRUE(its_user.is_drained);
  worker.release(other);
}

// Goal: a queue pair is drained although the closing of a key, on a device without windows, has no completion.
TEST_F(RcWorker, a_key_that_is_closed_without_a_request_ends_with_its_queue_pair) {
  adopt();
  RemoteKey key{.open = true};
  qp.keys_open = 1;
  ASSERT_EQ(worker.send(qp, 0, 1, 1, Wake::kYes), Posted::kYes);
  ASSERT_EQ(worker.key_close(qp, key), Posted::kYes);
  worker.flush(now);
  complete(&send_cq, fake().sends.at(0), IBV_WC_RETRY_EXC_ERR);
  end();
  for (unsigned i = 0; i < 3; ++i) worker.poll(16, now);
  EXPECT_EQ(user.cause, Cause::kRetryExceeded);
  EXPECT_TRUE(user.is_drained);
}

/// Keys of a device with windows. Requests go out, and a test ends them one by one.
struct RcWindows : RcWorker {
  RcWindows() {
    qp.windows = true;
    qp.keys = 2;
    for (uint32_t i = 0; i < qp.keys; ++i) {
      qp.window.push_back({&mw[i], 0});
      keys[i].open = true;
      keys[i].provider[0] = i;
    }
    qp.keys_open = qp.keys;
    adopt();
  }
  void send() { ASSERT_EQ(worker.send(qp, 0, 1, ++token, Wake::kNo), Posted::kYes); }
  void close(uint32_t key) { ASSERT_EQ(worker.key_close(qp, keys[key]), Posted::kYes); }
  [[nodiscard]] size_t posted() {
    worker.flush(now);
    return fake().sends.size();
  }
  /// The last request that was posted ends.
  void end_of_last() {
    complete(&send_cq, fake().sends.back());
    worker.poll(16, now);
  }
  std::array<ibv_mw, 2> mw{};
  std::array<RemoteKey, 2> keys;
  uint64_t token = 0;
};

TEST_F(RcWindows, a_key_is_closed_in_the_order_of_requests) {
  send();
  close(0);
  close(1);
  send();
  EXPECT_EQ(posted(), 4u);
}

// Goal: rdma_rxe gets no closing behind a request that may end meanwhile. Nothing else has to come before it goes on.
TEST_F(RcWindows, a_closing_waits_for_all_before_it) {
  qp.forgetful = true;
  send();
  send();
  close(0);
  close(1);
  send();
  EXPECT_EQ(posted(), 2u);
  EXPECT_EQ(posted(), 2u);
  EXPECT_FALSE(worker.pending());
  EXPECT_TRUE(fake().armed.contains(&send_cq)) << "the end of what is before it wakes the worker";
  end_of_last();
  EXPECT_TRUE(worker.pending()) << "something has to be posted";
  EXPECT_EQ(posted(), 3u);
  EXPECT_FALSE(worker.pending());
  end_of_last();
  EXPECT_FALSE(keys[0].open);
  EXPECT_EQ(posted(), 5u) << "the other closing, and the message behind it";
  end_of_last();
  EXPECT_FALSE(keys[1].open);
  EXPECT_EQ(user.tokens, (std::vector<uint64_t>{1, 2, 3}));
  EXPECT_EQ(posted(), 5u);
  EXPECT_FALSE(worker.pending());

  qp.keys_open = 1;
  keys[0].open = true;
  qp.free_windows.clear();
  close(0);
  EXPECT_EQ(posted(), 6u) << "nothing is before it";
  end_of_last();
  EXPECT_FALSE(keys[0].open);
}

// Goal: a queue pair that fails meanwhile is drained, and the closing is not posted.
TEST_F(RcWindows, a_closing_that_waits_ends_with_its_queue_pair) {
  qp.forgetful = true;
  send();
  close(0);
  EXPECT_EQ(posted(), 1u);
  complete(&send_cq, fake().sends.back(), IBV_WC_RETRY_EXC_ERR);
  end();
  for (unsigned i = 0; i < 3; ++i) worker.poll(16, now);
  EXPECT_EQ(posted(), 1u);
  EXPECT_EQ(user.cause, Cause::kRetryExceeded);
  EXPECT_TRUE(user.is_drained);
}

// Goal: rdma_rxe stood still once nothing more was posted. Requests under way are looked at, and an idle queue pair
// lets the worker sleep.
TEST_F(RcWindows, a_forgetful_device_gets_a_nudge) {
  qp.forgetful = true;
  while (worker.room(qp) > 0) send();
  EXPECT_EQ(posted(), 22u);
  const size_t last = fake().sends.size() - 1;
  EXPECT_EQ(worker.next_deadline(), now + 5s);
  const auto after = [&](Duration span) {
    now += span;
    worker.timers(now);
    return posted();
  };
  EXPECT_EQ(after(4999ms), 22u);
  EXPECT_EQ(after(1ms), 22u) << "the first look";
  EXPECT_EQ(after(5s), 23u);
  EXPECT_EQ(worker.room(qp), 0u);
  EXPECT_EQ(after(5s), 24u) << "the first did not help";
  EXPECT_EQ(after(5s), 24u) << "two at most";
  complete(&send_cq, fake().sends[last]);
  worker.poll(32, now);
  EXPECT_EQ(user.tokens.size(), 22u);
  EXPECT_EQ(after(5s), 24u) << "something has ended since";
  EXPECT_EQ(after(5s), 24u);
  end_of_last();
  EXPECT_EQ(user.tokens.size(), 22u) << "nudges are no messages";
  EXPECT_EQ(worker.room(qp), 22u);
  after(5s);
  EXPECT_EQ(worker.next_deadline(), kForever);
}

TEST_F(RcWindows, a_closing_that_waits_is_the_nudge) {
  qp.forgetful = true;
  send();
  close(0);
  send();
  EXPECT_EQ(posted(), 1u);
  for (const size_t expected : {1u, 3u}) {
    now += 5s;
    worker.timers(now);
    EXPECT_EQ(posted(), expected);
  }
  end_of_last();
  EXPECT_FALSE(keys[0].open);
  EXPECT_EQ(user.tokens.size(), 2u);
}

TEST_F(RcWindows, other_devices_get_no_nudge) {
  send();
  EXPECT_EQ(posted(), 1u);
  EXPECT_EQ(worker.next_deadline(), kForever);
  for (unsigned i = 0; i < 4; ++i) worker.timers(now += 5s);
  EXPECT_EQ(posted(), 1u);
}

// Goal: the channel of a device that is gone stays readable. The worker does not wake up for it without end.
TEST_F(RcWorker, a_channel_that_has_failed_is_left_out) {
  adopt();
  std::array<int, 8> fds{};
  EXPECT_EQ(worker.wait_fds(fds), 2u);
  fake().channel_error = EIO;
  EXPECT_FALSE(worker.pending());
  EXPECT_EQ(worker.wait_fds(fds), 1u) << "the bell alone";
  fake().channel_error = EAGAIN;
}

}  // namespace
}  // namespace ulnet::rc::verbs
