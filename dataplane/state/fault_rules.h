// Fault rules (`ulnetctl fault`): which messages a rule matches, and which of the matching messages it hits. Data with
// pure functions; the effect on a message is in dataplane/stages/fault.cc. A rule is constant. Each worker has a
// FaultLocal for each rule, so that no worker writes what another one reads. Hence "one of N" holds for the messages of
// each worker. Source: docs/wire/lnet.md §12; the differences are in docs/decisions.md #96.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "dataplane/base/counters.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/ring.h"
#include "dataplane/base/rng.h"
#include "dataplane/base/time.h"
#include "dataplane/wire/header.h"

namespace ulnet {

enum class FaultKind : uint8_t {
  kDrop,  ///< the message is lost on receive, or its send fails
  kDelay  ///< the message waits, on receive and before a send
};

/// The NIDs that a rule is for: one NID, all NIDs of a net, or every NID.
struct FaultNids {
  Nid nid;            ///< ANY: all NIDs of `net`
  Net net = kAnyNet;  ///< kAnyNet: of every net
  [[nodiscard]] bool has(const Nid& one) const {
    if (!nid.is_any()) return nid == one;
    return net == kAnyNet || net == one.net();
  }
  [[nodiscard]] bool has_all() const { return nid.is_any() && net == kAnyNet; }
  bool operator==(const FaultNids&) const = default;
};

inline constexpr uint8_t kFaultTypesAll = 0x0F;  ///< ACK, PUT, GET and REPLY, as bits 1 << wire::MsgType
inline constexpr uint8_t kFaultTypesWithPortal =
    1 << unsigned(wire::MsgType::kPut) | 1 << unsigned(wire::MsgType::kGet);

/// A rule as it was added.
struct FaultSpec {
  FaultKind kind = FaultKind::kDrop;
  FaultNids source, dest;  ///< the NIDs in the header: the first sender, and the final destination
  FaultNids local;         ///< the NI of this node that the message comes or goes over
  uint64_t portals = 0;    ///< a bit for each portal of PUTs and GETs; 0: all messages
  uint8_t types = kFaultTypesAll;
  // Exactly one of these three says which of the matching messages are hit.
  uint32_t rate = 0;      ///< one of this number of messages; 0: not by rate
  Duration interval{};    ///< one in each such time; 0: not by time
  bool all = false;       ///< each of them; drop rules only
  bool random = false;    ///< `interval` is only the mean of a random time
  uint16_t failures = 0;  ///< of a drop rule: bits 1 << LndStatus, of which one is the result of the send; 0: lost on
                          ///< receive
  Duration latency{};     ///< of a delay rule
  bool operator==(const FaultSpec&) const = default;

  /// Does a drop rule act on sends?
  [[nodiscard]] bool fails_sends() const { return failures != 0; }
  /// Is this a message that the rule is for? `at`: NID of the NI that it comes or goes over.
  [[nodiscard]] bool matches(const wire::Header& header, const Nid& at) const {
    if ((types >> unsigned(header.type) & 1) == 0) return false;
    if (!source.has(header.src_nid) || !dest.has(header.dest_nid) || !local.has(at)) return false;
    if (portals == 0) return true;
    const bool put = header.type == wire::MsgType::kPut;
    if (!put && header.type != wire::MsgType::kGet) return false;
    const uint32_t portal = put ? header.put().portal : header.get().portal;
    return portal < 64 && (portals >> portal & 1) != 0;
  }
};

/// How far a worker has come with a rule.
struct FaultProgress {
  uint64_t matched = 0;         ///< messages that matched a rule with a rate
  uint64_t hit_at = 0;          ///< number of the message that is hit in this window of `rate` messages
  Instant window_end = kNever;  ///< of a rule with an interval: the next window begins then; kNever: none has begun
  Instant due = kNever;         ///< the first message from then on is hit
};

/// Is a message that matches hit? By rate, one message of each window of `rate` messages is, at a random place. By
/// time, the first message after a random moment of each window is. Windows of time follow each other. A window without
/// a message is not made up for.
[[nodiscard]] inline bool fault_hits(const FaultSpec& spec, FaultProgress& progress, Instant now, Rng& rng) {
  if (spec.all) return true;
  if (spec.rate != 0) {
    if (progress.matched % spec.rate == 0) progress.hit_at = progress.matched + rng.below(spec.rate);
    return progress.matched++ == progress.hit_at;
  }
  const auto window_begin = [&](Instant begin) {
    const uint64_t longest = uint64_t(spec.interval.count()) * (spec.random ? 2 : 1);
    progress.due = begin + Duration(int64_t(rng.below(longest)));
    progress.window_end = spec.random ? progress.due : begin + spec.interval;
  };
  if (progress.window_end == kNever) window_begin(now);
  if (now < progress.due) return false;
  window_begin(std::max(now, progress.window_end));
  return true;
}

/// The part of a rule that one worker owns. Control reads the counters.
struct alignas(kCacheLine) FaultLocal {
  FaultProgress progress;
  Counter matched;                             ///< messages that matched
  std::array<Counter, wire::kMsgTypes> hit{};  ///< of them, those that were dropped or delayed, by type
};

struct FaultRule {
  uint32_t id = 0;  ///< another rule never has the same
  FaultSpec spec;
  FaultLocal* locals = nullptr;  ///< by worker
};

/// All rules, in the order in which they were added. The first rule that hits a message decides.
struct FaultTable {
  std::vector<FaultRule> rules;
  [[nodiscard]] bool has(uint32_t id) const {
    return std::any_of(rules.begin(), rules.end(), [id](const FaultRule& rule) { return rule.id == id; });
  }
};

}  // namespace ulnet
