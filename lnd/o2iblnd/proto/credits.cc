// See credits.h.
#include "lnd/o2iblnd/proto/credits.h"

#include <algorithm>

namespace ulnet::o2iblnd {

Credits::Credits(unsigned depth, unsigned high_water)
    : depth_(uint16_t(depth)), high_water_(uint16_t(high_water)), credits_(depth_), reserved_(depth_) {
  ULNET_CHECK(depth >= 2 && depth <= kDepthMax && high_water >= 1 && high_water < depth);
  after_keepalive_ = uint16_t(std::min(std::max(high_water, depth - high_water + 1), depth - 1));
}

NextSend Credits::next(const Waiting& waiting) const {
  if (waiting.credit_free) return NextSend::kCreditFree;
  if (waiting.credited && may_send(waiting.first)) return NextSend::kCredited;
  return noop_due() ? NextSend::kNoop : NextSend::kNothing;
}

unsigned high_water_of(unsigned depth, unsigned peer_credits, unsigned peercredits_hiw) {
  ULNET_CHECK(depth >= 2 && peer_credits >= 1);
  const unsigned least = std::max(peer_credits / 2, 1u), most = std::max(peer_credits - 1, least);
  const unsigned whole = std::clamp(peercredits_hiw == 0 ? least : peercredits_hiw, least, most);
  return std::clamp(depth * whole / peer_credits, depth / 3 + 1, depth - 1);
}

}  // namespace ulnet::o2iblnd
