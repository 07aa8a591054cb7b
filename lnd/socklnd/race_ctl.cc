#include "lnd/socklnd/race_ctl.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ulnet::socklnd {

uint32_t conns_per_peer_for(uint32_t link_mbps) {
  const uint32_t gbps = std::max(link_mbps, 1000u) / 1000;
  return uint32_t(std::bit_width(gbps) - 1) / 2 + 1;
}

PassiveVerdict passive_verdict(const PassiveCase& c) {
  // The connection that the higher NID dialled survives.
  if (c.dialling && std::memcmp(&c.peer_nid, &c.my_nid, sizeof(Nid)) < 0) return PassiveVerdict::kRaceLost;
  if (c.known && (c.known_version != c.version || c.known_incarnation != c.incarnation))
    return c.elsewhere ? PassiveVerdict::kClaimed : PassiveVerdict::kRebooted;
  if (!c.same_ip && c.same_type_count >= c.type_limit) return PassiveVerdict::kDuplicate;
  return PassiveVerdict::kAccept;
}

ActiveVerdict active_verdict(const ActiveCase& c) {
  if (c.known && (c.known_version != c.version || c.known_incarnation != c.incarnation))
    return ActiveVerdict::kRebooted;
  if (!c.same_ip && c.same_type_count >= c.type_limit) return ActiveVerdict::kDuplicate;
  return ActiveVerdict::kKeep;
}

}  // namespace ulnet::socklnd
