#include "lnd/rc/roce/kept_list.h"

#include <utility>

#include "dataplane/base/check.h"

namespace ulnet::rc::roce {

bool KeptList::take(WorkerPort& port, const Arrival& arrival, uint32_t from, uint32_t bytes, std::byte* at) {
  if (is_plain_) return false;
  if (at != window_.data() + bytes_) {
    settle();
    return false;
  }
  // One place is left for the window, whose pieces grow together from then on.
  const bool fits = segment_count_ + arrival.piece_count < kPieces;
  if (bytes < least_ || !fits || !port.keep(arrival)) {
    add_window(bytes);
    return false;
  }
  port_ = &port;
  packets_[packet_count_++] = arrival.packet;
  ULNET_CHECK(each_piece(arrival, from, bytes, [&](std::span<std::byte> piece) {
    segments_[segment_count_++] = {piece.data(), uint32_t(piece.size()), kKeptRegion};
  }));
  bytes_ += bytes;
  return true;
}

/// The next bytes lie in the window.
void KeptList::add_window(uint32_t bytes) {
  if (bytes == 0) return;
  const bool grows = segment_count_ > 0 && segments_[segment_count_ - 1].region == region_;
  if (grows)
    segments_[segment_count_ - 1].bytes += bytes;
  else
    segments_[segment_count_++] = {window_.data() + bytes_, bytes, region_};
  bytes_ += bytes;
}

void KeptList::let_go() {
  for (uint32_t i = 0; i < packet_count_ && port_ != nullptr; ++i) port_->let_go(packets_[i]);
  packet_count_ = 0;
  port_ = nullptr;
}

/// The peer writes elsewhere than behind its last bytes: all that was kept goes into the window.
void KeptList::settle() {
  std::byte* to = window_.data();
  for (uint32_t i = 0; i < segment_count_; to += segments_[i++].bytes)
    if (segments_[i].region == kKeptRegion) std::memcpy(to, segments_[i].base, segments_[i].bytes);
  let_go();
  is_plain_ = true;
}

KeptPayload* KeptList::finish() {
  if (packet_count_ == 0) {
    give_back();
    return nullptr;
  }
  is_plain_ = true;
  add_window(uint32_t(window_.size()) - bytes_);  // if the peer has not written all
  return this;
}

void KeptList::give_back() {
  let_go();
  owner_->free_.push_front(*this);
}

KeptLists::KeptLists()
    : memory_(
          std::make_unique_for_overwrite<std::byte[]>(kLists * KeptList::kPieces * (sizeof(Segment) + sizeof(void*)))) {
  auto* segments = reinterpret_cast<Segment*>(memory_.get());
  auto** packets = reinterpret_cast<void**>(segments + kLists * KeptList::kPieces);
  for (KeptList& list : lists_) {
    list.owner_ = this;
    list.segments_ = std::exchange(segments, segments + KeptList::kPieces);
    list.packets_ = std::exchange(packets, packets + KeptList::kPieces);
    free_.push_back(list);
  }
}

KeptList* KeptLists::begin(std::span<std::byte> window, RegionId region, uint32_t least) {
  KeptList* list = free_.pop_front();
  if (list == nullptr) return nullptr;
  list->window_ = window;
  list->region_ = region;
  list->least_ = least;
  list->is_plain_ = false;
  list->bytes_ = list->segment_count_ = 0;
  return list;
}

void KeptLists::port_closes(const WorkerPort& port) {
  for (KeptList& list : lists_) {
    if (list.port_ != &port) continue;
    if (list.is_plain_)
      list.let_go();
    else
      list.settle();
  }
}

}  // namespace ulnet::rc::roce
