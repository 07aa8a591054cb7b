// Captures: their bounds (size, rate, slots, a reader that does not read), the filter, and the form of a drop. One
// thread is worker and control in turn.
#include "lnd/net/dpdk/capture.h"

#include "dataplane/wire/bytes.h"
#include "lnd/net/dpdk/stack.h"
#include "lnd/net/packet/net_address_text.h"
#include "tests/unit/dpdk/loop_port.h"

namespace ulnet::dpdk {
namespace {

class MemorySink final : public CaptureSink {
 public:
  bool ready() override { return is_ready; }
  Result<void> write(std::span<const std::byte> part) override {
    if (fails) return fail(ENOSPC, "the disk is full");
    largest = std::max(largest, part.size());
    bytes.insert(bytes.end(), part.begin(), part.end());
    return {};
  }
  std::vector<std::byte> bytes;
  size_t largest = 0;
  bool is_ready = true;
  bool fails = false;
};

/// The content of a capture file.
struct Found {
  struct Packet {
    std::vector<std::byte> bytes;
    uint32_t wire_bytes = 0;
    std::string comment;
    uint32_t direction = 0;  ///< 1 in, 2 out
  };
  std::vector<Packet> packets;
  uint64_t seen = 0, skipped = 0;
  bool ended = false;  ///< statistics were the last block
};

uint32_t u32_at(const std::vector<std::byte>& bytes, size_t at) {
  return wire::load<uint32_t>(bytes.data() + at, false);
}

/// Calls the function with code, offset and length of each option.
template <class F>
void options_of(const std::vector<std::byte>& bytes, size_t at, size_t end, F&& take) {
  while (at + 4 <= end) {
    const uint32_t head = u32_at(bytes, at);
    const uint16_t code = uint16_t(head), length = uint16_t(head >> 16);
    if (code == 0) return;
    take(code, at + 4, length);
    at += 4 + (length + 3u) / 4 * 4;
  }
}

Found read(const std::vector<std::byte>& file) {
  Found out;
  size_t at = 0;
  for (; at + 12 <= file.size(); at += u32_at(file, at + 4)) {
    const uint32_t type = u32_at(file, at), length = u32_at(file, at + 4);
    EXPECT_EQ(0u, length % 4);
    if (length < 12 || at + length > file.size()) break;
    EXPECT_EQ(length, u32_at(file, at + length - 4));
    const size_t end = at + length - 4;
    out.ended = type == 5;
    if (type == 5) {
      options_of(file, at + 20, end, [&](uint16_t code, size_t value, uint16_t) {
        if (code == 4) out.seen = wire::load<uint64_t>(file.data() + value, false);
        if (code == 5) out.skipped = wire::load<uint64_t>(file.data() + value, false);
      });
    }
    if (type != 6) continue;
    Found::Packet& packet = out.packets.emplace_back();
    const uint32_t bytes = u32_at(file, at + 20);
    packet.wire_bytes = u32_at(file, at + 24);
    packet.bytes.assign(file.begin() + long(at + 28), file.begin() + long(at + 28 + bytes));
    options_of(file, at + 28 + (bytes + 3) / 4 * 4, end, [&](uint16_t code, size_t value, uint16_t text_bytes) {
      if (code == 1) packet.comment.assign(reinterpret_cast<const char*>(file.data() + value), text_bytes);
      if (code == 2) packet.direction = u32_at(file, value);
    });
  }
  EXPECT_EQ(at, file.size()) << "whole blocks only";
  return out;
}

class DpdkCapture : public LoopPort {
 protected:
  void begin(const CaptureOptions& options) {
    auto started = Capture::start(*port, sink, options, 0s);
    ASSERT_TRUE(started.has_value()) << started.error().what;
    capture = std::move(*started);
    (void)queue().receive({}, now);  // stops, if requested
  }
  void TearDown() override {
    if (capture != nullptr) let_go();
    capture.reset();
    LoopPort::TearDown();
  }
  void let_go() {
    capture->stop_begin();
    (void)queue().receive({}, now);
    ASSERT_TRUE(capture->stopped());
  }
  Found end() {
    let_go();
    for (;;) {
      const auto taken = capture->turn();
      EXPECT_TRUE(taken.has_value());
      if (taken.value_or(0) == 0) break;
    }
    EXPECT_TRUE(capture->finish(now).has_value());
    return read(sink.bytes);
  }
  /// Packets that are dropped at once: each is seen once.
  void see(unsigned count, size_t bytes = 100) {
    for (unsigned i = 0; i < count; ++i)
      queue().drop(packet_of(std::vector<std::byte>(bytes)), FrameDrop::kEthType, now);
  }

