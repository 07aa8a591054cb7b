// Devices as they are needed, and queue pairs from INIT to RTS.
#include "lnd/rc/verbs/cm_ctl.h"

namespace ulnet::rc::verbs {
namespace {

/// The kernel may also mark attributes of RoCE, in higher bits, which ibv_modify_qp() does not have.
constexpr int kModifyMask = (IBV_QP_DEST_QPN << 1) - 1;

}  // namespace

/// The device, opened if it is new, with all regions. A lost one is closed before it is opened again. Null: it cannot
/// be opened.
Hca* CmThread::hca_of(ibv_device* device) {
  for (const auto& hca : hcas_)
    if (hca->device() == device) return hca.get();
  if (hcas_.size() >= kDevicesMax) return nullptr;
  std::unique_ptr<Hca> hca = Hca::open(device, unsigned(workers_.size()));
  if (hca == nullptr) return nullptr;
  if (hca->is_iwarp()) {
    hca->ready("an iWARP device: o2ib needs InfiniBand or RoCE");
    hcas_.push_back(std::move(hca));
    return hcas_.back().get();
  }
  hca->ready("");
  for (const auto& [region, memory] : regions_) {
    auto keys = hca->region_register(region, memory);
    if (!keys) {
      hca->lost(keys.error().what);
      break;
    }
    hca->region_publish(std::move(*keys));
  }
  hcas_.push_back(std::move(hca));
  return hcas_.back().get();
}

/// Makes the queue pair of a connection whose device is known by now.
void CmThread::make_ready(CmConn& conn) {
  conn.hca = conn.cm->verbs == nullptr ? nullptr : hca_of(conn.cm->verbs->device);
  if (conn.hca == nullptr || !conn.hca->is_ready()) return end(conn, Cause::kDevice);
  ibv_qp_attr init{};
  int mask = 0;
  init.qp_state = IBV_QPS_INIT;
  if (rdma_init_qp_attr(conn.cm, &init, &mask) != 0) return end(conn, Cause::kDevice);
  Place& place = places_[conn.needs.worker.value];
  if (place.free.empty()) {
    if (place.generations.size() >= kQpsMax) return end(conn, Cause::kResources);
    place.free.push_back(uint32_t(place.generations.size()));
    place.generations.push_back(0);
  }
  const uint32_t index = place.free.back();
  conn.qp = conn.hca->make_qp(conn.id, conn.needs, init, mask | IBV_QP_ACCESS_FLAGS, index, ++place.generations[index]);
  if (conn.qp == nullptr) return end(conn, Cause::kResources);
  place.free.pop_back();
  conn.phase = ConnPhase::kReady;
  say(conn, EventKind::kReady);
}

/// INIT to RTR to RTS, as the CM has agreed with the peer.
bool CmThread::to_send(CmConn& conn) {
  ibv_qp* qp = conn.qp->qp;
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attributes{};
    int mask = 0;
    attributes.qp_state = state;
    if (rdma_init_qp_attr(conn.cm, &attributes, &mask) != 0) return false;
    if (state == IBV_QPS_INIT) attributes.qp_access_flags |= IBV_ACCESS_REMOTE_WRITE;
    if (state == IBV_QPS_RTR) {
      mask &= kModifyMask;
      attributes.max_dest_rd_atomic = 0;
    }
    if (state == IBV_QPS_RTS) attributes.max_rd_atomic = 0;
    if (ibv_modify_qp(qp, &attributes, mask) != 0) return false;
  }
  return true;
}

}  // namespace ulnet::rc::verbs
