// The rotation of one worker's choices: equal candidates take turns (docs/wire/lnet.md §6.4). The numbers have 64 bits.
// If a number started again at 0, the candidate with the oldest choice would come last instead of first.
#pragma once
#include <cstdint>
#include <memory>

#include "dataplane/base/gauge.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/ring.h"

namespace ulnet {

/// Owner: one worker. Control reads it to explain a choice.
struct alignas(kCacheLine) Rotation {
  Gauge choices;                                                            ///< number of the worker's last choice
  Gauge route_choices;                                                      ///< the same, of choices that took a route
  std::unique_ptr<Gauge[]> routes = std::make_unique<Gauge[]>(kRoutesMax);  ///< by RouteView::id: when it was chosen
  [[nodiscard]] int64_t route(uint32_t id) const { return id < kRoutesMax ? routes[id].get() : 0; }
};

}  // namespace ulnet
