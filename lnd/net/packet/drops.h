// Why a frame was dropped by a port or refused by a decoder. Each reason has a name and a sentence; each drop is
// counted. Any thread.
#pragma once
#include <array>
#include <cstdint>
#include <tl/expected.hpp>

#include "dataplane/base/counters.h"

namespace ulnet::dpdk {

enum class FrameDrop : uint8_t {
  kTruncated,
  kEthType,
  kVlanOther,
  kVlanStacked,
  kMacOther,
  kMacSource,
  kIpHeader,
  kIpLength,
  kIpChecksum,
  kIpFragment,
  kIpExtension,
  kIpSource,
  kIpOther,
  kIpProtocol,
  kUdpLength,
  kUdpChecksum,
  kUdpPort,
  kArpFormat,
  kNdFormat,
  kIcmpFormat,
  kIcmpChecksum,
  kIcmpType,
  kRoceLength,
  kRoceHeader,
  kRoceOpcode,
  kRoceMad,
  kRoceIcrc,
  kRoceQp,
  kRoceBusy,
  kNeighbourTableFull,
  kNeighbourQueueFull,
  kNeighbourSilent,
  kNoRoute,
  kTxQueueFull,
  kTxTooLong,
  kTxRefused,
  kNoBuffer,
  kStopped,
  kCount
};

/// Name, unit and meaning.
[[nodiscard]] const CounterText& text_of(FrameDrop reason);

/// Result of a decoder: the header, or why there is none. Decoders of each packet fill the header in its place, since a
/// copy of fields that were just written is slow (store_pair()).
template <class T>
using Decoded = tl::expected<T, FrameDrop>;

[[nodiscard]] inline tl::unexpected<FrameDrop> drop(FrameDrop reason) {
  return tl::unexpected<FrameDrop>(reason);
}

/// One writer: the worker of the queue.
struct FrameDropCounters {
  std::array<Counter, size_t(FrameDrop::kCount)> counts;
  Counter& operator[](FrameDrop reason) { return counts[size_t(reason)]; }
  [[nodiscard]] const Counter& operator[](FrameDrop reason) const { return counts[size_t(reason)]; }
};

}  // namespace ulnet::dpdk
