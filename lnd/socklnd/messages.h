// What the two halves of socklnd tell each other, by way of LndMsg. The control half allocates ConnSet and Conn objects
// and lends them; the worker half alone touches them until it gives them back. Rings keep order, which the protocol
// leans on: what control sends after kSetRetire finds the set gone.
#pragma once
#include <algorithm>
#include <cstdint>

#include "lnd/lnd.h"
#include "lnd/socklnd/config.h"

namespace ulnet::socklnd {

/// Control to worker. `object` is a ConnSet unless said otherwise; `a` an error (negative errno) where one is named.
enum class ToWorker : uint16_t {
  kSetOpen = 1,  ///< a new set; messages that waited for it are taken over
  kConnAdd,      ///< object: Conn of an open set; a: StreamSource. The stream is past its HELLO
  kSetClose,     ///< close the connections that the set has now; a: error
  kSetFail,      ///< complete what waits for a connection; a: error, b: LndStatus
  kSetTimeout,   ///< a: its time-out from now on, ns
  kTune,         ///< the tunables in a and b hold from now on (tune_pack)
  kSetRetire,    ///< give the set back (it has no connection); what waits goes back to waiting for a set
  kOrphansFail,  ///< ni, peer_ni: complete what waits for that set; a: error, b: LndStatus
  kNiFlush       ///< ni: complete whatever still waits on it; a: error. object: Owed for the answer, kNiFlushed
};

/// Worker to control. `a` is the number of the set where there is one.
enum class ToControl : uint16_t {
  kSetNeeded = 1,  ///< ni, peer_ni, nid: a message waits for a set that this worker does not have
  kConnsWanted,    ///< a: set. A message waits for a connection
  kConnClosed,     ///< a: set, object: Conn, b: error (0: an orderly end). The connection does not count any more
  kConnDead,       ///< a: set, object: Conn given back, b: StreamSource to discard, or kNoSource
  kSetGone,        ///< a: set, object: ConnSet given back
  kNiFlushed       ///< ni: nothing of it is left on this worker
};

/// Tunables that a worker follows at run time.
inline void tune_pack(const SockConfig& config, LndMsg& msg) {
  msg.kind = uint16_t(ToWorker::kTune);
  msg.a = uint64_t(std::clamp<int64_t>(config.keepalive / 1ms, 0, UINT32_MAX)) << 32 | config.min_bulk;
  msg.b = uint64_t{config.zc_min_payload} << 32 | uint64_t{config.typed_conns} << 1 | uint64_t{config.enable_csum};
}
inline void tune_unpack(const LndMsg& msg, SockConfig& config) {
  config.keepalive = (msg.a >> 32) * 1ms;
  config.min_bulk = uint32_t(msg.a);
  config.zc_min_payload = uint32_t(msg.b >> 32);
  config.typed_conns = (msg.b & 2) != 0;
  config.enable_csum = (msg.b & 1) != 0;
}

inline constexpr uint64_t kNoSource = ~uint64_t{0};

}  // namespace ulnet::socklnd
