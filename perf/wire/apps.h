// Apps that use a port to measure or to be measured: echo UDP, generate it, ping, hold packets, swap MAC addresses,
// generate raw frames. Thread: its worker; figures are read when the worker no longer uses the app.
#pragma once
#include <memory>
#include <vector>

#include "dataplane/host/clock.h"
#include "lnd/net/dpdk/port_worker.h"
#include "perf/generator/histogram.h"

namespace ulnet::perf {

inline constexpr uint16_t kEchoPort = 7;
inline constexpr uint16_t kDiscardPort = 9;
inline constexpr uint16_t kGeneratorPort = 0xC007;

struct AppFigures {
  uint64_t sent = 0;
  uint64_t received = 0;
  uint64_t bytes = 0;      ///< of payload received
  uint64_t corrupted = 0;  ///< payloads that differ from the ones sent
  uint64_t lost = 0;       ///< given up
  uint64_t leases = 0;     ///< sends from memory of the application, all returned when equal to leases_back
  uint64_t leases_back = 0;
  uint64_t copied = 0;             ///< packets that could not be held
  uint64_t held_max = 0;           ///< packets held at once
  uint64_t free_min = UINT64_MAX;  ///< least free buffers when a burst came; UINT64_MAX: not measured
  Histogram latency;
};

class App : public PortApp {
 public:
  AppFigures figures;
};

struct AppOptions {
  std::string mode = "serve";  ///< serve, generate, ping, hold, macswap, rawgen
  dpdk::IpAddress peer;
  dpdk::Mac peer_mac;       ///< of rawgen
  uint32_t bytes = 56;      ///< of payload; rawgen: of the frame
  uint64_t count = 0;       ///< packets to send; 0 = without end
  uint32_t window = 64;     ///< under way at once
  Duration interval{};      ///< between pings; 0 = as fast as the window allows
  bool verify = true;       ///< check each payload
  uint32_t hold = 512;      ///< packets to hold
  bool flood_only = false;  ///< generate: to the discard port, no answers
};

/// Errors: EINVAL (no such mode).
[[nodiscard]] Result<std::unique_ptr<App>> app_make(const AppOptions& options, dpdk::PortQueue& queue,
                                                    dpdk::Stack* stack, dpdk::Mac own);

}  // namespace ulnet::perf
