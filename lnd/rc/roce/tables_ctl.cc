// Constructors of the tables of a queue pair. If the memory ends in the second table of an object, its first one has to
// be freed. Only code with exceptions does that, and the code of workers has none.
#include <bit>

#include "dataplane/base/check.h"
#include "lnd/rc/roce/keys.h"
#include "lnd/rc/roce/requester.h"

namespace ulnet::rc::roce {

KeyTable::KeyTable(uint32_t places, Rng& rng) : places_(places), free_(places) {
  ULNET_CHECK(places <= kKeysMax);
  for (uint32_t i = 0; i < places; ++i) {
    places_[i].uses = uint32_t(rng.next());
    free_[i] = places - 1 - i;
  }
}

Requester::Requester(const RequesterConfig& config, Counts& counts)
    : config_(config),
      counts_(counts),
      place_mask_(std::bit_ceil(config.work) - 1),
      requests_(std::make_unique<Request[]>(places())),
      segments_(std::make_unique<Segment[]>(size_t{places()} * config.pieces)),
      oldest_(config.first),
      send_(config.first),
      next_(config.first),
      end_(config.first),
      timer_(config.timeout, config.retry_count) {}

}  // namespace ulnet::rc::roce
