// Receive side of a connection. The hard part: every callback into the core may close this very connection (cancel with
// force, a protocol error on a sibling), so after each one the phase is looked at again; the object itself stays, as
// control frees it only after ConnDeadMsg.
#include "lnd/socklnd/conn_rx.h"

#include <algorithm>
#include <utility>

#include "lnd/socklnd/conn_set.h"
#include "lnd/socklnd/conn_tx.h"
#include "lnd/socklnd/proto/zc.h"
#include "lnd/socklnd/status.h"
#include "lnd/socklnd/timers.h"

namespace ulnet::socklnd {
namespace {

bool up(const Conn& conn) {
  return conn.phase == ConnPhase::kUp;
}

void protocol_error(SockWorker& worker, Conn& conn) {
  set_close(worker, *conn.set, -EPROTO, Closing::kOrderly);
}

/// The message under way has a slot from the pool no more.
void slot_free(SockWorker& worker, ConnRx& rx) {
  SockSlot& slot = *std::exchange(rx.slot, &rx.own);
  if (&slot != &rx.own) worker.slots.give(slot);
}

void slot_done(SockWorker& worker, Conn& conn, Completion how) {
  conn.rx.slot_busy = false;
  conn.rx.diverted = false;
  if (StreamPipe* pipe = std::exchange(conn.rx.pipe, nullptr)) {
    conn.rx.after_pipe = true;
    if (how.error == 0 && pipe->bytes() > 0)
      conn.rx.slot->piped = pipe;
    else
      pipe->give_back();
  }
  worker.core.rx_done(*conn.rx.slot, how, worker.now);
  slot_free(worker, conn.rx);
}

/// The zero-copy acknowledgement of a message whose bytes have all come.
void acknowledge(SockWorker& worker, Conn& conn, const FrameHeader& frame) {
  if (frame.cookie0 != 0 && conn.version != kVersion1) set_queue_ack(worker, conn, frame.cookie0);
}

/// All bytes of the message have come: acknowledge, tell the core, begin the next.
void message_complete(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  const FrameHeader frame = rx.decoder.frame();
  rx.state = RxState::kHeader;
  rx.decoder.next();
  if (frame.csum != 0 && conn.version != kVersion1 && frame.csum != rx.csum) {
    if (rx.slot_busy) slot_done(worker, conn, receive_failure(-EIO));
    if (up(conn)) set_close(worker, *conn.set, -EIO, Closing::kOrderly);
    return;
  }
  acknowledge(worker, conn, frame);
  if (rx.slot_busy) slot_done(worker, conn, {});
}

/// Lets go of slot.into before the payload is complete; what still comes is discarded.
void divert_now(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  rx.discard_bytes += rx.cursor.left();
  rx.cursor = PayloadCursor();
  rx.state = RxState::kDiscard;
  slot_done(worker, conn, {-ECANCELED, LndStatus::kOk});
}

/// The core wants the payload: sets up where it goes.
void payload_begin(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  const uint32_t total = rx.slot->header.payload_length;
  Payload into = rx.slot->into;
  into.length = std::min(into.length, total);
  rx.cursor.start(into);
  rx.discard_bytes = total - into.length;
  rx.csum = rx.decoder.csum();
  rx.slot_busy = true;
  rx.after_pipe = false;
  const FrameHeader& frame = rx.decoder.frame();
  // A payload with a cookie is acknowledged when it has come. If its sender is on this machine, the pages in the pipe
  // may be the sender's, and change from then on.
  const bool stays = frame.cookie0 == 0 || conn.on_wire;
  rx.may_pipe = rx.slot->may_pipe && worker.config.splice && rx.discard_bytes == 0 && frame.csum == 0 && stays;
  rx.state = RxState::kPayload;
}

/// Fills the slot of the message whose header has come. A message that was read whole gets a slot of its own, as long
/// as there are any, and its connection has at most half of them. A message with a checksum gets none, since it is only
/// received when the checksum is right.
SockSlot& open_slot(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  const ConnSet& set = *conn.set;
  const wire::Header& header = rx.decoder.header();
  const bool whole = header.payload_length <= rx.end - rx.begin && rx.decoder.frame().csum == 0;
  const bool has_share = rx.taken.size() < std::max(worker.config.rx_slots / 2, 1u);
  SockSlot* movable = whole && has_share ? worker.slots.take() : nullptr;
  if (movable != nullptr) rx.slot = movable;
  SockSlot& slot = *rx.slot;
  slot.conn = &conn;
  slot.begin(header, set.ni, set.ni_slice, set.peer_ni, set.peer, set.nid);
  if (conn.rewrite_source) {
    slot.header.src_nid = set.nid;
    slot.header.src_pid = set.pid;
  }
  slot.movable = movable != nullptr;
  if (slot.movable) slot.arrived_whole(rx.buffer.data() + rx.begin, header.payload_length);
  return slot;
}

/// The core took the message along: the stream goes on behind it.
void message_taken(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  const FrameHeader frame = rx.decoder.frame();
  rx.begin += rx.decoder.header().payload_length;
  rx.decoder.next();
  rx.slot->lap = rx.lap;
  rx.taken.push_back(*std::exchange(rx.slot, &rx.own));
  acknowledge(worker, conn, frame);
}

/// A message without payload, checksum and cookie has come with its header.
void message_ends(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  rx.decoder.next();
  rx.after_pipe = false;
  worker.core.rx_done(*rx.slot, {}, worker.now);
  slot_free(worker, rx);
}

bool is_header_only(const ConnRx& rx) {
  const FrameHeader& frame = rx.decoder.frame();
  return rx.decoder.header().payload_length == 0 && frame.csum == 0 && frame.cookie0 == 0;
}

void message_begin(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  if (!set_acked(worker, *conn.set, zc_ack_of(rx.decoder.frame(), conn.version))) return protocol_error(worker, conn);
  if (!up(conn)) return;
  SockSlot& slot = open_slot(worker, conn);
  switch (worker.core.rx_header(slot, worker.now)) {
    case RxVerdict::kReceive:
      if (up(conn) && is_header_only(rx)) return message_ends(worker, conn);
      payload_begin(worker, conn);
      if (!up(conn)) conn_rx_close(worker, conn);
      return;
    case RxVerdict::kHold: rx.state = RxState::kHeld; return;
    case RxVerdict::kTaken: return message_taken(worker, conn);
    case RxVerdict::kRefused: ULNET_CHECK(!"a slot without a token was refused"); return;
    case RxVerdict::kProtocolError:
      slot_free(worker, rx);
      if (up(conn)) protocol_error(worker, conn);
      return;
  }
}

/// Takes what the buffer has of headers; false when it needs more.
bool take_header(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  std::span<const std::byte> in{rx.buffer.data() + rx.begin, rx.end - rx.begin};
  const FrameStatus status = rx.decoder.feed(in);
  rx.begin = rx.end - uint32_t(in.size());
  switch (status) {
    case FrameStatus::kMore: return false;
    case FrameStatus::kNoop: {
      const FrameHeader frame = rx.decoder.frame();
      rx.decoder.next();
      if (!set_acked(worker, *conn.set, zc_ack_of(frame, conn.version))) protocol_error(worker, conn);
      return true;
    }
    case FrameStatus::kMessage: message_begin(worker, conn); return true;
    case FrameStatus::kBadType:
    case FrameStatus::kBadHeader:
    case FrameStatus::kBadCsum: protocol_error(worker, conn); return true;
  }
  return false;
}

/// Goes over `bytes` of payload that lie in their place, or are to be copied there from `from`.
void place_payload(Conn& conn, uint32_t bytes, const std::byte* from) {
  ConnRx& rx = conn.rx;
  const bool summed = rx.decoder.frame().csum != 0;
  while (bytes > 0) {
    iovec piece;
    if (rx.cursor.pieces({&piece, 1}, bytes) == 0) return;
    if (from != nullptr) {
      std::memcpy(piece.iov_base, from, piece.iov_len);
      from += piece.iov_len;
    }
    if (summed) rx.csum = csum_update(rx.csum, {static_cast<const std::byte*>(piece.iov_base), piece.iov_len});
    rx.cursor.advance(uint32_t(piece.iov_len));
    bytes -= uint32_t(piece.iov_len);
  }
}

/// Takes what the buffer has of the payload; false when it needs more.
bool take_payload(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  if (rx.state == RxState::kPayload) {
    const uint32_t bytes = std::min(rx.cursor.left(), rx.end - rx.begin);
    place_payload(conn, bytes, rx.buffer.data() + rx.begin);
    rx.begin += bytes;
    if (rx.cursor.left() > 0) return false;
    rx.state = RxState::kDiscard;
  }
  const uint32_t bytes = std::min(rx.discard_bytes, rx.end - rx.begin);
  if (rx.decoder.frame().csum != 0) rx.csum = csum_update(rx.csum, {rx.buffer.data() + rx.begin, bytes});
  rx.begin += bytes;
  rx.discard_bytes -= bytes;
  if (rx.discard_bytes > 0) return false;
  message_complete(worker, conn);
  return true;
}

/// The pipe is full, or the kernel does not fill it from this socket.
bool pipe_unusable(int result) {
  constexpr int kNot[] = {-ENOSPC, -EINVAL, -EPERM, -EACCES, -ENOSYS, -ENOMEM};
  return std::find(std::begin(kNot), std::end(kNot), result) != std::end(kNot);
}

/// The pipe for what is still to come of the payload; null: it goes to slot.into.
StreamPipe* pipe_for(SockWorker& worker, ConnRx& rx) {
  if (rx.state != RxState::kPayload || !rx.may_pipe) return nullptr;
  if (rx.pipe == nullptr) {
    if (rx.cursor.left() >= kPipedBytesMin) rx.pipe = worker.engine.pipe_take();
    if (rx.pipe != nullptr) rx.pipe->place = rx.decoder.header().payload_length - rx.cursor.left();
  }
  rx.may_pipe = rx.pipe != nullptr;
  return rx.pipe;
}

/// A free part of `buffer`.
struct Room {
  uint32_t begin = 0, bytes = 0;
};

/// Where to read next, when all that was read is used up: behind it, or at the begin of the buffer. The oldest taken
/// payload bounds it.
Room room_of(ConnRx& rx) {
  const auto size = uint32_t(rx.buffer.size());
  const SockSlot* oldest = rx.taken.front();
  if (oldest == nullptr) return {0, size};
  const auto in_use = uint32_t(oldest->arrived_piece.base - rx.buffer.data());
  if (oldest->lap != rx.lap) return {rx.end, in_use - rx.end >= kReadBackMin ? in_use - rx.end : 0};
  const uint32_t behind = size - rx.end;
  return behind >= kReadBackMin || in_use < kReadBackMin ? Room{rx.end, behind} : Room{0, in_use};
}

/// The next receive reads there.
void read_at(ConnRx& rx, const Room& room) {
  if (room.begin < rx.end) rx.lap = !rx.lap;
  rx.begin = rx.end = room.begin;
}

/// Posts the next receive: straight into the payload's place as far as that goes, with the buffer behind it for what
/// follows.
void arm(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  if (!up(conn) || rx.receiving || rx.state == RxState::kHeld) return;
  std::array<iovec, kStreamPieces> pieces;
  unsigned count = 0;
  rx.direct_bytes = 0;
  if (StreamPipe* pipe = pipe_for(worker, rx)) {
    rx.full = false;
    rx.receiving = rx.piping = true;
    ++worker.piped_receives;
    worker.engine.receive_piped(conn.stream, *pipe, rx.cursor.left());
    return conn_watch(worker, conn);
  }
  if (rx.state == RxState::kPayload) {
    count = rx.cursor.pieces({pieces.data(), kStreamPieces - 1});
    for (unsigned i = 0; i < count; ++i) rx.direct_bytes += uint32_t(pieces[i].iov_len);
  }
  const Room room = room_of(rx);
  rx.full = count == 0 && room.bytes < kReadRoomMin;
  if (rx.full) return;
  if (room.bytes >= kReadRoomMin && (count == 0 || rx.direct_bytes == rx.cursor.left())) {
    read_at(rx, room);
    // Between payloads that go to pipes, little more than a header is read: the rest would be copied.
    pieces[count++] = {rx.buffer.data() + rx.begin, rx.after_pipe ? kReadRoomMin : room.bytes};
  }
  rx.receiving = true;
  const bool in_payload = rx.state == RxState::kPayload || rx.state == RxState::kDiscard;
  worker.engine.receive(conn.stream, {pieces.data(), count}, in_payload ? rx.decoder.header().payload_length : 0);
  if (conn_rx_in_progress(conn)) conn_watch(worker, conn);
}

void run(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  bool more = true;
  while (more && up(conn)) {
    switch (rx.state) {
      case RxState::kHeader: more = take_header(worker, conn); break;
      case RxState::kPayload:
      case RxState::kDiscard: more = take_payload(worker, conn); break;
      case RxState::kHeld: more = false; break;
    }
  }
  arm(worker, conn);
}

}  // namespace

bool conn_rx_in_progress(const Conn& conn) {
  if (conn.rx.full) return false;  // the peer may have sent it long ago
  switch (conn.rx.state) {
    case RxState::kHeader: return !conn.rx.decoder.at_boundary();
    case RxState::kPayload:
    case RxState::kDiscard: return true;
    case RxState::kHeld: return false;
  }
  return false;
}

void conn_rx_start(SockWorker& worker, Conn& conn) {
  conn.rx.decoder.reset(conn.version, conn.flip);
  conn.rx.last_byte = worker.now;
  conn.set->received(worker.now);
  arm(worker, conn);
}

void conn_rx_received(SockWorker& worker, Conn& conn, int result) {
  ConnRx& rx = conn.rx;
  rx.receiving = false;
  const bool piped = std::exchange(rx.piping, false);
  if (piped) --worker.piped_receives;
  if (!up(conn)) return conn_rx_close(worker, conn);
  if (result > 0 && piped) {
    rx.last_byte = worker.now;
    conn.set->received(worker.now);
    rx.cursor.advance(uint32_t(result));
  } else if (piped && pipe_unusable(result)) {
    rx.may_pipe = false;  // the rest goes to memory
  } else if (result > 0) {
    rx.last_byte = worker.now;
    conn.set->received(worker.now);
    const uint32_t bytes = uint32_t(result);
    const uint32_t direct = std::min(bytes, rx.direct_bytes);
    place_payload(conn, direct, nullptr);
    rx.end = rx.begin + (bytes - direct);
  } else if (result != -ECANCELED) {
    // The end between two messages is no error, in the midst of one it is.
    const bool quiet = result == 0 && !conn_rx_in_progress(conn);
    return set_close(worker, *conn.set, quiet ? 0 : result == 0 ? -ECONNRESET : result, Closing::kOrderly);
  }
  if (rx.diverted) divert_now(worker, conn);
  run(worker, conn);
}

void conn_rx_continue(SockWorker& worker, Conn& conn) {
  if (up(conn) && !conn.rx.receiving) run(worker, conn);
}

void conn_rx_resume(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  ULNET_CHECK(rx.state == RxState::kHeld);
  rx.state = RxState::kHeader;
  rx.last_byte = worker.now;
  const bool receive = rx.slot->verdict == RxVerdict::kReceive;
  if (receive)
    payload_begin(worker, conn);
  else
    slot_free(worker, rx);
  if (!up(conn)) {
    conn_rx_close(worker, conn);
    conn_release(worker, conn);
  } else if (receive) {
    worker.mark_ready(conn);  // not from within: the core may be in the middle of something
  } else {
    protocol_error(worker, conn);
  }
}

void conn_rx_release(SockWorker& worker, SockSlot& slot) {
  Conn& conn = *slot.conn;
  ConnRx& rx = conn.rx;
  rx.taken.remove(slot);
  worker.slots.give(slot);
  if (!up(conn)) return conn_release(worker, conn);
  if (!rx.full || room_of(rx).bytes < kReadRoomMin) return;
  rx.full = false;
  rx.last_byte = worker.now;
  worker.mark_ready(conn);  // not from within: the core may be in the middle of something
}

void conn_rx_divert(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  if (!rx.slot_busy || rx.diverted) return;
  if (rx.receiving && (rx.piping || rx.direct_bytes > 0)) {
    rx.diverted = true;
    if (up(conn)) worker.engine.cancel_receive(conn.stream);  // else it is on its way back already
    return;
  }
  divert_now(worker, conn);
  if (up(conn) && !rx.receiving) worker.mark_ready(conn);
}

void conn_rx_close(SockWorker& worker, Conn& conn) {
  ConnRx& rx = conn.rx;
  if (rx.receiving || rx.state == RxState::kHeld) return;
  rx.state = RxState::kHeader;
  if (rx.slot_busy) {
    const int error = conn.error == 0 ? -ECONNRESET : conn.error;
    slot_done(worker, conn, rx.diverted ? Completion{-ECANCELED, LndStatus::kOk} : receive_failure(error));
  }
}

}  // namespace ulnet::socklnd