  MemorySink sink;
  std::unique_ptr<Capture> capture;
};

TEST_F(DpdkCapture, both_directions_and_drops) {
  begin({});
  rte_mbuf* packets[1] = {packet_of(std::vector<std::byte>(60, std::byte{7}))};
  ASSERT_EQ(1u, queue().send(packets, now));
  ASSERT_EQ(1u, queue().receive(packets, now));
  queue().drop(packets[0], FrameDrop::kMacOther, now);
  const Found found = end();
  ASSERT_EQ(3u, found.packets.size());
  EXPECT_EQ(2u, found.packets[0].direction);
  EXPECT_EQ(1u, found.packets[1].direction);
  EXPECT_EQ("", found.packets[1].comment);
  EXPECT_EQ("dropped: mac_other", found.packets[2].comment);
  for (const auto& packet : found.packets) EXPECT_EQ(std::vector<std::byte>(60, std::byte{7}), packet.bytes);
  EXPECT_TRUE(found.ended);
  EXPECT_EQ(3u, found.seen);
  EXPECT_EQ(0u, found.skipped);
}

// Goal: the file never exceeds its size, and each packet is either in it or counted.
TEST_F(DpdkCapture, size_is_a_bound) {
  for (const uint64_t size : {uint64_t{4096}, uint64_t{5001}, uint64_t{100'000}}) {
    sink = MemorySink();
    CaptureOptions options;
    options.file_bytes_max = size;
    options.snap_bytes = 3000;
    begin(options);
    unsigned count = 0;
    while (!capture->full() && count < 10'000) {
      see(1, 60 + count * 37 % 4000);
      ++count;
      if (count % 64 == 0) (void)capture->turn();
    }
    see(100, 60);  // shorter packets, which would still fit
    count += 100;
    EXPECT_TRUE(capture->full());
    const Found found = end();
    EXPECT_LE(sink.bytes.size(), size);
    EXPECT_GT(sink.bytes.size() + 3200, size);  // another packet of the maximal length would not have fitted
    EXPECT_EQ(capture->written(), found.packets.size());
    EXPECT_EQ(count, capture->written() + capture->skipped());
    EXPECT_TRUE(found.ended);
    EXPECT_EQ(count, found.seen);
    EXPECT_EQ(capture->skipped(), found.skipped);
    for (const auto& packet : found.packets) EXPECT_EQ(std::min(3000u, packet.wire_bytes), packet.bytes.size());
    capture.reset();
  }
}

TEST_F(DpdkCapture, rate_is_per_second) {
  CaptureOptions options;
  options.rate_max = 5;
  begin(options);
  see(20);
  now += 999ms;
  see(20);
  EXPECT_EQ(35u, capture->skipped());
  now += 1ms;
  see(20);
  const Found found = end();
  EXPECT_EQ(10u, found.packets.size());
  EXPECT_EQ(50u, found.skipped);
}

TEST_F(DpdkCapture, slots_are_a_bound_and_come_back) {
  CaptureOptions options;
  options.slots = 8;
  begin(options);
  see(20);
  EXPECT_EQ(12u, capture->skipped());
  EXPECT_EQ(8u, capture->turn().value());
  see(3);
  const Found found = end();
  EXPECT_EQ(11u, found.packets.size());
  EXPECT_EQ(12u, found.skipped);
}

// Goal: a reader that does not read loses only its own packets. At the end, the rest is counted and not written to it.
TEST_F(DpdkCapture, slow_reader) {
  CaptureOptions options;
  options.slots = 16;
  begin(options);
  see(4);
  EXPECT_EQ(4u, capture->turn().value());
  sink.is_ready = false;
  see(100);
  EXPECT_EQ(0u, capture->turn().value());
  EXPECT_EQ(84u, capture->skipped());
  EXPECT_FALSE(capture->drained());
  const Found found = end();
  EXPECT_EQ(4u, found.packets.size());
  EXPECT_TRUE(found.ended);
  EXPECT_EQ(104u, found.seen);
  EXPECT_EQ(100u, found.skipped);
}

TEST_F(DpdkCapture, parts_are_bounded) {
  CaptureOptions options;
  options.snap_bytes = kCaptureSnapBytesMax;
  options.slots = 200;
  begin(options);
  see(200, 9000);
  const Found found = end();
  EXPECT_EQ(200u, found.packets.size());
  EXPECT_LE(sink.largest, kCapturePartBytes);
  EXPECT_GT(sink.bytes.size(), 4 * kCapturePartBytes);
}

TEST_F(DpdkCapture, a_sink_that_fails_ends_the_turn_with_its_error) {
  begin({});
  sink.fails = true;
  see(1);
  const auto turned = capture->turn();
  ASSERT_FALSE(turned.has_value());
  EXPECT_EQ(-ENOSPC, turned.error().code);
}

TEST_F(DpdkCapture, refused) {
  CaptureOptions options;
  options.snap_bytes = 21;
  EXPECT_EQ("a capture keeps 22 to 65536 bytes of each packet",
            Capture::start(*port, sink, options, 0s).error().what);
  options = {};
  options.file_bytes_max = 4095;
  EXPECT_EQ("a capture file needs at least 4096 bytes", Capture::start(*port, sink, options, 0s).error().what);
  begin({});
  EXPECT_EQ(-EBUSY, Capture::start(*port, sink, {}, 0s).error().code);
}

/// A UDP datagram for this port, dropped.
class DpdkCaptureFilter : public DpdkCapture {
 protected:
  void SetUp() override {
    DpdkCapture::SetUp();
    CaptureOptions options;
    options.filter = "udp";
    auto started = Capture::start(*port, sink, options, 0s);
    if (!started && started.error().code == -ENOTSUP) GTEST_SKIP() << started.error().what;
    ASSERT_TRUE(started.has_value()) << started.error().what;
    capture = std::move(*started);
    let_go();
    capture.reset();
    sink = MemorySink();
  }
  void send(Stack& stack, const char* to, uint16_t port_number, uint32_t bytes) {
    UdpFlow flow;
    flow.destination = ip_parse(to).value();
    flow.source_port = 1000;
    flow.destination_port = port_number;
    PayloadCursor cursor(payload(bytes));
    stack.udp_send(flow, frame_make(pool(), {}, cursor, bytes, nullptr, true), now);
  }
};

// Goal: packets that the filter leaves out take no slot and no share of the rate, and do not count as skipped.
TEST_F(DpdkCaptureFilter, comes_first) {
  CaptureOptions options;
  options.filter = "udp dst port 4791";
  options.slots = 4;
  options.rate_max = 3;
  begin(options);
  Stack stack(stack_config(port->config(), mac_parse("02:00:00:00:00:01").value()), queue(), nullptr);
  for (unsigned i = 0; i < 10; ++i) send(stack, "10.9.9.9", 53, 20);
  for (unsigned i = 0; i < 5; ++i) send(stack, "10.9.9.9", 4791, 20);
  see(50);
  stack.shut(now);
  const Found found = end();
  EXPECT_EQ(3u, found.packets.size());
  EXPECT_EQ(2u, found.skipped);
}

TEST_F(DpdkCaptureFilter, not_understood) {
  CaptureOptions options;
  options.filter = "no such thing";
  const auto started = Capture::start(*port, sink, options, 0s);
  ASSERT_FALSE(started.has_value());
  EXPECT_TRUE(started.error().what.starts_with("libpcap refuses the filter: ")) << started.error().what;
}

// Goal: if a datagram cannot be sent, the file has the frame that it would have been. A packet without headers is in
// the file without bytes, with a comment.
TEST_F(DpdkCapture, drops_before_sending) {
  begin({});
  Stack stack(stack_config(port->config(), mac_parse("02:00:00:00:00:01").value()), queue(), nullptr);
  const auto send = [&](const char* to, uint32_t bytes) {
    UdpFlow flow;
    flow.destination = ip_parse(to).value();
    flow.destination_port = 4791;
    PayloadCursor cursor(payload(bytes));
    EXPECT_FALSE(stack.udp_send(flow, frame_make(pool(), {}, cursor, bytes, nullptr, true), now));
  };
  send("10.9.9.9", 20);
  send("10.0.0.2", 8999);
  send("fd09::9", 20);
  queue().drop_bare(packet_of(std::vector<std::byte>(33)), FrameDrop::kNoBuffer, now);
  stack.shut(now);
  const Found found = end();
  ASSERT_EQ(4u, found.packets.size());
  const auto bytes_at = [](const Found::Packet& packet, size_t at, size_t count) {
    return std::vector<std::byte>(packet.bytes.begin() + long(at), packet.bytes.begin() + long(at + count));
  };
  const auto bytes = [](std::initializer_list<int> list) {
    std::vector<std::byte> out;
    for (const int one : list) out.push_back(std::byte(uint8_t(one)));
    return out;
  };
  EXPECT_EQ("dropped: no_route", found.packets[0].comment);
  EXPECT_EQ(14u + 20 + 8 + 20, found.packets[0].wire_bytes);
  EXPECT_EQ(bytes({8, 0, 0x45}), bytes_at(found.packets[0], 12, 3));
  EXPECT_EQ(bytes({10, 9, 9, 9}), bytes_at(found.packets[0], 30, 4));
  EXPECT_EQ("dropped: tx_too_long", found.packets[1].comment);
  EXPECT_EQ(14u + 20 + 8 + 8999, found.packets[1].wire_bytes);
  EXPECT_EQ(bytes({10, 0, 0, 1, 10, 0, 0, 2}), bytes_at(found.packets[1], 26, 8));
  EXPECT_EQ("dropped: no_route", found.packets[2].comment);
  EXPECT_EQ(bytes({0x86, 0xDD, 0x60}), bytes_at(found.packets[2], 12, 3));
  EXPECT_EQ("dropped: no_buffer, before it had its headers", found.packets[3].comment);
  EXPECT_TRUE(found.packets[3].bytes.empty());
  EXPECT_EQ(33u, found.packets[3].wire_bytes);
  for (const auto& packet : found.packets) EXPECT_EQ(2u, packet.direction);
}

}  // namespace
}  // namespace ulnet::dpdk
