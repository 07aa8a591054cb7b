// One function per message of control. Two are longer. The answer to PeerAskMsg says whether this worker still uses the
// memory of a peer NI. ResetExtremesMsg, for `stats reset`, is a message because only the owner can reset a minimum.
#include "dataplane/stages/from_control.h"

#include <algorithm>

#include "dataplane/stages/egress.h"
#include "dataplane/stages/fault.h"
#include "dataplane/stages/forward.h"
#include "dataplane/stages/md_end.h"
#include "dataplane/stages/md_memory.h"
#include "dataplane/stages/post.h"
#include "dataplane/stages/receive.h"
#include "dataplane/stages/send.h"

namespace ulnet {
namespace {

void run(Worker& w, const LndMsg& msg) {
  w.lnds[msg.lnd]->from_control(msg, w.now);
}

void run(Worker& w, const ResolvedMsg& msg) {
  peer_resolved(w, msg.nid, msg.error, msg.as_given);
}

void run(Worker& w, const SubmitterOpenMsg& msg) {
  ULNET_CHECK(msg.submitter->number() < kSubmittersMax && w.submitters[msg.submitter->number()] == nullptr);
  w.submitters[msg.submitter->number()] = msg.submitter;
  w.submitters_open |= uint64_t{1} << msg.submitter->number();
}

void run(Worker& w, const SubmitterCloseMsg& msg) {
  submitter_close(w, *msg.submitter);
}

void run(Worker& w, const RouterBlockMsg& msg) {
  router_block_add(w, *msg.block);
}

void run(Worker& w, const RouterRetireMsg& msg) {
  router_block_retire(w, *msg.block);
}

void run(Worker& w, const NiCloseMsg& msg) {
  ni_close(w, *msg.slice);
}

void run(Worker& w, const PeerCreditsMsg& msg) {
  peer_set_tx_credits(w, *msg.slice, msg.tx_credits);
  peer_set_rtr_credits(w, *msg.slice, msg.router_credits);
}

void run(Worker& w, const AvoidNiMsg& msg) {
  ni_avoid(w, *msg.slice, msg.avoid);
}

void run(Worker& w, const AvoidPeerMsg& msg) {
  peer_avoid(w, *msg.slice, msg.avoid);
}

/// Answered when the LNDs have taken what has come, perhaps only now: answer_moved().
void run(Worker& w, const MovedAskMsg& ask) {
  w.moved_asks[w.moved_asks_count++] = ask;
}

bool local_idle(Worker& w, const PeerLocal& local) {
  const auto none = [](uint32_t held) { return held == 0; };
  const bool holds_none = std::all_of(local.buffers_held.begin(), local.buffers_held.end(), none);
  return local.tally->under_way() == 0 && local.incoming.idle() && holds_none && !local.charges.linked() &&
         !forward_waits_for(w, local);
}

/// A forwarded message holds a router credit of its sender until it has left, long after its receive has ended.
bool slice_idle(const PeerSlice& slice) {
  return slice.tx_count == 0 && slice.rx_count == 0 && slice.credits.at_rest() && slice.rtr.at_rest();
}

/// A "not used" is final: a message uses only a peer NI of its view, and a receive only a peer NI of its connection.
/// Before this message, control has seen the end of both.
void run(Worker& w, const PeerAskMsg& ask) {
  PeerLocal& local = *ask.local;
  const bool idle = local_idle(w, local) && (ask.slice == nullptr || slice_idle(*ask.slice));
  if (idle) local.tally->chosen(0);  // the next peer NI with this tally was never chosen
  // If the answer to an older question still waits, this one replaces it: control ignores the older one.
  post_control(w, local.answer, PeerAnswerMsg{ask.peer_ni, ask.question, !idle});
}

void run(Worker& w, const PortalRetryMsg& msg) {
  retry_lazy(w, msg.portal.value);
}

void run(Worker& w, const FaultsGoneMsg&) {
  delays_look(w);
}

void run(Worker&, const MdRegisteredMsg& msg) {
  md_memory_registered(*msg.submitter, msg.md, msg.error);
}

void run(Worker& w, const MdReleasedMsg& msg) {
  md_memory_released(w, *msg.submitter, msg.md);
}

void reset_peer_ni(Worker& w, const PeerNiView& ni) {
  if (ni.slice == nullptr) return;
  ni.locals[w.id.value]->latencies.reset_extremes();
  if (ni.server != w.id) return;
  ni.slice->credits.reset_min();
  ni.slice->rtr.reset_min();
  ni.slice->counters.reset_extremes();
}

void reset_limb(Worker& w, const PeerTable::Limb& limb) {
  for (const PeerTable::Entry* entry : limb.leaves)
    for (; entry != nullptr && entry->peer != nullptr; ++entry) reset_peer_ni(w, entry->ref().ni());
}

void run(Worker& w, const ResetPoolsMsg&) {
  for (RouterPool& pool : w.pools) pool.credits_min.set(pool.credits.get());
}

/// Walks the peer table once: for a command, not for the data path.
void run(Worker& w, const ResetExtremesMsg&) {
  run(w, ResetPoolsMsg{});
  w.counters[Stat::kMsgsMax].set(w.messages_in_use());
  for (const NiView& ni : w.view->local->nis) {
    NiSlice& slice = *ni.slices[w.id.value];
    slice.credits.reset_min();
    slice.counters.reset_extremes();
  }
  for (const PeerTable::Limb* limb : w.view->peers->limbs)
    if (limb != nullptr) reset_limb(w, *limb);
}

}  // namespace

void run_control(Worker& w, const ControlMsg& msg) {
  std::visit([&w](const auto& kind) { run(w, kind); }, msg);
}

}  // namespace ulnet
