#include "control/discovery/pinger.h"

#include <memory>

namespace ulnet {
namespace {

struct PingBatch {
  std::vector<PingAnswer> answers;
  size_t open = 0;
  Pinger::Done done;
};

void ping_ended(PingBatch& batch, size_t index, uint32_t interfaces_max, const PingEnd& end) {
  PingAnswer& answer = batch.answers[index];
  answer.error = end.error;
  if (end.error == 0) {
    auto decoded = wire::ping_info_decode(end.bytes, interfaces_max);
    if (decoded) answer.info = std::move(decoded->info);
    answer.error = decoded ? 0 : -EPROTO;
  }
  if (--batch.open == 0) batch.done(std::move(batch.answers));
}

}  // namespace

void Pinger::start(const PingRequest& request, uint32_t interfaces_max, Done done) {
  auto batch = std::make_shared<PingBatch>();
  batch->done = std::move(done);
  batch->open = request.nids.size();
  for (const Nid& nid : request.nids) batch->answers.push_back({.nid = nid, .error = 0, .info = {}});
  if (batch->open == 0) return batch->done({});
  for (size_t i = 0; i < request.nids.size(); ++i) {
    PingOp op;
    op.self = request.source;
    op.exactly = !request.source.is_any();  // over no other NI
    op.target = request.nids[i];
    op.sink_bytes = kPingSinkBytes;
    op.timeout = request.timeout;
    ops_.start(std::move(op),
               [batch, i, interfaces_max](const PingEnd& end) { ping_ended(*batch, i, interfaces_max, end); });
  }
}

}  // namespace ulnet
