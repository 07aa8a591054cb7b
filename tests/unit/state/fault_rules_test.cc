// Which messages a fault rule matches, and which of them it hits (dataplane/state/fault_rules.h).
#include "dataplane/state/fault_rules.h"

#include <gtest/gtest.h>

#include <set>

namespace ulnet {
namespace {

using wire::MsgType;

constexpr Net kTcp = Net::of(NetType::kTcp, 0), kTcp1 = Net::of(NetType::kTcp, 1);
constexpr Nid kA = Nid::v4(kTcp, 0x0A000001), kB = Nid::v4(kTcp, 0x0A000002), kFar = Nid::v4(kTcp1, 0x0A000001);
constexpr FaultNids kAll, kOnlyA{kA, kAnyNet}, kOnlyB{kB, kAnyNet}, kOnTcp{{}, kTcp}, kOnTcp1{{}, kTcp1};

wire::Header header(MsgType type, const Nid& src, const Nid& dest, uint32_t portal = 0) {
  wire::Header h;
  h.type = type;
  h.src_nid = src;
  h.dest_nid = dest;
  if (type == MsgType::kPut) h.set(wire::PutBody{{}, 0, 0, portal, 0});
  if (type == MsgType::kGet) h.set(wire::GetBody{{}, 0, portal, 0, 0});
  return h;
}

TEST(FaultNids, one_nid_or_those_of_a_net_or_all) {
  struct Row {
    FaultNids nids;
    bool a, b, far, lo;
  };
  for (const Row& row : {Row{kAll, true, true, true, true}, Row{kOnlyA, true, false, false, false},
                         Row{kOnlyB, false, true, false, false}, Row{kOnTcp, true, true, false, false},
                         Row{kOnTcp1, false, false, true, false}}) {
    EXPECT_EQ(row.nids.has(kA), row.a);
    EXPECT_EQ(row.nids.has(kB), row.b);
    EXPECT_EQ(row.nids.has(kFar), row.far);
    EXPECT_EQ(row.nids.has(kLoNid), row.lo);
  }
}

// Goal: a message matches exactly when each of its parts does. Method: all combinations of a source, destination and
// local NI that fit or not.
TEST(FaultMatch, all_parts_have_to_fit) {
  for (const FaultNids& source : {kAll, kOnlyA, kOnlyB, kOnTcp, kOnTcp1})
    for (const FaultNids& dest : {kAll, kOnlyA, kOnlyB, kOnTcp, kOnTcp1})
      for (const FaultNids& local : {kAll, kOnlyA, kOnlyB, kOnTcp, kOnTcp1}) {
        const FaultSpec spec{.source = source, .dest = dest, .local = local};
        for (const Nid& from : {kA, kB, kFar})
          for (const Nid& to : {kA, kB, kFar})
            for (const Nid& at : {kA, kB, kFar})
              EXPECT_EQ(spec.matches(header(MsgType::kPut, from, to), at),
                        source.has(from) && dest.has(to) && local.has(at));
      }
}

TEST(FaultMatch, types_are_those_of_the_mask) {
  for (unsigned mask = 0; mask <= kFaultTypesAll; ++mask)
    for (unsigned type = 0; type < 4; ++type) {
      const FaultSpec spec{.types = uint8_t(mask)};
      EXPECT_EQ(spec.matches(header(MsgType(type), kA, kB), kB), (mask >> type & 1) != 0) << mask << " " << type;
    }
  EXPECT_FALSE(FaultSpec{}.matches(header(MsgType::kHello, kA, kB), kB));
}

TEST(FaultMatch, portals_are_those_of_puts_and_gets) {
  const FaultSpec spec{.portals = uint64_t{1} << 0 | uint64_t{1} << 9 | uint64_t{1} << 63};
  for (uint32_t portal = 0; portal < 80; ++portal) {
    const bool in_mask = portal == 0 || portal == 9 || portal == 63;
    EXPECT_EQ(spec.matches(header(MsgType::kPut, kA, kB, portal), kB), in_mask) << portal;
    EXPECT_EQ(spec.matches(header(MsgType::kGet, kA, kB, portal), kB), in_mask) << portal;
  }
  EXPECT_FALSE(spec.matches(header(MsgType::kAck, kA, kB), kB));
  EXPECT_FALSE(spec.matches(header(MsgType::kReply, kA, kB), kB));
}

// Goal: exactly one message of each window of `rate` is hit, and over many windows each place of the window is.
TEST(FaultHits, one_of_each_window_at_a_random_place) {
  for (const uint32_t rate : {1u, 2u, 3u, 7u, 100u}) {
    Rng rng(rate);
    FaultProgress progress;
    const FaultSpec spec{.rate = rate};
    std::set<uint32_t> places;
    for (unsigned window = 0; window < 50 * rate; ++window) {
      unsigned hits = 0;
      for (uint32_t place = 0; place < rate; ++place)
        if (fault_hits(spec, progress, kNever, rng)) {
          ++hits;
          places.insert(place);
        }
      ASSERT_EQ(hits, 1u) << rate;
    }
    EXPECT_EQ(places.size(), rate);
  }
}

TEST(FaultHits, all_is_every_message) {
  Rng rng(1);
  FaultProgress progress;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(fault_hits({.all = true}, progress, Instant{1s}, rng));
}

// Goal: with a steady stream, exactly one message of each window of time is hit, at a random moment.
TEST(FaultHits, one_in_each_interval) {
  Rng rng(3);
  FaultProgress progress;
  const FaultSpec spec{.interval = 2s};
  std::set<Duration> moments;
  const Instant begin{5s};
  for (int window = 0; window < 200; ++window) {
    unsigned hits = 0;
    for (Duration at{}; at < 2s; at += 100ms)
      if (fault_hits(spec, progress, begin + window * 2s + at, rng)) {
        ++hits;
        moments.insert(at);
      }
    // The moment after the last message of a window is hit by the first message of the next one.
    EXPECT_LE(hits, 2u);
  }
  EXPECT_GT(moments.size(), 10u);
  unsigned hits = 0;
  for (Duration at{}; at < 2000s; at += 10ms) hits += fault_hits(spec, progress, begin + 400s + at, rng);
  EXPECT_GE(hits, 999u);
  EXPECT_LE(hits, 1001u);
}

// Goal: time without messages is not made up for: after a pause there is one hit in each interval as before.
TEST(FaultHits, a_pause_is_not_made_up_for) {
  Rng rng(4);
  FaultProgress progress;
  const FaultSpec spec{.interval = 1s};
  const auto hits_in = [&](Instant from, Duration time) {
    unsigned hits = 0;
    for (Duration at{}; at < time; at += 10ms) hits += fault_hits(spec, progress, from + at, rng);
    return hits;
  };
  EXPECT_GE(hits_in(Instant{1s}, 10s), 9u);
  const unsigned later = hits_in(Instant{10000s}, 10s);
  EXPECT_GE(later, 9u);
  EXPECT_LE(later, 11u);
}

// Goal: with `random`, the time between hits varies from nearly 0 to nearly twice the interval, which is its mean.
TEST(FaultHits, a_random_interval_has_the_interval_as_mean) {
  Rng rng(5);
  FaultProgress progress;
  const FaultSpec spec{.interval = 1s, .random = true};
  Instant last{1s};
  Duration shortest = 1h, longest{};
  unsigned hits = 0;
  for (Instant at{1s}; at < Instant{2001s}; at += 1ms)
    if (fault_hits(spec, progress, at, rng)) {
      ++hits;
      shortest = std::min(shortest, at - last);
      longest = std::max(longest, at - last);
      last = at;
    }
  EXPECT_GE(hits, 1800u);
  EXPECT_LE(hits, 2200u);
  EXPECT_LT(shortest, 50ms);
  EXPECT_GT(longest, 1900ms);
  EXPECT_LE(longest, 2001ms);
}

TEST(FaultTable, has_the_rules_with_these_ids) {
  const FaultTable table{{{.id = 3}, {.id = 7}}};
  EXPECT_TRUE(table.has(3) && table.has(7));
  EXPECT_FALSE(table.has(0) || table.has(4));
}

}  // namespace
}  // namespace ulnet
