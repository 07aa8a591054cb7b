#include "tests/cluster/credits_watch.h"

#include <fmt/format.h>

namespace ulnet::test {
namespace {

std::string not_home(const NiSlice& slice) {
  std::string text;
  if (!slice.credits.at_rest()) text += "NI credits out; ";
  if (slice.tx_count.get() != 0 || slice.rx_count.get() != 0)
    text += fmt::format("an NI is still used: {} Txs, {} receives; ", slice.tx_count.get(), slice.rx_count.get());
  return text;
}

std::string not_home(const PeerBlocks& blocks) {
  std::string text;
  const PeerSlice& slice = blocks.slice;
  if (!slice.credits.at_rest()) text += "peer credits out; ";
  if (!slice.rtr.at_rest()) text += "router credits out; ";
  if (slice.tx_count != 0 || slice.rx_count != 0) text += "a peer NI is still used; ";
  if (slice.tx_queued_bytes.get() != 0) text += "bytes still queued; ";
  for (const PeerLocal* local : blocks.by_worker)
    if (!local->incoming.idle()) text += "a share of incoming messages is out; ";
  for (const PeerLocal* local : blocks.by_worker)
    for (unsigned pool = 0; pool < kRouterPools; ++pool)
      if (local->buffers_held[pool] != 0 || !local->waiting[pool].empty()) text += "a hop's share is out; ";
  return text;
}

/// Removes the objects without another holder. Returns "" or the objects among them that are not at rest.
template <class Held>
std::string let_go(Held& held) {
  std::string text;
  for (auto one = held.begin(); one != held.end();) {
    if (one->second.use_count() > 1) {
      ++one;
      continue;
    }
    text += not_home(*one->second);
    one = held.erase(one);
  }
  return text;
}

}  // namespace

// Workers use only objects of published views, so one look per epoch is enough.
std::string CreditsWatch::look(Control& control) {
  if (control.publisher->epoch() == seen_) return "";
  seen_ = control.publisher->epoch();
  for (const auto& lnd : control.lnds) remote_writes_ |= lnd->regions_above() != UINT32_MAX;
  std::string text = let_go(nis_) + let_go(peers_);
  for (const LocalNis::LocalNet& net : control.nis->nets())
    for (const LocalNi& ni : net.nis)
      for (const auto& slice : ni.slices) nis_.try_emplace(slice.get(), slice);
  for (const auto& [id, peer] : control.peers->peers())
    for (const PeerNet& net : peer->nets)
      for (const PeerNi* ni : net.nis)
        if (ni->blocks != nullptr) peers_.try_emplace(ni->blocks.get(), ni->blocks);
  return text.empty() ? "" : "removed too early: " + text;
}

// Each Tx of a peer NI holds one credit of it or waits for one. The same is true for the NI's credits, except for a Tx
// between these two steps. A REPLY with a token takes no credits.
std::string CreditsWatch::not_accounted() const {
  std::string text;
  for (const auto& [place, slice] : nis_)
    if (slice->credits.held() + int64_t(slice->credits.waiting()) > slice->tx_count.get())
      text += "NI credits that nobody has; ";
  for (const auto& [place, blocks] : peers_) {
    const PeerSlice& slice = blocks->slice;
    const int64_t with_credit = slice.credits.held() + int64_t(slice.credits.waiting());
    if (remote_writes_ ? with_credit > slice.tx_count : with_credit != slice.tx_count)
      text += "peer credits and messages that do not agree; ";
    if (slice.tx_queued_bytes.get() < 0) text += "fewer bytes than none are queued; ";
  }
  return text.empty() ? "" : "when it is killed: " + text;
}

std::string CreditsWatch::end() {
  std::string text;
  for (const auto& [place, slice] : nis_) text += not_home(*slice);
  for (const auto& [place, blocks] : peers_) {
    text += not_home(*blocks);
    for (const PeerLocal* local : blocks->by_worker)
      if (local->tally->under_way() != 0 || local->tally->bytes() != 0) text += "a peer NI's tally counts messages; ";
  }
  forget();
  return text;
}

void CreditsWatch::forget() {
  nis_.clear();
  peers_.clear();
  seen_ = {};
  remote_writes_ = false;
}

}  // namespace ulnet::test
