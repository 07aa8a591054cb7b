// Messages of the InfiniBand connection manager (CM), as MADs of 256 bytes, as far as LNet connections use them. Pure,
// any thread. Source: docs/wire/roce.md §6, §7.
#pragma once
#include <array>
#include <span>
#include <variant>

#include "lnd/net/packet/net_address.h"
#include "lnd/rc/roce/proto/headers.h"

namespace ulnet::rc::roce {

using dpdk::IpAddress;

inline constexpr unsigned kMadBytes = 256;
inline constexpr unsigned kReqDataMax = 92, kRepDataMax = 196, kRejDataMax = 148;

/// Decoded private data points into the MAD, and has its full size. Encoded private data is filled up with zeros.

struct CmReq {
  uint32_t local_id = 0;
  uint64_t service_id = 0;
  uint64_t ca_guid = 0;
  uint32_t qpn = 0;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t remote_timeout = 20, local_timeout = 20;  ///< of the CM: codes of timeout_of()
  uint8_t transport = 0;                            ///< 0: RC
  bool flow_control = true;
  Psn starting_psn;  ///< of the receiver's first request
  uint8_t retry_count = 0, rnr_retry_count = 0;
  uint16_t partition = kDefaultPartition;
  uint8_t mtu = 0;  ///< code of mtu_bytes()
  uint8_t cm_retries = 15;
  uint16_t local_lid = 0xFFFF, remote_lid = 0xFFFF;
  IpAddress local_gid, remote_gid;
  uint32_t flow_label = 0;
  uint8_t traffic_class = 0, hop_limit = 64, service_level = 0;
  bool subnet_local = false;
  uint8_t ack_timeout = 0;     ///< code of timeout_of(): of both sides
  bool has_alternate = false;  ///< decoded only: there is an alternate path
  Bytes private_data;          ///< the header of rdma_cm (cma_header.h) and the consumer's
};

struct CmRep {
  uint32_t local_id = 0, remote_id = 0;
  uint32_t qpn = 0;
  Psn starting_psn;
  uint8_t responder_resources = 0, initiator_depth = 0;
  uint8_t target_ack_delay = 15;
  bool flow_control = true;
  uint8_t rnr_retry_count = 0;
  uint64_t ca_guid = 0;
  Bytes private_data;
};

/// The message that a REJ or an MRA is about.
enum class CmAbout : uint8_t { kReq = 0, kRep = 1, kOther = 2 };
/// Reasons of a REJ that have a use here; others are possible.
enum class RejReason : uint16_t {
  kNoQp = 1,
  kNoResources = 3,
  kTimeout = 4,
  kUnsupported = 5,
  kInvalidCommId = 6,
  kInvalidServiceId = 8,
  kStale = 10,
  kInvalidGid = 12,
  kInvalidMtu = 26,
  kConsumer = 28
};
struct CmRej {
  uint32_t local_id = 0, remote_id = 0;  ///< 0: the sender does not have that id
  CmAbout about = CmAbout::kReq;
  uint16_t reason = 0;  ///< a RejReason
  Bytes info;           ///< at most 72 bytes
  Bytes private_data;   ///< of the consumer, if reason is kConsumer
};

struct CmMra {
  uint32_t local_id = 0, remote_id = 0;
  CmAbout about = CmAbout::kReq;
  uint8_t service_timeout = 0;  ///< code of timeout_of(): more time for the answer
};
struct CmRtu {
  uint32_t local_id = 0, remote_id = 0;
};
struct CmDreq {
  uint32_t local_id = 0, remote_id = 0;
  uint32_t remote_qpn = 0;  ///< of the receiver
};
struct CmDrep {
  uint32_t local_id = 0, remote_id = 0;
};

struct CmMessage {
  uint64_t transaction = 0;
  std::variant<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep> body;
};

/// The first bytes of each message: base version, class CM, class version, method Send.
inline constexpr std::array<std::byte, 4> kCmStart{std::byte{1}, std::byte{7}, std::byte{2}, std::byte{3}};

/// Requires: the body's private data fits. Errors: none.
void cm_encode(const CmMessage& message, std::span<std::byte, kMadBytes> out);
/// Drops: kRoceMad (no message of the CM of version 2, or none of these kinds).
[[nodiscard]] Decoded<CmMessage> cm_decode(std::span<const std::byte, kMadBytes> mad);

}  // namespace ulnet::rc::roce
