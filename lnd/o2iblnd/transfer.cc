#include "lnd/o2iblnd/transfer.h"

#include <algorithm>

#include "lnd/o2iblnd/conn_end.h"

namespace ulnet::o2iblnd {
namespace {

constexpr unsigned kPiecesMax = 16;  ///< segments of one write
constexpr uint32_t kRoomKept = 1;    ///< for the message behind the writes

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
  transfer.from = PayloadCursor(tx.payload);
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
      // The last one before there is no room is reported, so that the transfer goes on.
      const uint64_t token = room == kRoomKept + 1 ? kWriteToken : 0;
      const auto posted = worker.rc.write(*conn.qp, std::span(pieces).first(count), transfer.key,
                                          fragment.address + transfer.inner, token);
      if (posted == rc::Posted::kNoRoom) return false;
      if (posted == rc::Posted::kImpossible) {
        conn_end(worker, conn, {-EFAULT, LndStatus::kLocalError});
        return false;
      }
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

}  // namespace ulnet::o2iblnd
