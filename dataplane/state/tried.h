// The pairs of NIs over which a message has failed, so that the next attempt takes another pair. Part of the message;
// thread: its home. Source: docs/wire/lnet.md §9.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"

namespace ulnet {

/// The last kMax failed pairs of a message, by the slots of their tallies.
class Tried {
 public:
  static constexpr unsigned kMax = 4;

  void add(uint16_t ni_slot, uint32_t peer_slot, bool ni_at_fault, bool peer_at_fault) {
    ULNET_CHECK(peer_slot <= kPeerMask);
    pairs_[count_ % kMax] = peer_slot << kPeerShift | uint32_t{ni_slot} % kNisMax << kNiShift |
                            uint32_t{ni_at_fault} << 1 | uint32_t{peer_at_fault};
    count_ =
        uint8_t(count_ + 1u < 2 * kMax ? count_ + 1 : kMax);  // beyond kMax, only the place of the next pair counts
  }
  void clear() { count_ = 0; }
  [[nodiscard]] bool has(uint16_t ni_slot, uint32_t peer_slot) const {
    return count([&](uint32_t pair) { return ni_of(pair) == ni_slot && peer_of(pair) == peer_slot; }) > 0;
  }
  /// Failures at the local NI. `any`: all failures over it, whoever was at fault.
  [[nodiscard]] unsigned at_ni(uint16_t ni_slot, bool any) const {
    return count([&](uint32_t pair) { return ni_of(pair) == ni_slot && (any || (pair & kNiFault) != 0); });
  }
  /// Failures at the peer NI.
  [[nodiscard]] unsigned at_peer(uint32_t peer_slot) const {
    return count([&](uint32_t pair) { return peer_of(pair) == peer_slot && (pair & kPeerFault) != 0; });
  }
  /// Failures at the peer NI; those over the pair with this local NI count once more.
  [[nodiscard]] unsigned at_peer(uint32_t peer_slot, uint16_t ni_slot) const {
    return at_peer(peer_slot) +
           count([&](uint32_t pair) { return peer_of(pair) == peer_slot && ni_of(pair) == ni_slot; });
  }

 private:
  static constexpr uint32_t kPeerFault = 1, kNiFault = 2;
  static constexpr unsigned kNiShift = 2, kPeerShift = 10;
  static constexpr uint32_t kPeerMask = UINT32_MAX >> kPeerShift;
  static_assert(kNisMax == 1u << (kPeerShift - kNiShift) && kPeerNisMax - 1 <= kPeerMask);
  static uint16_t ni_of(uint32_t pair) { return uint16_t((pair >> kNiShift) % kNisMax); }
  static uint32_t peer_of(uint32_t pair) { return pair >> kPeerShift; }
  template <class F>
  [[nodiscard]] unsigned count(F&& holds) const {
    unsigned found = 0;
    for (unsigned i = 0; i < std::min<unsigned>(count_, kMax); ++i) found += holds(pairs_[i]);
    return found;
  }
  std::array<uint32_t, kMax> pairs_{};
  uint8_t count_ = 0;
};

}  // namespace ulnet
