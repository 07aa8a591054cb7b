// What this node has on portal 0 for others: the ping target, which answers GETs with the current ping info, and push
// targets, which take PUTs of ping info. Source: docs/wire/lnet.md §4.5. Thread: control. What is pushed is handed to a
// hook; what it means is discovery's matter. The hard part: memory that the network reads is never written again, so a
// new ping info is a new MD, attached in front before the old one is taken away.
#pragma once
#include <functional>
#include <list>
#include <span>
#include <vector>

#include "control/timers.h"
#include "dataplane/state/self_submitter.h"
#include "dataplane/wire/ping_info.h"

namespace ulnet {

class PingTarget {
 public:
  /// PUTs taken at the same time; more wait on the lazy portal.
  static constexpr uint32_t kPushTargets = 32;
  /// The ping info that is answered, and older ones that REPLYs still read. A newer one waits for a place.
  static constexpr uint32_t kInfosMax = 32;
  /// Room of each: a longer push is cut, as docs/wire/lnet.md §4.3 allows for, and its sender is to be pinged instead.
  static constexpr uint32_t kPushBytes = 4096;

  using PushHook = std::function<void(const Event&, std::span<const std::byte>, Instant)>;
  /// A ping was answered: event.target is the NID that it came to, event.source who asked.
  using PingHook = std::function<void(const Event&, Instant)>;

  PingTarget(SelfSubmitter& self, Timers& timers) : self_(self), retry_(timers, TimerName::kPingTarget) {}

  void set_hooks(PushHook push, PingHook ping);
  /// From now on pings are answered with `info`.
  void set_info(const wire::PingInfo& info);
  /// Attaches what is to be attached, and again what could not be; returns work done.
  unsigned turn(Instant now);
  /// Of all push targets. Until it is registered, none is to be attached.
  [[nodiscard]] std::span<std::byte> push_memory() { return push_memory_; }
  void set_takes_pushes(bool takes) {
    takes_pushes_ = takes;
    settle(false);
  }
  /// Takes everything away. at_rest() tells when it is gone.
  void close();
  [[nodiscard]] bool at_rest() const { return infos_.empty() && pushes_.empty(); }
  /// True once the newest info is what is answered.
  [[nodiscard]] bool current() const { return !infos_.empty() && infos_.back().attached && wanted_.empty(); }

 private:
  struct Target final : SelfSubmitterUser {
    PingTarget* owner = nullptr;
    bool is_push = false;
    bool bound = false;
    bool attached = false;
    bool unlinking = false;
    bool gone = false;  // its kUnlink came
    MdHandle md;
    std::vector<std::byte> info;  // of a ping target
    std::span<std::byte> memory;  // `info`, or a place in push_memory_
    Segment segment;
    void on_event(const Event& event, Instant now) override;
  };
  bool attach_all();
  bool unlink_all();
  bool arm(Target& target);
  bool unlink(Target& target);
  void settle(bool done);
  void ended(int32_t status, Instant now);

  SelfSubmitter& self_;
  PushHook push_;
  PingHook ping_;
  std::vector<std::byte> wanted_;  // encoded info that is not attached yet
  std::list<Target> infos_;        // back = newest
  std::list<Target> pushes_;
  std::vector<std::byte> push_memory_ = std::vector<std::byte>(size_t{kPushTargets} * kPushBytes);
  bool takes_pushes_ = true;
  bool open_ = true;
  bool settled_ = true;          // else turn() has work, also without a change: a ring was full
  Instant not_before_ = kNever;  // an MD was refused: the next try
  SlowTimer retry_;
};

}  // namespace ulnet
