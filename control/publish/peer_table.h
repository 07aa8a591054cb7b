// Builds the table NID -> peer that workers read (state/view.h, PeerTable). Thread: control. The table is persistent: a
// snapshot shares with the previous one all paths that have not changed since. So one changed peer among many thousands
// costs a few KiB. Between two snapshots, nodes that no snapshot has are edited in place, so bulk changes do not copy a
// path each.
#pragma once
#include <memory>

#include "dataplane/state/view.h"

namespace ulnet {

class PeerTableBuilder {
 public:
  PeerTableBuilder();
  ~PeerTableBuilder();
  PeerTableBuilder(const PeerTableBuilder&) = delete;
  PeerTableBuilder& operator=(const PeerTableBuilder&) = delete;

  /// `nid` leads to NI `ni_index` of `peer` from the next snapshot on. Requires: ni_index < peer->nis.size().
  void set(const Nid& nid, std::shared_ptr<const PeerView> peer, uint32_t ni_index);
  /// `nid` leads nowhere from the next snapshot on; no effect when it does not anyway.
  void erase(const Nid& nid);
  /// The table as it is now; it and the peers in it live as long as the result does.
  [[nodiscard]] std::shared_ptr<const PeerTable> snapshot() const;
  [[nodiscard]] size_t size() const { return size_; }
  /// Bytes copied so far because snapshots had them: the cost of changes. Grows with the changes, not with size().
  [[nodiscard]] uint64_t copied_bytes() const { return copied_; }

 private:
  struct Leaf;
  struct Limb;
  struct Root;
  Leaf& leaf_for_edit(const Nid& nid);

  std::shared_ptr<Root> root_;
  size_t size_ = 0;
  uint64_t copied_ = 0;
};

}  // namespace ulnet
