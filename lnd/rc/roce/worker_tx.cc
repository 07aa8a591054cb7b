// Packets that leave: answers and requests of queue pairs, and messages of the connection manager.
#include <cstring>

#include "dataplane/wire/bytes.h"
#include "lnd/rc/roce/proto/path.h"
#include "lnd/rc/roce/worker.h"

namespace ulnet::rc::roce {
namespace {

constexpr unsigned kMadsInTurn = 16;

/// A packet in the making: extended headers, payload and what the wire adds.
struct Parts {
  Bth bth;
  std::array<std::byte, kRethBytes> extended{};
  unsigned extended_bytes = 0;
  PayloadCursor payload;
  uint32_t bytes = 0;
  Loan* loan = nullptr;
};

/// False: the port has no buffer.
bool put(WorkerPort& queue, const FrameHead& head, const IpAddress& to, Parts& parts, Instant now) {
  std::array<std::byte, kFrameHeadMax> lead;
  std::array<std::byte, 3 + kIcrcBytes> tail{};
  parts.bth.pad_bytes = pad_bytes_of(parts.bytes);
  const uint32_t behind = parts.extended_bytes + parts.bytes + parts.bth.pad_bytes;
  const unsigned head_bytes = head.write(parts.bth, behind, lead.data());
  std::memcpy(lead.data() + head_bytes, parts.extended.data(), parts.extended_bytes);
  Icrc crc(Bytes(lead).first(head_bytes), behind);
  crc.add(Bytes(parts.extended).first(parts.extended_bytes));
  PayloadCursor cursor = parts.payload;
  for (uint32_t left = parts.bytes; left > 0;) {
    iovec piece;
    ULNET_CHECK(cursor.pieces({&piece, 1}, left) == 1);
    crc.add({static_cast<const std::byte*>(piece.iov_base), piece.iov_len});
    cursor.advance(uint32_t(piece.iov_len));
    left -= uint32_t(piece.iov_len);
  }
  crc.add(Bytes(tail).first(parts.bth.pad_bytes));
  wire::store<uint32_t>(tail.data() + parts.bth.pad_bytes, crc.value());
  return queue.send({to, Bytes(lead).first(head_bytes + parts.extended_bytes), parts.payload, parts.bytes,
                     Bytes(tail).first(parts.bth.pad_bytes + kIcrcBytes), parts.loan},
                    now);
}

/// One packet of a queue pair, of `left` in this turn. Without a queue it is lost. False: not now.
bool put_one(const RoceQp& qp, WorkerPort* queue, Parts& parts, unsigned& left, Instant now) {
  if (left == 0) return false;
  if (queue != nullptr && (queue->room(now) == 0 || !put(*queue, qp.sender->head, qp.remote, parts, now))) return false;
  --left;
  return true;
}

}  // namespace

/// An acknowledgement and a CNP, as far as they are due. False: the port is full. Without a queue, packets are lost.
bool RoceWorker::send_answers(RoceQp& qp, PortQueues& port, unsigned& left, Instant now) {
  const bool due = qp.responder.answer_due();
  const bool cnp = qp.cnp_due && qp.cnp_next <= now;
  qp.cnp_due = false;
  for (const bool notify : {false, true}) {
    if (notify ? !cnp : !due) continue;
    Parts parts;
    parts.bth.qpn = qp.sender->remote_qpn;
    const std::array<std::byte, kCnpBytes> zeros{};
    const Segment piece{const_cast<std::byte*>(zeros.data()), kCnpBytes, {}};  // NOLINT: only read
    if (notify) {
      parts.bth.opcode = uint8_t(Opcode::kCnp);
      parts.bth.becn = true;
      parts.bytes = kCnpBytes;
      parts.payload = PayloadCursor(Payload{&piece, 1, 0, kCnpBytes});
    } else {
      const Answer answer = qp.responder.answer();
      parts.bth.opcode = uint8_t(Opcode::kAcknowledge);
      parts.bth.psn = answer.psn;
      parts.extended_bytes = aeth_encode(answer.aeth, parts.extended.data());
    }
    if (!put_one(qp, port.queue, parts, left, now)) {
      qp.cnp_due = cnp;
      return false;
    }
    if (!notify) {
      qp.responder.answered();
      continue;
    }
    qp.cnp_next = now + kCnpEvery;
    qp.counts[Count::kCnpsSent].add();
  }
  return true;
}

bool RoceWorker::send_requests(RoceQp& qp, PortQueues& port, unsigned& left, Instant now) {
  Requester& requester = qp.sender->requester;
  Step step;
  for (unsigned i = 0; i < kBatch && requester.next(step, now); ++i) {
    Parts parts;
    parts.bth.opcode = uint8_t(opcode_of(step.shape));
    parts.bth.qpn = qp.sender->remote_qpn;
    parts.bth.ack_request = step.ack_request;
    parts.bth.psn = step.psn;
    if (step.shape.write && step.shape.first) {
      const Request& request = *step.request;
      parts.extended_bytes = reth_encode({request.address, request.key, request.bytes}, parts.extended.data());
    }
    parts.loan = &qp.sender->loans[step.place];
    parts.payload = *step.payload;
    parts.bytes = step.bytes;
    if (!put_one(qp, port.queue, parts, left, now)) return false;
    step.payload->advance(step.bytes);
    requester.sent(step, now);
  }
  return true;
}

/// False: the port takes no more in this turn.
bool RoceWorker::transmit(RoceQp& qp, PortQueues& port, unsigned& left, Instant now) {
  if (qp.sender == nullptr) return true;
  if (!send_answers(qp, port, left, now)) return false;
  if (qp.is_broken) return true;
  const bool sent = send_requests(qp, port, left, now);
  follow(qp, now);
  return sent;
}

void RoceWorker::send_ready(PortQueues& port, Instant now) {
  unsigned left = kFlushMax;
  while (RoceQp* qp = port.ready.pop_front()) {
    if (transmit(*qp, port, left, now)) continue;
    if (!static_cast<Linked<ReadyTag>&>(*qp).linked()) port.ready.push_front(*qp);
    break;
  }
  if (port.queue != nullptr) port.queue->flush(now);
}

void RoceWorker::send_mads(Instant now) {
  SpscRing<MadMessage>& ring = rings().mads_out;
  MadMessage done;
  for (unsigned i = 0; i < kMadsInTurn; ++i, (void)ring.pop(done)) {
    const MadMessage* next = ring.peek();
    if (next == nullptr) return;
    MadMessage message = *next;
    WorkerPort* queue = ports_[message.port].queue;
    if (queue == nullptr) continue;
    if (queue->room(now) == 0) {
      if (mad_waits_ == kNever) mad_waits_ = now;
      if (now - mad_waits_ < kMadWaitMax) return;
      continue;  // the messages of other ports are behind it; the CM repeats most
    }
    mad_waits_ = kNever;
    Parts parts;
    parts.bth.opcode = uint8_t(Opcode::kUdSendOnly);
    parts.bth.qpn = kGsiQpn;
    parts.bth.psn = Psn(mad_psn_++);
    parts.extended_bytes = deth_encode({kGsiQkey, kGsiQpn}, parts.extended.data());
    const Segment piece{message.mad.data(), kMadBytes, {}};
    parts.payload = PayloadCursor(Payload{&piece, 1, 0, kMadBytes});
    parts.bytes = kMadBytes;
    const FrameHead head({message.addresses.local, message.addresses.remote, udp_source_port_ud(kGsiQpn), 0});
    if (!put(*queue, head, message.addresses.remote, parts, now)) return;
  }
}

void RoceWorker::flush(Instant now) {
  send_mads(now);
  for (PortQueues& port : ports())
    if (port.queue != nullptr || !port.ready.empty()) send_ready(port, now);
  pay();
}

}  // namespace ulnet::rc::roce
