#include "lnd/net/dpdk/port_config.h"

#include <array>
#include <bit>

#include "lnd/net/packet/eth.h"

namespace ulnet::dpdk {
namespace {

constexpr uint32_t kBufferBytes = 2048;
constexpr uint32_t kJumboFrameBytes = 16384;  ///< AF_PACKET's frame size for more than 1500: one buffer holds it whole
constexpr uint32_t kJumboBlockBytes = 65536;
constexpr uint16_t kSmallMtu = 1500;
// AF_XDP: the kernel keeps 256 bytes before each frame, within our buffer. A buffer is at most one page, together with
// the allocator's header (64), the mbuf (128) and the headroom (128).
constexpr uint32_t kXdpHeadroom = 256;
constexpr uint32_t kXdpBufferBytes = 4096 - 64 - 128 - 128;
constexpr uint32_t kXdpKept = 2 * 2048;  ///< in the driver's fill and completion rings: lost with its memory
static_assert(kXdpBufferBytes - kXdpHeadroom >= 3498 + kEthBytesMax);

// Order of DeviceKind. memif needs a link: DPDK 22.11 looks up a queue's ring before it checks whether there is one. A
// poll while the other process connects may then read memory that is not mapped yet.
// Devices ring and null hand on any chain of segments, though null does not report it. For memif see Port::probe().
constexpr std::array<DeviceTraits, 8> kTraits{{
    {"pci", 0, 0, false, false, true, false, Scatter::kReported, "the NIC's own limit"},
    {"memif", kMtuMax, 64, false, false, false, true, Scatter::kNever,
     "the longest frame that fits into ulnet's buffers"},
    {"tap", 1500, 16, true, true, true, false, Scatter::kReported,
     "DPDK's tap driver cannot send longer frames; use af_packet"},
    {"af_xdp", 3498, 64, true, false, false, false, Scatter::kReported,
     "one frame must fit into one page, together with XDP's and DPDK's own bytes"},
    {"af_packet", kMtuMax, 64, true, false, false, false, Scatter::kReported,
     "one frame must fit into a ring frame of 16384 bytes"},
    {"null", kMtuMax, 64, false, false, false, false, Scatter::kAlways,
     "the longest frame that fits into ulnet's buffers"},
    {"ring", kMtuMax, 16, false, false, false, false, Scatter::kAlways,
     "the longest frame that fits into ulnet's buffers"},
    {"pcap", kMtuMax, 16, false, false, false, false, Scatter::kReported,
     "the longest frame that fits into ulnet's buffers"},
}};

bool is_pci_address(std::string_view text) {
  if (text.size() != 12 && text.size() != 7) return false;
  const std::string_view pattern = text.size() == 12 ? "hhhh:hh:hh.h" : "hh:hh.h";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool hex = std::string_view("0123456789abcdefABCDEF").find(text[i]) != std::string_view::npos;
    if (pattern[i] == 'h' ? !hex : text[i] != pattern[i]) return false;
  }
  return true;
}

}  // namespace

const DeviceTraits& traits_of(DeviceKind kind) {
  return kTraits[size_t(kind)];
}

std::string DeviceSpec::parameter(std::string_view key) const {
  for (size_t at = 0; at < parameters.size();) {
    const size_t end = std::min(parameters.find(',', at), parameters.size());
    const std::string_view one = std::string_view(parameters).substr(at, end - at);
    if (one.size() > key.size() && one.substr(0, key.size()) == key && one[key.size()] == '=')
      return std::string(one.substr(key.size() + 1));
    at = end + 1;
  }
  return {};
}

Result<DeviceSpec> device_spec(std::string_view device) {
  const size_t comma = device.find(',');
  const std::string_view head = device.substr(0, comma);
  DeviceSpec out;
  if (comma != std::string_view::npos) out.parameters = device.substr(comma + 1);
  if (is_pci_address(head)) {
    if (!out.parameters.empty()) return fail(EINVAL, "a PCI device takes no parameters");
    out.pci = head;
    return out;
  }
  for (size_t i = 1; i < kTraits.size(); ++i) {
    if (head != kTraits[i].name) continue;
    out.kind = DeviceKind(i);
    const bool needs_interface = out.kind == DeviceKind::kAfPacket || out.kind == DeviceKind::kAfXdp;
    if (needs_interface && out.parameter("iface").empty())
      return fail(EINVAL, "this device needs the name of an interface of the system: iface=NAME");
    return out;
  }
  return fail(EINVAL, "a device is a PCI address, memif, tap, af_xdp, af_packet, null, ring or pcap");
}

