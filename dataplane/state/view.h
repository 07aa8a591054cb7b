// Views: the decisions of control, flattened into numbers that the hot path reads. Immutable once published. A worker
// loads the current ViewSet once per turn, and again for a call of an application that refers to a newer one. A
// reference into a view is valid until the next load. Built and freed by control/publish.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/time.h"

namespace ulnet {

struct FaultTable;
struct NiSlice;
struct PeerSlice;
struct PeerLocal;

inline constexpr uint32_t kNoPriority = 0xFFFFFFFF;  ///< lowest; 0 is highest
inline constexpr uint16_t kHealthMax = 1000;

/// The numbers of a local NI or peer NI that a choice of path compares first, side by side with those of its net.
/// rank_nis() derives them from the rest of the view.
struct Rank {
  static constexpr uint64_t kNone = UINT64_MAX;  ///< key of an NI that is not chosen
  uint64_t key = kNone;                          ///< key_of(); the lowest is best
  uint32_t slot = 0;                             ///< of its tally
  uint32_t handicap = 0;                         ///< tx credits that it has less than another NI of its net
  [[nodiscard]] static constexpr uint64_t key_of(bool down, uint16_t health, uint32_t priority) {
    return uint64_t{down} << 48 | uint64_t{uint16_t(UINT16_MAX - health)} << 32 | priority;
  }
};

/// Are the ranks of all NIs of a net equal, and do their tallies lie side by side? Then only the tallies differ, and a
/// choice need not read the ranks. rank_nis() derives it.
struct Level {
  bool yes = false;
  uint32_t slot = 0;  ///< of the first NI
};

/// A local NI as workers see it.
struct NiView {
  NiId id{};
  uint16_t slot = 0;  ///< of its tally at each worker
  Nid nid;
  uint8_t lnd = 0;       ///< index of the registered LND
  bool fatal = false;    ///< link down: ranked last
  bool leaving = false;  ///< to be deleted: not chosen for anything new, but answers go over it
  bool closing = false;  ///< being deleted: nothing goes over it any more
  uint16_t health = kHealthMax;
  uint32_t priority = kNoPriority;
  int32_t tx_credits = 0;  ///< share of each worker
  /// By NUMA node: distance from the memory of that node to the device of this NI (hwloc's matrix, at least
  /// `numa_range`). 255: the node of the device is not known. Empty: the machine has only one node.
  std::vector<uint32_t> distances;
  /// By accelerator: how far it is from the device of this NI, lower is better. Empty: there is none, or the place of
  /// the device is not known.
  std::vector<uint32_t> device_priorities;
  Duration message_timeout{};    ///< lnd timeout * (retries + 1) + 1 s (docs/wire/lnet.md §7)
  std::vector<NiSlice*> slices;  ///< by worker
  [[nodiscard]] bool going() const { return leaving || closing; }
};

/// A local net: a run of NIs in LocalView::nis.
struct NetView {
  Net net;
  uint32_t priority = kNoPriority;
  uint32_t first = 0;
  uint32_t count = 0;
  // Derived by rank_nis().
  bool usable = false;             ///< has an NI that may be chosen
  Level level;                     ///< of its NIs
  int32_t credits_most = 0;        ///< of one NI
  uint64_t level_memory = 0;       ///< bit per NUMA node: its memory is as near to each NI as to the others
  uint64_t level_accelerator = 0;  ///< the same by accelerator
};

/// All local NIs, net by net; 0@lo is not among them.
struct LocalView {
  std::vector<NiView> nis;
  std::vector<NetView> nets;
  std::vector<Rank> ranks;             ///< by index in `nis`
  std::array<uint64_t, 4> nid_bits{};  ///< bit `Nid::hash() % 256` of each NI is set
  [[nodiscard]] const NetView* net(Net n) const {
    for (const NetView& view : nets)
      if (view.net == n) return &view;
    return nullptr;
  }
  [[nodiscard]] const NiView* ni(const Nid& nid) const {
    for (const NiView& view : nis)
      if (view.nid == nid) return &view;
    return nullptr;
  }
  [[nodiscard]] const NiView* ni(NiId id) const {
    for (const NiView& view : nis)
      if (view.id == id) return &view;
    return nullptr;
  }
  /// Is it a NID of this node? `hash`: Nid::hash().
  [[nodiscard]] bool has(const Nid& nid, uint64_t hash) const {
    const bool maybe = (nid_bits[(hash >> 6) % nid_bits.size()] >> (hash % 64) & 1) != 0;
    return maybe && ni(nid) != nullptr;
  }
};

/// Local NIs, or gateways, that a peer NI prefers (UDSP; docs/wire/lnet.md §11). Peer NIs with equal lists share one.
struct Preferences {
  struct One {
    uint32_t id = 0;  ///< NiId of a local NI, or PeerView::id of a gateway
    uint32_t rank = 0;
    bool operator==(const One&) const = default;
  };
  std::vector<One> all;  ///< sorted by id
  /// A lower rank is preferred. kNoPriority: not in the list.
  [[nodiscard]] uint32_t rank(uint32_t id) const {
    const auto at =
        std::lower_bound(all.begin(), all.end(), id, [](const One& one, uint32_t of) { return one.id < of; });
    return at != all.end() && at->id == id ? at->rank : kNoPriority;
  }
  bool operator==(const Preferences&) const = default;
};

/// A peer NI as workers see it.
struct PeerNiView {
  PeerNiId id{};
  uint32_t slot = 0;  ///< of its tally at each worker
  Nid nid;
  WorkerId server = kNoWorker;         ///< worker that owns its connections and credits
  PeerSlice* slice = nullptr;          ///< touched by `server` only, but for gauges; null: nothing can be sent to it
  PeerLocal* const* locals = nullptr;  ///< by worker; null where `slice` is
  uint16_t health = kHealthMax;
  bool down = false;        ///< a router believes it dead (docs/wire/lnet.md §8.2)
  bool known_down = false;  ///< its node has reported it as down, or the way to it is down
  uint32_t priority = kNoPriority;
  int32_t tx_credits = 0;                 ///< share of each worker
  const Preferences* sources = nullptr;   ///< preferred local NIs; null: none
  const Preferences* gateways = nullptr;  ///< preferred gateways; null: none
  Nid source;  ///< the one source that a peer without multi-rail may see (docs/wire/lnet.md §5.7); ANY: none yet
};

/// Which NIs of a peer net prefer a local NI most, by their lists.
struct Preferring {
  struct Row {
    uint32_t id = 0;    ///< NiId of the local NI
    uint64_t bits = 0;  ///< bit i: NI i of the net
  };
  std::vector<Row> rows;  ///< sorted by id; an NI that no list has is not among them, and all NIs prefer it equally
  /// As the bits of a row.
  [[nodiscard]] uint64_t bits(NiId ni) const {
    for (const Row& row : rows)
      if (row.id >= ni.value) return row.id == ni.value ? row.bits : UINT64_MAX;
    return UINT64_MAX;
  }
};

/// One net of a peer: a run of NIs in PeerView::nis, those that have a slice.
struct PeerNetView {
  Net net;
  uint32_t priority = kNoPriority;
  uint32_t first = 0;
  uint32_t count = 0;
  // Derived by rank_nis().
  bool lists_differ = false;  ///< two NIs have different lists of preferred local NIs
  Level level;                ///< of its NIs
  int32_t credits_most = 0;   ///< of one NI
  Preferring preferring;      ///< empty if no lists differ, or the net has more than 64 NIs
};

/// A peer: nis[0] is its primary NID.
struct PeerView {
  uint32_t id = 0;  ///< number of the peer; another peer never has the same
  std::vector<PeerNiView> nis;
  std::vector<PeerNetView> nets;
  std::vector<Rank> ranks;  ///< by index in `nis`
  bool multi_rail = false;
  bool up_to_date = true;       ///< false: a send parks and needs an answer of control (docs/wire/lnet.md §5.2)
  bool router = false;          ///< a route names one of its NIDs as gateway
  uint16_t life = 0;            ///< delivers each request once, even if copies come, in this life; 0: does not
  Instant life_since = kNever;  ///< when that life was first known
  std::vector<Nid> other_nids;  ///< of a router: NIDs that its node has by its own word, and this peer has not
  [[nodiscard]] const Nid& primary() const { return nis.front().nid; }
  [[nodiscard]] const PeerNetView* net(Net n) const {
    for (const PeerNetView& view : nets)
      if (view.net == n) return &view;
    return nullptr;
  }
};

/// Derives what a choice of path reads, from the rest of the view. To call when the rest is complete.
void rank_nis(LocalView& view);
void rank_nis(PeerView& view);

/// Where a NID leads.
struct PeerRef {
  const PeerView* peer = nullptr;
  uint32_t ni_index = 0;
  [[nodiscard]] const PeerNiView& ni() const { return peer->nis[ni_index]; }
  explicit operator bool() const { return peer != nullptr; }
};

/// NID -> peer: a trie of two levels over the NID's hash, so that a change copies one path and shares the rest. There
/// are 16,384 leaves: with as many peer NIs as a node may have (`peers_max`) each has four or so. Built
/// by control/publish/peer_table.
struct PeerTable {
  static constexpr unsigned kFanBits = 7;
  static constexpr unsigned kFan = 1u << kFanBits;
  static_assert(kFan * kFan == 16384, "the leaves of two levels");
  /// Two fill a cache line.
  struct alignas(32) Entry {
    Nid nid;
    uint32_t ni_index = 0;
    const PeerView* peer = nullptr;  ///< null: behind the last entry of the leaf
    [[nodiscard]] PeerRef ref() const { return {peer, ni_index}; }
  };
  static_assert(sizeof(Entry) == 32);
  struct Limb {
    std::array<const Entry*, kFan> leaves{};  ///< the first entry of each leaf, or null
  };
  std::array<const Limb*, kFan> limbs{};
  /// Which child of a node at this depth leads to a NID with this hash; 0 = the root.
  [[nodiscard]] static constexpr size_t child(uint64_t hash, unsigned depth) {
    return (hash >> (depth * kFanBits)) & (kFan - 1);
  }

