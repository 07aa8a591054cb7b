// Packet buffers (DPDK mbufs): a pool per queue, packets as segments of a message's payload without a copy, and frames
// that carry memory of others. Thread: the worker of the queue, unless said otherwise. Nothing here uses a port.
//
// Ownership: the holder of the `rte_mbuf*` (the head of its chain) frees the packet or hands it on, exactly once.
#pragma once
#include <rte_mbuf.h>

#include <array>
#include <memory>
#include <string>

#include "dataplane/base/gauge.h"
#include "dataplane/base/result.h"
#include "dataplane/state/payload.h"
#include "lnd/net/dpdk/pool_plan.h"
#include "lnd/net/packet/checksum.h"

namespace ulnet::dpdk {

inline constexpr unsigned kHeadersMax = 128;       ///< bytes of all headers of a frame, RoCE's among them
inline constexpr unsigned kCopyMax = 256;          ///< payload up to this size is copied behind the headers
inline constexpr unsigned kFrameSegmentsMax = 16;  ///< pieces of one frame that is sent; more are copied together

/// The buffers of one queue.
class PacketPool {
 public:
  /// Thread: control. `name`: unique in the process, at most 20 characters. Errors: ENOMEM.
  [[nodiscard]] static Result<std::unique_ptr<PacketPool>> create(const std::string& name, const PoolPlan& plan,
                                                                  int numa);
  ~PacketPool();  ///< Requires: all buffers are back.
  PacketPool(const PacketPool&) = delete;
  PacketPool& operator=(const PacketPool&) = delete;

  /// An empty packet of one segment; null when there is none.
  [[nodiscard]] rte_mbuf* take() { return rte_pktmbuf_alloc(data_); }
  /// A segment without data of its own, to attach other memory to; null when there is none.
  [[nodiscard]] rte_mbuf* take_head() { return rte_pktmbuf_alloc(heads_); }
  [[nodiscard]] uint32_t data_bytes() const { return data_bytes_; }

  /// The quarter-free rule: may a receiver keep `buffers` more for longer than a turn? False: the receiver copies. Kept
  /// buffers count until release(), so a quarter of the pool is free even when every queue is full.
  [[nodiscard]] bool hold(uint32_t buffers) {
    if (uint64_t(held_.get()) + buffers > held_max_) return false;
    held_.add(buffers);
    return true;
  }
  void release(uint32_t buffers) { held_.add(-int64_t(buffers)); }

  /// Any thread. Walks the allocator's caches, so use it for display and checks only.
  [[nodiscard]] uint32_t free_count() const;
  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] uint32_t heads_free_count() const;
  [[nodiscard]] uint32_t heads_capacity() const { return heads_capacity_; }
  [[nodiscard]] uint32_t held() const { return uint32_t(held_.get()); }
  [[nodiscard]] uint32_t held_max() const { return held_max_; }
  /// All buffers are back, but for those that a closed device keeps (BufferShape::kept_by_device).
  [[nodiscard]] bool whole() const {
    return free_count() + kept_by_device_ >= capacity_ && heads_free_count() == heads_capacity_;
  }
  [[nodiscard]] rte_mempool* mempool() const { return data_; }  ///< for port.cc

 private:
  PacketPool(rte_mempool* data, rte_mempool* heads, const PoolPlan& plan);
  rte_mempool* data_;
  rte_mempool* heads_;
  const uint32_t data_bytes_;
  const uint32_t held_max_;
  const uint32_t kept_by_device_;
  const uint32_t capacity_;
  const uint32_t heads_capacity_;
  Gauge held_;  // worker: w, anyone: r
};

// --- looking at a packet ---

