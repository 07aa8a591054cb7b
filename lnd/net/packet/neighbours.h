// The neighbour cache of one port on one worker: MAC addresses by IP address. ARP and neighbour discovery fill the
// cache, and look the same from here. Packets for a neighbour that is being resolved wait here, bounded. No clock, no
// packets of its own, no DPDK: the cache acts through NeighbourActions. Thread: its worker.
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

/// Actions of the cache that its owner carries out.
class NeighbourActions {
 public:
  /// Sends a request for `address`: to the group, or only to `mac` if that is known but no longer confirmed.
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
  unsigned tries = 3;             ///< requests before giving up
  Duration retry = 1s;            ///< between requests
  Duration reachable = 30s;       ///< how long a confirmation is valid
  Duration silent = 3s;           ///< no new request for this long after a neighbour did not answer
  Duration forget = 600s;         ///< an entry that is unused for this long is dropped
};

enum class NeighbourState : uint8_t {
  kAsking,     ///< MAC address not known
  kReachable,  ///< confirmed lately
  kStale,      ///< known, not confirmed lately: its next use also sends a request
  kProbing,    ///< known and used, while a request is under way
  kSilent,     ///< did not answer; packets are dropped at once
  kStatic      ///< configured: no requests, no changes
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
    FrameDrop reason = FrameDrop::kNoRoute;  ///< of kRefused
    const Mac* mac = nullptr;                ///< of kSend, until the next call
  };
  /// Decides where `packet` for this neighbour goes. kSend and kRefused: the packet stays the caller's. kParked: the
  /// cache has the packet until neighbour_ready or neighbour_failed. Sends a request if needed. Cost O(1).
  [[nodiscard]] Answer resolve(const IpAddress& address, void* packet, Instant now);

  enum class News : uint8_t {
    kClaim,    ///< a request, or an unsolicited announcement: updates, `create`s as stale
    kAnswer,   ///< the answer to a request: confirms
    kDoubtful  ///< an advertisement without override: confirms the same MAC; with another MAC, the entry gets stale
  };
  /// A packet says that `address` is at `mac`. `create`: also if the address is not known yet. True if the MAC became
  /// known or changed.
  bool learn(const IpAddress& address, const Mac& mac, News news, bool create, Instant now);
  /// Traffic proves that the neighbour hears us (RFC 4861 §7.3.1), which saves a request.
  void confirm(const IpAddress& address, Instant now);
  /// Errors: ENOSPC.
  [[nodiscard]] Result<void> set_static(const IpAddress& address, const Mac& mac);

  /// Fires what is due, at most `budget`; returns how many.
  unsigned timers(Instant now, unsigned budget);
  [[nodiscard]] Instant next_deadline() { return wheel_->next_deadline(); }
  /// Forgets learned entries after the link was down, because other nodes may have the addresses now. Static entries
  /// and requests under way stay.
  void forget_learned();
  /// Gives parked packets back as neighbour_failed(kStopped) and forgets everything but static entries.
  void clear();

  struct Shown {
    IpAddress address;
    Mac mac;
    NeighbourState state = NeighbourState::kAsking;
    uint32_t parked = 0;
  };
  /// For display: fills at most out.size() entries, returns how many.
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