  [[nodiscard]] PeerRef find(const Nid& nid) const { return find(nid, nid.hash()); }
  /// Of the peer that has the NID; the NID itself if no peer has it.
  [[nodiscard]] const Nid& primary_of(const Nid& nid) const {
    const PeerRef ref = find(nid);
    return ref ? ref.peer->primary() : nid;
  }
  /// `hash`: Nid::hash(). Inline by force: each message needs it, and -O2 leaves it out of line.
  [[nodiscard]] [[gnu::always_inline]] PeerRef find(const Nid& nid, uint64_t hash) const {
    const Limb* limb = limbs[child(hash, 0)];
    if (limb == nullptr) return {};
    const Entry* entry = limb->leaves[child(hash, 1)];
    if (entry == nullptr) return {};
    for (; entry->peer != nullptr; ++entry)
      if (entry->nid == nid) return entry->ref();
    return {};
  }
};

/// A way to a remote net.
struct RouteView {
  Nid gateway;  ///< as configured; found again in the peer table
  int32_t hops = -1;
  uint32_t priority = 0;
  bool alive = true;
  uint32_t id = 0;  ///< dense number of the route, for the worker's sequence
};
struct RouteNetView {
  Net remote;
  std::vector<RouteView> routes;
};
struct RouteTable {
  std::vector<RouteNetView> nets;  ///< sorted by net
  [[nodiscard]] const RouteNetView* find(Net net) const {
    size_t low = 0, high = nets.size();
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (nets[middle].remote < net)
        low = middle + 1;
      else
        high = middle;
    }
    return low < nets.size() && nets[low].remote == net ? &nets[low] : nullptr;
  }
};

