// The contract of lnd/socklnd/stream.h for pipes, which all engines keep. Bytes go from the far end into a pipe, and
// from there to the far end again.
#include "tests/script/stream_contract.h"

namespace ulnet::test {
namespace {

/// A pipe that the far end's bytes come to, and that they leave for the far end again.
class StreamPipes : public StreamContract {
 protected:
  void SetUp() override {
    StreamContract::SetUp();
    if (IsSkipped()) return;
    while (pipe == nullptr) pipe = engine().pipe_take();
  }
  /// The far end writes the next bytes of the pattern, as many as fit.
  void far_write(uint64_t until_byte) {
    for (int writes = small ? 32 : 1; writes > 0; --writes) {
      Bytes bytes(size_t(std::min<uint64_t>(until_byte - written, small ? 1 + rng.below(300) : 50'000)));
      for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = pattern(written + i);
      const int put = bytes.empty() ? 0 : world->far->write(bytes);
      if (put <= 0) return;
      written += uint64_t(put);
    }
  }
  void receive_piped(uint32_t most) {
    receiving = true;
    engine().receive_piped(id, *pipe, most);
  }
  /// Moves `bytes` from the far end to the pipe, or less if the pipe is full.
  uint32_t fill(uint32_t bytes) {
    const uint64_t end = written + bytes;
    const uint32_t before = pipe->bytes();
    uint32_t moved = 0;
    while (moved < bytes && !HasFatalFailure()) {
      receive_piped(bytes - moved);
      until([&] {
        far_write(end);
        return !receiving;
      });
      if (last_received == -ENOSPC) break;
      EXPECT_GT(last_received, 0);
      moved += uint32_t(std::max(last_received, 0));
      EXPECT_LE(moved, bytes);
    }
    EXPECT_EQ(pipe->bytes() - before, moved);
    return moved;
  }
  /// Sends `bytes` of the pipe, the far end reads.
  void drain(uint32_t bytes) {
    for (const uint64_t end = told + bytes; told < end && !HasFatalFailure();) {
      sending = true;
      asked = size_t(end - told);
      engine().send_piped(id, *pipe, uint32_t(end - told), rng.one_in(2));
      until([&] {
        far_read(100'000);
        return !sending;
      });
    }
  }
  /// The bytes that the pipe had no room for come to memory.
  void receive_rest() {
    while (in_memory.size() < written - pipe->bytes() && !HasFatalFailure()) {
      receive();
      until([&] { return !receiving; });
      ASSERT_GT(last_received, 0);
      in_memory.insert(in_memory.end(), scrap.begin(), scrap.begin() + last_received);
    }
  }
  using Bytes = std::vector<std::byte>;
  socklnd::StreamPipe* pipe = nullptr;
  uint64_t written = 0;  ///< by the far end
  bool small = false;    ///< writes are small, and each takes a place in a pipe of the kernel
  Bytes in_memory;
};
INSTANTIATE_TEST_SUITE_P(Engines, StreamPipes,
                         testing::Values(Case{Which::kUring, 1}, Case{Which::kEpoll, 1}, Case{Which::kSim, 1},
                                         Case{Which::kSim, 2}, Case{Which::kSim, 3}),
                         engine_name);

// Goal: all bytes that go in come out, each once and in order. A pipe that is full says so, and the stream goes on
// elsewhere. A pipe that was given back is empty.
TEST_P(StreamPipes, all_that_goes_in_comes_out) {
  for (int round = 0; round < 3; ++round) {
    ASSERT_NO_FATAL_FAILURE(open());
    written = 0;
    in_memory.clear();
    small = round == 0;
    const uint32_t moved = fill(1 << 20);
    ASSERT_GT(moved, 0u);
    EXPECT_TRUE(!small || moved < 1u << 20) << "no pipe has so many places";
    EXPECT_FALSE(pipe->begun());
    receive_rest();
    if (small) {  // the end of the stream shows although the pipe is full
      world->far->finish();
      receive_piped(1);
      until([&] { return !receiving; });
      if (last_received == -ENOSPC) {
        receive();
        until([&] { return !receiving; });
      }
      EXPECT_EQ(last_received, 0);
    }
    for (size_t i = 0; i < in_memory.size(); ++i) ASSERT_EQ(in_memory[i], pattern(moved + i));
    drain(moved);
    EXPECT_TRUE(pipe->begun());
    close(false);
    far_read_all();
    EXPECT_EQ(read_bytes, moved);
    pipe->give_back();
    do pipe = engine().pipe_take();
    while (pipe == nullptr);
    EXPECT_EQ(pipe->bytes(), 0u);
    EXPECT_FALSE(pipe->begun());
  }
}

// Goal: the part in the pipe can be had in memory, at its place.
TEST_P(StreamPipes, a_pipe_is_copied_to_its_place) {
  ASSERT_NO_FATAL_FAILURE(open());
  const uint32_t moved = fill(100'000);
  constexpr uint32_t kBefore = 1000;
  Bytes place(kBefore + moved + 500, std::byte{0xAB});
  const Segment segments[] = {{place.data(), 700}, {place.data() + 700, uint32_t(place.size() - 700)}};
  pipe->place = kBefore;
  pipe->to_memory({segments, 2, 0, uint32_t(place.size())});
  for (uint32_t i = 0; i < moved; ++i) ASSERT_EQ(place[kBefore + i], pattern(i));
  EXPECT_EQ(place[kBefore - 1], std::byte{0xAB});
  EXPECT_EQ(place[kBefore + moved], std::byte{0xAB});
  EXPECT_EQ(pipe->bytes(), 0u);
  close(true);
}

// Goal: the stream ends while bytes wait in the pipe. kSent reports exactly the bytes that have gone, and the pipe can
// be used again.
TEST_P(StreamPipes, ends_while_a_pipe_is_sent) {
  for (const bool reset : {false, true}) {
    for (int round = 0; round < 5; ++round) {
      SCOPED_TRACE(testing::Message() << "reset " << reset << ", round " << round);
      ASSERT_NO_FATAL_FAILURE(open());
      written = 0;
      in_memory.clear();
      const uint32_t moved = fill(1 << 20);
      receive_rest();
      sending = true;
      asked = moved;
      engine().send_piped(id, *pipe, moved, false);
      for (int turns = 0; turns < round && sending; ++turns) turn();
      if (reset) {
        world->far->reset();
        until([&] { return !sending; });
        close(true);
      } else {
        close(false);
        far_read_all();
        EXPECT_EQ(far_end, 0);
        EXPECT_EQ(read_bytes, told);
      }
      pipe->give_back();
      do pipe = engine().pipe_take();
      while (pipe == nullptr);
      EXPECT_EQ(pipe->bytes(), 0u);
    }
  }
}

// Goal: the far end has sent its last byte while a send from the pipe waits. The engine waits, too, and does not spin.
TEST_P(StreamPipes, a_send_waits_behind_the_end_of_the_stream) {
  ASSERT_NO_FATAL_FAILURE(open());
  const uint32_t moved = fill(1 << 20);
  receive_rest();
  sending = true;
  asked = moved;
  engine().send_piped(id, *pipe, moved, false);
  world->far->finish();
  if (GetParam().which != Which::kSim) {
    unsigned turns = 0;
    for (const auto end = std::chrono::steady_clock::now() + 100ms; std::chrono::steady_clock::now() < end; ++turns)
      turn();
    EXPECT_LT(turns, 2000u) << "one turn takes 1 ms without an event";
  }
  until([&] {
    far_read(100'000);
    return !sending;
  });
  EXPECT_GT(told, 0u);
  drain(moved - uint32_t(told));
  EXPECT_EQ(told, moved);
  close(false);
  far_read_all();
  EXPECT_EQ(read_bytes, moved);
}

// Goal: a receive into a pipe that waits is cancelled, and one that the stream's end meets says so.
TEST_P(StreamPipes, a_receive_is_cancelled_or_ends_with_the_stream) {
  ASSERT_NO_FATAL_FAILURE(open());
  for (int round = 0; round < 5; ++round) {
    receive_piped(1 << 20);
    for (int turns = 0; turns < round; ++turns) turn();
    engine().cancel_receive(id);
    until([&] { return !receiving; });
    EXPECT_EQ(last_received, -ECANCELED);
  }
  EXPECT_GT(fill(1000), 0u);
  receive_piped(1 << 20);
  world->far->finish();
  until([&] { return !receiving; });
  EXPECT_EQ(last_received, 0);
  receive_piped(1 << 20);
  close(true);
  EXPECT_LT(last_received, 0);
}

}  // namespace
}  // namespace ulnet::test
