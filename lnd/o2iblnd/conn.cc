#include "lnd/o2iblnd/conn.h"

#include "lnd/o2iblnd/conn_end.h"
#include "lnd/o2iblnd/conn_rx.h"
#include "lnd/o2iblnd/conn_tx.h"
#include "lnd/o2iblnd/status.h"
#include "lnd/o2iblnd/transfer.h"

namespace ulnet::o2iblnd {

Conn::Conn(unsigned most, unsigned sends, WorkerMemory* near)
    : depth_max(most),
      requests(most, near),
      serving(most, near),
      ins(most, near),
      outs(sends, near),
      sinks(size_t{2} * most, near),
      early(receive_buffers_of(most), near),
      answers(size_t{2} * most, near),
      memory(near) {
  for (unsigned i = 0; i < most; ++i) {
    requests[i].transfer.conn = serving[i].transfer.conn = this;
    requests[i].transfer.request = &requests[i];
    requests[i].transfer.sink = &sinks[i];
    serving[i].conn = this;
    serving[i].transfer.serving = &serving[i];
    serving[i].transfer.sink = &sinks[most + i];
    ins[i].conn = this;
    free_requests.push_back(requests[i]);
    free_servings.push_back(serving[i]);
    free_ins.push_back(ins[i]);
  }
  for (unsigned i = 0; i < sends; ++i) free_outs.push_back(outs[i]);
}

void Conn::received(rc::Qp&, uint32_t buffer, uint32_t bytes, Instant) {
  conn_received(*worker, *this, buffer, bytes);
}
void Conn::sent(rc::Qp&, uint64_t token, Instant) {
  conn_sent(*worker, *this, token);
}
void Conn::key_closed(rc::Qp&, rc::RemoteKey& key, Instant) {
  conn_key_closed(*worker, *this, key);
}
void Conn::broken(rc::Qp&, rc::Cause cause, Instant) {
  const bool ended = phase != ConnPhase::kNew && phase != ConnPhase::kUp;
  if (cause == rc::Cause::kRemoteAccess && !ended) fault = PeerFault::kAccess;
  conn_end(*worker, *this, failure_of(cause));
}
void Conn::drained(rc::Qp&, Instant) {
  transfers_drop(*worker, *this);
  conn_drained(*worker, *this);
}

}  // namespace ulnet::o2iblnd
