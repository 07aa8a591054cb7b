// Tunables of socklnd, the same values in both halves. Constant once given. Source: docs/wire/socklnd.md §8 (names,
// defaults).
#pragma once
#include <cstdint>

#include "dataplane/base/time.h"

namespace ulnet::socklnd {

/// Connections that the NI accepts (docs/wire/socklnd.md §1.1).
enum class AcceptMode : uint8_t {
  kSecure,  ///< only from source ports up to 1023
  kAll,     ///< also from others, under a made-up identity (§4)
  kNone     ///< none: no listener
};

/// How the worker half moves bytes.
enum class EngineChoice : uint8_t { kAuto, kIoUring, kEpoll };

/// Congestion control of TCP (docs/decisions.md #130).
enum class Congestion : uint8_t {
  kAuto,    ///< the system's, unless that is BBR; then as kCubic, or kReno where there is no cubic
  kSystem,  ///< the system's
  kReno,
  kCubic
};

/// Of one NI. A driver's own form of NiParams::tunables.
struct SockTunables {
  int32_t conns_per_peer = 0;  ///< 0 = as the node's, then by link speed (§5)
  Duration timeout = 50s;
  int32_t tos = -1;  ///< -1 = as the node's
};

/// Of the node.
struct SockConfig {
  EngineChoice engine = EngineChoice::kAuto;
  // Protocol (names and defaults are upstream's).
  Duration sock_timeout = 50s;  ///< an NI's timeout, where it has one, wins
  uint16_t accept_port = 988;
  int accept_backlog = 127;
  AcceptMode accept = AcceptMode::kSecure;
  Duration accept_timeout = 5s;
  Duration min_reconnect = 1000ms;
  Duration max_reconnect = 60000ms;
  int32_t conns_per_peer = 0;  ///< for NIs that say 0; 0 = by link speed (§5)
  bool typed_conns = true;     ///< connections of their own for control and bulk; else one for everything
  uint32_t min_bulk = 1024;
  uint32_t tx_buffer_bytes = 0;  ///< socket buffers; 0 = the system's
  uint32_t rx_buffer_bytes = 0;
  bool nagle = false;
  Congestion congestion = Congestion::kAuto;
  Duration keepalive = 30s;  ///< LNet-level, v3 and later; 0 = off
  int keepalive_idle = 30;   ///< TCP-level: s, s, probes; idle 0 = off
  int keepalive_interval = 5;
  int keepalive_count = 5;
  bool enable_csum = false;          ///< effective on v2 connections only (§3.4)
  bool splice = true;                ///< payloads that are forwarded may stay in the kernel
  uint32_t zc_min_payload = 262144;  ///< payloads from here on are lent to the transport, with a cookie; 0: none is
  int tos = -1;                      ///< for NIs that say -1; -1 = unset

  // ulnet's own.
  bool unprivileged_ports = false;  ///< dial from any port and trust the HELLO of peers that do so: ulnet peers only
  uint64_t incarnation =
      1;  ///< of the first NI started here, each later one has the next; unique per life of the node (§2.4)

  // Bounds.
  /// Accepted and not yet past HELLO. The oldest of the address that has the most gives way.
  uint32_t half_open_max = 256;
  uint32_t conns_max = 4096;          ///< connections of one worker; room_ctl.h says which give way
  uint32_t sets_max = 16384;          ///< connection sets of the node
  uint32_t zc_outstanding_max = 256;  ///< unacknowledged cookies of one set; messages beyond go without a cookie
  uint32_t rx_slots = 256;      ///< of a worker, for messages read whole; half for one connection; without, it waits
  uint32_t set_buckets = 4096;  ///< of one worker's table of sets, and of messages that wait for one (chained)
};

inline constexpr Duration kKeepaliveGapMin = 10s;    ///< between two keepalives of one set (§5)
inline constexpr uint32_t kRecvBufferBytes = 32768;  ///< of a connection
inline constexpr uint32_t kPipedBytesMin = 65536;    ///< less of a payload is not worth a pipe
inline constexpr uint32_t kLentSegmentMin = 4096;    ///< payloads are copied if their segments have less on average
/// A socket that gets bytes faster than it may send them sends from several CPUs. On a veth pair, packets then overtake
/// each other, and TCP takes some for lost. That costs far more than copies.
inline constexpr uint32_t kLentLossesOneIn = 256;
inline constexpr uint32_t kLentLossesMin = 65536;  ///< fewer bytes in one look are not judged
inline constexpr Duration kNoLendingFor = 60s;
inline constexpr uint32_t kReadRoomMin = 2048;     ///< less room in the buffer is not worth a read
inline constexpr uint32_t kReadBackMin = 8192;     ///< the same of a part that taken messages have left
inline constexpr uint32_t kBatchMessages = 16;     ///< messages begun on one connection
inline constexpr uint32_t kSendBytesMax = 524288;  ///< payload of one send, whose completion may wait for all of it
inline constexpr uint32_t kCopiedBytes = 4096;     ///< Lnd::copied_bytes() at most
inline constexpr Duration kLookAwayMax = 1ms;      ///< a poll that is due longer looks at the sockets
inline constexpr uint32_t kAcksQueuedMax = 128;    ///< zero-copy NOOPs waiting on one connection
inline constexpr uint32_t kConnsPerPeerMax = 127;
inline constexpr unsigned kEventBurst = 64;

}  // namespace ulnet::socklnd
