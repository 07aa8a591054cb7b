#include "dataplane/stages/flow.h"

namespace ulnet {

void message_reset(Worker& w, Message& m, MsgKind kind) {
  m.kind = kind;
  m.phase = MsgPhase::kActive;
  m.want_ack = m.lease_out = m.receiving = m.responded = m.ack_sending = m.cancelled = false;
  m.divert.store(false, std::memory_order_relaxed);
  m.recall.store(false, std::memory_order_relaxed);
  m.retries = 0;
  m.error = 0;
  m.md = nullptr;
  m.eq = nullptr;
  m.submitter = nullptr;
  m.md_offset = 0;
  m.event = Event{};
  m.want_src = m.want_dst = m.via = kAnyNid;
  m.issued = w.now;
  m.buffer = nullptr;
  m.from = nullptr;
  m.hop = nullptr;
  m.tx.home = w.id.value;
  m.tx.message = &m;
  m.tx.routed = false;
}

}  // namespace ulnet