[[nodiscard]] inline uint32_t packet_bytes(const rte_mbuf* packet) {
  return packet->pkt_len;
}
/// `bytes` contiguous bytes at `offset`: in place, or copied to `scratch` when segments cut them. Empty when the packet
/// is shorter. Requires scratch.size() >= bytes.
[[nodiscard]] Bytes packet_read(const rte_mbuf* packet, uint32_t offset, uint32_t bytes, std::span<std::byte> scratch);
/// Adds `bytes` from `offset` on to a checksum.
void packet_sum(const rte_mbuf* packet, uint32_t offset, uint32_t bytes, Checksum& sum);
inline void packet_free(rte_mbuf* packet) {
  rte_pktmbuf_free(packet);
}

/// Packets whose pieces, one behind the other, are the payload of a message: handed on as they arrived. Holds at most
/// kMaxSegments pieces. Move it nowhere: a Payload points into it.
class PacketChain {
 public:
  explicit PacketChain(PacketPool& pool) : pool_(&pool) {}
  ~PacketChain() { clear(); }
  PacketChain(const PacketChain&) = delete;
  PacketChain& operator=(const PacketChain&) = delete;

  /// Appends `bytes` from `offset` on. True: the chain owns the packet now. False: the packet stays the caller's, and
  /// the caller copies the bytes out. Then the pool's limit for receivers is reached, or there are too many pieces.
  [[nodiscard]] bool append(rte_mbuf* packet, uint32_t offset, uint32_t bytes);
  [[nodiscard]] Payload payload() const { return {segments_.data(), segment_count_, 0, bytes_}; }
  [[nodiscard]] uint32_t bytes() const { return bytes_; }
  /// No room for one more packet of the longest kind.
  [[nodiscard]] bool full() const { return segment_count_ + kFrameSegmentsMax > segments_.size(); }
  /// Frees the packets. On the worker of the pool.
  void clear();

 private:
  PacketPool* pool_;
  uint32_t segment_count_ = 0;
  uint32_t packet_count_ = 0;
  uint32_t held_ = 0;
  uint32_t bytes_ = 0;
  std::array<Segment, kMaxSegments> segments_;
  std::array<rte_mbuf*, kMaxSegments> packets_;
};

// --- sending memory that is not ours ---

/// Lends memory to any number of frames, and reports once that the last of them is gone. Must not move while it is
/// open.
class TxLease {
 public:
  using Done = void (*)(TxLease& lease, void* context);
  /// `done` is called on the thread that frees the last frame: the queue's worker.
  void open(Done done, void* context);
  /// No further frames. May call `done` before it returns.
  void close();
  /// The number of parts of frames is limited: false near the limit.
  [[nodiscard]] bool has_room() const { return rte_mbuf_ext_refcnt_read(&info_) < kPartsMax; }
  [[nodiscard]] bool is_open() const { return done_ != nullptr; }

 private:
  static constexpr unsigned kPartsMax = UINT16_MAX / 2;
  friend rte_mbuf* frame_make(PacketPool&, Bytes, PayloadCursor&, uint32_t, TxLease*, bool);
  static void freed(void* address, void* self);
  rte_mbuf_ext_shared_info info_{};
  Done done_ = nullptr;
  void* context_ = nullptr;
};

/// A frame of `headers` and the next `bytes` of `payload`. The payload is attached in place if there is a lease and the
/// port takes it (`multi_segment`: PortQueue::lends()). Otherwise, and if it is short or in too many pieces, the
/// payload is copied. Advances the cursor. Null: no buffer, and the cursor has not moved. Requires headers.size() <=
/// kHeadersMax.
[[nodiscard]] rte_mbuf* frame_make(PacketPool& pool, Bytes headers, PayloadCursor& payload, uint32_t bytes,
                                   TxLease* lease, bool multi_segment);

/// Returns the packet in one segment, for ports that cannot send several. A packet of several segments is copied and
/// freed. Null if it does not fit or there is no buffer: the packet stays the caller's.
[[nodiscard]] rte_mbuf* packet_linear(PacketPool& pool, rte_mbuf* packet);

}  // namespace ulnet::dpdk
