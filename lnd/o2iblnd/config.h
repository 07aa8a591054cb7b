// Settings of o2iblnd, node-wide and by NI. Source: docs/wire/o2iblnd.md §11.
#pragma once
#include <cstdint>

#include "dataplane/base/time.h"

namespace ulnet::o2iblnd {

/// The number of an enumerator is its place among the choices of the key.
enum class IbMtu : uint8_t { kOfPath, k256, k512, k1024, k2048, k4096 };

/// For all NIs of a node.
struct IbConfig {
  uint64_t incarnation = 1;  ///< µs of real time at the start of the node: stamps of NIs begin here
  uint16_t service = 987;
  bool require_privileged_port = false;
  bool use_privileged_port = true;
  Duration timeout = 50s;  ///< an NI's timeout, where it has one, wins
  Duration keepalive = 100s;
  int32_t retry_count = 5;
  int32_t rnr_retry_count = 6;
  int32_t wrq_sge = 2;  ///< segments of one write
  // Without effect: the rows have the reasons.
  IbMtu ib_mtu = IbMtu::kOfPath;
  bool cksum = false;
  bool use_fastreg_gaps = false;
  bool dev_failover = false;
  // Bounds.
  uint32_t peers_max = 4096;     ///< peer NIs of one worker that messages wait for or that have connections
  uint32_t conns_max = 4096;     ///< connections of one worker
  uint32_t half_open_max = 256;  ///< connections that peers have begun, and that are not up yet
  uint32_t passives_max = 128;   ///< connections that one peer NI has begun; more than its conns_per_peer can be
  uint32_t foreign_max = 16;     ///< connections that one address has begun under other NIDs than its own
  uint32_t peer_buckets = 1024;
  bool register_memory = true;  ///< false: no NI can start, and the node saves the work
};

/// Of one NI.
struct IbTunables {
  Duration timeout = 50s;
  int32_t conns_per_peer = 1;
  int32_t peercredits_hiw = 0;   ///< 0: half of peer_credits
  int32_t concurrent_sends = 0;  ///< 0: peer_credits
  int32_t tos = -1;
  // Without effect: the rows have the reasons.
  bool map_on_demand = true;
  int32_t fmr_pool_size = 512;
  int32_t fmr_flush_trigger = 384;
  int32_t fmr_cache = 1;
  int32_t ntx = 512;
};

}  // namespace ulnet::o2iblnd
