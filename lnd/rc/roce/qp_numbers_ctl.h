// Numbers of queue pairs. The top bits are the worker, so each worker can see where a packet belongs. Below them, each
// worker counts up from a random number, and a number comes again only after all others of its worker. The low bits are
// the place in the worker's table, so two queue pairs never share a place. Thread: control.
#pragma once
#include <bitset>
#include <memory>
#include <optional>
#include <vector>

#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/rng.h"

namespace ulnet::rc::roce {

inline constexpr unsigned kQpnBits = 24, kQpnWorkerBits = 6;
inline constexpr unsigned kQpnCountBits = kQpnBits - kQpnWorkerBits;  ///< counted by one worker
inline constexpr uint32_t kQpPlaces = 1u << 14;                       ///< queue pairs of one worker
static_assert(kWorkersMax <= 1u << kQpnWorkerBits && kQpPlaces < 1u << kQpnCountBits);

[[nodiscard]] constexpr WorkerId worker_of_qpn(uint32_t number) {
  return WorkerId{uint16_t(number >> kQpnCountBits)};
}
[[nodiscard]] constexpr uint32_t place_of_qpn(uint32_t number) {
  return number % kQpPlaces;
}

class QpNumbers {
 public:
  QpNumbers(unsigned workers, Rng& rng);
  /// Nothing if the worker has no place left. Never 0 or 1, which are of the management.
  [[nodiscard]] std::optional<uint32_t> take(WorkerId worker);
  /// Requires: taken.
  void give_back(uint32_t number);
  [[nodiscard]] uint32_t used(WorkerId worker) const { return workers_[worker.value].used; }

 private:
  struct PerWorker {
    uint32_t next = 0;
    uint32_t used = 0;
    std::bitset<kQpPlaces> places;
  };
  std::vector<PerWorker> workers_;
};

}  // namespace ulnet::rc::roce
