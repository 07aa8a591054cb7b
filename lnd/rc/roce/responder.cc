#include "lnd/rc/roce/responder.h"

#include <bit>

#include "dataplane/base/check.h"

namespace ulnet::rc::roce {
namespace {

constexpr uint8_t kRnrCode = 12;  ///< 0.64 ms: o2iblnd posts its buffers again in the same turn
constexpr uint8_t kCreditsUnused = 31;
constexpr uint32_t kMsnMask = 0xFF'FFFF;
constexpr int32_t kAheadMax = 1 << 16;  ///< packets that a peer may send without an acknowledgement

Count count_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kSequence: return Count::kNaksSequenceSent;
    case Verdict::kRnr: return Count::kNaksRnrSent;
    case Verdict::kInvalidRequest: return Count::kNaksInvalidSent;
    case Verdict::kRemoteAccess: return Count::kNaksAccessSent;
    case Verdict::kAck:
    case Verdict::kRemoteOperation:
    case Verdict::kReserved: break;
  }
  return Count::kAcksSent;
}

}  // namespace

Responder::Responder(const ResponderConfig& config, const KeyTable& keys, Counts& counts)
    : config_(config),
      keys_(keys),
      counts_(counts),
      buffer_mask_(std::bit_ceil(config.receives) - 1),
      buffers_(std::make_unique<uint32_t[]>(buffer_mask_ + 1)),
      expected_(config.first) {}

void Responder::receive(uint32_t buffer) {
  ULNET_CHECK(buffer < config_.receives && buffers_tail_ - buffers_head_ < config_.receives);
  buffers_[buffers_tail_++ & buffer_mask_] = buffer;
}

std::nullopt_t Responder::refuse(Verdict why) {
  due_ = why;
  if (why == Verdict::kRnr) {
    nak_sent_ = true;  // packets behind this one are no gap
  } else {
    failure_ = Cause::kRemoteAccess;
    refusal_ = why;
  }
  return std::nullopt;
}

std::optional<Spot> Responder::place(const Packet& packet) {
  if (failure_ != Cause::kNone) {
    if (packet.bth.psn == expected_) due_ = refusal_;  // the answer may be lost
    return std::nullopt;
  }
  const int32_t ahead = packet.bth.psn - expected_;
  if (ahead > 0) {
    counts_[Count::kOutOfOrder].add();
    // Farther ahead is a guess of a stranger, which must not make the peer send all again. A peer that has lost as many
    // packets sends again when its timeout comes.
    if (ahead < kAheadMax && !std::exchange(nak_sent_, true)) due_ = Verdict::kSequence;
    return std::nullopt;
  }
  if (ahead < 0) {
    counts_[Count::kDuplicates].add();
    if (!due_) due_ = Verdict::kAck;
    return std::nullopt;
  }
  if (packet.kind != PacketKind::kRequest) return refuse(Verdict::kInvalidRequest);
  const RequestShape& shape = packet.shape;
  const bool fits = shape.first ? !current_.open : current_.open && current_.write == shape.write;
  if (!fits) return refuse(Verdict::kInvalidRequest);
  const uint32_t bytes = packet.payload_bytes;
  const bool right_length = shape.last ? bytes <= config_.mtu && (bytes > 0 || shape.first) : bytes == config_.mtu;
  if (!right_length) return refuse(Verdict::kInvalidRequest);
  return shape.write ? place_write(packet) : place_send(packet);
}

std::optional<Spot> Responder::place_send(const Packet& packet) {
  if (packet.shape.first) {
    if (buffers_head_ == buffers_tail_) return refuse(Verdict::kRnr);
    current_ = {.write = false, .buffer = buffers_[buffers_head_ & buffer_mask_]};
  }
  if (current_.done + packet.payload_bytes > config_.buffer_bytes) return refuse(Verdict::kInvalidRequest);
  return Spot{config_.memory + size_t{current_.buffer} * config_.buffer_bytes + current_.done};
}

/// A key may be closed in the middle of a WRITE, so each packet looks it up.
std::optional<Spot> Responder::place_write(const Packet& packet) {
  if (packet.shape.first)
    current_ = {.write = true, .address = packet.reth.address, .key = packet.reth.key, .bytes = packet.reth.bytes};
  const uint32_t left = current_.bytes - current_.done;
  const bool right_length = packet.shape.last ? packet.payload_bytes == left : packet.payload_bytes < left;
  if (!right_length) return refuse(Verdict::kInvalidRequest);
  if (current_.bytes == 0) return Spot{};  // accesses nothing, so no key is needed
  const KeyWindow* window = keys_.find(current_.key);
  if (window == nullptr) return refuse(Verdict::kRemoteAccess);
  const std::span<std::byte> memory = window->memory;
  const auto base = uint64_t(reinterpret_cast<uintptr_t>(memory.data()));
  const uint64_t from = current_.address - base;
  if (current_.address < base || from > memory.size() || current_.bytes > memory.size() - from)
    return refuse(Verdict::kRemoteAccess);
  return Spot{memory.data() + from + current_.done, window->list};
}

bool Responder::taken(const Packet& packet, Received& out) {
  expected_ = expected_ + 1;
  nak_sent_ = false;
  // A NAK that was due is no longer right.
  if (packet.bth.ack_request || due_) due_ = Verdict::kAck;
  current_.done += packet.payload_bytes;
  current_.open = !packet.shape.last;
  if (!packet.shape.last) return false;
  msn_ = (msn_ + 1) & kMsnMask;
  if (current_.write) return false;
  ++buffers_head_;
  out.buffer = current_.buffer;
  out.bytes = current_.done;
  return true;
}

Answer Responder::answer() const {
  const bool ack = *due_ == Verdict::kAck;
  const uint8_t code = ack ? kCreditsUnused : *due_ == Verdict::kRnr ? kRnrCode : uint8_t{0};
  return {{*due_, code, msn_}, ack ? expected_ - 1 : expected_};
}

void Responder::answered() {
  counts_[count_of(*due_)].add();
  due_.reset();
}

}  // namespace ulnet::rc::roce
