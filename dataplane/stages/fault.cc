#include "dataplane/stages/fault.h"

#include <algorithm>
#include <bit>

#include "dataplane/stages/post.h"
#include "dataplane/stages/receive.h"
#include "dataplane/state/fault_rules.h"

namespace ulnet {
namespace {

/// NID of a local NI; null if the view does not contain the NI any more.
const Nid* nid_of(const Worker& w, NiId id) {
  for (const NiView& ni : w.view->local->nis)
    if (ni.id == id) return &ni.nid;
  return nullptr;
}

/// The first rule of this kind that hits the message, counted; null if there is none. `sending` is of drop rules.
const FaultRule* rule_that_hits(Worker& w, FaultKind kind, bool sending, const wire::Header& header, const Nid& at) {
  for (const FaultRule& rule : w.view->faults->rules) {
    const FaultSpec& spec = rule.spec;
    if (spec.kind != kind || (kind == FaultKind::kDrop && spec.fails_sends() != sending)) continue;
    if (!spec.matches(header, at)) continue;
    FaultLocal& mine = rule.locals[w.id.value];
    mine.matched.add();
    if (!fault_hits(spec, mine.progress, w.now, w.rng)) continue;
    mine.hit[size_t(header.type)].add();
    return &rule;
  }
  return nullptr;
}

/// One of the bits of the mask, each as likely as the others.
LndStatus status_of(uint16_t failures, Rng& rng) {
  for (uint64_t skip = rng.below(uint64_t(std::popcount(failures))); skip > 0; --skip)
    failures = uint16_t(failures & (failures - 1));
  return LndStatus(std::countr_zero(failures));
}

void delay_begin(Worker& w, FaultDelay& delay, const FaultRule& rule) {
  delay = {w.now + rule.spec.latency, rule.id};
  w.delays_due = std::min(w.delays_due, delay.until);
}

bool delay_over(const Worker& w, const FaultDelay& delay, const NiSlice* ni) {
  if (delay.until <= w.now || (ni != nullptr && ni->closing)) return true;
  return w.view->faults == nullptr || !w.view->faults->has(delay.rule);
}

/// Calls `go_on` for each message of the list whose delay is over, at most kTimerBudget, unlinked.
template <class T, class Tag, class F>
unsigned run_list(Worker& w, List<T, Tag>& list, F&& go_on) {
  unsigned done = 0;
  for (T* one = list.front(); one != nullptr;) {
    T& message = *one;
    one = list.after(message);
    if (!delay_over(w, message.delay, message.ni_slice)) {
      w.delays_due = std::min(w.delays_due, message.delay.until);
    } else if (done == kTimerBudget) {
      w.delays_due = kNever;  // the rest follows in the next turn
      break;
    } else {
      list.remove(message);
      ++done;
      go_on(message);
    }
  }
  return done;
}

}  // namespace

bool fault_drops(Worker& w, const RxSlot& slot) {
  const Nid* at = slot.ni_slice == nullptr ? &kLoNid : nid_of(w, slot.ni);
  return at != nullptr && rule_that_hits(w, FaultKind::kDrop, false, slot.header, *at) != nullptr;
}

bool fault_holds(Worker& w, RxSlot& slot) {
  const Nid* at = slot.ni_slice == nullptr ? &kLoNid : nid_of(w, slot.ni);
  if (at == nullptr || (slot.ni_slice != nullptr && slot.ni_slice->closing)) return false;
  const FaultRule* rule = rule_that_hits(w, FaultKind::kDelay, false, slot.header, *at);
  if (rule == nullptr) return false;
  delay_begin(w, slot.delay, *rule);
  w.delayed_receives.push_back(slot);
  return true;
}

bool fault_holds(Worker& w, Tx& tx) {
  if (tx.delay.until != kNever) return false;
  const Nid* at = nid_of(w, tx.ni);
  const FaultRule* rule = at == nullptr ? nullptr : rule_that_hits(w, FaultKind::kDelay, true, tx.header, *at);
  if (rule == nullptr) return false;
  delay_begin(w, tx.delay, *rule);
  w.delayed_sends.push_back(tx);
  tx.stage = TxStage::kDelayed;
  return true;
}

std::optional<Completion> fault_fails(Worker& w, const Tx& tx) {
  const Nid* at = nid_of(w, tx.ni);
  const FaultRule* rule = at == nullptr ? nullptr : rule_that_hits(w, FaultKind::kDrop, true, tx.header, *at);
  if (rule == nullptr) return {};
  return fault_completion(status_of(rule->spec.failures, w.rng));
}

// The errnos that drivers report with these statuses (docs/wire/lnet.md §9.1), or the nearest of their kind.
Completion fault_completion(LndStatus status) {
  switch (status) {
    case LndStatus::kLocalInterrupt: return {-EINTR, status};
    case LndStatus::kLocalDropped: return {-ENETDOWN, status};
    case LndStatus::kLocalAborted: return {-ECONNABORTED, status};
    case LndStatus::kLocalNoRoute: return {-ENETUNREACH, status};
    case LndStatus::kLocalError: return {-EIO, status};
    case LndStatus::kLocalTimeout: return {-ETIMEDOUT, status};
    case LndStatus::kRemoteError: return {-ECONNRESET, status};
    case LndStatus::kRemoteDropped: return {-ECONNREFUSED, status};
    case LndStatus::kRemoteTimeout: return {-ETIMEDOUT, status};
    case LndStatus::kNetworkTimeout: return {-ETIMEDOUT, status};
    case LndStatus::kOk:
    case LndStatus::kCount: break;
  }
  ULNET_CHECK(!"a rule has a failure that is none");
}

void fault_leave(Worker& w, Tx& tx) {
  ULNET_CHECK(tx.stage == TxStage::kDelayed);
  w.delayed_sends.remove(tx);
}

unsigned delays_run(Worker& w) {
  w.delays_due = kForever;
  const unsigned received = run_list(w, w.delayed_receives, [&w](RxSlot& slot) { receive_delayed(w, slot); });
  return received + run_list(w, w.delayed_sends, [&w](Tx& tx) {
           tx.stage = TxStage::kHasBoth;
           post<PostKind::kLease>(w, w.id, tx);
         });
}

}  // namespace ulnet
