// A packet port as configuration names it, what each kind of device can do, and the text that makes DPDK create a
// virtual one. Pure. Thread: control.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataplane/base/result.h"
#include "lnd/net/dpdk/port_addresses.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

enum class DeviceKind : uint8_t { kPci, kMemif, kTap, kAfXdp, kAfPacket, kNull, kRing, kPcap };

/// Whether a device puts one received frame into several buffers; kReported: as the open device reports.
enum class Scatter : uint8_t { kNever, kAlways, kReported };

/// Properties of a kind of device before it is opened. Limits are stated here, not found out by trial.
struct DeviceTraits {
  const char* name;        ///< as in configuration
  uint16_t mtu_max;        ///< 0 = the device says
  uint16_t queues_max;     ///< 0 = the device says
  bool kernel_side;        ///< an interface of the kernel stands behind it: MTU and link are set and read there
  bool own_mac;            ///< its MAC address belongs to the kernel's end: the port takes another one
  bool rx_interrupt;       ///< a worker can sleep on it
  bool needs_link;         ///< must not be polled without a link
  Scatter scatter;         ///< of received frames
  const char* mtu_reason;  ///< why not more
};
[[nodiscard]] const DeviceTraits& traits_of(DeviceKind kind);

struct StaticNeighbour {
  IpAddress address;
  Mac mac;
};

struct PortConfig {
  std::string name;    ///< of the port, as NIs name it
  std::string device;  ///< "0000:03:00.0", or a kind with parameters: "memif,role=server,socket=/run/a.sock"
  PortAddresses addresses;
  std::vector<StaticNeighbour> neighbours;
  std::optional<Mac> mac;   ///< of the port; unset = the device's
  uint16_t mtu = 1500;      ///< of IP, without Ethernet
  uint16_t vlan = 0;        ///< 802.1Q id; 0 = untagged
  uint8_t pcp = 0;          ///< 802.1p priority of frames; above 0 with a tag, also in VLAN 0
  uint16_t queues = 0;      ///< 0 = one per worker
  uint16_t rx_depth = 512;  ///< descriptors of a queue
  uint16_t tx_depth = 512;
  uint32_t in_flight = 1024;  ///< packets of a queue that receivers and senders may hold at once
  bool hold_small = true;     ///< receivers may hold packets also in pages of 4 KiB, where copies are cheaper
};

inline constexpr uint16_t kMtuMin = 576;    ///< RFC 791; with IPv6 addresses 1280
inline constexpr uint16_t kMtuMax = 16000;  ///< of any kind

/// The kind, and the parameters behind the first comma. Errors: EINVAL.
struct DeviceSpec {
  DeviceKind kind = DeviceKind::kPci;
  std::string parameters;  ///< of a virtual device
  std::string pci;         ///< address
  /// Value of "iface=", "socket=", ...; empty when not there.
  [[nodiscard]] std::string parameter(std::string_view key) const;
};
[[nodiscard]] Result<DeviceSpec> device_spec(std::string_view device);

/// Checks what can be checked without the device. Errors: EINVAL with what is wrong.
[[nodiscard]] Result<void> port_config_check(const PortConfig& config, const DeviceSpec& spec, unsigned queues);

/// DPDK's name and arguments for a virtual device: "net_af_packet3,iface=eth0,framesz=16384,...". `index` makes the
/// name unique in the process. Adds the arguments that the MTU and the queues need, unless the parameters contain them.
[[nodiscard]] std::string vdev_arguments(const PortConfig& config, const DeviceSpec& spec, unsigned queues,
                                         unsigned index);

/// Bytes that one buffer must hold, and how many buffers the longest frame takes.
struct BufferShape {
  uint32_t data_bytes = 2048;
  uint32_t segments = 1;
  bool one_page = false;        ///< a buffer with all that belongs to it must not be larger than a page
  uint32_t kept_by_device = 0;  ///< buffers that the device does not give back when it is closed
};
/// `scatter`: the device can put one frame into several buffers.
[[nodiscard]] BufferShape buffer_shape(const PortConfig& config, DeviceKind kind, bool scatter);

/// Longest frame of the port: MTU, Ethernet and two tags.
[[nodiscard]] uint32_t frame_bytes_max(uint16_t mtu);

}  // namespace ulnet::dpdk
