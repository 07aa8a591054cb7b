#include "lnd/o2iblnd/transfer.h"

#include <algorithm>

namespace ulnet::o2iblnd {
namespace {

constexpr unsigned kPiecesMax = 16;  ///< segments of one write
constexpr uint32_t kRoomKept = 1;    ///< for the message behind the writes

enum class Bounce : uint8_t { kYes, kWaits, kImpossible };
/// The rest of the payload lies in no region: goes on from a copy in staging memory.
Bounce bounce(IbWorker& worker, Conn& conn, Transfer& transfer) {
  if (worker.staging.empty() || transfer.staged.base != nullptr) return Bounce::kImpossible;
  std::byte* block = worker.staging.take_out();
  if (block == nullptr) {
    conn.transfers.remove(transfer);
    worker.bounce_wanted.push_back(transfer);
    return Bounce::kWaits;
  }
  transfer.staged = {block, transfer.left, kStagingRegion};
  const Payload copy{&transfer.staged, 1, 0, transfer.left};
  PayloadCursor to(copy);
  payload_copy(to, transfer.from, transfer.left);
  transfer.from.start(copy);
  return Bounce::kYes;
}

/// False: none that waits can go on.
bool wake_in(IbWorker& worker) {
  while (In* next = worker.staging.is_free_in() ? worker.staging_wanted.pop_front() : nullptr) {
    if (!next->conn->is_up()) continue;  // ends with its connection
    next->conn->offering.push_back(*next);
    worker.mark_dirty(*next->conn);
    return true;
  }
  return false;
}
bool wake_out(IbWorker& worker) {
  while (Transfer* next = worker.staging.is_free_out() ? worker.bounce_wanted.pop_front() : nullptr) {
    if (!next->conn->is_up()) continue;  // ends with its connection
    next->conn->transfers.push_back(*next);
    worker.mark_dirty(*next->conn);
    return true;
  }
  return false;
}

void transfer_drop(IbWorker& worker, Conn& conn, Transfer& transfer) {
  if (static_cast<Linked<StagingTag>&>(transfer).linked()) worker.bounce_wanted.remove(transfer);
  const bool woke = static_cast<Linked<StepTag>&>(transfer).linked();
  if (woke) conn.transfers.remove(transfer);
  if (const std::byte* block = std::exchange(transfer.staged.base, nullptr)) return staging_give(worker, block);
  if (woke) staging_wake(worker);
}

}  // namespace

void transfer_sink(Transfer& transfer, uint64_t cookie, const RemoteSink& sink) {
  transfer.cookie = cookie;
  transfer.key = sink.key();
  transfer.fragments = sink.count();
  for (uint32_t i = 0; i < transfer.fragments; ++i) (*transfer.sink)[i] = sink.at(i);
  transfer.room = uint32_t(std::min<uint64_t>(sink.bytes(), kMaxPayload));
}

void transfer_begin(Conn& conn, Transfer& transfer, Tx& tx) {
  transfer.tx = &tx;
  transfer.fragment = transfer.inner = 0;
  transfer.bytes = transfer.left = std::min(tx.payload.length, transfer.room);
  transfer.from.start(tx.payload);
  transfer.how = {};
  conn.transfers.push_back(transfer);
}

bool transfer_write(IbWorker& worker, Conn& conn, Transfer& transfer) {
  const unsigned most = std::min<unsigned>(conn.qp->pieces, kPiecesMax);
  while (transfer.left > 0) {
    const Fragment& fragment = (*transfer.sink)[transfer.fragment];
    const uint32_t here = std::min(fragment.bytes - transfer.inner, transfer.left);
    if (here > 0) {
      const uint32_t room = worker.rc.room(*conn.qp);
      if (room <= kRoomKept) return false;
      std::array<Segment, kPiecesMax> pieces;
      const unsigned count = transfer.from.segments(std::span(pieces).first(most), here);
      uint32_t bytes = 0;
      for (unsigned i = 0; i < count; ++i) bytes += pieces[i].bytes;
      // The last one before there is no room is reported, so that the transfer goes on. The report of one halfway keeps
      // the connection busy.
      const bool reported = room == kRoomKept + 1 || room == conn.qp->work / 2;
      const uint64_t token = reported ? kWriteToken : 0;
      const auto posted = worker.rc.write(*conn.qp, std::span(pieces).first(count), transfer.key,
                                          fragment.address + transfer.inner, token);
      if (posted == rc::Posted::kNoRoom) return false;
      if (posted == rc::Posted::kImpossible) {
        switch (bounce(worker, conn, transfer)) {
          case Bounce::kYes: continue;
          case Bounce::kWaits: return false;
          case Bounce::kImpossible: transfer.how = {-EFAULT, LndStatus::kLocalError}; return true;
        }
      }
      conn.gauges.bytes_sent.add(bytes);
      transfer.from.advance(bytes);
      transfer.left -= bytes;
      transfer.inner += bytes;
    }
    if (transfer.inner < fragment.bytes) continue;
    transfer.inner = 0;
    ++transfer.fragment;
  }
  return true;
}

void transfers_drop(IbWorker& worker, Conn& conn) {
  for (uint32_t i = 0; i < conn.depth_max; ++i) {
    transfer_drop(worker, conn, conn.requests[i].transfer);
    transfer_drop(worker, conn, conn.serving[i].transfer);
  }
  for (uint32_t i = 0; i < conn.qp->sends; ++i)
    if (const std::byte* block = std::exchange(conn.outs[i].staged, nullptr)) staging_give(worker, block);
}

void staging_wake(IbWorker& worker) {
  const bool out = std::exchange(worker.bounce_first, !worker.bounce_first);
  if (out ? wake_out(worker) : wake_in(worker)) return;
  (void)(out ? wake_in(worker) : wake_out(worker));
}

void staging_give(IbWorker& worker, const std::byte* block) {
  worker.staging.give(block);
  staging_wake(worker);
}

}  // namespace ulnet::o2iblnd
