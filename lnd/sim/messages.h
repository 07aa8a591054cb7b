// The messages between the two halves of the sim LND: bodies of LndMsg.
#pragma once
#include <cstdint>

#include "lnd/lnd.h"

namespace ulnet::sim {

enum class SimMsg : uint16_t { kConnect = 1, kConnUp, kConnFailed, kStop, kStopped };

/// To control: a message waits for a connection.
struct ConnectMsg {
  static constexpr auto kKind = SimMsg::kConnect;
  NiId ni;
  PeerNiId peer_ni;
  Nid nid;  ///< of the peer NI
  PeerSlice* peer;
};
/// To the worker: it has a new end.
struct ConnUpMsg {
  static constexpr auto kKind = SimMsg::kConnUp;
  NiId ni;
  Nid nid;          ///< of the peer NI
  uint64_t end_id;  ///< End::id
};
/// To the worker: all attempts to connect have failed.
struct ConnFailedMsg {
  static constexpr auto kKind = SimMsg::kConnFailed;
  NiId ni;
  Nid nid;  ///< of the peer NI
  Completion how;
};
/// To the worker: close what it has of the NI, and answer with StoppedMsg.
struct StopMsg {
  static constexpr auto kKind = SimMsg::kStop;
  NiId ni;
};
/// To control: this worker has nothing left of the NI.
struct StoppedMsg {
  static constexpr auto kKind = SimMsg::kStopped;
  NiId ni;
};

}  // namespace ulnet::sim
