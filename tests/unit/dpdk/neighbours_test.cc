// The neighbour cache (lnd/net/packet/neighbours.h) under a clock of the test.
#include "lnd/net/packet/neighbours.h"

#include <gtest/gtest.h>

#include <string>

#include "lnd/net/packet/net_address_text.h"

namespace ulnet::dpdk {
namespace {

/// Packets are numbers. Each action of the cache becomes a line of text.
class Rig final : NeighbourActions {
 public:
  explicit Rig(const NeighbourConfig& config = {}) : cache(config, *this) {}
  ~Rig() { cache.clear(); }

  std::string send(std::string_view address, uintptr_t packet) {
    const auto answer = cache.resolve(ip(address), reinterpret_cast<void*>(packet), now);
    switch (answer.kind) {
      case Neighbours::Answer::kSend: add("sent " + std::to_string(packet) + " to " + mac_text(*answer.mac)); break;
      case Neighbours::Answer::kParked: add("parked " + std::to_string(packet)); break;
      case Neighbours::Answer::kRefused: add(std::string("refused ") + text_of(answer.reason).name); break;
    }
    return take();
  }
  std::string learn(std::string_view address, const char* mac, Neighbours::News news, bool create = false) {
    add(cache.learn(ip(address), mac_parse(mac).value(), news, create, now) ? "changed" : "same");
    return take();
  }
  /// Advances the time in steps of 100 ms. Each step handles what is due.
  std::string pass(Duration span) {
    for (const Instant end = now + span; now < end;) {
      now += 100ms;
      while (cache.timers(now, 1) > 0) {
      }
    }
    return take();
  }
  std::string take() { return std::exchange(trace_, ""); }
  static IpAddress ip(std::string_view text) { return ip_parse(text).value(); }

  Neighbours cache;
  Instant now = kNever + 100s;

