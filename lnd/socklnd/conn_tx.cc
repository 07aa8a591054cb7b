// Send side of a connection. `ring` holds the messages that were begun, in order; only the first of them can be partly
// sent. A send takes pieces from the ring's front and pulls further messages from the queue while pieces are left. The
// part of a payload that lies in a pipe, or that is lent to the transport, has sends of its own.
#include "lnd/socklnd/conn_tx.h"

#include <algorithm>
#include <utility>

#include "lnd/socklnd/conn_set.h"
#include "lnd/socklnd/proto/zc.h"
#include "lnd/socklnd/status.h"
#include "lnd/socklnd/timers.h"

namespace ulnet::socklnd {
namespace {

constexpr unsigned kMergeLooksBack = 8;  ///< NOOPs looked at for a place for one more cookie

OutEntry& entry_at(ConnTx& tx, uint32_t i) {
  return tx.ring[(tx.ring_head + i) % kBatchMessages];
}
FrameHeader& noop_at(ConnTx& tx, uint32_t i) {
  return tx.noops[(tx.noop_head + i) % kAcksQueuedMax];
}

uint64_t message_bytes(const Conn& conn, const Tx& tx) {
  return frame_header_bytes(conn.version) + lnet_header_bytes(conn.version) + tx.payload.length;
}

/// The part of a payload that has sends of its own: in a pipe, or lent. From `begin` to `end`, both 0 if there is none.
struct PartApart {
  explicit PartApart(Tx& tx) : pipe(static_cast<StreamPipe*>(tx.piped)) {
    if (pipe != nullptr) {
      begin = pipe->place;
      end = begin + pipe->bytes();
    } else if (TxState(tx).lends()) {
      end = tx.payload.length;
    }
  }
  StreamPipe* pipe;
  uint32_t begin = 0, end = 0;
};

/// May the payload be sent from its memory? That needs an acknowledgement of the peer. A router on this machine may
/// acknowledge pages that it has yet to send. Small payloads, and those in small segments, are cheaper to copy.
bool may_lend(const SockWorker& worker, const Conn& conn, const Tx& message) {
  const uint32_t least = worker.config.zc_min_payload;
  const Payload& payload = message.payload;
  return least > 0 && payload.length >= least && payload.length / kLentSegmentMin >= payload.segment_count &&
         message.piped == nullptr && conn.version != kVersion1 && !conn.set->zc_book.full() &&
         (conn.on_wire || message.header.dest_nid == message.next_hop) && worker.now >= conn.tx.lends_from;
}

void store_csum(OutEntry& entry, FrameHeader frame) {
  uint32_t csum = frame_csum_start({entry.prefix.data(), entry.prefix_bytes});
  if (entry.tx != nullptr) {
    PayloadCursor cursor(entry.tx->payload);
    if (entry.tx->piped != nullptr) std::exchange(entry.tx->piped, nullptr)->to_memory(entry.tx->payload);
    iovec piece;
    while (cursor.pieces({&piece, 1}) == 1) {
      csum = csum_update(csum, {static_cast<const std::byte*>(piece.iov_base), piece.iov_len});
      cursor.advance(uint32_t(piece.iov_len));
    }
  }
  frame.csum = csum;
  frame_header_encode(frame, std::span<std::byte, kFrameHeaderBytes>(entry.prefix.data(), kFrameHeaderBytes));
}

/// Begins a NOOP: the ring has room.
void load_noop(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  OutEntry& entry = entry_at(tx, tx.ring_count++);
  const FrameHeader frame = noop_at(tx, 0);
  tx.noop_head = (tx.noop_head + 1) % kAcksQueuedMax;
  --tx.noop_count;
  entry.tx = nullptr;
  entry.prefix_bytes = kFrameHeaderBytes;
  frame_header_encode(frame, std::span<std::byte, kFrameHeaderBytes>(entry.prefix.data(), kFrameHeaderBytes));
  if (worker.config.enable_csum && conn.version == kVersion2) store_csum(entry, frame);
}

/// Begins the first message of the queue: the ring has room. False when it was completed instead.
bool load_message(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  Tx& message = *tx.queue.pop_front();
  const bool fits =
      conn.version == kVersion4 || (message.header.dest_nid.fits_u64() && message.header.src_nid.fits_u64());
  if (!fits || message.deadline <= worker.now) {
    tx.queued_bytes -= message_bytes(conn, message);
    worker.finish(
        message, fits ? Completion{-ETIMEDOUT, LndStatus::kNetworkTimeout} : Completion{-EAFNOSUPPORT, LndStatus::kOk});
    return false;
  }
  OutEntry& entry = entry_at(tx, tx.ring_count);
  FrameHeader frame;
  if (may_lend(worker, conn, message)) {
    frame.cookie0 = conn.set->zc_book.add(message);
    TxState(message).cookie(frame.cookie0);
    TxState(message).lend();
  }
  TxState(message).place(TxPlace::kBegun, &conn);
  entry.tx = &message;
  entry.prefix_bytes = uint32_t(frame_prefix_encode(conn.version, frame, message.header, entry.prefix));
  if (worker.config.enable_csum && conn.version == kVersion2) store_csum(entry, frame);
  if (tx.ring_count++ == 0) tx.front_cursor.start(message.payload);
  return true;
}

/// Begins one more; false when there is nothing or no room. NOOPs go first: they are small, and free the peer's memory.
bool load_next(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  while (tx.ring_count < kBatchMessages) {
    if (tx.noop_count > 0) {
      load_noop(worker, conn);
      return true;
    }
    if (tx.queue.empty()) return false;
    const bool loaded = load_message(worker, conn);
    if (conn.phase != ConnPhase::kUp) return false;
    if (loaded) return true;
  }
  return false;
}

/// The transport has all bytes of a begun message. The connection may have ended since: the engine may report its end
/// before a send that was complete earlier.
void message_sent(SockWorker& worker, Conn& conn, Tx& message) {
  TxState state(message);
  const bool up = conn.phase == ConnPhase::kUp;
  const bool plain = state.cookie() == 0;
  if (state.acknowledged() || (plain && (up || sent_before_end(conn.error, conn.reset))))
    return worker.finish(message, {});
  if (!up) return worker.finish(message, unacknowledged_failure(conn.error == 0 ? -ECONNRESET : conn.error));
  state.place(TxPlace::kZcWait, &conn);
  state.expires(worker.now + conn.set->timeout);
  conn.set->zc_wait.push_back(message);
  set_watch(worker, *conn.set);
}

/// The last byte of a begun message has not been handed over, and will not be. The peer can have the message only if an
/// acknowledgement has come.
void message_cut_off(SockWorker& worker, Tx& message, Completion how) {
  worker.finish(message, TxState(message).acknowledged() ? Completion{} : how);
}

/// Takes the first entry off the ring; returns its message, null for a NOOP.
Tx* pop_front(ConnTx& tx) {
  Tx* message = entry_at(tx, 0).tx;
  tx.ring_head = (tx.ring_head + 1) % kBatchMessages;
  --tx.ring_count;
  tx.front_sent = 0;
  if (tx.ring_count > 0) {
    const Tx* front = entry_at(tx, 0).tx;
    tx.front_cursor.start(front == nullptr ? Payload{} : front->payload);
  }
  return message;
}

void consume(SockWorker& worker, Conn& conn, uint64_t bytes) {
  ConnTx& tx = conn.tx;
  tx.sent_bytes += bytes;
  tx.queued_bytes -= std::min(bytes, tx.queued_bytes);
  while (tx.ring_count > 0) {
    const OutEntry& front = entry_at(tx, 0);
    const uint32_t left = front.bytes() - tx.front_sent;
    if (bytes < left) {
      const uint32_t before = std::max(tx.front_sent, front.prefix_bytes);
      tx.front_sent += uint32_t(bytes);
      if (tx.front_sent > before) tx.front_cursor.advance(tx.front_sent - before);
      return;
    }
    bytes -= left;
    if (Tx* message = pop_front(tx)) message_sent(worker, conn, *message);
  }
}

void send_begins(const SockWorker& worker, ConnTx& tx) {
  if (!tx.watched) {
    tx.watched = true;
    tx.progress_at = tx.stalled_since = tx.looked_at = worker.now;
  }
  tx.sending = true;
}

/// Hands over the next bytes of the first message, if they have sends of their own. False: they have not.
bool start_apart(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  if (tx.ring_count == 0) return false;
  const OutEntry& front = entry_at(tx, 0);
  if (front.tx == nullptr || tx.front_sent < front.prefix_bytes) return false;
  const PartApart part(*front.tx);
  const uint32_t at = tx.front_sent - front.prefix_bytes;
  if (at < part.begin || at >= part.end) return false;
  uint32_t bytes = std::min(part.end - at, kSendBytesMax);
  std::array<iovec, kStreamPieces> pieces;
  unsigned count = 0;
  if (part.pipe == nullptr) {
    count = tx.front_cursor.pieces(pieces, bytes);
    bytes = 0;
    for (unsigned i = 0; i < count; ++i) bytes += uint32_t(pieces[i].iov_len);
  }
  send_begins(worker, tx);
  const bool more = at + bytes < front.tx->payload.length || tx.ring_count > 1 || !tx.queue.empty();
  if (part.pipe != nullptr) {
    worker.engine.send_piped(conn.stream, *part.pipe, bytes, more);
  } else {
    tx.lent = true;
    worker.engine.send_lent(conn.stream, {pieces.data(), count}, more);
  }
  conn_watch(worker, conn);
  return true;
}

}  // namespace

void conn_tx_queue(SockWorker& worker, Conn& conn, Tx& tx) {
  TxState(tx).place(TxPlace::kQueued, &conn);
  conn.tx.queue.push_back(tx);
  conn.tx.queued_bytes += message_bytes(conn, tx);
  conn.tx.last_used = ++conn.set->use_sequence;
  worker.mark_dirty(conn);
}

bool conn_tx_noop(SockWorker& worker, Conn& conn, const FrameHeader& noop) {
  ConnTx& tx = conn.tx;
  if (tx.noop_count == kAcksQueuedMax) return false;
  noop_at(tx, tx.noop_count++) = noop;
  tx.queued_bytes += kFrameHeaderBytes;
  tx.last_used = ++conn.set->use_sequence;
  worker.mark_dirty(conn);
  return true;
}

bool conn_tx_ack(SockWorker& worker, Conn& conn, uint64_t cookie) {
  ConnTx& tx = conn.tx;
  const uint32_t looks = std::min<uint32_t>(tx.noop_count, kMergeLooksBack);
  for (uint32_t i = 1; i <= looks; ++i) {
    FrameHeader& noop = noop_at(tx, tx.noop_count - i);
    if (noop.cookie1 != kKeepaliveCookie && zc_ack_merge(noop, cookie)) return true;
  }
  return conn_tx_noop(worker, conn, {FrameType::kNoop, 0, 0, cookie});
}

void conn_tx_start(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  if (conn.phase != ConnPhase::kUp || tx.sending) return;
  if (start_apart(worker, conn)) return;
  std::array<iovec, kStreamPieces> pieces;
  unsigned count = 0;
  uint32_t room = kSendBytesMax;
  uint32_t next = 0;  // entry of the ring
  bool whole = true;  // everything looked at so far has found its pieces
  for (; whole && room > 0 && count < kStreamPieces; ++next) {
    if (next == tx.ring_count && !load_next(worker, conn)) break;
    if (conn.phase != ConnPhase::kUp) return;
    OutEntry& entry = entry_at(tx, next);
    const uint32_t skip = next == 0 ? std::min(tx.front_sent, entry.prefix_bytes) : 0;
    if (skip < entry.prefix_bytes) pieces[count++] = {entry.prefix.data() + skip, entry.prefix_bytes - skip};
    if (entry.tx == nullptr) continue;
    const PayloadCursor cursor = next == 0 ? tx.front_cursor : PayloadCursor(entry.tx->payload);
    const unsigned first = count;
    const PartApart part(*entry.tx);
    const uint32_t at = entry.tx->payload.length - cursor.left();
    const uint32_t in_pieces = at < part.end ? part.begin - std::min(at, part.begin) : UINT32_MAX;
    count += cursor.pieces(std::span(pieces).subspan(count), std::min(room, in_pieces));
    uint32_t described = 0;
    for (unsigned p = first; p < count; ++p) described += uint32_t(pieces[p].iov_len);
    whole = described == cursor.left();
    room -= described;
  }
  if (conn.phase != ConnPhase::kUp || count == 0) return;
  send_begins(worker, tx);
  const bool more = !whole || next < tx.ring_count || !tx.queue.empty();
  worker.engine.send(conn.stream, {pieces.data(), count}, more);
  conn_watch(worker, conn);
}

void conn_tx_sent(SockWorker& worker, Conn& conn, int result) {
  ConnTx& tx = conn.tx;
  tx.sending = false;
  if (result > 0) consume(worker, conn, uint64_t(result));
  if (conn.phase != ConnPhase::kUp) return conn_tx_close(worker, conn);
  if (result > 0) {
    if (tx.ring_count > 0 || tx.noop_count > 0 || !tx.queue.empty()) worker.mark_dirty(conn);
    return;
  }
  const int error = result == 0 ? -EIO : result;
  // The message whose write failed reports it; the others end with their connection. The connection ends first, because
  // its socket may still read the memory of that message.
  tx.failed_lends = conn_tx_lends(conn);
  Tx* failed = tx.ring_count > 0 ? pop_front(tx) : nullptr;
  set_close(worker, *conn.set, error, Closing::kOrderly);
  if (failed != nullptr) message_cut_off(worker, *failed, write_failure(error));
}

void conn_tx_unqueue(Conn& conn, Tx& tx) {
  conn.tx.queue.remove(tx);
  conn.tx.queued_bytes -= message_bytes(conn, tx);
}

void conn_tx_close(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  const Completion how = queue_failure(conn.error == 0 ? -ECONNRESET : conn.error);
  while (Tx* message = tx.queue.pop_front()) worker.finish(*message, how);
  if (tx.sending) return;  // conn_tx_sent() gets the true count and completes the rest
  while (tx.ring_count > 0)
    if (Tx* message = pop_front(tx)) message_cut_off(worker, *message, how);
}

bool conn_tx_lends(const Conn& conn) {
  const ConnTx& tx = conn.tx;
  const OutEntry& front = tx.ring[tx.ring_head];
  const bool begun = tx.ring_count > 0 && front.tx != nullptr && TxState(*front.tx).lends() &&
                     tx.front_sent >= front.prefix_bytes && (tx.sending || tx.front_sent > front.prefix_bytes);
  if (begun || tx.failed_lends) return true;
  List<Tx, TxTag>& waits = conn.set->zc_wait;
  for (Tx* message = waits.front(); message != nullptr; message = waits.after(*message))
    if (TxState(*message).lends() && TxState(*message).conn() == &conn) return true;
  return false;
}

void conn_tx_losses(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  const uint64_t lost = worker.engine.resent_bytes(conn.stream);
  const uint64_t newly_sent = tx.sent_bytes - std::exchange(tx.judged_sent, tx.sent_bytes);
  const uint64_t newly_lost = lost - std::min(lost, std::exchange(tx.judged_lost, lost));
  const uint64_t allowed = std::max<uint64_t>(kLentLossesMin, newly_sent / kLentLossesOneIn);
  if (std::exchange(tx.lent, false) && newly_lost > allowed) tx.lends_from = worker.now + kNoLendingFor;
}

bool conn_tx_progress(SockWorker& worker, Conn& conn) {
  ConnTx& tx = conn.tx;
  if (!tx.watched) return false;
  // Bytes that were merely copied into the socket are no progress, or a dead peer's time-out would move with each
  // message. A send under way may have put bytes there that are not reported yet, hence two signs.
  const uint64_t unsent = worker.engine.unsent_bytes(conn.stream);
  const uint64_t acked = tx.sent_bytes - std::min(tx.sent_bytes, unsent);
  if (acked > tx.acked_bytes || unsent < tx.unsent_bytes) {
    tx.progress_at = worker.now;
    tx.stalled_since = tx.looked_at;
  }
  tx.looked_at = worker.now;
  tx.acked_bytes = std::max(tx.acked_bytes, acked);
  tx.unsent_bytes = unsent;
  tx.watched = tx.sending || unsent > 0;
  return tx.watched;
}

}  // namespace ulnet::socklnd
