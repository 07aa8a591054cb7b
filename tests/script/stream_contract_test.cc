// The contract of lnd/socklnd/stream.h, which all engines keep: io_uring and epoll over the kernel's TCP, and the
// engine of the simulated TCP. Most other tests depend on the simulated one. The most important part is the byte count
// of a send, because it decides whether a message may be sent again. Also after close(), kSent reports exactly the
// bytes that the transport has.
#include "tests/script/stream_contract.h"

#include <thread>

namespace ulnet::test {
namespace {

INSTANTIATE_TEST_SUITE_P(Engines, StreamContract,
                         testing::Values(Case{Which::kUring, 1}, Case{Which::kEpoll, 1}, Case{Which::kSim, 1},
                                         Case{Which::kSim, 2}, Case{Which::kSim, 3}, Case{Which::kSim, 4}),
                         engine_name);

// Goal: partial sends report the true count: the far end gets each byte once and in its place.
TEST_P(StreamContract, each_byte_arrives_once) {
  constexpr uint64_t kTotal = 2 << 20;
  for (const bool lent_memory : {false, true}) {
    SCOPED_TRACE(lent_memory ? "lent" : "copied");
    lends = lent_memory;
    ASSERT_NO_FATAL_FAILURE(open());
    while (told < kTotal && !HasFatalFailure()) {
      if (!sending) send(1 + rng.below(std::min<uint64_t>(kTotal - told, 300'000)));
      turn();
      far_read(rng.below(100'000));
    }
    close(false);
    far_read_all();
    EXPECT_EQ(far_end, 0);
    EXPECT_EQ(told, kTotal);
    EXPECT_EQ(read_bytes, told);
  }
}

// Goal: if close() comes in the middle of a send, kSent reports the bytes that have gone. An orderly close delivers
// exactly these bytes.
TEST_P(StreamContract, close_reports_the_bytes_that_had_gone) {
  for (const bool abort : {false, true}) {
    for (int round = 0; round < 20; ++round) {
      lends = round >= 10;
      SCOPED_TRACE(testing::Message() << (abort ? "abort" : "orderly") << (lends ? ", lent" : ""));
      ASSERT_NO_FATAL_FAILURE(open());
      receive();
      ASSERT_NO_FATAL_FAILURE(send_part());
      const uint64_t in_transport = engine().unsent_bytes(id);
      close(abort);
      EXPECT_LT(last_received, 0);
      EXPECT_GE(told, in_transport);
      far_read_all();
      EXPECT_EQ(far_end == 0, !abort) << far_end;
      if (abort) {
        EXPECT_LE(read_bytes, told);
      } else {
        EXPECT_EQ(read_bytes, told);
      }
    }
  }
}

// Goal: if a send is complete before close() and its result is not yet polled, kSent still reports its bytes.
TEST_P(StreamContract, close_keeps_a_result_that_was_ready) {
  for (int round = 0; round < 10; ++round) {
    ASSERT_NO_FATAL_FAILURE(open());
    send(100);
    engine().flush();
    close(false);
    far_read_all();
    EXPECT_EQ(far_end, 0);
    EXPECT_EQ(read_bytes, told);
    EXPECT_GT(told, 0u);
  }
}

// Goal: the far end's FIN comes during a send, and close() follows. kSent reports the bytes that the far end gets.
TEST_P(StreamContract, fin_under_a_send) {
  for (const bool lent_memory : {false, true}) {
    SCOPED_TRACE(lent_memory ? "lent" : "copied");
    lends = lent_memory;
    ASSERT_NO_FATAL_FAILURE(open());
    receive();
    ASSERT_NO_FATAL_FAILURE(send_part());
    world->far->finish();
    until([&] { return !receiving; });
    EXPECT_EQ(last_received, 0);
    close(false);
    far_read_all();
    EXPECT_EQ(far_end, 0);
    EXPECT_EQ(read_bytes, told);
    EXPECT_GT(told, 0u);
  }
}

// Goal: close() with a reset ends the stream at once, before the engine is driven again. Of lent memory that changes
// after it, the far end gets nothing.
TEST_P(StreamContract, lent_memory_is_free_after_a_reset) {
  lends = true;
  for (int round = 0; round < 10; ++round) {
    ASSERT_NO_FATAL_FAILURE(open());
    receive();
    ASSERT_NO_FATAL_FAILURE(send_part());
    for (int turns = 0; turns < round % 3; ++turns) turn();
    engine().close(id, true);
    // Two ends on one machine share the pages of bytes that have come there: they must stay until they are read.
    const bool shared = GetParam().which != Which::kSim;
    if (!shared)
      for (auto& bytes : lent) std::fill(bytes.begin(), bytes.end(), std::byte{0xEE});
    if (!shared) std::fill(memory.begin(), memory.end(), std::byte{0xEE});
    for (int passes = 0; passes < 1000 && (far_end > 0 || far_end == -EAGAIN); ++passes) {
      far_read(SIZE_MAX);
      if (shared)
        std::this_thread::sleep_for(100us);
      else
        world->pass();
    }
    EXPECT_EQ(far_end, -ECONNRESET);
    until([&] { return closed; });
    EXPECT_LE(read_bytes, told);
  }
}

// Goal: a reset comes during a send. All bytes that the far end has read are reported as sent; later sends fail, with
// no bytes.
TEST_P(StreamContract, reset_under_a_send) {
  ASSERT_NO_FATAL_FAILURE(open());
  receive();
  ASSERT_NO_FATAL_FAILURE(send_part());
  until([&] {
    far_read(1000);
    return read_bytes > 0;
  });
  world->far->reset();
  until([&] { return !sending && !receiving; });
  EXPECT_LE(last_received, 0);
  EXPECT_GE(told, read_bytes);
  while (last_sent > 0 && !HasFatalFailure()) {  // the count of what had gone may come first
    send(1000);
    until([&] { return !sending; });
  }
  EXPECT_LT(last_sent, 0);
  const uint64_t before = told;
  send(1000);
  until([&] { return !sending; });
  EXPECT_LT(last_sent, 0);
  close(true);
  EXPECT_EQ(told, before);
}

// Goal: reset and close at once, results of both not looked at before.
TEST_P(StreamContract, reset_and_close_at_once) {
  for (const bool abort : {false, true}) {
    ASSERT_NO_FATAL_FAILURE(open());
    receive();
    ASSERT_NO_FATAL_FAILURE(send_part());
    until([&] {
      far_read(1000);
      return read_bytes > 0;
    });
    world->far->reset();
    world->pass();
    close(abort);
    EXPECT_LT(last_received, 0);
    EXPECT_GE(told, read_bytes);
  }
}

}  // namespace
}  // namespace ulnet::test
