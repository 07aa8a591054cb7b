#include "tests/unit/rc/roce_wire.h"

#include <algorithm>

#include "tests/payload_bytes.h"

namespace ulnet::test {

using namespace rc::roce;

std::vector<std::byte> roce_pattern(uint64_t seed, size_t bytes) {
  Rng rng(seed);
  std::vector<std::byte> out(bytes);
  for (std::byte& one : out) one = std::byte(uint8_t(rng.next()));
  return out;
}

RoceEnd::RoceEnd(const RoceEndOptions& options, Rng& rng)
    : buffers(size_t{kRoceBuffers} * kRoceBufferBytes),
      send_buffers(size_t{kRoceWork} * kRoceBufferBytes),
      keys(kRoceKeys, rng),
      requester({.work = kRoceWork,
                 .pieces = kRocePieces,
                 .mtu = options.mtu,
                 .first = options.first,
                 .retry_count = options.retry_count,
                 .rnr_retry_count = options.rnr_retry_count,
                 .timeout = options.timeout},
                counts),
      responder({.receives = kRoceBuffers,
                 .buffer_bytes = kRoceBufferBytes,
                 .memory = buffers.data(),
                 .mtu = options.mtu,
                 .first = options.first},
                keys, counts) {
  if (options.post_receives) receive_all();
}

void RoceEnd::receive_all() {
  for (uint32_t i = 0; i < kRoceBuffers; ++i) responder.receive(i);
}

void RoceEnd::send(const std::vector<std::byte>& bytes, uint64_t token) {
  std::byte* at = send_buffers.data() + size_t{next_send_++ % kRoceWork} * kRoceBufferBytes;
  std::copy(bytes.begin(), bytes.end(), at);
  const Segment segment{at, uint32_t(bytes.size())};
  requester.post({&segment, 1}, {.token = token, .bytes = uint32_t(bytes.size())});
}

void RoceEnd::write(std::span<const Segment> from, uint32_t key, const std::byte* to, uint64_t token) {
  uint32_t bytes = 0;
  for (const Segment& one : from) bytes += one.bytes;
  requester.post(from, {.token = token,
                        .write = true,
                        .bytes = bytes,
                        .address = uint64_t(reinterpret_cast<uintptr_t>(to)),
                        .key = key});
}

void RoceWire::add_pair(const RoceEndOptions& options) {
  for (int i = 0; i < 2; ++i) ends_.push_back(std::make_unique<RoceEnd>(options, rng));
}

void RoceWire::emit(size_t from, const std::vector<std::byte>& bytes, bool bulk) {
  ++packets;
  const auto happens = [&](uint32_t one_in) { return one_in != 0 && rng.one_in(one_in); };
  if (is_cut || happens(rules.lose_one_in)) return;
  Instant at = now + rules.delay;
  if (bulk && rules.each > Duration{0}) {
    while (!bottleneck_.empty() && bottleneck_.front() <= now) bottleneck_.pop_front();
    if (bottleneck_.size() >= rules.queue_max) return;
    if (bottleneck_.size() >= rules.mark_at) ends_[from]->requester.congested();
    at = std::max(now, bottleneck_.empty() ? now : bottleneck_.back()) + rules.each;
    bottleneck_.push_back(at);
    at += rules.delay;
  }
  if (happens(rules.reorder_one_in)) at += rules.delay * 3;
  flights_.emplace(at, Flight{from ^ 1, bytes});
  if (happens(rules.repeat_one_in)) flights_.emplace(at + rules.delay, Flight{from ^ 1, bytes});
}

void RoceWire::turn(size_t index) {
  RoceEnd& end = *ends_[index];
  end.requester.expire(now);
  while (const Request* done = end.requester.done()) {
    end.tokens.push_back(done->token);
    end.requester.take();
  }
  Step step;
  for (uint32_t burst = 0; burst < rules.burst && end.requester.next(step, now); ++burst) {
    const auto pad = uint8_t(-step.bytes & 3);
    std::vector<std::byte> bytes(kRoceHeadersMax);
    unsigned at = bth_encode({.opcode = uint8_t(opcode_of(step.shape)),
                              .pad_bytes = pad,
                              .qpn = 1,
                              .ack_request = step.ack_request,
                              .psn = step.psn},
                             bytes.data());
    if (step.shape.write && step.shape.first)
      at += reth_encode({step.request->address, step.request->key, step.request->bytes}, bytes.data() + at);
    bytes.resize(at);
    EXPECT_GE(step.payload->left(), step.bytes);
    payload_append(bytes, *step.payload, step.bytes);
    bytes.resize(bytes.size() + pad + kIcrcBytes);
    end.requester.sent(step, now);
    emit(index, bytes, true);
  }
  if (end.responder.answer_due()) {
    const Answer answer = end.responder.answer();
    std::vector<std::byte> bytes(kBthBytes + kAethBytes + kIcrcBytes);
    const unsigned at =
        bth_encode({.opcode = uint8_t(Opcode::kAcknowledge), .qpn = 1, .psn = answer.psn}, bytes.data());
    aeth_encode(answer.aeth, bytes.data() + at);
    end.responder.answered();
    emit(index, bytes, false);
  }
}

void RoceWire::arrive(const Flight& flight) {
  RoceEnd& end = *ends_[flight.to];
  const std::span<const std::byte> bytes = flight.bytes;
  const auto packet =
      packet_decode(bytes.first(std::min<size_t>(bytes.size(), kRoceHeadersMax)), uint32_t(bytes.size()));
  ASSERT_TRUE(packet);
  if (packet->kind == PacketKind::kAcknowledge) return end.requester.answered(packet->aeth, packet->bth.psn, now);
  const auto place = end.responder.place(*packet);
  if (!place) return;
  if (packet->payload_bytes > 0) std::copy_n(bytes.begin() + packet->header_bytes, packet->payload_bytes, place->at);
  end.delivered += packet->payload_bytes;
  Received message;
  if (!end.responder.taken(*packet, message)) return;
  const std::byte* from = end.buffers.data() + size_t{message.buffer} * kRoceBufferBytes;
  end.messages.emplace_back(from, from + message.bytes);
  if (end.repost) end.responder.receive(message.buffer);
}

bool RoceWire::step() {
  const auto first = size_t(rng.below(ends_.size()));
  for (size_t i = 0; i < ends_.size(); ++i) turn((first + i) % ends_.size());
  Instant next = flights_.empty() ? kForever : flights_.begin()->first;
  for (const auto& end : ends_)
    next = std::min(next, end->requester.ready(now) ? now + 1us : end->requester.deadline());
  if (next == kForever) return false;
  now = std::max(now, next);
  while (!flights_.empty() && flights_.begin()->first <= now) {
    const Flight flight = std::move(flights_.begin()->second);
    flights_.erase(flights_.begin());
    arrive(flight);
  }
  return true;
}

void RoceWire::run_for(Duration time) {
  const Instant end = now + time;
  while (now < end)
    if (!step()) now = end;
}

}  // namespace ulnet::test
