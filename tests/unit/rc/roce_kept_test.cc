// The packets that the bytes of a window are kept in: which are kept, what the payload is, and that each packet goes
// back once.
#include <gtest/gtest.h>

#include <deque>
#include <set>

#include "lnd/rc/roce/kept_list.h"
#include "tests/payload_bytes.h"
#include "tests/unit/rc/world.h"

namespace ulnet::test {
namespace {

using namespace rc::roce;

constexpr RegionId kRegion{7};
constexpr uint32_t kHead = 40;  ///< bytes of a packet before its payload

class Port final : public WorkerPort {
 public:
  unsigned take(std::span<Arrival>, Instant) override { return 0; }
  void release(const Arrival&) override {}
  void drop(const Arrival&, FrameDrop, Instant) override {}
  bool keep(const Arrival& arrival) override { return kept.size() < most && kept.insert(arrival.packet).second; }
  void let_go(void* packet) override { EXPECT_EQ(kept.erase(packet), 1u); }
  unsigned room(Instant) override { return 0; }
  bool send(const Departure&, Instant) override { return false; }
  void flush(Instant) override {}
  bool pending() override { return false; }

  size_t most = SIZE_MAX;
  std::set<void*> kept;
};

class RoceKept : public ::testing::Test {
 protected:
  RoceKept() {
    fill(sent, 3);
    begin();
  }
  void begin() { list = lists.begin(window, kRegion, 256); }
  /// The peer writes this part in one packet of `pieces` pieces. True: the packet is kept.
  bool write(uint32_t offset, uint32_t bytes, unsigned pieces = 1) {
    auto& packet = packets.emplace_back(kHead + bytes);
    std::copy_n(sent.begin() + offset, bytes, packet.begin() + kHead);
    Arrival arrival;
    arrival.packet = &packet;
    std::span<std::byte> rest(packet);
    for (unsigned i = 0; i < pieces; ++i) {
      const size_t here = i + 1 == pieces ? rest.size() : kHead + bytes / pieces / 2;
      arrival.pieces[arrival.piece_count++] = rest.first(here);
      rest = rest.subspan(here);
    }
    if (list->take(port, arrival, kHead, bytes, window.data() + offset)) return true;
    EXPECT_TRUE(copy(arrival, kHead, bytes, window.data() + offset));
    return false;
  }
  [[nodiscard]] static std::vector<std::byte> bytes_in(const Payload& payload) {
    std::vector<std::byte> out;
    PayloadCursor cursor(payload);
    payload_append(out, cursor, payload.length);
    return out;
  }
  static constexpr uint32_t kWindow = 1 << 20;
  std::vector<std::byte> sent = std::vector<std::byte>(kWindow), window = std::vector<std::byte>(kWindow);
  std::deque<std::vector<std::byte>> packets;
  Port port;
  KeptLists lists;
  KeptList* list = nullptr;
};

TEST_F(RoceKept, packets_in_order) {
  for (uint32_t at = 0; at < kWindow; at += 4096) EXPECT_TRUE(write(at, 4096, 1 + at / 4096 % 3));
  KeptPayload* kept = list->finish();
  ASSERT_EQ(kept, list);
  EXPECT_EQ(bytes_in(kept->payload()), sent);
  EXPECT_EQ(window, std::vector<std::byte>(kWindow)) << "nothing was copied";
  for (uint32_t i = 0; i < kept->payload().segment_count; ++i)
    EXPECT_EQ(kept->payload().segments[i].region, kKeptRegion);
  kept->give_back();
  EXPECT_TRUE(port.kept.empty());
  EXPECT_EQ(lists.free_count(), KeptLists::kLists);
}

// Goal: packets that the port cannot spare are copied, and so are short ones. The payload has it at its place.
TEST_F(RoceKept, packets_that_are_copied) {
  EXPECT_TRUE(write(0, 4096));
  EXPECT_FALSE(write(4096, 100)) << "short";
  EXPECT_FALSE(write(4196, 200)) << "short";
  EXPECT_TRUE(write(4396, 4096));
  port.most = 2;
  EXPECT_FALSE(write(8492, 4096));
  port.most = 3;
  EXPECT_TRUE(write(12'588, kWindow - 12'588));
  KeptPayload* kept = list->finish();
  EXPECT_EQ(kept->payload().segment_count, 5u);
  EXPECT_EQ(kept->payload().segments[1].region, kRegion);
  EXPECT_EQ(kept->payload().segments[1].bytes, 300u) << "one piece";
  EXPECT_EQ(bytes_in(kept->payload()), sent);
  kept->give_back();
}

TEST_F(RoceKept, all_is_copied) {
  port.most = 0;
  for (uint32_t at = 0; at < kWindow; at += 4096) EXPECT_FALSE(write(at, 4096));
  EXPECT_EQ(list->finish(), nullptr);
  EXPECT_EQ(window, sent);
  EXPECT_EQ(lists.free_count(), KeptLists::kLists);
}

// Goal: the peer writes somewhere else. All goes into the window then, and the packets go back at once.
TEST_F(RoceKept, a_write_out_of_order) {
  EXPECT_TRUE(write(0, 4096, 3));
  EXPECT_FALSE(write(4096, 100));
  EXPECT_TRUE(write(4196, 4096));
  EXPECT_FALSE(write(kWindow - 4096, 4096));
  EXPECT_TRUE(port.kept.empty());
  for (uint32_t at = 8292; at < kWindow; at += 4096) EXPECT_FALSE(write(at, std::min(4096u, kWindow - at)));
  EXPECT_FALSE(write(0, 10)) << "the same again";
  EXPECT_EQ(list->finish(), nullptr);
  EXPECT_EQ(window, sent);
}

TEST_F(RoceKept, the_rest_of_a_window_that_nobody_wrote) {
  window.back() = std::byte{0x5A};
  EXPECT_TRUE(write(0, 4096));
  KeptPayload* kept = list->finish();
  EXPECT_EQ(kept->payload().length, kWindow);
  std::vector<std::byte> expected(kWindow);
  std::copy_n(sent.begin(), 4096, expected.begin());
  expected.back() = std::byte{0x5A};
  EXPECT_EQ(bytes_in(kept->payload()), expected);
  kept->give_back();
}

// Goal: a peer that sends many small packets finds an end of the places, and nothing is lost.
TEST_F(RoceKept, more_packets_than_places) {
  unsigned count = 0;
  for (uint32_t at = 0; at < kWindow; at += 256) count += write(at, 256) ? 1 : 0;
  EXPECT_GT(count, 1000u);
  EXPECT_LT(count, 2000u);
  KeptPayload* kept = list->finish();
  EXPECT_EQ(bytes_in(kept->payload()), sent);
  kept->give_back();
  begin();
  for (uint32_t at = 0; at < kWindow; at += 512) count += write(at, 512, 3) ? 1 : 0;
  EXPECT_EQ(bytes_in(list->finish()->payload()), sent) << "in pieces";
  list->give_back();
}

TEST_F(RoceKept, more_windows_than_lists) {
  std::vector<KeptList*> all{list};
  while (KeptList* next = lists.begin(window, kRegion, 256)) all.push_back(next);
  EXPECT_EQ(all.size(), KeptLists::kLists);
  for (KeptList* one : all) EXPECT_EQ(one->finish(), nullptr);
  EXPECT_EQ(lists.free_count(), KeptLists::kLists);
}

// Goal: when a port closes, it gets all its packets, also from payloads that are still out.
TEST_F(RoceKept, a_port_that_closes) {
  Port other;
  EXPECT_TRUE(write(0, 4096));
  KeptPayload* out = list->finish();
  begin();
  EXPECT_TRUE(write(0, 4096));
  lists.port_closes(other);
  EXPECT_EQ(port.kept.size(), 2u);
  lists.port_closes(port);
  EXPECT_TRUE(port.kept.empty());
  out->give_back();
  EXPECT_EQ(list->finish(), nullptr);
  EXPECT_TRUE(std::equal(sent.begin(), sent.begin() + 4096, window.begin())) << "what was still coming is in its place";
  EXPECT_EQ(lists.free_count(), KeptLists::kLists);
}

}  // namespace
}  // namespace ulnet::test
