#include "dataplane/state/loop_watch.h"

#include <cstring>

namespace ulnet {
namespace {

constexpr uint32_t kGapMs = uint32_t(kLoopSightGap / std::chrono::milliseconds(1));

/// A well-mixed hash of everything that a router passes on unchanged.
uint64_t identity_of(const wire::Header& h) {
  uint64_t words[sizeof(h.body) / 8];
  static_assert(sizeof(words) == sizeof(h.body));
  std::memcpy(words, h.body.data(), sizeof(words));
  uint64_t hash = h.src_nid.hash() ^ (h.dest_nid.hash() * 3);
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    hash ^= hash >> 32;
  };
  mix(uint64_t{h.src_pid} << 32 | h.dest_pid);
  mix(uint64_t(h.type) << 32 | h.payload_length);
  for (const uint64_t word : words) mix(word);
  return hash;
}

}  // namespace

LoopWatch::Sight& LoopWatch::entry_of(uint64_t identity, uint32_t now_ms) {
  static_assert((kLoopSightsKept & (kLoopSightsKept - 1)) == 0 && kLoopSightsKept % kWays == 0);
  Sight* set = &sights_[(identity >> 16) % (kLoopSightsKept / kWays) * kWays];
  const auto over = [&](const Sight& one) { return one.count == 0 || now_ms - one.seen_ms > kGapMs; };
  for (unsigned way = 0; way < kWays; ++way)
    if (set[way].identity == identity && !over(set[way])) return set[way];
  Sight* victim = nullptr;
  for (unsigned way = 0; way < kWays && victim == nullptr; ++way)
    if (over(set[way])) victim = &set[way];
  if (victim == nullptr) {
    next_way_ = (next_way_ + unsigned(identity >> 60) + 1) % kWays;
    victim = &set[next_way_];
    for (unsigned way = 0; way < kWays; ++way)  // prefer to replace an entry that was seen only once
      if (victim->count > 1 && set[way].count == 1) victim = &set[way];
  }
  *victim = {identity, now_ms, 0};
  return *victim;
}

bool LoopWatch::circles(const wire::Header& header, Instant now) {
  const auto now_ms = uint32_t(now.time_since_epoch() / std::chrono::milliseconds(1));
  Sight& sight = entry_of(identity_of(header), now_ms);
  sight.seen_ms = now_ms;
  const bool anonymous = header.type == wire::MsgType::kPut && header.put().ack_wmd.is_none();
  if (sight.count >= (anonymous ? kLoopSightsAnonymousMax : kLoopSightsMax)) return true;
  ++sight.count;
  return false;
}

}  // namespace ulnet
