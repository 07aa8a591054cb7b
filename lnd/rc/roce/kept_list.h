// A list of packets, which keep the bytes that a peer writes into a window. If a packet cannot be kept, its bytes are
// copied to their place in the window, and the list refers to them there. A packet can be kept if it continues the
// bytes before it, is not short, and the port has enough others. Thread: the worker.
#pragma once
#include <memory>
#include <span>

#include "dataplane/base/list.h"
#include "dataplane/state/kept.h"
#include "lnd/rc/roce/port.h"

namespace ulnet::rc::roce {

class KeptLists;

class KeptList final : public KeptPayload, public Linked<KeptList> {
 public:
  /// The place for `bytes` of this packet from `from` on is `at`, in the window. True: the packet is the list's now.
  /// False: the caller copies the bytes there, and the packet stays the caller's.
  [[nodiscard]] bool take(WorkerPort& port, const Arrival& arrival, uint32_t from, uint32_t bytes, std::byte* at);
  /// Nothing more comes. Returns the list, to be given back, if there is a packet in it; else the window has all, and
  /// the list is free.
  [[nodiscard]] KeptPayload* finish();

  [[nodiscard]] Payload payload() const override { return {segments_, segment_count_, 0, bytes_}; }
  void give_back() override;

 private:
  friend class KeptLists;
  // As many as packets of 1 KiB are in the longest payload, and some.
  static constexpr uint32_t kPieces = kMaxPayload / 1024 + 16;
  void add_window(uint32_t bytes);
  void let_go();
  void settle();

  KeptLists* owner_ = nullptr;
  WorkerPort* port_ = nullptr;  ///< of all packets; null: there is none yet, or the port is closed
  std::span<std::byte> window_;
  RegionId region_{};
  uint32_t least_ = 0;     ///< bytes of a packet that is kept
  bool is_plain_ = false;  ///< all further bytes go into the window
  uint32_t bytes_ = 0;     ///< of all segments
  uint32_t segment_count_ = 0, packet_count_ = 0;
  Segment* segments_ = nullptr;
  void** packets_ = nullptr;
};

/// The lists of a worker.
class KeptLists {
 public:
  static constexpr unsigned kLists = 64;
  KeptLists();  ///< Allocates: made on the control thread.
  /// A list for this window, which lies in this region. Packets with fewer bytes than `least` are copied. Null: all are
  /// in use.
  [[nodiscard]] KeptList* begin(std::span<std::byte> window, RegionId region, uint32_t least);
  /// The port is closed: no list has packets of it any more. Requires: nobody uses payloads of lists.
  void port_closes(const WorkerPort& port);
  [[nodiscard]] uint32_t free_count() const { return free_.size(); }

 private:
  friend class KeptList;
  std::array<KeptList, kLists> lists_;
  std::unique_ptr<std::byte[]> memory_;  ///< of all lists; the rest of a list is not touched before it is needed
  List<KeptList, KeptList> free_;        ///< LIFO
};

}  // namespace ulnet::rc::roce
