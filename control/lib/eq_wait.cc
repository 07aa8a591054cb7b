// An application's thread waits for events. Runs beside the workers: nothing here allocates.
#include <algorithm>
#include <array>

#include "control/lib/ulnet.hh"
#include "dataplane/base/idle_gate.h"
#include "dataplane/host/clock.h"

namespace ulnet {
namespace {

/// A queue without descriptor is looked at again after this time. The process may have no file left.
constexpr Duration kNap = 100us;

}  // namespace

unsigned eq_wait(Submitter& submitter, EqHandle eq, std::span<Event> out, Duration timeout) {
  if (out.empty()) return 0;
  const Instant begin = clock_now();
  for (Instant now = begin;; now = clock_now()) {
    if (const unsigned count = submitter.eq_poll(eq, out); count != 0) return count;
    const Duration left = timeout - (now - begin);
    if (left <= Duration{0}) return 0;
    const auto fd = submitter.eq_fd(eq);
    if (!fd)
      (void)wait_readable({}, now + std::min(left, kNap), now);
    else if (submitter.eq_arm(eq))
      (void)wait_readable(std::array{*fd}, left < kForever - now ? now + left : kForever, now);
  }
}

}  // namespace ulnet
