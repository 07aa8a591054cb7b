// An application's thread waits for events. Runs beside the workers: nothing here allocates.
#include <thread>

#include "control/lib/turners.h"
#include "control/lib/ulnet.hh"
#include "dataplane/host/clock.h"

namespace ulnet {

unsigned eq_wait(Submitter& submitter, EqHandle eq, std::span<Event> out, Duration timeout) {
  constexpr Duration kYieldFor = 100us;
  const Instant begin = clock_now();
  Nap nap;
  for (;;) {
    if (const unsigned count = submitter.eq_poll(eq, out); count != 0) return count;
    const Duration waited = clock_now() - begin;
    if (waited >= timeout) return 0;
    if (waited < kYieldFor) {
      std::this_thread::yield();
      continue;
    }
    nap.pause();
  }
}

}  // namespace ulnet
