#include "control/discovery/ping_target.h"

#include <algorithm>
#include <utility>

namespace ulnet {
namespace {

/// Time to the next try after an MD was refused: a driver could not register its memory.
constexpr Duration kRefusedRetry = 1s;

}  // namespace

void PingTarget::set_hooks(PushHook push, PingHook ping) {
  push_ = std::move(push);
  ping_ = std::move(ping);
}

void PingTarget::set_info(const wire::PingInfo& info) {
  if (!open_) return;
  wanted_ = wire::ping_info_encode(info);
  settle(false);
}

void PingTarget::Target::on_event(const Event& event, Instant now) {
  if (event.kind == EventKind::kUnlink) {
    gone = true;
    owner->ended(event.status, now);
  } else if (event.kind == EventKind::kPut && event.status == 0 && owner->push_) {
    const size_t end = std::min<size_t>(size_t(event.offset) + event.mlength, memory.size());
    if (event.offset <= end) owner->push_(event, memory.subspan(event.offset, end - event.offset), now);
  } else if (event.kind == EventKind::kGet && event.status == 0 && owner->ping_) {
    owner->ping_(event, now);
  }
}

// Bound and attached are two calls, each of which a full ring may refuse.
bool PingTarget::arm(Target& target) {
  if (!target.bound) {
    if (!target.is_push) target.memory = target.info;
    target.segment = {target.memory.data(), uint32_t(target.memory.size())};
    MdSpec spec;
    spec.segments = {&target.segment, 1};
    spec.threshold = target.is_push ? 1 : kInfinite;
    spec.options = kMdTruncate | kMdManageRemote | (target.is_push ? kMdPut : kMdGet);
    auto md = self_.bind(spec, target);
    if (!md) return false;
    target.md = *md;
    target.bound = true;
  }
  const MePosition position = target.is_push ? MePosition::kTail : MePosition::kHead;
  const ProcessId anybody{kAnyNid, kAnyPid};
  if (!self_.submitter().me_attach(PortalIndex{0}, anybody, wire::kPingMatchBits, 0, position, target.md)) return false;
  target.attached = true;
  return true;
}

bool PingTarget::unlink(Target& target) {
  if (target.unlinking || target.gone) return true;
  auto done = self_.submitter().unlink(target.md);
  if (!done && done.error().code == -EAGAIN) return false;
  target.unlinking = true;  // otherwise it has unlinked itself: its event is on the way
  return true;
}

unsigned PingTarget::turn(Instant now) {
  if (settled_ || (open_ && now < not_before_)) return 0;
  if (open_ && wanted_.empty() && !infos_.empty() && infos_.back().gone) wanted_ = std::move(infos_.back().info);
  infos_.remove_if([](const Target& target) { return target.gone; });
  if (!open_) pushes_.remove_if([](const Target& target) { return target.gone; });
  for (Target& target : pushes_)  // its memory serves again
    if (target.gone) target.bound = target.attached = target.unlinking = target.gone = false;
  settle(open_ ? attach_all() : unlink_all());
  return 1;
}

bool PingTarget::attach_all() {
  const bool unused = !infos_.empty() && !infos_.back().bound;
  if (!wanted_.empty() && (unused || infos_.size() < kInfosMax)) {  // else the end of an older one brings us back here
    if (!unused) infos_.emplace_back().owner = this;
    infos_.back().info = std::exchange(wanted_, {});
  }
  bool all = true;
  if (!infos_.empty() && !infos_.back().attached) all &= arm(infos_.back());
  for (Target& target : infos_)
    if (&target != &infos_.back() && infos_.back().attached) all &= unlink(target);
  while (takes_pushes_ && pushes_.size() < kPushTargets) {
    Target& target = pushes_.emplace_back();
    target.owner = this;
    target.is_push = true;
    target.memory = std::span(push_memory_).subspan((pushes_.size() - 1) * kPushBytes, kPushBytes);
  }
  for (Target& target : pushes_)
    if (!target.attached) all &= arm(target);
  return all;
}

bool PingTarget::unlink_all() {
  bool all = true;
  for (auto* list : {&infos_, &pushes_}) {
    list->remove_if([](const Target& target) { return !target.bound; });
    for (Target& target : *list) all &= unlink(target);
  }
  return all;
}

void PingTarget::close() {
  open_ = false;
  wanted_.clear();
  settle(false);
}

void PingTarget::ended(int32_t status, Instant now) {
  if (status != 0) not_before_ = now + kRefusedRetry;
  settle(false);
}

void PingTarget::settle(bool done) {
  settled_ = done;
  retry_.retry(!done);
  if (!done && open_) retry_.set(std::max(retry_.at(), not_before_));
}

}  // namespace ulnet
