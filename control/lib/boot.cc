#include "control/lib/boot.h"

#include <algorithm>

#include "config/ranges.h"
#include "lnd/net/dpdk/eal.h"

namespace ulnet {
namespace {

IdleMode idle_mode(config::Idle idle) {
  switch (idle) {
    case config::Idle::kBusy: return IdleMode::kBusy;
    case config::Idle::kAdaptive: return IdleMode::kAdaptive;
    case config::Idle::kInterrupt: return IdleMode::kInterrupt;
  }
  return IdleMode::kAdaptive;
}

HugePages huge_pages(config::Tristate wanted) {
  switch (wanted) {
    case config::Tristate::kAuto: return HugePages::kAuto;
    case config::Tristate::kYes: return HugePages::kYes;
    case config::Tristate::kNo: return HugePages::kNo;
  }
  return HugePages::kAuto;
}

LndSettings::Engine engine(config::StreamEngine wanted) {
  switch (wanted) {
    case config::StreamEngine::kAuto: return LndSettings::Engine::kAuto;
    case config::StreamEngine::kIoUring: return LndSettings::Engine::kIoUring;
    case config::StreamEngine::kEpoll: return LndSettings::Engine::kEpoll;
  }
  return LndSettings::Engine::kAuto;
}

LndSettings::Accept accept(config::Accept wanted) {
  switch (wanted) {
    case config::Accept::kSecure: return LndSettings::Accept::kSecure;
    case config::Accept::kAll: return LndSettings::Accept::kAll;
    case config::Accept::kNone: return LndSettings::Accept::kNone;
  }
  return LndSettings::Accept::kSecure;
}

}  // namespace

TextResult<HostConfig> boot_host(const config::DesiredState& state, DpdkMode dpdk) {
  HostConfig host;
  host.dpdk = dpdk;
  host.start_eal = &dpdk::start_eal;
  host.worker_count = unsigned(state.ulnet.workers);
  host.idle.mode = idle_mode(state.ulnet.idle);
  host.huge = huge_pages(state.ulnet.memory.hugepages);
  if (state.ulnet.cores != "auto") {
    const auto cores = config::core_list_parse(state.ulnet.cores);
    if (!cores) return fail_text(EINVAL, "ulnet: cores: " + cores.error());
    host.cpus.assign(cores->begin(), cores->end());
  }
  for (const config::NetConfig& net : state.nets)
    for (const config::NiConfig& ni : net.nis)
      if (!ni.interface.empty()) host.interfaces.push_back(ni.interface);
  return host;
}

LndSettings boot_lnds(const config::DesiredState& state, uint64_t incarnation) {
  const config::UlnetSection& ulnet = state.ulnet;
  const config::SocklndSection& sock = ulnet.socklnd;
  LndSettings out;
  out.engine = engine(ulnet.stream_engine);
  out.connections_per_worker = uint32_t(ulnet.memory.connections_per_worker);
  out.incarnation = incarnation;
  out.unprivileged_ports = ulnet.unprivileged_ports;
  out.accept = accept(ulnet.accept);
  out.accept_port = uint16_t(ulnet.accept_port);
  out.accept_backlog = int(ulnet.accept_backlog);
  out.accept_timeout = ulnet.accept_timeout;
  out.sock_timeout = sock.timeout;
  out.conns_per_peer = int32_t(sock.conns_per_peer);
  out.typed_conns = sock.typed_conns;
  out.min_bulk = uint32_t(sock.min_bulk);
  out.tx_buffer_bytes = uint32_t(sock.tx_buffer_size);
  out.rx_buffer_bytes = uint32_t(sock.rx_buffer_size);
  out.nagle = sock.nagle;
  out.keepalive = sock.keepalive;
  out.keepalive_idle = int(sock.keepalive_idle.count());
  out.keepalive_interval = int(sock.keepalive_intvl.count());
  out.keepalive_count = int(sock.keepalive_count);
  out.enable_csum = sock.enable_csum;
  out.zc_min_payload = uint32_t(sock.zc_min_payload);
  out.min_reconnect = sock.min_reconnectms;
  out.max_reconnect = sock.max_reconnectms;
  out.tos = int(sock.tos);
  return out;
}

NodeConfig boot_node(const config::DesiredState& state, const Placement& placement) {
  NodeConfig node;
  node.workers = unsigned(placement.workers.size());
  // Half of a worker's messages are its own puts and gets, a quarter arrives for this node.
  const auto messages = uint32_t(state.ulnet.memory.messages_per_worker);
  node.worker_size.operations = std::max(messages / 2, 64u);
  node.worker_size.incoming = std::max(messages / 4, 64u);
  node.peers_max = uint32_t(state.ulnet.memory.peer_nis);
  for (const Placement::Slot& slot : placement.workers) {
    node.groups.group_of.push_back(uint16_t(slot.group));
    node.groups.numa_of.push_back(slot.numa);
  }
  return node;
}

}  // namespace ulnet
