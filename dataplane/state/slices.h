// What one worker owns of a local NI and of a peer NI. Control allocates these blocks (on the worker's socket) and
// frees them when the worker has confirmed that it is done; in between only the owner touches them, but for gauges and
// counters, which anybody may read.
#pragma once
#include <array>
#include <cstdint>

#include "dataplane/base/counters.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/list.h"
#include "dataplane/base/ring.h"
#include "dataplane/base/time.h"
#include "dataplane/state/charges.h"
#include "dataplane/state/credits.h"
#include "dataplane/state/tallies.h"
#include "lnd/lnd.h"

namespace ulnet {

static_assert(kMessageTypes == wire::kMsgTypes, "interfaces count each type of message");

using TxCredits = Credits<Tx, TxTag>;
/// Messages that the driver copies at once may go beyond the peer credits.
struct CopyOverdraft {
  [[nodiscard]] static int32_t of(const Tx& tx) { return tx.is_copied ? kCopiedOverdraft : 0; }
};
using PeerTxCredits = Credits<Tx, TxTag, CopyOverdraft>;
using RtrCredits = Credits<RxSlot, RxTag>;

inline constexpr unsigned kRouterPools = 3;  ///< tiny, small, large (docs/wire/lnet.md §8.3)

struct NiWaitTag {};
/// One worker's part of a local NI.
struct alignas(kCacheLine) NiSlice : Linked<NiWaitTag> {
  NiSlice(NiId ni, uint16_t tally_slot, int32_t credit_share, uint8_t lnd_number)
      : id(ni), slot(tally_slot), lnd(lnd_number), credits(credit_share), charges(false, ni.value) {}
  const NiId id;
  const uint16_t slot;            ///< NiView::slot
  const uint8_t lnd;              ///< number of the LND that it belongs to
  bool any_memory = false;        ///< LndControl::sends_any_memory(); constant while the NI is in a view
  TxCredits credits;              ///< this worker's share of the NI's tx credits
  List<Tx, NiCreditTag> holders;  ///< those that hold one, oldest first
  List<Tx, NiTxTag> all;          ///< the Txs on this worker that name the NI
  Gauge tx_count;                 ///< Txs on this worker that name the NI
  Gauge rx_count;                 ///< slots between rx_header and rx_done, held ones among them
  bool closing = false;           ///< nothing new over it
  bool drained_told = false;      ///< NiDrainedMsg was sent
  bool avoided = false;           ///< Txs that have not begun go home to take another NI (stages/egress.h)
  Gauge back_ns;                  ///< last time when `avoided` became false; 0 = never
  Owed drained;                   ///< NiDrainedMsg
  Charges charges;
  InterfaceCounters counters;
};

struct PeerLocal;
struct RouterBuffer;
struct RouterBufferTag;

/// What the serving worker owns of a peer NI.
struct alignas(kCacheLine) PeerSlice {
  PeerSlice(PeerNiId ni, int32_t tx_credits, int32_t rtr_credits) : id(ni), credits(tx_credits), rtr(rtr_credits) {}
  const PeerNiId id;
  uint32_t slot = 0;                   ///< PeerNiView::slot; constant once the slice is used
  PeerLocal* const* locals = nullptr;  ///< by worker; constant once the slice is used
  Gauge tx_queued_bytes;               ///< payload and header of messages that hold a peer credit
  PeerTxCredits credits;
  RtrCredits rtr;         ///< receives of this peer that may hold a router buffer at once
  Gauge last_alive_ns;    ///< last message from it, ns; 0 = never
  uint32_t tx_count = 0;  ///< Txs that name it
  bool avoided = false;   ///< as NiSlice::avoided
  Gauge back_ns;          ///< as NiSlice::back_ns
  uint32_t rx_count = 0;
  /// Messages of this peer that hold a router credit and have come, oldest first.
  List<RouterBuffer, RouterBufferTag> rtr_holders;
  /// Since when a message for it has waited for a connection, with nothing sent or received since; kNever: none has.
  Instant unconnected_since = kNever;
  InterfaceCounters counters;
};

struct ShareTag {};
/// Part of a worker's `incoming` messages that the receives of one peer NI hold, and the receives that wait for one.
/// Thread: the worker that is home of the messages. The rules are in dataplane/stages/incoming.cc.
struct IncomingShare : Linked<ShareTag> {
  uint32_t held = 0;  ///< messages that receives of this peer NI hold
  /// Receives that wait for a message, oldest first: those for the reserved portal in [1], all others in [0].
  std::array<List<RxSlot, RxTag>, 2> waiting;
  Instant moved = kNever;  ///< last time when a message was taken or returned, or the first receive began to wait
  bool refusing = false;   ///< nothing moved for kIncomingHoldMax: a receive without a message is dropped at once
  [[nodiscard]] bool nobody_waits() const { return waiting[0].size() + waiting[1].size() == 0; }
  [[nodiscard]] bool idle() const { return held == 0 && nobody_waits(); }
};

/// What each worker keeps of a peer NI it sends to, whoever serves it: above all, how much of its router buffers that
/// next hop holds.
struct alignas(kCacheLine) PeerLocal {
  explicit PeerLocal(PeerNiId id) : charges(true, id.value) {}
  Nid nid;                                                ///< of the peer NI; constant
  Tally* tally = nullptr;                                 ///< of messages at home on this worker; constant
  ResponseLatencies latencies;                            ///< of operations at home on this worker
  std::array<uint32_t, kRouterPools> buffers_held{};      ///< router buffers of this worker whose next hop it is
  std::array<uint32_t, kRouterPools> buffers_come{};      ///< of them, those whose payload is complete
  std::array<Instant, kRouterPools> buffers_moved{};      ///< when it got the first of those, or gave one back
  std::array<List<RxSlot, RxTag>, kRouterPools> waiting;  ///< receives held because it has its share of a pool
  Owed answer;                                            ///< PeerAnswerMsg to the newest PeerAskMsg
  IncomingShare incoming;                                 ///< of the PUTs and GETs that came from it
  Charges charges;                                        ///< of this worker, whoever serves the peer NI
};

}  // namespace ulnet
