// RoCE packets of a hostile sender: for tests and figures of what a flood costs others. Pure. Thread: one at a time.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/rng.h"
#include "lnd/rc/roce/proto/frame.h"

namespace ulnet::perf {

enum class HostileKind : uint8_t {
  kNobody,      ///< for numbers that hardly any queue pair has
  kLive,        ///< for a queue pair: random PSN, opcode and key, and a right ICRC
  kDamaged,     ///< the same with a wrong ICRC; requests to the connection manager, if no number is known
  kMads,        ///< for the connection manager: random bytes, with the right Q_Key and ICRC
  kRequests,    ///< for the connection manager: REQs with random ids, GUIDs and queue pairs
  kOtherWorker  ///< for queue pairs of one worker, the live one among them; to be sent to the queue of another worker
};
inline constexpr unsigned kHostileKinds = unsigned(HostileKind::kOtherWorker) + 1;
/// As on command lines: "nobody", "live" ...
[[nodiscard]] const char* text_of(HostileKind kind);
[[nodiscard]] std::optional<HostileKind> hostile_kind(const std::string& text);

/// A packet from its IP header on, with a right ICRC. `behind` the BTH: extended headers, payload and padding.
[[nodiscard]] std::vector<std::byte> roce_packet(const rc::roce::FlowAddresses& flow, const rc::roce::Bth& bth,
                                                 std::span<const std::byte> behind);

struct HostileTarget {
  dpdk::IpAddress from, to;
  uint16_t source_port = 0xC000;        ///< UDP
  uint32_t qpn = 0;                     ///< of a live queue pair; 0: none is known
  uint16_t service = 987;               ///< of the listener
  uint8_t mtu = 3;                      ///< code, in kRequests
  uint32_t payload_bytes = 0;           ///< of kNobody, kLive, kDamaged, kOtherWorker
  std::vector<std::byte> request_data;  ///< of the consumer, in kRequests: at most 56 bytes
};

class HostileRoce {
 public:
  static constexpr size_t kBytesMax = 4096 + 128;  ///< of a packet; requires payload_bytes <= 4096
  HostileRoce(HostileTarget target, uint64_t seed) : target_(std::move(target)), rng_(seed) {}
  /// A packet from its IP header on.
  [[nodiscard]] std::vector<std::byte> make(HostileKind kind);

 private:
  [[nodiscard]] std::vector<std::byte> for_qp(uint32_t qpn);
  [[nodiscard]] std::vector<std::byte> mad(bool request);
  const HostileTarget target_;
  Rng rng_;
};

}  // namespace ulnet::perf
