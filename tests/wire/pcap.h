// Reads a classic pcap file and reassembles its TCP connections. Each connection gets a list of events in the order in
// which they became complete on the wire. For tests that decode or replay the captures in tests/wire/captures/.
// Retransmissions and overlaps are dropped. Segments that came early wait for the missing bytes. All frames other than
// TCP are skipped.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/nid.h"
#include "dataplane/base/time.h"

namespace ulnet::test {

/// An IP address and a TCP port.
struct TcpAddress {
  bool ipv6 = false;
  std::array<uint8_t, 16> addr{};  ///< network order; an IPv4 address in the first four bytes, the rest zero
  uint16_t port = 0;
  constexpr auto operator<=>(const TcpAddress&) const = default;
  /// The NID that a node with this address has on `net`.
  [[nodiscard]] Nid nid(Net net = Net::of(NetType::kTcp, 0)) const;
  /// "10.10.0.1:1023", "[fd00:10::1]:1023".
  [[nodiscard]] std::string text() const;
};

enum class Side : uint8_t { kDialler, kPassive };
[[nodiscard]] constexpr Side other(Side side) {
  return side == Side::kDialler ? Side::kPassive : Side::kDialler;
}

struct TcpEvent {
  enum class Kind : uint8_t { kSyn, kData, kFin, kRst };
  Duration time{};  ///< since the first frame of the file
  Side from = Side::kDialler;
  Kind kind = Kind::kData;
  std::vector<std::byte> bytes;  ///< of kData: bytes that this segment added to its side's stream, never empty
};

/// One TCP connection. A pair of addresses that is used again after a new SYN is a new conversation.
struct TcpConversation {
  TcpAddress dialler;  ///< sent the SYN; where that is not in the file, the side that does not use port 988
  TcpAddress passive;
  bool opened_mid = false;       ///< open before the file begins
  bool established = false;      ///< opened_mid, or the passive side answered the SYN with one of its own
  bool gap = false;              ///< bytes are missing in the file: the streams end before them
  std::vector<TcpEvent> events;  ///< in order of time
  [[nodiscard]] const TcpAddress& address(Side side) const { return side == Side::kDialler ? dialler : passive; }
  /// All bytes of one side, one after the other.
  [[nodiscard]] std::vector<std::byte> stream(Side side) const;
  /// True when the side sent such an event.
  [[nodiscard]] bool has(Side side, TcpEvent::Kind kind) const;
};

struct Capture {
  std::string error;                           ///< not empty: the file could not be read, and why
  uint32_t frame_count = 0;                    ///< of any protocol
  std::vector<TcpConversation> conversations;  ///< in order of their first frame
};

/// Reads a file with link type Ethernet and micro- or nanosecond times. `error` names what is wrong with any other.
[[nodiscard]] Capture pcap_read(const std::string& path);

/// The same file frame by frame, each with its time since the first; returns "" or what is wrong with the file.
std::string pcap_frames(const std::string& path,
                        const std::function<void(Duration time, std::span<const std::byte> frame)>& call);

/// Path of a file of tests/wire/captures/, e.g. capture_path("a1-tcp-ping-1to2").
[[nodiscard]] std::string capture_path(const std::string& name);
/// Names (without ".pcap") of all files there, sorted.
[[nodiscard]] std::vector<std::string> capture_names();

}  // namespace ulnet::test