Result<void> port_config_check(const PortConfig& config, const DeviceSpec& spec, unsigned queues) {
  const DeviceTraits& traits = traits_of(spec.kind);
  if (config.name.empty()) return fail(EINVAL, "a port needs a name");
  bool v6 = false;
  for (const IpPrefix& prefix : config.addresses.own) {
    v6 = v6 || !prefix.address.is_v4();
    if (prefix.address.is_group() || prefix.address.is_unspecified())
      return fail(EINVAL, "a group or unspecified address cannot be an address of a port");
  }
  if (config.addresses.own.size() > kPortAddressesMax) return fail(EINVAL, "more addresses than a port can have");
  if (config.mtu < kMtuMin || (v6 && config.mtu < 1280)) return fail(EINVAL, "the MTU is below 576 (IPv6: 1280)");
  if (config.mtu > kMtuMax) return fail(EINVAL, "the MTU is above 16000", config.mtu);
  if (traits.mtu_max != 0 && config.mtu > traits.mtu_max) return fail(EINVAL, traits.mtu_reason, traits.mtu_max);
  if (config.vlan > 4094) return fail(EINVAL, "a VLAN id is 1 to 4094");
  if (config.pcp > 7) return fail(EINVAL, "a priority (PCP) is 0 to 7");
  if (config.mac && (config.mac->is_group() || config.mac->is_zero()))
    return fail(EINVAL, "the MAC address of a port is neither a group nor zero");
  if (config.neighbours.size() > kStaticNeighboursMax)
    return fail(EINVAL, "more static neighbours than a port can have", kStaticNeighboursMax);
  if (queues == 0) return fail(EINVAL, "a port needs at least one queue");
  if (traits.queues_max != 0 && queues > traits.queues_max)
    return fail(EINVAL, "this kind of device has fewer queues than there are workers", traits.queues_max);
  if (spec.kind == DeviceKind::kMemif && spec.parameters.find("zero-copy") != std::string::npos)
    return fail(EINVAL, "memif's zero-copy is not supported: DPDK loses packets when the other process goes");
  if (config.rx_depth < 32 || config.tx_depth < 32 || config.rx_depth > 32768 || config.tx_depth > 32768)
    return fail(EINVAL, "a queue has 32 to 32768 descriptors");
  return {};
}

std::string vdev_arguments(const PortConfig& config, const DeviceSpec& spec, unsigned queues, unsigned index) {
  std::string out = std::string("net_") + traits_of(spec.kind).name + std::to_string(index);
  if (!spec.parameters.empty()) out += "," + spec.parameters;
  const auto add = [&](const char* key, uint64_t value) {
    if (spec.parameter(key).empty()) out += std::string(",") + key + "=" + std::to_string(value);
  };
  switch (spec.kind) {
    case DeviceKind::kAfPacket:
      add("qpairs", queues);
      if (config.mtu > kSmallMtu) {
        add("framesz", kJumboFrameBytes);
        add("blocksz", kJumboBlockBytes);
      }
      add("framecnt", config.rx_depth);
      break;
    case DeviceKind::kAfXdp: add("queue_count", queues); break;
    case DeviceKind::kMemif:
      add("bsize", buffer_shape(config, spec.kind, false).data_bytes);
      add("rsize", unsigned(std::bit_width(unsigned(config.rx_depth))) - 1);
      break;
    case DeviceKind::kPci:
    case DeviceKind::kTap:
    case DeviceKind::kNull:
    case DeviceKind::kRing:
    case DeviceKind::kPcap: break;
  }
  return out;
}

uint32_t frame_bytes_max(uint16_t mtu) {
  return uint32_t{mtu} + kEthBytesMax;
}

BufferShape buffer_shape(const PortConfig& config, DeviceKind kind, bool scatter) {
  const uint32_t frame = frame_bytes_max(config.mtu);
  if (kind == DeviceKind::kAfPacket) return {config.mtu > kSmallMtu ? kJumboFrameBytes : kBufferBytes, 1};
  if (kind == DeviceKind::kAfXdp) {
    BufferShape shape{frame + kXdpHeadroom <= kBufferBytes ? kBufferBytes : kXdpBufferBytes, 1};
    shape.one_page = true;
    shape.kept_by_device = kXdpKept;
    return shape;
  }
  if (frame <= kBufferBytes) return {kBufferBytes, 1};
  if (scatter) return {kBufferBytes, (frame + kBufferBytes - 1) / kBufferBytes};
  return {(frame + 1023) / 1024 * 1024, 1};
}

}  // namespace ulnet::dpdk
