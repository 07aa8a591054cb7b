// The neighbour cache of one port on one worker: MAC addresses by IP address, learned by ARP and neighbour discovery,
// which look the same from here. Packets for a neighbour that is being asked wait here, bounded. No clock, no packets
// of its own, no DPDK: what it wants done it says through NeighbourActions. Thread: its worker.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "dataplane/base/counters.h"
#include "dataplane/base/list.h"
#include "dataplane/base/result.h"
#include "dataplane/base/slab.h"
#include "dataplane/base/time.h"
#include "dataplane/base/wheel.h"
#include "lnd/net/packet/drops.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

/// What the cache has done by its owner.
class NeighbourActions {
 public:
  /// Asks who has `address`: the group, or only `mac` when it is known and doubted.
  virtual void neighbour_ask(const IpAddress& address, const Mac* mac) = 0;
  /// A parked packet can go to `mac`. The packet is the owner's again.
  virtual void neighbour_ready(void* packet, const Mac& mac) = 0;
  /// A parked packet cannot go. The packet is the owner's again.
  virtual void neighbour_failed(void* packet, FrameDrop reason) = 0;

 protected:
  ~NeighbourActions() = default;
};

/// Bounds and times; those of Linux where it has such.
struct NeighbourConfig {
  uint32_t capacity = 1024;
  uint32_t parked_max = 256;      ///< packets in all
  uint32_t parked_each_max = 16;  ///< packets for one neighbour
  unsigned tries = 3;             ///< questions before giving up
  Duration retry = 1s;            ///< between questions
  Duration reachable = 30s;       ///< believed so long after it was confirmed
  Duration silent = 3s;           ///< a neighbour that did not answer is not asked again for so long
  Duration forget = 600s;         ///< dropped when unused for so long
};

enum class NeighbourState : uint8_t {
  kAsking,     ///< MAC address not known
  kReachable,  ///< confirmed lately
  kStale,      ///< known, not confirmed lately: used, and asked at the next use
  kProbing,    ///< known, used, being asked
  kSilent,     ///< did not answer; packets are dropped at once
  kStatic      ///< configured: never asked, never changed
};

class Neighbours {
 public:
  /// Allocates everything it will ever need.
  Neighbours(const NeighbourConfig& config, NeighbourActions& actions);
  ~Neighbours();  ///< Requires: clear() was called, or nothing is parked.
  Neighbours(const Neighbours&) = delete;
  Neighbours& operator=(const Neighbours&) = delete;

  struct Answer {
    enum Kind : uint8_t { kSend, kParked, kRefused } kind = kRefused;
    Mac mac{};                               ///< of kSend
    FrameDrop reason = FrameDrop::kNoRoute;  ///< of kRefused
  };
  /// Where does `packet` for this neighbour go? kSend and kRefused: it stays the caller's. kParked: it is ours until
  /// neighbour_ready or neighbour_failed. Asks when it must. Cost O(1).
  [[nodiscard]] Answer resolve(const IpAddress& address, void* packet, Instant now);

  enum class News : uint8_t {
    kClaim,    ///< a request, or an unasked announcement: updates, `create`s as stale
    kAnswer,   ///< the answer to a question: confirms
    kDoubtful  ///< an advertisement without override: confirms the same MAC, makes another one doubted
  };
  /// Somebody said that `address` is at `mac`. `create`: also when it is not known yet. True when something changed.
  bool learn(const IpAddress& address, const Mac& mac, News news, bool create, Instant now);
  /// Traffic proves that the neighbour hears us (RFC 4861 §7.3.1): spares the question.
  void confirm(const IpAddress& address, Instant now);
  /// Errors: ENOSPC.
  [[nodiscard]] Result<void> set_static(const IpAddress& address, const Mac& mac);

  /// Fires what is due, at most `budget`; returns how many.
  unsigned timers(Instant now, unsigned budget);
  [[nodiscard]] Instant next_deadline() { return wheel_->next_deadline(); }
  /// After the link was away: who was there may be somebody else now, so everybody is asked again when next sent to.
  /// Static entries and questions under way stay.
  void forget_learned();
  /// Gives parked packets back as neighbour_failed(kStopped) and forgets everything but static entries.
  void clear();

  struct Shown {
    IpAddress address;
    Mac mac;
    NeighbourState state = NeighbourState::kAsking;
    uint32_t parked = 0;
  };
  /// For shows: fills at most out.size(), returns how many.
  [[nodiscard]] size_t show(std::span<Shown> out);
  [[nodiscard]] uint32_t size() const { return entries_.out(); }
  [[nodiscard]] uint32_t parked() const { return parked_.out(); }

 private:
  struct LruTag {};
  struct ParkTag {};
  struct Parked : Linked<ParkTag> {
    void* packet = nullptr;
  };
  struct Entry : Timer, Linked<LruTag> {
    IpAddress address;
    Mac mac;
    NeighbourState state = NeighbourState::kAsking;
    unsigned asked = 0;
    Instant used = kNever;
    Entry* next_in_bucket = nullptr;
    List<Parked, ParkTag> waiting;
  };
  [[nodiscard]] Entry*& bucket_of(const IpAddress& address);
  [[nodiscard]] Entry* find(const IpAddress& address);
  [[nodiscard]] Entry* create(const IpAddress& address, Instant now);
  void erase(Entry& entry);
  void touch(Entry& entry, Instant now);
  void ask(Entry& entry, Instant now);
  void settle(Entry& entry, NeighbourState state, Instant now);
  void fail_waiting(Entry& entry, FrameDrop reason);
  void expire(Entry& entry, Instant now);
  [[nodiscard]] Answer park(Entry& entry, void* packet);

  const NeighbourConfig config_;
  NeighbourActions& actions_;
  Slab<Entry> entries_;
  Slab<Parked> parked_;
  std::vector<Entry*> buckets_;
  List<Entry, LruTag> by_use_;  ///< least lately used first; without static entries
  std::unique_ptr<Wheel<Entry>> wheel_;
};

}  // namespace ulnet::dpdk
