#include "lnd/rc/verbs/hca_ctl.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>

#include "lnd/net/kernel/link_speed_ctl.h"

namespace ulnet::rc::verbs {
namespace {

constexpr uint32_t kInlineBytes = 256;
constexpr uint32_t kSoftRoce = 0xFFFFFF;  ///< ibv_device_attr::vendor_id of rdma_rxe
constexpr uint32_t kCompletionsFirst = 4096;

/// Mbit/s of ibv_port_attr. Source: IBTA, PortInfo.LinkSpeedActive and LinkWidthActive.
uint32_t port_mbps(const ibv_port_attr& port) {
  const uint32_t lane = [&] {
    switch (port.active_speed) {
      case 1: return 2'500u;
      case 2: return 5'000u;
      case 4:
      case 8: return 10'000u;
      case 16: return 14'062u;
      case 32: return 25'781u;
      case 64: return 53'125u;
      case 128: return 106'250u;
      default: return 0u;
    }
  }();
  switch (port.active_width) {
    case 1: return lane;
    case 2: return lane * 4;
    case 4: return lane * 8;
    case 8: return lane * 12;
    case 16: return lane * 2;
    default: return 0;
  }
}

uint16_t mtu_bytes(ibv_mtu mtu) {
  return mtu < IBV_MTU_256 || mtu > IBV_MTU_4096 ? 0 : uint16_t(128u << mtu);
}

/// The network interface of a RoCE port; "" for InfiniBand.
std::string interface_of(const std::string& device, uint8_t port) {
  std::ifstream file("/sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/gid_attrs/ndevs/0");
  std::string name;
  std::getline(file, name);
  return name;
}

void destroy_queue(const CompletionQueue& queue) {
  for (ibv_cq* cq : {queue.receives, queue.sends})
    if (cq != nullptr) (void)ibv_destroy_cq(cq);
}

}  // namespace

std::unique_ptr<Hca> Hca::open(ibv_device* device, unsigned workers) {
  std::unique_ptr<Hca> hca(new Hca);
  hca->completions_.resize(workers);
  hca->context_ = ibv_open_device(device);
  if (hca->context_ == nullptr || !hca->probe()) return nullptr;
  hca->regions_ = std::make_unique<RegionSlot[]>(kRegionSlots);
  return hca;
}

bool Hca::probe() {
  const int flags = ::fcntl(context_->async_fd, F_GETFL);
  if (flags < 0 || ::fcntl(context_->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) return false;
  if (ibv_query_device(context_, &attributes_) != 0) return false;
  pd_ = ibv_alloc_pd(context_);
  if (pd_ == nullptr) return false;
  if ((attributes_.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) == 0)
    return true;
  ibv_mw* window = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
  windows_ = window != nullptr;
  if (windows_) ibv_dealloc_mw(window);
  return true;
}

/// The kernel frees what is left when the device is closed, and only then the memory of queue pairs is free.
Hca::~Hca() {
  (void)free_refused();
  for (const auto& [id, keys] : keys_) (void)ibv_dereg_mr(keys->mr);
  for (const Completions& one : completions_) {
    for (const auto& queue : one.queues) destroy_queue(*queue);
    if (one.channel != nullptr) (void)ibv_destroy_comp_channel(one.channel);
  }
  if (pd_ != nullptr) (void)ibv_dealloc_pd(pd_);
  if (context_ == nullptr || ibv_close_device(context_) != 0) return;
  for (const auto& qp : refused_)
    if (qp->receive_memory != nullptr) (void)::munmap(qp->receive_memory, qp->memory_bytes);
}

DeviceFacts Hca::facts(uint8_t port) {
  DeviceFacts facts;
  const std::string name = ibv_get_device_name(context_->device);
  std::copy_n(name.begin(), std::min(name.size(), facts.name.size() - 1), facts.name.begin());
  facts.keys_end = windows_;
  facts.gone = lost_;
  facts.why_not = why_not_;
  ibv_port_attr attributes{};
  if (lost_ || ibv_query_port(context_, port, &attributes) != 0) return facts;
  facts.usable = why_not_[0] == 0 && attributes.state == IBV_PORT_ACTIVE;
  facts.path_mtu = mtu_bytes(attributes.active_mtu);
  if (attributes.link_layer == IBV_LINK_LAYER_ETHERNET) facts.speed = link_speed_of(interface_of(name, port));
  if (facts.speed.mbps == 0) facts.speed = {port_mbps(attributes), 0};
  uint32_t& best = best_mbps_[port];
  best = std::max({best, facts.speed.mbps, facts.speed.best_mbps});
  facts.speed.best_mbps = best;
  return facts;
}

// --- Queue pairs -----------------------------------------------------------------------------------------------------

std::unique_ptr<CompletionQueue> Hca::make_queue(ibv_comp_channel* channel, uint32_t size) {
  auto queue = std::make_unique<CompletionQueue>();
  queue->channel = channel;
  queue->receives = ibv_create_cq(context_, int(size), queue.get(), channel, 0);
  queue->sends = ibv_create_cq(context_, int(size), queue.get(), channel, 0);
  if (queue->receives == nullptr || queue->sends == nullptr) {
    destroy_queue(*queue);
    return nullptr;
  }
  queue->size = uint32_t(std::min(queue->receives->cqe, queue->sends->cqe));
  return queue;
}

/// A queue of this worker with room for `more` completions, or a new one. Each new one is twice as long as the one
/// before it, as far as the device can. Null: no resources.
CompletionQueue* Hca::completions(WorkerId worker, uint32_t more) {
  Completions& own = completions_[worker.value];
  for (const auto& queue : own.queues)
    if (queue->size - queue->promised >= more) return queue.get();
  const uint32_t most = uint32_t(std::max(attributes_.max_cqe, 1));
  if (more > most || own.queues.size() >= kQueuesMax) return nullptr;
  if (own.channel == nullptr) {
    own.channel = ibv_create_comp_channel(context_);
    if (own.channel == nullptr) return nullptr;
    const int flags = ::fcntl(own.channel->fd, F_GETFL);
    if (flags >= 0) (void)::fcntl(own.channel->fd, F_SETFL, flags | O_NONBLOCK);
  }
  const uint32_t usual = own.queues.empty() ? kCompletionsFirst : own.queues.back()->size * 2;
  auto queue = make_queue(own.channel, std::min(most, std::max(usual, more)));
  if (queue == nullptr && usual > more) queue = make_queue(own.channel, more);
  if (queue == nullptr) return nullptr;
  own.queues.push_back(std::move(queue));
  return own.queues.back().get();
}

bool Hca::make_buffers(VerbsQp& qp) {
  qp.memory_bytes = size_t{qp.receives + qp.sends} * qp.buffer_bytes;
  void* memory = ::mmap(nullptr, qp.memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  qp.receive_memory = static_cast<std::byte*>(memory);
  qp.send_memory = qp.receive_memory + size_t{qp.receives} * qp.buffer_bytes;
  qp.buffers = ibv_reg_mr(pd_, memory, qp.memory_bytes, IBV_ACCESS_LOCAL_WRITE);
  return qp.buffers != nullptr;
}

void Hca::make_windows(VerbsQp& qp, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    ibv_mw* mw = ibv_alloc_mw(pd_, IBV_MW_TYPE_2);
    if (mw == nullptr) break;
    qp.window.push_back({mw, mw->rkey});
    qp.free_windows.push_back(i);
  }
  qp.keys = uint32_t(qp.window.size());
}

std::unique_ptr<VerbsQp> Hca::make_qp(ConnId conn, const QpNeeds& needs, ibv_qp_attr init, int init_mask,
                                      uint32_t index, uint16_t generation) {
  auto qp = std::make_unique<VerbsQp>();
  qp->conn = conn;
  const uint32_t most = std::min(uint32_t(std::max(attributes_.max_qp_wr, 1)), kRequestsMax);
  qp->worker = needs.worker;
  qp->receives = std::min(needs.receives, most);
  qp->sends = needs.sends;
  qp->buffer_bytes = needs.buffer_bytes;
  const uint32_t nudges = attributes_.vendor_id == kSoftRoce ? kNudgesMax : 0;
  qp->work = std::min(needs.work, most - std::min(nudges, most - 1));
  qp->ring = qp->work + nudges;
  qp->keys = needs.keys;
  qp->pieces = std::clamp(needs.pieces, 1u, uint32_t(std::max(attributes_.max_sge, 1)));
  qp->index = index;
  qp->generation = generation;
  qp->windows = windows_;
  qp->forgetful = attributes_.vendor_id == kSoftRoce;
  qp->regions = regions_.get();
  const uint32_t more = std::max(qp->receives, qp->ring);
  qp->cq = completions(needs.worker, more);
  if (lost_ || qp->cq == nullptr) return nullptr;
  qp->cq->promised += more;

  ibv_qp_init_attr wanted{};
  wanted.send_cq = qp->cq->sends;
  wanted.recv_cq = qp->cq->receives;
  wanted.qp_type = IBV_QPT_RC;
  wanted.qp_context = reinterpret_cast<void*>(uintptr_t(conn));  // a number: events may come late
  for (const uint32_t inline_bytes : {kInlineBytes, 0u}) {
    wanted.cap = {.max_send_wr = qp->ring,
                  .max_recv_wr = qp->receives,
                  .max_send_sge = qp->pieces,
                  .max_recv_sge = 1,
                  .max_inline_data = inline_bytes};
    qp->qp = ibv_create_qp(pd_, &wanted);
    if (qp->qp != nullptr) {
      qp->inline_bytes = std::min(inline_bytes, wanted.cap.max_inline_data);
      break;
    }
  }
  const auto failed = [&]() -> std::unique_ptr<VerbsQp> {
    unmake_qp(std::move(qp));
    return nullptr;
  };
  if (qp->qp == nullptr || !make_buffers(*qp)) return failed();
  if (windows_) make_windows(*qp, needs.keys);
  init.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  if (ibv_modify_qp(qp->qp, &init, init_mask) != 0) return failed();
  qp->ops = std::make_unique<Op[]>(qp->ring);
  qp->requests = std::make_unique<ibv_send_wr[]>(qp->ring);
  qp->sges = std::make_unique<ibv_sge[]>(size_t{qp->ring} * qp->pieces);
  qp->receive_requests = std::make_unique<ibv_recv_wr[]>(qp->receives);
  qp->receive_sges = std::make_unique<ibv_sge[]>(qp->receives);
  return qp;
}

/// A device that was removed has let go of all, and says that it is not there.
bool Hca::let_go(int error) const {
  return error == 0 || (lost_ && (error == EIO || error == ENODEV));
}

/// Windows first. A window that is bound refers to its queue pair, which rdma_rxe then waits for.
bool Hca::destroy_qp(VerbsQp& qp) {
  std::erase_if(qp.window, [this](const Window& one) { return let_go(ibv_dealloc_mw(one.mw)); });
  if (!qp.window.empty()) return false;
  if (qp.qp != nullptr && !let_go(ibv_destroy_qp(qp.qp))) return false;
  qp.qp = nullptr;
  return true;
}

/// True: nothing is left.
bool Hca::free_qp(VerbsQp& qp) {
  if (!destroy_qp(qp)) return false;
  if (qp.buffers != nullptr && !let_go(ibv_dereg_mr(qp.buffers))) return false;
  qp.buffers = nullptr;
  if (qp.receive_memory != nullptr) (void)::munmap(std::exchange(qp.receive_memory, nullptr), qp.memory_bytes);
  if (qp.cq != nullptr) qp.cq->promised -= std::max(qp.receives, qp.ring);
  qp.cq = nullptr;
  return true;
}

void Hca::unmake_qp(std::unique_ptr<VerbsQp> qp) {
  if (!free_qp(*qp)) refused_.push_back(std::move(qp));
}

bool Hca::free_refused() {
  std::erase_if(refused_, [this](const auto& qp) { return free_qp(*qp); });
  std::erase_if(refused_regions_, [this](const auto& keys) { return let_go(ibv_dereg_mr(keys->mr)); });
  return !refused_.empty() || !refused_regions_.empty();
}

// --- Regions ---------------------------------------------------------------------------------------------------------

Result<std::unique_ptr<RegionKeys>> Hca::region_register(RegionId region, std::span<std::byte> memory) const {
  auto keys = std::make_unique<RegionKeys>();
  keys->region = region;
  keys->memory = memory;
  const int right = windows_ ? IBV_ACCESS_MW_BIND : IBV_ACCESS_REMOTE_WRITE;
  keys->mr = ibv_reg_mr(pd_, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | right);
  if (keys->mr != nullptr) return keys;
  const int error = errno == 0 ? ENOMEM : errno;
  if (error == ENOMEM)
    return fail(error,
                "the RDMA device cannot register the memory: raise the limit of locked memory "
                "(LimitMEMLOCK, ulimit -l), or use less",
                memory.size());
  return fail(error, "the RDMA device cannot register the memory", memory.size());
}

void Hca::region_publish(std::unique_ptr<RegionKeys> keys) {
  const RegionId region = keys->region;
  regions_[region_slot(region)].store(keys.get(), std::memory_order_release);
  keys_[region] = std::move(keys);
}

std::unique_ptr<RegionKeys> Hca::region_withdraw(RegionId region) {
  const auto found = keys_.find(region);
  if (found == keys_.end()) return nullptr;
  std::unique_ptr<RegionKeys> keys = std::move(found->second);
  keys_.erase(found);
  regions_[region_slot(region)].store(nullptr, std::memory_order_release);
  return keys;
}

}  // namespace ulnet::rc::verbs