 private:
  void neighbour_ask(const IpAddress& address, const Mac* mac) override {
    add("ask " + ip_text(address) + (mac != nullptr ? " at " + mac_text(*mac) : ""));
  }
  void neighbour_ready(void* packet, const Mac& mac) override {
    add("ready " + std::to_string(reinterpret_cast<uintptr_t>(packet)) + " to " + mac_text(mac));
  }
  void neighbour_failed(void* packet, FrameDrop reason) override {
    add("failed " + std::to_string(reinterpret_cast<uintptr_t>(packet)) + ' ' + text_of(reason).name);
  }
  void add(const std::string& what) { trace_ += (trace_.empty() ? "" : "; ") + what; }
  std::string trace_;
};

constexpr const char* kA = "02:00:00:00:00:0a";
constexpr const char* kB = "02:00:00:00:00:0b";

TEST(DpdkNeighbours, first_packet_waits_for_the_answer) {
  Rig rig;
  EXPECT_EQ("ask 10.0.0.1; parked 1", rig.send("10.0.0.1", 1));
  EXPECT_EQ("parked 2", rig.send("10.0.0.1", 2));
  EXPECT_EQ("ready 1 to 02:00:00:00:00:0a; ready 2 to 02:00:00:00:00:0a; changed",
            rig.learn("10.0.0.1", kA, Neighbours::News::kAnswer));
  EXPECT_EQ("sent 3 to 02:00:00:00:00:0a", rig.send("10.0.0.1", 3));
  EXPECT_EQ(0u, rig.cache.parked());
}

TEST(DpdkNeighbours, silence_means_three_requests_then_a_drop_then_removal) {
  Rig rig;
  rig.send("fd00::1", 1);
  EXPECT_EQ("ask fd00::1; ask fd00::1; failed 1 neighbour_silent", rig.pass(3s));
  EXPECT_EQ("refused neighbour_silent", rig.send("fd00::1", 2));
  EXPECT_EQ("", rig.pass(4s));
  EXPECT_EQ(0u, rig.cache.size());
  EXPECT_EQ("ask fd00::1; parked 3", rig.send("fd00::1", 3));
}

TEST(DpdkNeighbours, old_entries_are_used_and_checked) {
  Rig rig;
  rig.send("10.0.0.1", 1);
  rig.learn("10.0.0.1", kA, Neighbours::News::kAnswer);
  EXPECT_EQ("", rig.pass(31s));
  EXPECT_EQ("ask 10.0.0.1 at 02:00:00:00:00:0a; sent 2 to 02:00:00:00:00:0a", rig.send("10.0.0.1", 2));
  EXPECT_EQ("sent 3 to 02:00:00:00:00:0a", rig.send("10.0.0.1", 3));
  EXPECT_EQ("same", rig.learn("10.0.0.1", kA, Neighbours::News::kAnswer));
  EXPECT_EQ("", rig.pass(5s));
  EXPECT_EQ("", rig.pass(31s));
  rig.send("10.0.0.1", 4);
  EXPECT_EQ("ask 10.0.0.1 at 02:00:00:00:00:0a; ask 10.0.0.1 at 02:00:00:00:00:0a", rig.pass(3s));
  EXPECT_EQ("refused neighbour_silent", rig.send("10.0.0.1", 5));
}

TEST(DpdkNeighbours, unused_neighbours_are_forgotten) {
  Rig rig;
  EXPECT_EQ("same", rig.learn("10.0.0.1", kA, Neighbours::News::kClaim));
  EXPECT_EQ(0u, rig.cache.size());
  EXPECT_EQ("changed", rig.learn("10.0.0.1", kA, Neighbours::News::kClaim, true));
  EXPECT_EQ("", rig.pass(590s));
  EXPECT_EQ(1u, rig.cache.size());
  EXPECT_EQ("", rig.pass(20s));
  EXPECT_EQ(0u, rig.cache.size());
}

TEST(DpdkNeighbours, another_mac_replaces_the_old_one_or_causes_a_check) {
  Rig rig;
  rig.learn("fd00::1", kA, Neighbours::News::kAnswer, true);
  EXPECT_EQ("same", rig.learn("fd00::1", kB, Neighbours::News::kDoubtful));
  EXPECT_EQ("ask fd00::1 at 02:00:00:00:00:0a; sent 1 to 02:00:00:00:00:0a", rig.send("fd00::1", 1));
  EXPECT_EQ("changed", rig.learn("fd00::1", kB, Neighbours::News::kClaim));
  EXPECT_EQ("ask fd00::1 at 02:00:00:00:00:0b; sent 2 to 02:00:00:00:00:0b", rig.send("fd00::1", 2));
  for (const char* nonsense : {"ff:ff:ff:ff:ff:ff", "00:00:00:00:00:00", "01:00:5e:00:00:01"})
    EXPECT_EQ("same", rig.learn("fd00::1", nonsense, Neighbours::News::kAnswer));
}

TEST(DpdkNeighbours, static_entries_never_change) {
  Rig rig;
  ASSERT_TRUE(rig.cache.set_static(Rig::ip("10.0.0.1"), mac_parse(kA).value()).has_value());
  EXPECT_EQ("same", rig.learn("10.0.0.1", kB, Neighbours::News::kAnswer));
  EXPECT_EQ("", rig.pass(1000s));
  EXPECT_EQ("sent 1 to 02:00:00:00:00:0a", rig.send("10.0.0.1", 1));
  EXPECT_EQ(kForever, rig.cache.next_deadline());
  rig.cache.clear();
  EXPECT_EQ("sent 2 to 02:00:00:00:00:0a", rig.send("10.0.0.1", 2));
}

// Goal: when the link was away, learned neighbours are resolved again and static ones remain. A packet that waits for
// an answer goes on waiting.
TEST(DpdkNeighbours, a_link_that_was_away) {
  Rig rig;
  ASSERT_TRUE(rig.cache.set_static(Rig::ip("10.0.0.1"), mac_parse(kA).value()).has_value());
  rig.send("10.0.0.2", 1);
  rig.learn("10.0.0.2", kB, Neighbours::News::kAnswer);
  EXPECT_EQ("sent 2 to 02:00:00:00:00:0b", rig.send("10.0.0.2", 2));
  rig.send("10.0.0.3", 3);
  rig.cache.forget_learned();
  EXPECT_EQ("sent 4 to 02:00:00:00:00:0a", rig.send("10.0.0.1", 4));
  EXPECT_EQ(2u, rig.cache.size());
  EXPECT_EQ(1u, rig.cache.parked());
  rig.send("10.0.0.2", 5);
  EXPECT_EQ(3u, rig.cache.size());
  EXPECT_EQ(2u, rig.cache.parked());
  rig.cache.clear();
}

// Goal: no bound is exceeded, and a packet that does not fit is refused with the reason.
TEST(DpdkNeighbours, bounds) {
  Rig rig({.capacity = 4, .parked_max = 5, .parked_each_max = 3});
  for (uintptr_t i = 1; i <= 3; ++i) rig.send("10.0.0.1", i);
  EXPECT_EQ("refused neighbour_queue_full", rig.send("10.0.0.1", 4));
  rig.send("10.0.0.2", 5);
  rig.send("10.0.0.3", 6);
  EXPECT_EQ("ask 10.0.0.4; refused neighbour_queue_full", rig.send("10.0.0.4", 7));
  EXPECT_EQ(5u, rig.cache.parked());
  // The entry of 10.0.0.4 has no packet waiting, so the next neighbour replaces it.
  EXPECT_EQ("ask 10.0.0.5; refused neighbour_queue_full", rig.send("10.0.0.5", 8));
  EXPECT_EQ(4u, rig.cache.size());
  EXPECT_EQ("changed", rig.learn("10.0.0.5", kA, Neighbours::News::kAnswer));
  rig.learn("10.0.0.1", kA, Neighbours::News::kAnswer);
  EXPECT_EQ("ask 10.0.0.6; parked 9", rig.send("10.0.0.6", 9));  // the entry of 10.0.0.1 or of 10.0.0.5 was replaced
  EXPECT_EQ(4u, rig.cache.size());
  rig.cache.clear();
  EXPECT_EQ("failed 9 stopped; failed 5 stopped; failed 6 stopped", [&] {
    auto t = rig.take();
    return t;
  }());
}

// Goal: any order of calls keeps the bounds and gives every parked packet back exactly once. Seeded.
TEST(DpdkNeighbours, any_order) {
  struct Count final : NeighbourActions {
    void neighbour_ask(const IpAddress&, const Mac*) override {}
    void neighbour_ready(void*, const Mac&) override { ++back; }
    void neighbour_failed(void*, FrameDrop) override { ++back; }
    uint64_t back = 0;
  } count;
  Neighbours cache({.capacity = 16, .parked_max = 20, .parked_each_max = 4}, count);
  uint64_t state = 5, parked = 0;
  const auto draw = [&](uint64_t bound) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % bound;
  };
  Instant now = kNever + 10s;
  for (unsigned i = 0; i < 200000; ++i) {
    const auto address = IpAddress::of_v4(0x0A000000 + uint32_t(draw(40)));
    const Mac mac{{2, 0, 0, 0, 0, uint8_t(draw(4))}};
    switch (draw(6)) {
      case 0: now += Duration{int64_t(draw(2'000'000'000))}; break;
      case 1: cache.learn(address, mac, Neighbours::News(draw(3)), draw(2) == 0, now); break;
      case 2: cache.timers(now, unsigned(draw(8))); break;
      case 3: cache.confirm(address, now); break;
      default: parked += cache.resolve(address, &count, now).kind == Neighbours::Answer::kParked ? 1 : 0;
    }
    ASSERT_LE(cache.size(), 16u);
    ASSERT_LE(cache.parked(), 20u);
    ASSERT_EQ(parked, count.back + cache.parked());
  }
  cache.clear();
  EXPECT_EQ(parked, count.back);
  EXPECT_EQ(0u, cache.size());
}

}  // namespace
}  // namespace ulnet::dpdk
