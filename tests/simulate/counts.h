// How often the runs met what they are for. A run that meets too little of it proves nothing, and fails
// (counts_wrong() in cluster.h).
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace ulnet::simulate {

enum class Count : uint8_t {
  kSilentRails,    ///< rails cut both ways
  kHalfOpenRails,  ///< rails cut one way
  kFlaps,          ///< times that a link or a cut was switched
  kLossyRails,     ///< rails that lose a share of the messages
  kHangs,          ///< nodes that stand still and come back
  kResends,        ///< attempts over another path
  kGoodResends,    ///< messages that arrived so
  kProbes,         ///< pings of fast detection
  kFalls,          ///< health values that fell to 0
  kRecoveries,     ///< health values that are whole again
  kChoices,        ///< free choices of a path that were checked
  kChoicesAtRisk,  ///< of them: one pair of NIs was down, and another was up
  kMoves,          ///< times that a rail failed and a request that had not begun was moved
  kRailsUsed,      ///< rails of healed clusters that were seen to carry messages
  kPacketsResent,  ///< RoCE packets
  kDeviceWrites,   ///< remote writes of RDMA devices
  kDeviceLosses,   ///< operations that RDMA devices lost
  kCount,
};

struct Counts {
  std::array<uint64_t, size_t(Count::kCount)> values{};
  uint64_t& operator[](Count which) { return values[size_t(which)]; }
  uint64_t operator[](Count which) const { return values[size_t(which)]; }
  void add(const Counts& other) {
    for (size_t i = 0; i < values.size(); ++i) values[i] += other.values[i];
  }
};

}  // namespace ulnet::simulate
