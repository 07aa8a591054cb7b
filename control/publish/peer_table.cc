#include "control/publish/peer_table.h"

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet {

// Each level has the part that workers read (`view`, `entries`), and pointers that keep the level below alive (`keep`).
struct PeerTableBuilder::Leaf {
  std::vector<PeerTable::Entry> entries{1};  ///< and the end mark
  std::vector<std::shared_ptr<const PeerView>> keep;
  [[nodiscard]] size_t find(const Nid& nid) const {
    size_t i = 0;
    while (i < keep.size() && entries[i].nid != nid) ++i;
    return i;
  }
};
struct PeerTableBuilder::Limb {
  PeerTable::Limb view;
  std::array<std::shared_ptr<Leaf>, PeerTable::kFan> keep;
};
struct PeerTableBuilder::Root {
  PeerTable view;
  std::array<std::shared_ptr<Limb>, PeerTable::kFan> keep;
};

namespace {

/// Ensures that `node` exists and has no other owner, so that it may be edited. Counts the bytes copied for that.
template <class T>
T& own(std::shared_ptr<T>& node, uint64_t& copied) {
  if (node == nullptr) {
    node = std::make_shared<T>();
  } else if (node.use_count() > 1) {  // a snapshot has it, or a node that a snapshot has
    node = std::make_shared<T>(*node);
    copied += sizeof(T);
  }
  return *node;
}

}  // namespace

PeerTableBuilder::PeerTableBuilder() : root_(std::make_shared<Root>()) {}
PeerTableBuilder::~PeerTableBuilder() = default;

PeerTableBuilder::Leaf& PeerTableBuilder::leaf_for_edit(const Nid& nid) {
  const uint64_t hash = nid.hash();
  const size_t first = PeerTable::child(hash, 0), second = PeerTable::child(hash, 1);
  Root& root = own(root_, copied_);
  Limb& limb = own(root.keep[first], copied_);
  root.view.limbs[first] = &limb.view;
  const Leaf* before = limb.keep[second].get();
  Leaf& leaf = own(limb.keep[second], copied_);
  if (before != nullptr && before != &leaf)
    copied_ += leaf.keep.size() * (sizeof(PeerTable::Entry) + sizeof(leaf.keep[0]));
  limb.view.leaves[second] = leaf.entries.data();
  if (leaf.entries.size() == leaf.entries.capacity()) {  // for one more
    leaf.entries.reserve(2 * leaf.entries.size());
    limb.view.leaves[second] = leaf.entries.data();
  }
  return leaf;
}

void PeerTableBuilder::set(const Nid& nid, std::shared_ptr<const PeerView> peer, uint32_t ni_index) {
  ULNET_CHECK(peer != nullptr && ni_index < peer->nis.size());
  Leaf& leaf = leaf_for_edit(nid);
  const PeerTable::Entry entry{nid, ni_index, peer.get()};
  const size_t at = leaf.find(nid);
  if (at == leaf.keep.size()) {
    leaf.keep.push_back(std::move(peer));  // the last that needs memory: both grow, or neither
    leaf.entries.emplace_back();           // the end mark
    ++size_;
  } else {
    leaf.keep[at] = std::move(peer);
  }
  leaf.entries[at] = entry;
}

void PeerTableBuilder::erase(const Nid& nid) {
  if (!root_->view.find(nid)) return;
  Leaf& leaf = leaf_for_edit(nid);
  const auto at = std::ptrdiff_t(leaf.find(nid));
  leaf.keep.erase(leaf.keep.begin() + at);
  leaf.entries.erase(leaf.entries.begin() + at);
  --size_;
}

std::shared_ptr<const PeerTable> PeerTableBuilder::snapshot() const {
  return {root_, &root_->view};
}

}  // namespace ulnet
