#include "control/discovery/ping_ops.h"

#include <algorithm>
#include <utility>

#include "dataplane/wire/ping_info.h"

namespace ulnet {

void PingOps::start(PingOp spec, Done done) {
  auto op = std::make_unique<Op>();
  op->spec = std::move(spec);
  op->tries = std::make_shared<Tries>();
  op->tries->done = std::move(done);
  op->tries->open = 1;
  wait(std::move(op));
}

void PingOps::wait(std::unique_ptr<Op> op) {
  const bool fresh = op->until == kForever;
  const uint64_t number = op->spec.number;
  const auto at = queue_.emplace(op->slice, std::move(op));
  if (fresh && number != 0) unsent_[number] = at;
  set_timer();
}

void PingOps::pass_on(uint64_t number, PingOps& to) {
  const auto found = unsent_.find(number);
  if (found == unsent_.end()) return;
  auto op = std::move(found->second->second);
  queue_.erase(found->second);
  unsent_.erase(found);
  to.wait(std::move(op));
  set_timer();
}

void PingOps::Op::end(const PingEnd& how) {
  if (ended) return;
  ended = true;
  failed_with = how.error;
  --tries->open;
  if (how.error == 0 || (tries->open == 0 && !tries->more)) tries->end(how);
}

void PingOps::Tries::end(const PingEnd& how) {
  if (std::exchange(over, true)) return;
  if (const Done tell = std::move(done)) tell(how);
}

void PingOps::Op::on_event(const Event& event, Instant) {
  if (event.kind == EventKind::kUnlink) {
    gone = true;
    return fail(event.status != 0 ? event.status : -EIO);
  }
  if (!event.final) return;
  if (event.status != 0) return fail(event.status);
  end({0, event.source, event.target, std::span(sink).first(std::min<size_t>(event.mlength, sink.size()))});
}

// The memory of a PUT is only read: the cast is for Segment, which serves both directions.
bool PingOps::bind(Op& op) {
  if (op.bound) return true;
  if (op.spec.payload != nullptr) {
    const auto& bytes = *op.spec.payload;
    op.segment = {const_cast<std::byte*>(bytes.data()), uint32_t(bytes.size())};
  } else {
    op.sink.resize(op.spec.sink_bytes);
    op.segment = {op.sink.data(), uint32_t(op.sink.size())};
  }
  MdSpec spec;
  spec.segments = {&op.segment, 1};
  spec.options = kMdTruncate | kMdTrack;
  auto md = self_.bind(spec, op);
  if (!md) return false;
  op.md = *md;
  op.bound = true;
  return true;
}

bool PingOps::send(Op& op) {
  if (!bind(op)) return false;
  PutSpec spec;
  spec.md = op.md;
  spec.self = op.spec.self;
  spec.target = {op.spec.target, kLnetPid};
  spec.portal = 0;
  spec.match_bits = wire::kPingMatchBits;
  spec.recovery = op.spec.recovery;
  const auto sent = op.spec.payload != nullptr ? self_.submitter().put(spec) : self_.submitter().get(spec);
  if (!sent && sent.error().code == -EAGAIN) return false;
  op.sent = true;
  if (!sent) op.fail(sent.error().code);
  return true;
}

// The MD serves one operation and is unlinked after it. If that operation is still out, the unlink cancels it.
void PingOps::unlink(Op& op) {
  if (op.unlinking) return;
  auto done = self_.submitter().unlink(op.md);
  op.unlinking = done || done.error().code != -EAGAIN;
}

unsigned PingOps::fill_places(Instant now) {
  unsigned done = 0;
  for (; ops_.size() < kPingOpsMax && !queue_.empty(); ++done) {
    auto op = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    unsent_.erase(op->spec.number);
    if (op->until <= now || op->tries->over) {
      op->fail(late_);
      if (op->tries->open == 0) failed(*op, now);
      continue;
    }
    op->begun = now;
    if (op->until == kForever) op->until = now + op->spec.timeout;
    op->tries->more |= other_pair_ && !op->spec.recovery && !op->spec.exactly;
    op->next_try = op->tries->more ? now + try_wait(op->spec, 0) : kForever;
    ops_.push_back(std::move(op));
  }
  return done;
}

Duration PingOps::try_wait(const PingOp& op, unsigned tries) {
  const Duration most = std::clamp<Duration>(op.timeout / kPingTryParts, kPingTryMin, kPingTryMax);
  return std::min(kPingTryMin * (1 << std::min(tries, kPingTriesMax)), most);
}

unsigned PingOps::turn(Instant now) {
  unsigned done = fill_places(now);
  // An operation that ends may start another one, which only grows `queue_`: the iterator stays valid.
  for (auto it = ops_.begin(); it != ops_.end();) {
    Op& op = **it;
    if (!op.sent && !op.ended && send(op)) ++done;
    if (!op.ended && op.sent && now >= op.next_try) (void)try_other_pair(op, now);
    if (op.needless()) op.fail(-ECANCELED);
    if (!op.ended && now >= op.until) op.fail(late_);
    if (op.ended && op.tries->open == 0) failed(op, now);
    if (op.ended && op.bound && !op.gone) unlink(op);
    if (op.ended && (op.gone || !op.bound)) {
      it = ops_.erase(it);
      ++done;
    } else {
      ++it;
    }
  }
  done += evict(now);
  set_timer();
  return done;
}

/// Adds a try over the next pair. That try has the time that is left, and leads to no further tries.
bool PingOps::try_other_pair(Op& op, Instant now) {
  const Instant next = now + try_wait(op.spec, op.tries->others + 1);
  op.next_try = op.tries->others < kPingTriesMax ? next : kForever;
  if (op.tries->others >= kPingTriesMax || ops_.size() >= kPingOpsMax + kPingTriesPlaces) return false;
  auto other = std::make_unique<Op>();
  other->spec = op.spec;
  other->spec.number = 0;
  other->spec.recovery = true;
  if (!other_pair_(other->spec, op.tries->others)) {
    op.next_try = kForever;
    return false;
  }
  ++op.tries->others;
  other->tries = op.tries;
  ++other->tries->open;
  other->begun = now;
  other->until = op.until;
  (void)send(*other);
  ops_.push_back(std::move(other));
  return true;
}

/// The last open try of an operation has failed: the next pair is tried at once. Without one, the operation has failed.
void PingOps::failed(Op& op, Instant now) {
  if (op.tries->over) return;
  if (op.tries->more && now < op.until && try_other_pair(op, now)) return;
  op.tries->end({op.failed_with, {}, {}, {}});
}

/// How many operations under way have to make room for waiting ones. An operation that has ended keeps its place until
/// its memory is back, and makes room then.
size_t PingOps::evictions() const {
  if (evicted_ == nullptr) return 0;
  const auto ended = size_t(std::count_if(ops_.begin(), ops_.end(), [](const auto& op) { return op->ended; }));
  const size_t wanted = std::min(kPingOpsMax, queue_.size());
  const size_t staying = ops_.size() - ended + wanted;
  return staying > kPingOpsMax ? std::min(wanted, staying - kPingOpsMax) : 0;
}

unsigned PingOps::evict(Instant now) {
  const size_t count = evictions();
  if (count == 0) return 0;
  const Duration slice = queue_.begin()->first;
  unsigned done = 0;
  for (const auto& op : ops_) {
    if (op->ended) continue;
    if (done == count || now - op->begun < slice) break;
    auto again = std::make_unique<Op>();
    again->spec = op->spec;
    again->tries = op->tries;
    again->slice = std::clamp(2 * (now - op->begun), kPingSlice, kPingSliceMax);
    again->until = op->until;
    op->ended = true;
    evicted_->wait(std::move(again));
    ++done;
  }
  return done;
}

void PingOps::set_timer() {
  next_.stop();
  if (!queue_.empty() && ops_.size() < kPingOpsMax) return next_.set_now();
  bool evicts = evictions() > 0;
  for (const auto& op : ops_) {
    if (!op->sent || (op->ended && !op->unlinking)) return next_.retry(true);
    if (op->ended) continue;
    if (op->needless()) return next_.retry(true);
    next_.set_by(std::min(op->until, op->next_try));
    if (std::exchange(evicts, false)) next_.set_by(op->begun + queue_.begin()->first);
  }
}

void PingOps::abort() {
  const Queue queue = std::exchange(queue_, {});
  unsent_.clear();
  for (const auto& [slice, op] : queue) op->tries->end({-ESHUTDOWN, {}, {}, {}});
  for (const auto& op : ops_) {
    op->tries->end({-ESHUTDOWN, {}, {}, {}});
    op->fail(-ESHUTDOWN);
  }
  set_timer();
}

}  // namespace ulnet