enum class PortalMode : uint8_t { kClosed, kSingle, kHashed, kPerWorker };
struct PortalView {
  PortalMode mode = PortalMode::kClosed;
  WorkerId home{};
  bool lazy = false;
};
struct PortalTable {
  std::array<PortalView, kPortalCount> portals;
};

struct RegionView {
  const std::byte* base = nullptr;
  size_t bytes = 0;
  RegionId id{};
};
/// Registered memory of applications.
struct RegionTable {
  std::vector<RegionView> regions;  ///< sorted by address; they do not overlap
  /// The region that all of the range lies in; 0: none.
  [[nodiscard]] RegionId find(const std::byte* base, uint32_t bytes) const {
    const auto behind =
        std::upper_bound(regions.begin(), regions.end(), base,
                         [](const std::byte* at, const RegionView& one) { return std::less<>{}(at, one.base); });
    if (behind == regions.begin()) return {};
    const RegionView& region = *std::prev(behind);
    const size_t from = size_t(base - region.base);
    return from <= region.bytes && bytes <= region.bytes - from ? region.id : RegionId{};
  }
};

enum class RoutingState : uint8_t { kDisabled, kEnabled, kStopping, kStarting };  ///< docs/wire/lnet.md §8.4

/// Node-wide numbers.
struct NodeView {
  RoutingState routing = RoutingState::kDisabled;
  bool drop_asym_route = false;
  bool discover_gateways = false;  ///< a gateway is discovered when it is used: no checker does it
  bool stopping = false;           ///< nothing new is accepted
  bool fast_detection = false;     ///< control hears of operations that wait for an answer (stages/silence.h)
  uint32_t retry_count = 2;
  uint32_t numa_range = 0;
  uint8_t response_tracking = 3;
  Duration transaction_timeout = 150s;
  Duration router_hold_timeout{};       ///< 0 = never drops
  uint32_t regions_above = UINT32_MAX;  ///< the least LndControl::regions_above() of all drivers
};

/// Everything at one epoch.
struct ViewSet {
  Epoch epoch{};
  const LocalView* local = nullptr;
  const PeerTable* peers = nullptr;
  const RouteTable* routes = nullptr;
  const PortalTable* portals = nullptr;
  const RegionTable* regions = nullptr;
  const FaultTable* faults = nullptr;  ///< null: there are no fault rules
  NodeView node;
};

}  // namespace ulnet
