// The messages between the two halves of o2iblnd: bodies of LndMsg. Control makes Conn objects and lends them to one
// worker, which gives each back once with ConnDeadMsg. Rings keep order.
#pragma once
#include <cstdint>

#include "lnd/lnd.h"
#include "lnd/rc/rc.h"

namespace ulnet::o2iblnd {

struct Conn;
struct ConnFacts;

// --- Control to worker ---

enum class ToWorker : uint16_t { kConnAdopt = 1, kConnUp, kConnTune, kConnClose, kPeerFail, kNiFlush, kTune };

/// A connection whose queue pair is there. The worker adopts it, posts its receive buffers, and answers with
/// ConnAdoptedMsg.
struct ConnAdoptMsg {
  static constexpr auto kKind = ToWorker::kConnAdopt;
  Conn* conn;
};
/// The connection is established. `facts` are control's, and stay until ConnDeadMsg.
struct ConnUpMsg {
  static constexpr auto kKind = ToWorker::kConnUp;
  Conn* conn;
  const ConnFacts* facts;
};
/// The NI has another timeout: it holds for what waits on the connection, too.
struct ConnTuneMsg {
  static constexpr auto kKind = ToWorker::kConnTune;
  Conn* conn;
  Duration timeout;
};
/// Control has disconnected. This is the last message about the connection, and there is one about each. The worker
/// waits for it before it gives the connection back, so that no message names a Conn that is gone.
struct ConnCloseMsg {
  static constexpr auto kKind = ToWorker::kConnClose;
  Conn* conn;
  Completion how;
};
/// No connection to the peer NI comes about: completes the messages that wait for one.
struct PeerFailMsg {
  static constexpr auto kKind = ToWorker::kPeerFail;
  NiId ni;
  PeerNiId peer_ni;
  Completion how;
};
/// Complete the messages that still wait on the NI, and answer with NiFlushedMsg.
struct NiFlushMsg {
  static constexpr auto kKind = ToWorker::kNiFlush;
  NiId ni;
  Owed* answer;  ///< where the answer waits for room; control's
};
/// The settings that a worker follows at run time, as in IbConfig.
struct TuneMsg {
  static constexpr auto kKind = ToWorker::kTune;
  Duration keepalive;
};

// --- Worker to control ---

/// Numbers apart from those of ToWorker: LndMsg::as() finds a message that the wrong half reads.
enum class ToControl : uint16_t { kConnWanted = 0x101, kConnUnwanted, kConnAdopted, kConnEnded, kConnDead, kNiFlushed };

/// A message waits for a connection.
struct ConnWantedMsg {
  static constexpr auto kKind = ToControl::kConnWanted;
  NiId ni;
  PeerNiId peer_ni;
  Nid nid;
};
/// No message waits for a connection any more. Control makes no further attempt; one under way goes on.
struct ConnUnwantedMsg {
  static constexpr auto kKind = ToControl::kConnUnwanted;
  NiId ni;
  PeerNiId peer_ni;
  Nid nid;
};
/// The receive buffers are posted.
struct ConnAdoptedMsg {
  static constexpr auto kKind = ToControl::kConnAdopted;
  Conn* conn;
};
/// The connection has ended, or has to end: control disconnects.
struct ConnEndedMsg {
  static constexpr auto kKind = ToControl::kConnEnded;
  Conn* conn;
  Completion how;
};
/// The connection is given back: nobody uses its memory or its queue pair.
struct ConnDeadMsg {
  static constexpr auto kKind = ToControl::kConnDead;
  Conn* conn;
};
/// This worker has nothing left of the NI.
struct NiFlushedMsg {
  static constexpr auto kKind = ToControl::kNiFlushed;
  NiId ni;
};

}  // namespace ulnet::o2iblnd
