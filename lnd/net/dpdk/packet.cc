#include "lnd/net/dpdk/packet.h"

#include <rte_errno.h>
#include <rte_mempool.h>

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet::dpdk {

PacketPool::PacketPool(rte_mempool* data, rte_mempool* heads, const PoolPlan& plan)
    : data_(data),
      heads_(heads),
      data_bytes_(plan.shape.data_bytes),
      held_max_(plan.held_max),
      kept_by_device_(plan.shape.kept_by_device),
      capacity_(data->size),
      heads_capacity_(heads->size) {}

namespace {

/// The buffer that came back last is warm: it is the next to be taken, and no lock is needed. DPDK's own choice takes
/// all buffers in turn.
constexpr const char* kLastFirst = "lf_stack";

/// As rte_pktmbuf_pool_create(), with a choice of order. `spread`: buffers are padded, which spreads them over memory
/// channels. Without the padding, a buffer of a page is no larger than a page. Null: rte_errno says why.
rte_mempool* make_pool(const std::string& name, uint32_t buffers, uint16_t room, int numa, bool spread,
                       const char* order) {
  rte_mempool* pool =
      rte_mempool_create_empty(name.c_str(), buffers, uint32_t(sizeof(rte_mbuf)) + room, kPoolCache,
                               sizeof(rte_pktmbuf_pool_private), numa, spread ? 0 : RTE_MEMPOOL_F_NO_SPREAD);
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private settings{};
  settings.mbuf_data_room_size = room;
  int error = rte_mempool_set_ops_byname(pool, order, nullptr);
  if (error == 0) {
    rte_pktmbuf_pool_init(pool, &settings);
    error = std::min(rte_mempool_populate_default(pool), 0);
  }
  if (error != 0) {
    rte_mempool_free(pool);
    rte_errno = -error;
    return nullptr;
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  return pool;
}

/// Falls back to DPDK's own order where the other is not there. Buffers of a page always have it: with the other, the
/// driver of AF_XDP receives nothing (DPDK 22.11).
rte_mempool* make_pool(const std::string& name, uint32_t buffers, uint16_t room, int numa, bool spread) {
  if (!spread) return make_pool(name, buffers, room, numa, spread, RTE_MBUF_DEFAULT_MEMPOOL_OPS);
  rte_mempool* pool = make_pool(name, buffers, room, numa, spread, kLastFirst);
  const bool absent = pool == nullptr && (rte_errno == EINVAL || rte_errno == ENOTSUP);
  return absent ? make_pool(name, buffers, room, numa, spread, RTE_MBUF_DEFAULT_MEMPOOL_OPS) : pool;
}

}  // namespace

Result<std::unique_ptr<PacketPool>> PacketPool::create(const std::string& name, const PoolPlan& plan, int numa) {
  const auto room = uint16_t(plan.shape.data_bytes + RTE_PKTMBUF_HEADROOM);
  rte_mempool* data = make_pool(name + "d", plan.buffers, room, numa, !plan.shape.one_page);
  if (data == nullptr) return fail(rte_errno, "no memory for the packet buffers");
  rte_mempool* heads = make_pool(name + "h", plan.heads, 0, numa, true);
  if (heads == nullptr) {
    const int code = rte_errno;
    rte_mempool_free(data);
    return fail(code, "no memory for the packet buffers");
  }
  return std::unique_ptr<PacketPool>(new PacketPool(data, heads, plan));
}

PacketPool::~PacketPool() {
  ULNET_CHECK(whole());
  rte_mempool_free(data_);
  rte_mempool_free(heads_);
}

uint32_t PacketPool::free_count() const {
  return rte_mempool_avail_count(data_);
}

uint32_t PacketPool::heads_free_count() const {
  return rte_mempool_avail_count(heads_);
}

Bytes packet_read(const rte_mbuf* packet, uint32_t offset, uint32_t bytes, std::span<std::byte> scratch) {
  const void* at = rte_pktmbuf_read(packet, offset, bytes, scratch.data());
  if (at == nullptr) return {};
  return {static_cast<const std::byte*>(at), bytes};
}

void packet_sum(const rte_mbuf* packet, uint32_t offset, uint32_t bytes, Checksum& sum) {
  for (const rte_mbuf* segment = packet; segment != nullptr && bytes > 0; segment = segment->next) {
    if (offset >= segment->data_len) {
      offset -= segment->data_len;
      continue;
    }
    const uint32_t here = std::min(uint32_t{segment->data_len} - offset, bytes);
    sum.add({rte_pktmbuf_mtod_offset(segment, const std::byte*, offset), here});
    bytes -= here;
    offset = 0;
  }
}

bool PacketChain::append(rte_mbuf* packet, uint32_t offset, uint32_t bytes) {
  const uint32_t buffers = packet->nb_segs;
  if (packet_count_ == packets_.size() || segment_count_ + buffers > segments_.size()) return false;
  if (!pool_->hold(buffers)) return false;
  held_ += buffers;
  packets_[packet_count_++] = packet;
  bytes_ += bytes;
  for (rte_mbuf* segment = packet; segment != nullptr && bytes > 0; segment = segment->next) {
    if (offset >= segment->data_len) {
      offset -= segment->data_len;
      continue;
    }
    const uint32_t here = std::min(uint32_t{segment->data_len} - offset, bytes);
    segments_[segment_count_++] = {rte_pktmbuf_mtod_offset(segment, std::byte*, offset), here};
    bytes -= here;
    offset = 0;
  }
  ULNET_CHECK(bytes == 0);
  return true;
}

void PacketChain::clear() {
  if (packet_count_ > 0) rte_pktmbuf_free_bulk(packets_.data(), packet_count_);
  pool_->release(held_);
  packet_count_ = segment_count_ = held_ = bytes_ = 0;
}

void TxLease::open(Done done, void* context) {
  ULNET_CHECK(done_ == nullptr && done != nullptr);
  done_ = done;
  context_ = context;
  info_.free_cb = &TxLease::freed;
  info_.fcb_opaque = this;
  rte_mbuf_ext_refcnt_set(&info_, 1);  // ours, until close()
}

void TxLease::close() {
  if (rte_mbuf_ext_refcnt_update(&info_, -1) == 0) freed(nullptr, this);
}

void TxLease::freed(void*, void* self) {
  auto& lease = *static_cast<TxLease*>(self);
  const Done done = std::exchange(lease.done_, nullptr);
  done(lease, lease.context_);
}

namespace {

/// Copies `bytes` from the cursor behind the data of `packet`, into as many buffers as needed. False: no buffer.
bool copy_behind(PacketPool& pool, rte_mbuf* packet, PayloadCursor& payload, uint32_t bytes) {
  rte_mbuf* last = packet;
  std::array<iovec, 8> pieces;
  while (bytes > 0) {
    if (rte_pktmbuf_tailroom(last) == 0) {
      rte_mbuf* more = pool.take();
      if (more == nullptr) return false;
      last->next = more;
      last = more;
      ++packet->nb_segs;
    }
    const unsigned count = payload.pieces(pieces, std::min<uint32_t>(bytes, rte_pktmbuf_tailroom(last)));
    ULNET_CHECK(count > 0);
    for (unsigned i = 0; i < count; ++i) {
      std::memcpy(rte_pktmbuf_mtod_offset(last, std::byte*, last->data_len), pieces[i].iov_base, pieces[i].iov_len);
      last->data_len = uint16_t(last->data_len + pieces[i].iov_len);
      packet->pkt_len += uint32_t(pieces[i].iov_len);
      bytes -= uint32_t(pieces[i].iov_len);
      payload.advance(uint32_t(pieces[i].iov_len));
    }
  }
  return true;
}

}  // namespace

rte_mbuf* frame_make(PacketPool& pool, Bytes headers, PayloadCursor& payload, uint32_t bytes, TxLease* lease,
                     bool multi_segment) {
  rte_mbuf* packet = pool.take();
  if (packet == nullptr) return nullptr;
  if (!headers.empty()) std::memcpy(rte_pktmbuf_mtod(packet, void*), headers.data(), headers.size());
  packet->data_len = uint16_t(headers.size());
  packet->pkt_len = uint32_t(headers.size());
  std::array<iovec, kFrameSegmentsMax> pieces;
  unsigned count = 0;
  if (lease != nullptr && multi_segment && bytes > kCopyMax && lease->has_room()) {
    count = payload.pieces(pieces, bytes);
    uint64_t covered = 0;
    for (unsigned i = 0; i < count; ++i) covered += pieces[i].iov_len;
    if (covered != bytes) count = 0;  // in too many pieces: copied
  }
  if (count == 0) {
    const PayloadCursor before = payload;
    if (copy_behind(pool, packet, payload, bytes)) return packet;
    payload = before;
    packet_free(packet);
    return nullptr;
  }
  rte_mbuf* last = packet;
  for (unsigned i = 0; i < count; ++i) {
    rte_mbuf* head = pool.take_head();
    if (head == nullptr) {
      packet_free(packet);
      return frame_make(pool, headers, payload, bytes, nullptr, multi_segment);
    }
    // Ports of ours address memory by virtual address (IOVA as VA); a virtual port does not look at the IOVA.
    rte_mbuf_ext_refcnt_update(&lease->info_, 1);
    rte_pktmbuf_attach_extbuf(head, pieces[i].iov_base, rte_iova_t(uintptr_t(pieces[i].iov_base)),
                              uint16_t(pieces[i].iov_len), &lease->info_);
    head->data_len = uint16_t(pieces[i].iov_len);
    packet->pkt_len += uint32_t(pieces[i].iov_len);
    ++packet->nb_segs;
    last->next = head;
    last = head;
  }
  payload.advance(bytes);
  return packet;
}

rte_mbuf* packet_linear(PacketPool& pool, rte_mbuf* packet) {
  if (packet->nb_segs == 1) return packet;
  rte_mbuf* one = packet->pkt_len <= pool.data_bytes() ? pool.take() : nullptr;
  if (one == nullptr) return nullptr;
  auto* to = rte_pktmbuf_mtod(one, std::byte*);
  for (const rte_mbuf* segment = packet; segment != nullptr; segment = segment->next) {
    std::memcpy(to, rte_pktmbuf_mtod(segment, const void*), segment->data_len);
    to += segment->data_len;
  }
  one->data_len = uint16_t(packet->pkt_len);
  one->pkt_len = packet->pkt_len;
  one->ol_flags = packet->ol_flags & RTE_MBUF_F_TX_OFFLOAD_MASK;
  one->tx_offload = packet->tx_offload;
  one->vlan_tci = packet->vlan_tci;
  packet_free(packet);
  return one;
}

}  // namespace ulnet::dpdk
