// A port in service: resets that work and that fail, a link that a device needs, captures and their ends.
#include "lnd/net/dpdk/live_port.h"

#include <rte_mbuf.h>

#include <fstream>

#include "tests/unit/ports/port_host.h"
#include "tools/ulnetd/ports/port_yaml.h"

namespace ulnet {
namespace {

/// Records the reports to a port's watcher.
class Told final : public PortWatcher {
 public:
  void link_changed(const dpdk::LinkState& link) override { links.push_back(link.up); }
  void reset_done(const Problem* problem) override {
    resets.push_back(problem == nullptr ? "done" : problem->what);
  }
  void capture_ended(uint64_t written_count, uint64_t skipped_count, const Error* error) override {
    ++ended;
    written = written_count;
    skipped = skipped_count;
    failed = error != nullptr ? error->what : "";
  }
  std::vector<bool> links;
  std::vector<std::string> resets;
  unsigned ended = 0;
  uint64_t written = 0, skipped = 0;
  std::string failed;
};

/// Sends this number of packets while it is captured, one per turn, then is done.
class Sender final : public PortApp {
 public:
  Sender(dpdk::PortQueue& queue, unsigned count) : queue_(queue), left_(count) {}
  [[nodiscard]] bool raw() const override { return true; }
  unsigned turn(Instant now) override {
    (void)queue_.receive({}, now);  // stops, if requested
    if (left_ == 0 || !queue_.running() || queue_.tap_in_use() == nullptr) return 0;
    rte_mbuf* packet = queue_.pool().take();
    std::memset(rte_pktmbuf_append(packet, 60), 0, 60);
    if (queue_.send({&packet, 1}, now) == 1) {
      --left_;
    } else {
      dpdk::packet_free(packet);
    }
    return 1;
  }
  [[nodiscard]] bool done() const override { return left_ == 0; }

 private:
  dpdk::PortQueue& queue_;
  unsigned left_;
};

class Sink final : public dpdk::CaptureSink {
 public:
  bool ready() override { return is_ready; }
  Result<void> write(std::span<const std::byte> part) override {
    if (fails) return fail(ENOSPC, "the disk is full");
    bytes += part.size();
    return {};
  }
  size_t bytes = 0;
  bool is_ready = true;
  bool fails = false;
};

class LivePortTest : public testing::Test {
 protected:
  void open(const std::string& device, unsigned packets = 0) {
    LivePort::Options options;
    options.port.name = "live";
    options.port.device = device;
    options.port.in_flight = 64;
    options.port.queues = device.starts_with("pcap") ? 1 : 0;
    options.port.rx_depth = options.port.tx_depth = 64;
    options.index = port_index();
    options.watcher = &told;
    if (packets > 0)
      options.app = [packets](unsigned, dpdk::PortQueue& queue, dpdk::Stack&,
                              const dpdk::Mac&) -> Result<std::unique_ptr<PortApp>> {
        return std::make_unique<Sender>(queue, packets);
      };
    auto opened = LivePort::open(port_host(), std::move(options));
    ASSERT_TRUE(opened.has_value()) << opened.error().what;
    live = std::move(*opened);
  }
  void TearDown() override {
    if (live == nullptr) return;
    live->close();
    EXPECT_TRUE(live->port().packets_conserved());
  }
  /// One queue: DPDK's pcap has as many queues as files.
  [[nodiscard]] std::string pcap_device() const {
    return "pcap,rx_pcap=" + folder.path("in.pcap") + ",tx_pcap=" + folder.path("out.pcap");
  }
  /// Makes a file without frames.
  void pcap_make() const {
    constexpr std::array<uint32_t, 6> kHead{0xA1B2C3D4, 2 | 4 << 16, 0, 0, 65535, 1};
    std::ofstream(folder.path("in.pcap"), std::ios::binary)
        .write(reinterpret_cast<const char*>(kHead.data()), sizeof kHead);
  }
  template <class Reached>
  [[nodiscard]] bool until(Reached&& reached) {
    return turn_until([this] { live->turn(clock_now() + ahead); }, reached);
  }
  [[nodiscard]] bool senders_done() {
    for (unsigned i = 0; i < live->worker_count(); ++i)
      if (!live->worker(i).done()) return false;
    return true;
  }

