// Every bound of the project, one line each. A queue, pool or loop that has no line here has no bound: add one.
#pragma once
#include <bit>
#include <cstdint>

#include "dataplane/base/time.h"

namespace ulnet {

// Protocol (docs/wire/lnet.md §2.3)
inline constexpr uint32_t kMaxPayload = 1u << 20;  ///< bytes of one message, system-wide
inline constexpr uint32_t kMaxSegments = 256;      ///< segments of one MD
inline constexpr uint32_t kPortalCount = 64;
inline constexpr uint32_t kReservedPortal = 0;   ///< LNet's own: pings and pushes
inline constexpr uint32_t kPeerNidsMax = 4096;   ///< NIDs of one peer (decisions.md #7)
inline constexpr uint32_t kDifferencesSaid = 8;  ///< lines about one peer's list
inline constexpr uint32_t kPingBufferMin = 272;  ///< least ping sink and push target, bytes

// Rings between threads
inline constexpr unsigned kRingMessageMax = 64;  ///< bytes of one message to or from control: one cache line

// One worker's turn
inline constexpr unsigned kInboxBudget = 64;    ///< ring items per ring and turn
inline constexpr unsigned kControlBudget = 16;  ///< messages of control per turn
inline constexpr unsigned kLocalBudget = 512;   ///< items of each list in a worker that run between two stages
inline constexpr unsigned kPollBudget = 64;     ///< LND completions per turn
inline constexpr unsigned kTimerBudget = 64;    ///< expired deadlines per turn

// One Node. The greatest values of configuration keys stand here, because the widths of fields follow from them.
inline constexpr int64_t kMessagesPerWorkerMax = 1 << 22;
inline constexpr int64_t kConnectionsPerWorkerMax = 1 << 20;
inline constexpr int64_t kPeerNisMax = 1 << 22;
inline constexpr uint32_t kWorkersMax = 64;
inline constexpr uint32_t kNisMax = 256;             ///< local NIs of one node
inline constexpr uint32_t kTallyBlock = 256;         ///< slots of interfaces whose tallies lie side by side
inline constexpr uint32_t kRoutesMax = 4096;         ///< routes of one node
inline constexpr uint32_t kViewsUnretiredMax = 64;   ///< epochs published and not yet passed by every worker
inline constexpr uint32_t kParkedPerPeerMax = 1024;  ///< messages parked for one peer on one worker
inline constexpr uint32_t kNamesPerPeerNi = 4;       ///< NIDs of peers that are known, for each that may have memory
inline constexpr Duration kPeerUnusedMin = 5min;     ///< a peer unused for so long is forgotten when others need room
inline constexpr Duration kPeerUnusedLook = 10s;     ///< how often that is looked at
inline constexpr Duration kPeerUnusedLookMin = 1s;   ///< the same when a new peer found no room
inline constexpr uint32_t kStrangersShare = 32;      ///< of all peer NIs, as many parts may come from one address
inline constexpr uint32_t kStrangersFree = 64;       ///< peers of one address that are not held against it
inline constexpr unsigned kPeerEndsBudget = 64;      ///< removed peer NIs that are looked at in one turn of control
inline constexpr uint32_t kOperationsReserve = 384;  ///< of a worker, for control: what is parked waits for its pings
inline constexpr uint32_t kOperationsShare = 4;      ///< a submitter has at most so many times what is left for others
inline constexpr Duration kEqStuckMax = 1s;          ///< receives wait so long for a full event queue that nobody polls
inline constexpr Duration kEqLookAgain = 1ms;        ///< how often a worker looks whether a full event queue has room
inline constexpr int32_t kCopiedOverdraft = 8;       ///< messages beyond the peer credits (Lnd::copied_bytes())
inline constexpr Duration kNiCreditHeldMax = 100ms;  ///< then a message's NI credit goes to another that waits for one
inline constexpr Duration kNoConnectionMax = 10s;    ///< an ACK or REPLY waits for a connection
inline constexpr Duration kNoConnectionMove = 500ms;  ///< a request waits for one if another rail could carry it
inline constexpr uint32_t kIncomingReserve = 256;     ///< of a worker's incoming messages, for portal 0
inline constexpr Duration kIncomingHoldMax = 10s;     ///< a receive waits for a message while its peer NI's share moves
inline constexpr unsigned kSharesLook = 64;           ///< shares that are looked at for one free message
inline constexpr Duration kSharesLookGap = 100ms;     ///< between looks for shares that do not move
inline constexpr uint32_t kLazyMax = 256;             ///< messages waiting on one lazy portal; portal 0 has no bound
inline constexpr uint32_t kEqEventsMax = 1u << 20;    ///< events of one polled queue
inline constexpr uint32_t kSubmitterSlotsMax = 1u << 20;   ///< ops, MDs, event queues of one submitter, each
inline constexpr uint32_t kSubmitterBlocksMax = 1u << 16;  ///< long segment lists of one submitter

inline constexpr uint32_t kRegionsMax = 1024;       ///< regions of one node's applications and its own; slots 1 to this
inline constexpr uint32_t kRegionSlots = 1u << 16;  ///< with router blocks and segments of MDs outside any region

// Fault rules of one node
inline constexpr uint32_t kFaultRulesMax = 64;
inline constexpr int64_t kFaultSecondsMax = 1'000'000;  ///< interval and latency

// One worker of a router in a chain of routers
inline constexpr uint32_t kLoopSightsKept = 4096;  ///< messages that it remembers; a power of two
inline constexpr unsigned kLoopSightsMax = 16;     ///< how often a message may come before it counts as circling
inline constexpr unsigned kLoopSightsAnonymousMax = 1024;  ///< the same for PUTs without a handle to answer
inline constexpr Duration kLoopSightGap = 10s;             ///< a message that comes later than this counts as new

// One worker of a router (dataplane/stages/forward.h)
inline constexpr Duration kRouterCreditHeldMax = 10ms;  ///< a credit stays so long with a next hop that does not move
inline constexpr Duration kRouterHoldLook = 5ms;        ///< how often a worker looks at the receives that it holds
inline constexpr Duration kHopHoldMax = 10s;   ///< a receive waits for a next hop's share while that share moves
inline constexpr Duration kComingMax = 10s;    ///< a payload has a buffer while it comes and others wait
inline constexpr Duration kPoolHoldMax = 15s;  ///< a receive waits for a buffer while any moves; more than kComingMax

// Health: detection of rails that do not answer (dataplane/stages/silence.h, control/health/rail_probes.h)
inline constexpr Duration kSilenceMin =
    100ms;  ///< an operation that has waited for this time makes its pair of NIs silent
inline constexpr Duration kSilenceLook = 50ms;   ///< how often a worker looks
inline constexpr unsigned kSilentPairsMax = 32;  ///< pairs of NIs reported by one look
inline constexpr Duration kCopyAfter =
    200ms;  ///< age of an unanswered request at its first copy; twice as long for the next
inline constexpr Duration kCopyAfterFault = 500ms;  ///< the same if its path is not down, but has had a fault
/// A request that leaves so soon after its path is back may have to wait in a connection that was there before.
inline constexpr Duration kJustBack = 3s;
inline constexpr Duration kCopyAfterSilence = 10s;  ///< the same if nothing is wrong with its path: the answer is lost
inline constexpr Duration kStuckMax = 1s;           ///< a driver keeps a request, or its REPLY, on a path that is down
inline constexpr unsigned kCopiesMax = 12;          ///< copies of one request
inline constexpr Duration kCopyFor = 120s;          ///< age of a request after which no copy is sent
inline constexpr unsigned kCopiesLook = 256;        ///< requests for which one look seeks another path
inline constexpr Duration kRequestsSeenFor = 300s;  ///< time for which a receiver keeps a request in mind
inline constexpr uint32_t kRequestsSeenFactor = 4;  ///< requests remembered by a worker, for each of `incoming`
inline constexpr Duration kStaysLook = 500ms;       ///< how often a message that stays on such a rail goes home again
inline constexpr unsigned kMovesMax = 4;            ///< times that a message is taken back from a rail that failed

// One engine or Host thread
/// Entries of an io_uring's submission queue; if it is full, the engine enters the kernel early.
inline constexpr uint32_t kUringSubmissionsMax = 1024;
/// Beyond this number, the kernel keeps completions until the next enter.
inline constexpr uint32_t kUringCompletionsMax = 16384;
inline constexpr unsigned kWaitFdsMax = 256;     ///< descriptors in one blocking wait
inline constexpr unsigned kTurnablesMax = 4096;  ///< what one Host thread turns
inline constexpr uint32_t kHostInbox = 256;      ///< changes under way to one Host thread
inline constexpr unsigned kWaitFdsPerItem = 16;  ///< of one turnable, its gate among them
inline constexpr Duration kHostNap = 1ms;        ///< longest sleep when not every descriptor fits into one wait
inline constexpr Duration kHostDrainMax = 1s;    ///< how long a Host thread runs dry before it ends

// Relations between bounds. The tie of a bound to a field or a mask stands beside that field or mask.
static_assert(kReservedPortal < kPortalCount);
static_assert(kLocalBudget >= 3 * kInboxBudget, "items that the rings bring in a turn run in that turn");
static_assert(kStrangersShare > 0 && kOperationsShare > 0);
static_assert(kPeerUnusedLookMin <= kPeerUnusedLook && kPeerUnusedLook <= kPeerUnusedMin);
static_assert(kEqLookAgain < kEqStuckMax, "a queue with room again is seen before its receives are dropped");
static_assert(kSharesLookGap < kIncomingHoldMax);
static_assert(kCopyFor + kHopHoldMax + kPoolHoldMax < kRequestsSeenFor, "a copy that a router holds is still known");
static_assert(std::has_single_bit(kRegionSlots) && kRegionsMax < kRegionSlots);
static_assert(std::has_single_bit(kLoopSightsKept));
static_assert(kLoopSightsMax <= kLoopSightsAnonymousMax);
static_assert(kRouterHoldLook < kRouterCreditHeldMax, "credits are passed on when they have been held for that time");
static_assert(kComingMax < kPoolHoldMax, "a late payload gives its buffer back before receives are dropped for it");
static_assert(std::has_single_bit(kUringSubmissionsMax) && std::has_single_bit(kUringCompletionsMax));
static_assert(kUringSubmissionsMax <= kUringCompletionsMax);
static_assert(kWaitFdsPerItem <= kWaitFdsMax);

}  // namespace ulnet
