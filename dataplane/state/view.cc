#include "dataplane/state/view.h"

namespace ulnet {
namespace {

/// The numbers at `index` in the list of each NI of the net.
template <class List>
uint64_t level_bits(const LocalView& view, const NetView& net, List list) {
  const std::vector<uint32_t>& first = view.nis[net.first].*list;
  uint64_t bits = 0;
  for (size_t index = 0; index < std::min<size_t>(first.size(), 64); ++index) {
    bool level = true;
    for (uint32_t i = 1; i < net.count; ++i) {
      const std::vector<uint32_t>& one = view.nis[net.first + i].*list;
      level = level && index < one.size() && one[index] == first[index];
    }
    bits |= uint64_t{level} << index;
  }
  return bits;
}

}  // namespace

void rank_nis(LocalView& view) {
  view.ranks.clear();
  view.nid_hashes.clear();
  for (const NiView& ni : view.nis) {
    view.ranks.push_back({ni.going() ? Rank::kNone : Rank::key_of(ni.fatal, ni.health, ni.priority), ni.slot, 0});
    view.nid_hashes.push_back(uint32_t(ni.nid.hash()));
  }
  for (NetView& net : view.nets) {
    if (net.count == 0) continue;
    net.level_memory = level_bits(view, net, &NiView::distances);
    net.level_accelerator = level_bits(view, net, &NiView::device_priorities);
    net.usable = false;
    net.credits_most = 0;
    for (uint32_t i = net.first; i < net.first + net.count; ++i) {
      net.usable |= view.ranks[i].key != Rank::kNone;
      net.credits_most = std::max(net.credits_most, view.nis[i].tx_credits);
    }
    for (uint32_t i = net.first; i < net.first + net.count; ++i)
      view.ranks[i].handicap = uint32_t(net.credits_most - view.nis[i].tx_credits);
  }
}

void rank_nis(PeerView& view) {
  view.ranks.clear();
  for (const PeerNiView& ni : view.nis) view.ranks.push_back({Rank::key_of(false, ni.health, ni.priority), ni.slot, 0});
  for (PeerNetView& net : view.nets) {
    net.lists_differ = false;
    net.credits_most = 0;
    for (uint32_t i = net.first; i < net.first + net.count; ++i) {
      net.lists_differ |= view.nis[i].sources != view.nis[net.first].sources;
      net.credits_most = std::max(net.credits_most, view.nis[i].tx_credits);
    }
    for (uint32_t i = net.first; i < net.first + net.count; ++i)
      view.ranks[i].handicap = uint32_t(net.credits_most - view.nis[i].tx_credits);
  }
}

}  // namespace ulnet
