// The desired state of a node as plain values: the requests of an administrator from any source (file, command, API).
// Defaults are the member initialisers here and nowhere else; schema.cc reads them from here. Bounds, units and text:
// schema.cc. Source: docs/wire/lnetctl.md §1, §5 and docs/wire/lnet.md §14.
#pragma once
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/doc.h"
#include "dataplane/base/nid.h"

namespace ulnet::config {

using Seconds = std::chrono::seconds;
using Milliseconds = std::chrono::milliseconds;

/// Per-NI tunables that every LND has.
struct Tunables {
  Seconds peer_timeout{180};
  int64_t peer_credits = 8;
  int64_t peer_buffer_credits = 0;
  int64_t credits = 256;
  bool operator==(const Tunables&) const = default;
};

/// One local NI. Either `nid` (its address decides) or `interface` is set; both when an interface has several
/// addresses.
struct NiConfig {
  std::optional<Nid> nid;
  bool nid_found = false;  ///< control looked `nid` up: `interface` alone stands for it
  std::string interface;
  std::vector<uint16_t> cpts;  ///< worker groups that serve it; empty = all
  Tunables tunables;
  std::map<std::string, int64_t> lnd_tunables;  ///< only those that were set; booleans as 0 and 1
  bool skip_mr_route_setup = false;
  bool operator==(const NiConfig&) const = default;
};

struct NetConfig {
  Net net;
  std::vector<NiConfig> nis;  ///< in the order of addition; the first NI ever added is the primary NID
  bool operator==(const NetConfig&) const = default;
};

/// An interface as `--if eth0[0,2]` names it.
struct InterfaceSpec {
  std::string name;
  std::vector<uint16_t> cpts;
  bool operator==(const InterfaceSpec&) const = default;
};

/// "Add this net if an address of mine matches": first matching rule of each net wins.
struct Ip2netsRule {
  Net net;
  std::vector<InterfaceSpec> interfaces;  ///< empty = those whose address matches
  std::vector<std::string> patterns;      ///< 192.168.0.*, 10.[1-3].0.[2-8/2]
  NiConfig ni;                            ///< tunables and CPTs for each NI that comes of it
  bool operator==(const Ip2netsRule&) const = default;
};

struct RouteConfig {
  Net net;
  Nid gateway;
  int64_t hop = -1;      ///< -1 = undefined
  int64_t priority = 0;  ///< 0 is the highest
  bool operator==(const RouteConfig&) const = default;
};

struct PeerConfig {
  Nid primary;
  std::vector<Nid> nids;  ///< without the primary
  bool multi_rail = true;
  bool lock_primary = false;  ///< discovery does not change the primary NID
  bool operator==(const PeerConfig&) const = default;
};

struct Routing {
  bool enable = false;
  bool operator==(const Routing&) const = default;
};

/// Router buffers, totals of the node.
struct Buffers {
  int64_t tiny = 2048;
  int64_t small = 16384;
  int64_t large = 1024;
  bool operator==(const Buffers&) const = default;
};

/// Discovery of peers. kVerify: see docs/decisions.md #13.
enum class Discovery : uint8_t { kOff, kOn, kVerify };

/// Settings that `global show` prints, with lnetctl's names.
struct Global {
  int64_t numa_range = 0;
  int64_t max_interfaces = 4096;
  Discovery discovery = Discovery::kOn;
  int64_t drop_asym_route = 0;
  int64_t retry_count = 2;
  Seconds transaction_timeout{150};
  int64_t health_sensitivity = 100;
  Seconds recovery_interval{1};
  int64_t router_sensitivity = 100;
  int64_t response_tracking = 3;
  Seconds recovery_limit{0};
  Seconds max_recovery_ping_interval{900};
  bool operator==(const Global&) const = default;
};

/// A user-defined selection policy as it was written; the descriptors are read by the policy code.
struct UdspRule {
  std::optional<int64_t> idx;  ///< position to insert at; absent = append
  std::string src, dst, rte;   ///< empty = absent
  std::optional<int64_t> priority;
  bool operator==(const UdspRule&) const = default;
};

/// The behaviour of a worker that finds no work.
enum class Idle : uint8_t { kBusy, kAdaptive, kInterrupt };
enum class Tristate : uint8_t { kAuto, kYes, kNo };
/// Whether a node routes from the first moment (upstream's module parameter `forwarding`).
enum class Forwarding : uint8_t { kUnset, kEnabled, kDisabled };
enum class LogLevel : uint8_t { kError, kWarning, kInfo, kDebug };

/// Settings of drivers, by the path of their row. A setting that is absent has its default.
using DriverValues = std::map<std::string, int64_t, std::less<>>;

/// The control socket of ulnetd.
struct SocketSection {
  std::string path = "/run/ulnet/ulnetd.sock";
  std::string group;  ///< group that may use it; empty = that of the process
  int64_t mode = 0660;
  bool operator==(const SocketSection&) const = default;
};

/// Sizes fixed at start.
struct MemorySection {
  int64_t messages_per_worker = 16384;
  int64_t peer_nis = 65536;
  Tristate hugepages = Tristate::kAuto;
  bool operator==(const MemorySection&) const = default;
};

/// The `ulnet:` section: settings that lnetctl's schema does not have.
struct UlnetSection {
  int64_t workers = 0;         ///< 0 = one per core of `cores`
  std::string cores = "auto";  ///< "auto" or a list like 2-5,8
  Idle idle = Idle::kAdaptive;
  LogLevel log = LogLevel::kInfo;
  bool perf_target = false;
  Seconds router_hold_timeout{0};
  Forwarding forwarding = Forwarding::kUnset;
  Seconds alive_router_check_interval{60};
  Seconds router_ping_timeout{50};
  bool check_routers_before_use = false;
  bool avoid_asym_router_failure = true;
  bool fast_detection = true;
  bool lock_prim_nid = true;
  MemorySection memory;
  SocketSection socket;
  DriverValues driver;
  Doc devices;  ///< a list, read by the device code; null = none
  bool operator==(const UlnetSection&) const = default;
};

/// All configuration of a node.
struct DesiredState {
  bool configured = false;      ///< `lnet configure` was said
  std::vector<NetConfig> nets;  ///< without lo, which is always there
  std::vector<Ip2netsRule> ip2nets;
  std::vector<RouteConfig> routes;
  std::vector<PeerConfig> peers;
  Routing routing;
  Buffers buffers;
  Global global;
  std::vector<UdspRule> udsp;
  UlnetSection ulnet;
  bool operator==(const DesiredState&) const = default;
};

}  // namespace ulnet::config
