// The messages between the two halves of socklnd: bodies of LndMsg. The control half allocates ConnSet and Conn objects
// and lends them; the worker half alone touches them until it gives them back. Rings keep order, and the protocol
// depends on that: at a message after SetRetireMsg, the worker no longer has the set.
#pragma once
#include <cstdint>
#include <optional>

#include "lnd/lnd.h"
#include "lnd/socklnd/stream.h"

namespace ulnet::socklnd {

struct Conn;
struct ConnSet;

// --- Control to worker ---

enum class ToWorker : uint16_t {
  kSetOpen = 1,
  kConnAdd,
  kSetClose,
  kSetProbe,
  kSetFail,
  kSetTimeout,
  kTune,
  kSetRetire,
  kOrphansFail,
  kNiFlush
};

/// A new set. The worker moves messages that waited for it into it.
struct SetOpenMsg {
  static constexpr auto kKind = ToWorker::kSetOpen;
  ConnSet* set;
};
/// A connection of an open set. The stream is past its HELLO.
struct ConnAddMsg {
  static constexpr auto kKind = ToWorker::kConnAdd;
  Conn* conn;
  StreamSource source;
};
/// Close the connections that the set has now.
struct SetCloseMsg {
  static constexpr auto kKind = ToWorker::kSetClose;
  ConnSet* set;
  int32_t error;  ///< negative errno
};
/// Find out if the peer still has the connections of the set.
struct SetProbeMsg {
  static constexpr auto kKind = ToWorker::kSetProbe;
  ConnSet* set;
};
/// Complete the messages that wait for a connection of the set.
struct SetFailMsg {
  static constexpr auto kKind = ToWorker::kSetFail;
  ConnSet* set;
  Completion how;
};
/// The time-out of the set from now on.
struct SetTimeoutMsg {
  static constexpr auto kKind = ToWorker::kSetTimeout;
  ConnSet* set;
  Duration timeout;
};
/// The tunables that a worker follows at run time, as in SockConfig.
struct TuneMsg {
  static constexpr auto kKind = ToWorker::kTune;
  Duration keepalive;
  uint32_t min_bulk, zc_min_payload;
  bool typed_conns, enable_csum, splice;
};
/// Give the set back, which has no connection. Messages that wait in the set wait for another one from here on.
struct SetRetireMsg {
  static constexpr auto kKind = ToWorker::kSetRetire;
  ConnSet* set;
};
/// Complete the messages that wait for the set of a peer NI.
struct OrphansFailMsg {
  static constexpr auto kKind = ToWorker::kOrphansFail;
  NiId ni;
  PeerNiId peer_ni;
  Completion how;
};
/// Complete the messages that still wait on the NI, and answer with NiFlushedMsg.
struct NiFlushMsg {
  static constexpr auto kKind = ToWorker::kNiFlush;
  NiId ni;
  int32_t error;  ///< negative errno
  Owed* answer;   ///< where the answer waits for room; control's
};

// --- Worker to control ---

/// Numbers apart from those of ToWorker: LndMsg::as() finds a message that the wrong half reads.
enum class ToControl : uint16_t { kSetNeeded = 0x101, kConnsWanted, kConnClosed, kConnDead, kSetGone, kNiFlushed };

/// A message waits for a set that this worker does not have.
struct SetNeededMsg {
  static constexpr auto kKind = ToControl::kSetNeeded;
  NiId ni;
  PeerNiId peer_ni;
  Nid nid;  ///< of the peer NI
};
/// A message waits for a connection.
struct ConnsWantedMsg {
  static constexpr auto kKind = ToControl::kConnsWanted;
  uint64_t set_id;
};
/// The connection no longer counts.
struct ConnClosedMsg {
  static constexpr auto kKind = ToControl::kConnClosed;
  uint64_t set_id;
  Conn* conn;
  int32_t error;  ///< 0: an orderly end
};
/// The connection is given back.
struct ConnDeadMsg {
  static constexpr auto kKind = ToControl::kConnDead;
  uint64_t set_id;
  Conn* conn;
  std::optional<StreamSource> refused;  ///< no engine has taken it: control discards it
};
/// The set is given back.
struct SetGoneMsg {
  static constexpr auto kKind = ToControl::kSetGone;
  uint64_t set_id;
};
/// This worker has nothing left of the NI.
struct NiFlushedMsg {
  static constexpr auto kKind = ToControl::kNiFlushed;
  NiId ni;
};

}  // namespace ulnet::socklnd
