#include "control/discovery/ping_queue.h"

#include <algorithm>
#include <utility>

namespace ulnet {
namespace {

/// Error of an evicted operation. No other cause ends an operation with it.
constexpr int32_t kPlaceTaken = -EAGAIN;

}  // namespace

void PingQueue::start(PingOp op, PingOps::Done done) {
  auto entry = std::make_unique<Entry>();
  entry->op = std::move(op);
  entry->done = std::move(done);
  wait_on(std::move(entry));
  set_timer();
}

// An operation that was evicted goes to `others_`, even if a waiter needs it: operations that had no turn yet come
// first.
void PingQueue::wait_on(std::unique_ptr<Entry> entry) {
  const bool sent = entry->until != kForever;
  const uint64_t number = entry->op.number;
  Lane& lane = entry->op.waited && !sent ? waited_ : others_;
  const auto at = lane.queue.emplace(entry->slice, std::move(entry));
  if (&lane == &others_ && !sent) unsent_[number] = at;
}

void PingQueue::hurry(uint64_t number) {
  const auto found = unsent_.find(number);
  if (found == unsent_.end()) return;
  auto entry = std::move(found->second->second);
  others_.queue.erase(found->second);
  unsent_.erase(found);
  entry->op.waited = true;
  wait_on(std::move(entry));
}

void PingQueue::begin(Lane& lane, std::unique_ptr<Entry> entry) {
  entry->begun = now_;
  if (entry->until == kForever) entry->until = now_ + entry->op.timeout;
  lane.under_way.push_back(std::move(entry));
  const auto at = std::prev(lane.under_way.end());
  PingOp op = (*at)->op;
  op.timeout = Duration::max();  // PingQueue counts the timeout, over all turns of the operation
  (*at)->operation = lane.ops.start(std::move(op), [this, &lane, at](const PingEnd& how) { ended(lane, at, how); });
}

void PingQueue::ended(Lane& lane, std::list<std::unique_ptr<Entry>>::iterator at, const PingEnd& how) {
  auto entry = std::move(*at);
  lane.under_way.erase(at);
  if (how.error != kPlaceTaken) return entry->done(how);
  entry->slice = std::clamp(2 * (now_ - entry->begun), kPingSlice, kPingSliceMax);
  wait_on(std::move(entry));
}

// An evicted operation keeps its place until its memory is back. coming() counts such places, so no more operations are
// evicted than others wait.
unsigned PingQueue::take_places(Lane& lane) {
  if (lane.queue.empty()) return 0;
  const size_t wanted = lane.wanted();  // before evicted operations join the queue
  const Duration slice = lane.queue.begin()->first;
  unsigned done = 0;
  for (; lane.coming() < wanted && now_ - lane.under_way.front()->begun >= slice; ++done)
    lane.ops.give_up(lane.under_way.front()->operation, kPlaceTaken);
  return done;
}

unsigned PingQueue::turn(Lane& lane, Instant now) {
  unsigned done = lane.ops.turn(now);
  while (!lane.under_way.empty()) {
    const auto late = std::find_if(lane.under_way.begin(), lane.under_way.end(),
                                   [now](const auto& entry) { return entry->until <= now; });
    if (late == lane.under_way.end()) break;
    lane.ops.give_up((*late)->operation, -ETIMEDOUT);
    ++done;
  }
  done += take_places(lane);
  for (; !lane.queue.empty() && lane.ops.room() > 0; ++done) {
    auto entry = std::move(lane.queue.begin()->second);
    lane.queue.erase(lane.queue.begin());
    unsent_.erase(entry->op.number);
    if (entry->until <= now)
      entry->done({-ETIMEDOUT, {}, {}, {}});
    else
      begin(lane, std::move(entry));
  }
  return done;
}

unsigned PingQueue::turn(Instant now) {
  now_ = now;
  unsigned done = turn(waited_, now);
  done += turn(others_, now);
  set_timer();
  return done;
}

void PingQueue::set_timer() {
  next_.stop();
  for (const Lane* lane : {&waited_, &others_}) {
    if (!lane->queue.empty() && lane->ops.room() > 0) return next_.set_now();
    for (const auto& entry : lane->under_way) next_.set_by(entry->until);
    if (lane->coming() < lane->wanted()) next_.set_by(lane->under_way.front()->begun + lane->queue.begin()->first);
  }
}

void PingQueue::abort() {
  for (Lane* lane : {&waited_, &others_}) {
    const Queue queue = std::exchange(lane->queue, {});
    unsent_.clear();
    for (const auto& [slice, entry] : queue) entry->done({-ESHUTDOWN, {}, {}, {}});
    lane->ops.abort();
  }
  set_timer();
}

bool PingQueue::at_rest() const {
  return waited_.ops.at_rest() && others_.ops.at_rest() && waited_.queue.empty() && others_.queue.empty();
}

}  // namespace ulnet
