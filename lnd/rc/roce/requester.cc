#include "lnd/rc/roce/requester.h"

#include <algorithm>

#include "dataplane/base/check.h"
#include "lnd/rc/roce/proto/path.h"

namespace ulnet::rc::roce {
namespace {

constexpr uint8_t kRnrWithoutEnd = 7;
constexpr uint32_t kPsnsMost = 1u << 22;  ///< of all operations, so that the distance of two of them has a sign
constexpr uint32_t kAckEveryMost = 32;    ///< packets of a long operation from one AckReq to the next

uint32_t packets_of(uint32_t bytes, uint32_t mtu) {
  return bytes == 0 ? 1 : (bytes + mtu - 1) / mtu;
}

}  // namespace

bool Requester::fits(uint32_t bytes) const {
  return room() > 0 && bytes >> 31 == 0 && packets_of(bytes, config_.mtu) <= kPsnsMost - uint32_t(end_ - oldest_);
}

void Requester::post(std::span<const Segment> from, const Request& what) {
  ULNET_CHECK(fits(what.bytes) && from.size() <= config_.pieces);
  std::copy(from.begin(), from.end(), segments_of(tail_).begin());
  Request& request = requests_[place_of(tail_)];
  // Field by field, as they were just written: a copy of the whole would wait for them.
  request.token = what.token;
  request.write = what.write;
  request.bytes = what.bytes;
  request.address = what.address;
  request.key = what.key;
  request.first = end_;
  request.packets = packets_of(what.bytes, config_.mtu);
  request.segments = uint32_t(from.size());
  end_ = end_ + request.packets;
  ++tail_;
  if (sending_ + 1 == tail_) enter(sending_, 0);
}

bool Requester::ready(Instant now) const {
  return failure_ == Cause::kNone && send_ != end_ && resume_ <= now && uint32_t(send_ - oldest_) < window_.packets();
}

bool Requester::next(Step& step, Instant now) {
  if (!ready(now)) return false;
  const Request& request = at(sending_);
  const auto index = uint32_t(send_ - request.first);
  step.request = &request;
  step.psn = send_;
  step.place = place_of(sending_);
  step.shape = {request.write, index == 0, index + 1 == request.packets};
  step.offset = index * config_.mtu;
  step.bytes = std::min(config_.mtu, request.bytes - step.offset);
  const bool window_ends = uint32_t(send_ - oldest_) + 1 >= window_.packets();
  const uint32_t ack_every = std::clamp(window_.packets() / 4, 1u, kAckEveryMost);
  step.ack_request = step.shape.last || window_ends || since_ack_request_ + 1 >= ack_every;
  step.payload = &cursor_;
  return true;
}

void Requester::sent(const Step& step, Instant now) {
  ULNET_CHECK(step.psn == send_);
  const bool again = send_ != next_;
  if (again) counts_[Count::kPacketsResent].add();
  if (!timer_.running()) timer_.start(now);
  since_ack_request_ = step.ack_request ? 0 : since_ack_request_ + 1;
  if (!again && step.ack_request && timed_at_ == kForever) {
    timed_ = send_;
    timed_at_ = now;
  }
  send_ = send_ + 1;
  if (!again) next_ = send_;
  if (step.shape.last && ++sending_ < tail_) enter(sending_, 0);
}

/// The payload of this operation is sent from `offset` on.
void Requester::enter(uint64_t count, uint32_t offset) {
  const Request& request = at(count);
  cursor_.start({segments_of(count).data(), request.segments, offset, request.bytes - offset});
}

void Requester::seek(Psn psn) {
  send_ = psn;
  for (sending_ = done_; sending_ < tail_; ++sending_) {
    const Request& request = at(sending_);
    const int32_t index = psn - request.first;
    if (index < int32_t(request.packets)) return enter(sending_, uint32_t(index) * config_.mtu);
  }
}

/// All packets before `before` are acknowledged.
void Requester::acknowledge(Psn before, Instant now) {
  const int32_t count = before - oldest_;
  if (count <= 0) return;
  if (timed_at_ != kForever && before - timed_ > 0) {
    timer_.sample(now - timed_at_);
    timed_at_ = kForever;
  }
  oldest_ = before;
  while (done_ < tail_ && at(done_).first + at(done_).packets - oldest_ <= 0) ++done_;
  if (send_ - oldest_ < 0) seek(oldest_);
  window_.acknowledged(uint32_t(count), oldest_);
  rnr_retries_ = 0;
  obeyed_ = false;
  timer_.progress(oldest_ != send_, now);
}

void Requester::go_back(Psn to) {
  timed_at_ = kForever;  // an answer may belong to either transmission
  since_ack_request_ = 0;
  seek(to);
}

/// A NAK for the oldest packet is obeyed once for all that was sent before: else each copy of it draws a window of
/// packets.
bool Requester::obeyed(Psn psn) {
  ULNET_CHECK(psn == oldest_);
  if (obeyed_ && send_ - obeyed_until_ < 0) return true;
  obeyed_ = true;
  obeyed_until_ = next_;
  return false;
}

void Requester::refused(Count count, Cause cause) {
  counts_[count].add();
  failure_ = cause;
  timer_.stop();
}

void Requester::answered(const Aeth& aeth, Psn psn, Instant now) {
  if (failure_ != Cause::kNone) return;
  // A NAK is for the oldest packet that is missing: all packets before it have come.
  const Psn before = aeth.verdict == Verdict::kAck ? psn + 1 : psn;
  const bool mine = before - oldest_ >= 0 && before - next_ <= 0 && (aeth.verdict == Verdict::kAck || psn != next_);
  if (!mine || aeth.verdict == Verdict::kReserved) return counts_[Count::kAnswersStale].add();
  acknowledge(before, now);
  switch (aeth.verdict) {
    case Verdict::kAck: return counts_[Count::kAcksReceived].add();
    case Verdict::kSequence:
      if (obeyed(psn)) return counts_[Count::kAnswersStale].add();
      counts_[Count::kNaksSequenceReceived].add();
      window_.halve(next_);
      return go_back(psn);
    case Verdict::kRnr:
      if (config_.rnr_retry_count != kRnrWithoutEnd && rnr_retries_ >= config_.rnr_retry_count)
        return refused(Count::kNaksRnrReceived, Cause::kRnrExceeded);
      counts_[Count::kNaksRnrReceived].add();
      ++rnr_retries_;
      resume_ = now + rnr_wait(aeth.code);
      timer_.pause();
      return go_back(psn);
    case Verdict::kInvalidRequest: return refused(Count::kNaksInvalidReceived, Cause::kRemoteAccess);
    case Verdict::kRemoteAccess:
    case Verdict::kRemoteOperation: return refused(Count::kNaksAccessReceived, Cause::kRemoteAccess);
    case Verdict::kReserved: return;
  }
}

void Requester::expire(Instant now) {
  if (failure_ != Cause::kNone || timer_.deadline() > now) return;
  if (!timer_.expire(now)) {
    failure_ = Cause::kRetryExceeded;
    return timer_.stop();
  }
  counts_[Count::kTimeouts].add();
  window_.collapse(next_);
  go_back(oldest_);
}

Instant Requester::deadline() const {
  if (failure_ != Cause::kNone) return kForever;
  return send_ != end_ && resume_ > kNever && !timer_.running() ? resume_ : timer_.deadline();
}

}  // namespace ulnet::rc::roce
