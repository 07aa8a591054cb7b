#include "dataplane/stages/under_way.h"

#include <algorithm>
#include <utility>

namespace ulnet {
namespace {

/// Requests to one peer NI that count on their local NI until the answer is here. More do not: the peer may be slow to
/// answer, and that says nothing about the NI.
constexpr uint32_t kAwaitedOnNi = 16;
constexpr uint32_t kPacedRailsMax = 64;  ///< of a peer or net; if there are more, all count as equal

uint32_t microseconds(Instant now) {
  return uint32_t(std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count());
}

/// Derives the weights of interfaces that could carry the same messages. `each(f)` calls f(TallyRef) for each of them.
template <class Each>
void judge(Worker& w, PaceKind kind, Each each) {
  float best = 0;
  each([&](TallyRef one) {
    const float value = one.pace().value(kind, w.now);
    if (value > 0 && (best == 0 || value < best)) best = value;
  });
  each([&](TallyRef one) {
    w.tallies.set_weight(one, kind, weight_of(kind, one.pace().value(kind, w.now), best, one.weights().of(kind)));
  });
}

void judge_peer(Worker& w, PaceKind kind, const Nid& hop) {
  const PeerRef ref = w.view->peers->find(hop);
  if (!ref || ref.peer->nis.size() > kPacedRailsMax) return;
  judge(w, kind, [&](auto visit) {
    for (const PeerNiView& ni : ref.peer->nis)
      if (ni.slice != nullptr) visit(w.tallies.peer_ni(ni.slot));
  });
}

void judge_net(Worker& w, PaceKind kind, Net net) {
  const NetView* view = w.view->local->net(net);
  if (view == nullptr || view->count > kPacedRailsMax) return;
  judge(w, kind, [&](auto visit) {
    for (uint32_t i = 0; i < view->count; ++i) visit(w.tallies.ni(w.view->local->nis[view->first + i].slot));
  });
}

PaceKind kind_of(const Sending& m) {
  return pace_kind(bytes_under_way(m));
}

/// Does the time of the message say something about the rail? Only an answer does: a message without one ends when the
/// driver has it. The time to set up a connection says nothing.
bool paced(Sending& m, int32_t error) {
  return m.under_way.since_us != 0 && error == 0 && !m.tx.no_connection &&
         !m.again &&  // else the answer may be that of another attempt
         m.kind == MessageKind::kOperation && as_operation(m).awaits_answer();
}

void sample(const Worker& w, const Sending& m, TallyRef on, uint16_t ahead) {
  const Duration took = std::chrono::microseconds(microseconds(w.now) - m.under_way.since_us);
  on.pace().sample(kind_of(m), UnderWay::kib(ahead), took, w.now);
}

void end_on_ni(Worker& w, Sending& m, uint64_t bytes) {
  if (std::exchange(m.under_way.ni_on, false)) w.tallies.ni(m.under_way.ni_slot).tally().give_back(bytes);
}

}  // namespace

uint64_t bytes_under_way(const Sending& m) {
  const wire::Header& header = m.tx.header;
  const bool awaits_payload = m.kind == MessageKind::kOperation && header.type == wire::MsgType::kGet;
  return wire::kHeaderNid4Bytes + (awaits_payload ? header.get().sink_length : header.payload_length);
}

void under_way_begin(Worker& w, Sending& m, uint16_t ni_slot, uint32_t peer_slot, bool paced) {
  ULNET_CHECK(!m.under_way.on);
  const uint64_t bytes = bytes_under_way(m);
  Tally& ni = w.tallies.ni(ni_slot).tally();
  Tally& peer_ni = w.tallies.peer_ni(peer_slot).tally();
  ni.take(bytes);
  peer_ni.take(bytes);
  m.under_way = {peer_slot, ni_slot, true, true, 0, 0, 0};
  if (!paced) return;
  m.under_way.ni_ahead = UnderWay::units_of(ni.bytes());
  m.under_way.peer_ahead = UnderWay::units_of(peer_ni.bytes());
  m.under_way.since_us = std::max(microseconds(w.now), 1u);
}

Duration under_way_age(const Worker& w, const Sending& m) {
  if (!m.under_way.on || m.under_way.since_us == 0) return {};
  return std::chrono::microseconds(microseconds(w.now) - m.under_way.since_us);
}

void under_way_awaits(Worker& w, Sending& m) {
  const bool many = w.tallies.peer_ni(m.under_way.peer_slot).tally().under_way() > kAwaitedOnNi;
  if (many) end_on_ni(w, m, bytes_under_way(m));
}

void under_way_end(Worker& w, Sending& m, int32_t error) {
  if (!m.under_way.on) return;
  const uint64_t bytes = bytes_under_way(m);
  end_on_ni(w, m, bytes);
  const TallyRef ni = w.tallies.ni(m.under_way.ni_slot), peer_ni = w.tallies.peer_ni(m.under_way.peer_slot);
  peer_ni.tally().give_back(bytes);
  if (paced(m, error)) {
    sample(w, m, ni, m.under_way.ni_ahead);
    sample(w, m, peer_ni, m.under_way.peer_ahead);
    if (peer_ni.pace().judge_due(w.now)) judge_peer(w, kind_of(m), m.tx.next_hop);
    if (ni.pace().judge_due(w.now)) judge_net(w, kind_of(m), m.tx.next_hop.net());
  }
  m.under_way.on = false;  // its slots still name the pair
}

}  // namespace ulnet
