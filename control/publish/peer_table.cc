#include "control/publish/peer_table.h"

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet {

// Each level has the part that workers read (`view`), and pointers that keep the level below alive (`keep`).
struct PeerTableBuilder::Leaf {
  PeerTable::Leaf view;
  std::vector<std::shared_ptr<const PeerView>> keep;
};
struct PeerTableBuilder::Branch {
  PeerTable::Branch view;
  std::array<std::shared_ptr<Leaf>, PeerTable::kFan> keep;
};
struct PeerTableBuilder::Limb {
  PeerTable::Limb view;
  std::array<std::shared_ptr<Branch>, PeerTable::kFan> keep;
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
  const size_t first = PeerTable::child(hash, 0), second = PeerTable::child(hash, 1), third = PeerTable::child(hash, 2);
  Root& root = own(root_, copied_);
  Limb& limb = own(root.keep[first], copied_);
  root.view.limbs[first] = &limb.view;
  Branch& branch = own(limb.keep[second], copied_);
  limb.view.branches[second] = &branch.view;
  const Leaf* before = branch.keep[third].get();
  Leaf& leaf = own(branch.keep[third], copied_);
  branch.view.leaves[third] = &leaf.view;
  if (before != nullptr && before != &leaf)
    copied_ += leaf.keep.size() * (sizeof(PeerTable::Entry) + sizeof(leaf.keep[0]));
  return leaf;
}

void PeerTableBuilder::set(const Nid& nid, std::shared_ptr<const PeerView> peer, uint32_t ni_index) {
  ULNET_CHECK(peer != nullptr && ni_index < peer->nis.size());
  Leaf& leaf = leaf_for_edit(nid);
  auto& entries = leaf.view.entries;
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.nid == nid; });
  const PeerRef ref{peer.get(), ni_index};
  if (found == entries.end()) {
    if (entries.size() == entries.capacity()) entries.reserve(2 * entries.size() + 1);
    leaf.keep.push_back(std::move(peer));  // the last that needs memory: both grow, or neither
    entries.push_back({nid, ref});
    ++size_;
  } else {
    found->ref = ref;
    leaf.keep[size_t(found - entries.begin())] = std::move(peer);
  }
}

void PeerTableBuilder::erase(const Nid& nid) {
  if (!root_->view.find(nid)) return;
  Leaf& leaf = leaf_for_edit(nid);
  auto& entries = leaf.view.entries;
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.nid == nid; });
  leaf.keep.erase(leaf.keep.begin() + (found - entries.begin()));
  entries.erase(found);
  --size_;
}

std::shared_ptr<const PeerTable> PeerTableBuilder::snapshot() const {
  return {root_, &root_->view};
}

}  // namespace ulnet
