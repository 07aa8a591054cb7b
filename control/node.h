// A Node: one LNet identity. An object without globals; clock, randomness, LNDs and devices are handed in, so that a thousand of
// them live in one test process. Wiring only: rules live in publish/, peers/, routes/, nis/, api/.
// Threads: turn(w) belongs to whoever drives worker w; everything else to the control thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/worker/worker.h"
#include "lnd/lnd.h"

namespace ulnet {

/// One LND as a Node gets it: number 0 must be loopback.
struct LndEntry {
  std::string name;                ///< "tcp", "o2ib", "lo": also the net type that it serves
  NetType type = NetType::kLo;
  std::function<std::unique_ptr<Lnd>(LndCore&)> make_worker_half;             ///< called once per worker
  std::function<std::unique_ptr<LndControl>(LndControlHost&)> make_control_half;
};

/// What the machine knows about interfaces. Real: netlink; tests: a table.
class Devices {
 public:
  struct Interface {
    std::string name;
    std::vector<Nid> addresses;    ///< net part unset (tcp0): only the address bytes count; IPv4 first
    uint32_t mbps = 0;             ///< 0 = unknown
    uint32_t numa_node = UINT32_MAX;
    bool link_up = true;
  };
  virtual ~Devices() = default;
  /// Error ENODEV when there is none of this name.
  [[nodiscard]] virtual Result<Interface> find(const std::string& name) = 0;
  /// The interface that has this address; ENODEV if none.
  [[nodiscard]] virtual Result<Interface> find_address(const Nid& nid) = 0;
};

struct NodeConfig {
  unsigned workers = 1;
  WorkerSize worker_size;
  uint32_t ring_size = 1024;
  uint32_t peers_max = 65536;      ///< peer NIs, in all
};

struct NodeDeps {
  uint64_t seed = 1;
  uint64_t incarnation = 1;        ///< unique per life of the node: real time in ns
  std::vector<LndEntry> lnds;
  Devices* devices = nullptr;
  std::function<void(const std::string&)> log;   ///< one line for the operator
  bool real_threads = false;       ///< gates get event fds
};

}  // namespace ulnet
