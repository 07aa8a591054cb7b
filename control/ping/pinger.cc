#include "control/ping/pinger.h"

#include <algorithm>

namespace ulnet {
namespace {

/// When a ring was full: try again then.
constexpr Duration kAgain = 1ms;

}  // namespace

void Pinger::start(const PingRequest& request, uint32_t interfaces_max, Done done) {
  auto batch = std::make_shared<Batch>();
  batch->done = std::move(done);
  batch->open = request.nids.size();
  for (const Nid& nid : request.nids) batch->answers.push_back({.nid = nid, .error = 0, .info = {}});
  if (batch->open == 0) return batch->done({});
  for (size_t i = 0; i < request.nids.size(); ++i) {
    auto op = std::make_unique<Op>();
    op->batch = batch;
    op->index = i;
    op->source = request.source;
    op->timeout = request.timeout;
    op->interfaces_max = interfaces_max;
    queue_.push_back(std::move(op));
  }
}

void Pinger::Op::answer(int32_t error) {
  if (answered) return;
  answered = true;
  batch->answers[index].error = error;
  if (--batch->open == 0) batch->done(std::move(batch->answers));
}

void Pinger::Op::on_event(const Event& event, Instant) {
  if (event.kind == EventKind::kUnlink) {
    gone = true;
    answer(event.status != 0 ? event.status : -EIO);
    return;
  }
  if (!event.final) return;
  if (event.status != 0) return answer(event.status);
  const size_t bytes = std::min<size_t>(event.mlength, sink.size());
  auto decoded = wire::ping_info_decode(std::span(sink).first(bytes), interfaces_max);
  if (decoded) batch->answers[index].info = std::move(decoded->info);
  answer(decoded ? 0 : -EPROTO);
}

bool Pinger::begin(Op& op, Instant now) {
  if (!op.bound) {
    op.segment = {op.sink.data(), uint32_t(op.sink.size())};
    MdSpec spec;
    spec.segments = {&op.segment, 1};
    spec.options = kMdTruncate | kMdTrack;
    auto md = port_.bind(spec, op);
    if (!md) return false;
    op.md = *md;
    op.bound = true;
  }
  PutSpec get;
  get.md = op.md;
  get.self = op.source;
  get.target = {op.batch->answers[op.index].nid, kLnetPid};
  get.portal = 0;
  get.match_bits = wire::kPingMatchBits;
  if (auto sent = port_.submitter().get(get); !sent) {
    if (sent.error().code == -EAGAIN) return false;
    op.answer(sent.error().code);
  }
  op.sent = true;
  op.deadline = now + op.timeout;
  return true;
}

// The MD ends with its one GET; a GET that is still out is cancelled by it.
void Pinger::unlink(Op& op) {
  if (op.unlinking) return;
  auto done = port_.submitter().unlink(op.md);
  op.unlinking = done || done.error().code != -EAGAIN;
}

unsigned Pinger::turn(Instant now) {
  now_ = now;
  unsigned done = 0;
  for (; ops_.size() < kPingsMax && !queue_.empty(); ++done) {
    ops_.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  // An answer may end a batch, whose owner may start the next one: nothing here is invalidated by that.
  for (auto it = ops_.begin(); it != ops_.end();) {
    Op& op = **it;
    if (!op.sent && !op.answered && begin(op, now)) ++done;
    if (!op.answered && now >= op.deadline) op.answer(-EIO);
    if (op.answered && op.bound && !op.gone) unlink(op);
    if (op.answered && (op.gone || !op.bound)) {
      it = ops_.erase(it);
      ++done;
    } else {
      ++it;
    }
  }
  return done;
}

Instant Pinger::next_deadline() const {
  if (!queue_.empty() && ops_.size() < kPingsMax) return kNever;
  Instant next = kForever;
  for (const auto& op : ops_) {
    if (!op->sent || (op->answered && !op->unlinking)) return now_ + kAgain;
    if (!op->answered) next = std::min(next, op->deadline);
  }
  return next;
}

void Pinger::abort() {
  for (auto& op : queue_) op->answer(-ESHUTDOWN);
  queue_.clear();
  for (auto& op : ops_) op->answer(-ESHUTDOWN);
}

}  // namespace ulnet
