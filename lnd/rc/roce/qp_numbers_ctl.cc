#include "lnd/rc/roce/qp_numbers_ctl.h"

#include "dataplane/base/check.h"

namespace ulnet::rc::roce {
namespace {

constexpr uint32_t kCountMask = (1u << kQpnCountBits) - 1;
constexpr uint32_t kReserved = 2;  ///< the first numbers: of the management

}  // namespace

QpNumbers::QpNumbers(unsigned workers, Rng& rng) : workers_(workers) {
  for (PerWorker& one : workers_) one.next = uint32_t(rng.next()) & kCountMask;
}

std::optional<uint32_t> QpNumbers::take(WorkerId worker) {
  PerWorker& mine = workers_[worker.value];
  if (mine.used == kQpPlaces) return std::nullopt;
  for (;;) {
    const uint32_t number = uint32_t{worker.value} << kQpnCountBits | mine.next;
    mine.next = (mine.next + 1) & kCountMask;
    const uint32_t place = place_of_qpn(number);
    if (number < kReserved || mine.places[place]) continue;
    mine.places.set(place);
    ++mine.used;
    return number;
  }
}

void QpNumbers::give_back(uint32_t number) {
  PerWorker& mine = workers_[worker_of_qpn(number).value];
  ULNET_CHECK(mine.places[place_of_qpn(number)]);
  mine.places.reset(place_of_qpn(number));
  --mine.used;
}

}  // namespace ulnet::rc::roce
