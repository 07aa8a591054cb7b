#include "control/publish/peer_table.h"

#include <algorithm>

#include "dataplane/base/check.h"

namespace ulnet {

// Each level: what workers read, and beside it who keeps the level below alive.
struct PeerTableBuilder::Leaf {
  PeerTable::Leaf view;
  std::vector<std::shared_ptr<const PeerView>> keep;
};
struct PeerTableBuilder::Branch {
  PeerTable::Branch view;
  std::array<std::shared_ptr<Leaf>, PeerTable::kFan> keep;
};
struct PeerTableBuilder::Root {
  PeerTable view;
  std::array<std::shared_ptr<Branch>, PeerTable::kFan> keep;
};

namespace {

/// Makes `node` exist and belong to nobody else, so that it may be edited.
template <class T>
T& own(std::shared_ptr<T>& node) {
  if (node == nullptr) {
    node = std::make_shared<T>();
  } else if (node.use_count() > 1) {  // a snapshot has it, or a node that a snapshot has
    node = std::make_shared<T>(*node);
  }
  return *node;
}

}  // namespace

PeerTableBuilder::PeerTableBuilder() : root_(std::make_shared<Root>()) {}
PeerTableBuilder::~PeerTableBuilder() = default;

PeerTableBuilder::Leaf& PeerTableBuilder::leaf_for_edit(const Nid& nid) {
  const uint64_t hash = nid.hash();
  const size_t first = hash & (PeerTable::kFan - 1);
  const size_t second = (hash >> PeerTable::kFanBits) & (PeerTable::kFan - 1);
  Root& root = own(root_);
  Branch& branch = own(root.keep[first]);
  root.view.branches[first] = &branch.view;
  Leaf& leaf = own(branch.keep[second]);
  branch.view.leaves[second] = &leaf.view;
  return leaf;
}

void PeerTableBuilder::set(const Nid& nid, std::shared_ptr<const PeerView> peer, uint32_t ni_index) {
  ULNET_CHECK(peer != nullptr && ni_index < peer->nis.size());
  Leaf& leaf = leaf_for_edit(nid);
  auto& entries = leaf.view.entries;
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const auto& entry) { return entry.nid == nid; });
  const PeerRef ref{peer.get(), ni_index};
  if (found == entries.end()) {
    entries.push_back({nid, ref});
    leaf.keep.push_back(std::move(peer));
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
