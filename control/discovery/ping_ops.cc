#include "control/discovery/ping_ops.h"

#include "dataplane/wire/ping_info.h"

namespace ulnet {
uint64_t PingOps::start(PingOp spec, Done done) {
  auto op = std::make_unique<Op>();
  op->number = next_number_++;
  op->spec = std::move(spec);
  op->done = std::move(done);
  queue_.push_back(std::move(op));
  set_timer();
  return queue_.back()->number;
}

void PingOps::give_up(uint64_t number, int32_t error) {
  const auto it = [number](const std::unique_ptr<Op>& op) { return op->number == number; };
  if (const auto found = std::find_if(ops_.begin(), ops_.end(), it); found != ops_.end()) (*found)->fail(error);
  if (const auto found = std::find_if(queue_.begin(), queue_.end(), it); found != queue_.end()) (*found)->fail(error);
  set_timer();
}

void PingOps::Op::end(const PingEnd& how) {
  if (ended) return;
  ended = true;
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

bool PingOps::begin(Op& op, Instant now) {
  if (!bind(op)) return false;
  PutSpec spec;
  spec.md = op.md;
  spec.self = op.spec.self;
  spec.target = {op.spec.target, kLnetPid};
  spec.portal = 0;
  spec.match_bits = wire::kPingMatchBits;
  const auto sent = op.spec.payload != nullptr ? self_.submitter().put(spec) : self_.submitter().get(spec);
  if (!sent && sent.error().code == -EAGAIN) return false;
  op.sent = true;
  if (!sent) op.fail(sent.error().code);
  if (op.spec.timeout != Duration::max()) op.deadline = now + op.spec.timeout;
  return true;
}

// The MD serves one operation and is unlinked after it. If that operation is still out, the unlink cancels it.
void PingOps::unlink(Op& op) {
  if (op.unlinking) return;
  auto done = self_.submitter().unlink(op.md);
  op.unlinking = done || done.error().code != -EAGAIN;
}

unsigned PingOps::turn(Instant now) {
  unsigned done = 0;
  for (; ops_.size() < most_ && !queue_.empty(); ++done) {
    ops_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  // An operation that ends may start another one, which only grows `queue_`: the iterator stays valid.
  for (auto it = ops_.begin(); it != ops_.end();) {
    Op& op = **it;
    if (!op.sent && !op.ended && begin(op, now)) ++done;
    if (!op.ended && now >= op.deadline) op.fail(-EIO);
    if (op.ended && op.bound && !op.gone) unlink(op);
    if (op.ended && (op.gone || !op.bound)) {
      it = ops_.erase(it);
      ++done;
    } else {
      ++it;
    }
  }
  set_timer();
  return done;
}

void PingOps::set_timer() {
  next_.stop();
  if (!queue_.empty() && ops_.size() < most_) return next_.set_now();
  for (const auto& op : ops_) {
    if (!op->sent || (op->ended && !op->unlinking)) return next_.retry(true);
    if (!op->ended) next_.set_by(op->deadline);
  }
}

void PingOps::abort() {
  auto queue = std::move(queue_);
  queue_.clear();
  for (auto& op : queue) op->fail(-ESHUTDOWN);
  for (auto& op : ops_) op->fail(-ESHUTDOWN);
  set_timer();
}

}  // namespace ulnet