  Folder folder;
  Told told;
  Sink sink;
  std::unique_ptr<LivePort> live;
  Duration ahead{};  // added to the port's clock
};

TEST_F(LivePortTest, reset) {
  ASSERT_NO_FATAL_FAILURE(open("null"));
  for (unsigned i = 1; i <= 3; ++i) {
    live->reset();
    live->reset();  // a reset is under way already
    ASSERT_TRUE(until([&] { return told.resets.size() == i; }));
  }
  EXPECT_EQ(std::vector<std::string>(3, "done"), told.resets);
  EXPECT_EQ(3u, live->show().resets);
  EXPECT_EQ(nullptr, live->problem());
  const uint64_t before = live->show().queues[1].rx_packets;
  EXPECT_TRUE(until([&] { return live->show().queues[1].rx_packets > before; }));
}

// Goal: if a device does not open again, each requested reset is reported as failed once. The port shows it as closed,
// retries with growing pauses, and reports when it is back.
// Method: a port that reads from a file, which is away for a while.
TEST_F(LivePortTest, a_device_that_does_not_open_again) {
  pcap_make();
  ASSERT_NO_FATAL_FAILURE(open(pcap_device()));
  std::filesystem::remove(folder.path("in.pcap"));
  live->reset();
  ASSERT_TRUE(until([&] { return told.resets.size() == 1; }));
  EXPECT_TRUE(told.resets[0].starts_with("the device ")) << told.resets[0];
  ASSERT_NE(nullptr, live->problem());
  EXPECT_FALSE(live->show().is_open);
  EXPECT_EQ("closed", port_doc(*live, 2).find("status")->text());
  EXPECT_EQ(told.resets[0], port_doc(*live, 0).find("problem")->text());
  EXPECT_EQ(1u, live->show().resets_failed);
  ahead = 10s;
  ASSERT_TRUE(until([&] { return live->show().resets_failed == 2; }));
  EXPECT_EQ(1u, told.resets.size());  // no reset was requested
  live->reset();
  ASSERT_TRUE(until([&] { return told.resets.size() == 2; }));
  EXPECT_EQ(told.resets[0], told.resets[1]);
  EXPECT_EQ(-EBUSY, live->capture(sink, {}).error().code);
  pcap_make();
  ahead = 200s;
  ASSERT_TRUE(until([&] { return told.resets.size() == 3; }));
  EXPECT_EQ("done", told.resets[2]);
  EXPECT_EQ(nullptr, live->problem());
  EXPECT_TRUE(live->show().is_open);
  EXPECT_EQ(1u, live->show().resets);
  EXPECT_EQ(3u, live->show().resets_failed);
}

TEST_F(LivePortTest, closes_while_it_tries_to_open) {
  pcap_make();
  ASSERT_NO_FATAL_FAILURE(open(pcap_device()));
  std::filesystem::remove(folder.path("in.pcap"));
  live->reset();
  ASSERT_TRUE(until([&] { return told.resets.size() == 1; }));
}

// Goal: a device that must not be polled without a link is not polled. Its workers use it only while the link is up.
TEST_F(LivePortTest, a_link_that_is_needed) {
  const std::string socket = folder.path("m.sock");
  ASSERT_NO_FATAL_FAILURE(open("memif,role=server,socket=" + socket));
  EXPECT_FALSE(live->link().up);
  EXPECT_TRUE(live->port().stopped());
  live->reset();
  EXPECT_EQ(std::vector<std::string>{"memif's server keeps its socket after a close: restart ulnetd instead"},
            told.resets);
  auto first = std::move(live);
  ASSERT_NO_FATAL_FAILURE(open("memif,role=client,socket=" + socket));
  const auto both = [&] {
    live->turn(clock_now());
    first->turn(clock_now());
  };
  ASSERT_TRUE(turn_until(both, [&] { return live->link().up && first->link().up; }));
  const auto let_in = [](LivePort& port) { return port.port().queue(0).running() && port.port().queue(1).running(); };
  ASSERT_TRUE(turn_until(both, [&] { return let_in(*live) && let_in(*first); }));
  live->close();
  ASSERT_TRUE(turn_until(both, [&] { return !first->link().up && first->port().stopped(); }));
  first->close();
  EXPECT_TRUE(first->port().packets_conserved());
}

TEST_F(LivePortTest, capture_ends_at_the_request) {
  ASSERT_NO_FATAL_FAILURE(open("null", 300));
  ASSERT_TRUE(live->capture(sink, {}).has_value());
  EXPECT_EQ(-EBUSY, live->capture(sink, {}).error().code);
  ASSERT_TRUE(until([&] { return senders_done(); }));
  live->capture_stop();
  ASSERT_TRUE(until([&] { return told.ended == 1; }));
  EXPECT_FALSE(live->captured());
  EXPECT_EQ("", told.failed);
  EXPECT_EQ(0u, told.skipped);
  EXPECT_EQ(600u, told.written);  // of two workers
  EXPECT_GT(sink.bytes, 600u * 60);
  ASSERT_TRUE(live->capture(sink, {}).has_value());  // a second capture; close() ends it
}

// Goal: at its end, a capture waits for its reader for a limited time only.
TEST_F(LivePortTest, capture_whose_reader_sleeps) {
  ASSERT_NO_FATAL_FAILURE(open("null", 100'000'000));
  sink.is_ready = false;
  ASSERT_TRUE(live->capture(sink, {}).has_value());
  while (live->show().queues[0].tx_packets < 1000) live->turn(clock_now());
  live->capture_stop();
  ASSERT_TRUE(until([&] { return live->port().queue(0).tap_in_use() == nullptr; }));
  live->turn(clock_now());
  EXPECT_EQ(0u, told.ended);
  ahead = LivePort::kCapturePatience;
  ASSERT_TRUE(until([&] { return told.ended == 1; }));
  EXPECT_EQ(0u, told.written);
  EXPECT_GE(told.skipped, 1000u);
  EXPECT_GT(sink.bytes, 0u);  // the file is whole: its head and its statistics
}

TEST_F(LivePortTest, capture_that_cannot_be_written) {
  ASSERT_NO_FATAL_FAILURE(open("null", 1000));
  sink.fails = true;
  ASSERT_TRUE(live->capture(sink, {}).has_value());
  ASSERT_TRUE(until([&] { return told.ended == 1; }));
  EXPECT_EQ("the disk is full", told.failed);
  EXPECT_EQ(nullptr, live->port().queue(0).tap_in_use());
}

TEST_F(LivePortTest, capture_that_is_full) {
  ASSERT_NO_FATAL_FAILURE(open("null", 100'000'000));
  dpdk::CaptureOptions options;
  options.file_bytes_max = 5000;
  ASSERT_TRUE(live->capture(sink, options).has_value());
  ASSERT_TRUE(until([&] { return told.ended == 1; }));
  EXPECT_LE(sink.bytes, 5000u);
  EXPECT_GT(told.skipped, 0u);
}

}  // namespace
}  // namespace ulnet
