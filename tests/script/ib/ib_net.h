// The net under the tests of this folder. They are built twice: over simulated devices, and over our RoCE on simulated
// wires. A few tests need a device that is no RoCE port, and are skipped there.
#pragma once
#include "lnd/rc/sim/net.h"
#ifdef ULNET_IB_OVER_ROCE
#include "tests/cluster/roce_net.h"
#endif

namespace ulnet::test {

#ifdef ULNET_IB_OVER_ROCE
inline constexpr bool kOverRoce = true;
inline constexpr Duration kStep = 100us;  ///< from turn to turn; a packet takes one

/// RoCE with the names of the simulated devices. Of `rules`, the delay has an effect. `lose_one_in` loses packets,
/// which breaks no connection.
class IbNet final : private RoceNet {
 public:
  explicit IbNet(uint64_t seed) : RoceNet(seed) {}
  void run(Instant to) {
    RoceNet::rules.delay = rules.delay_max;
    RoceNet::rules.lose_one_in = rules.lose_one_in;
    RoceNet::run(std::max(to, RoceNet::now));
    counts.no_buffer = count(rc::roce::Count::kNaksRnrSent);
  }
  void set_port(const rc::IpAddress& address, bool up, const char* = "") { set_link(address, up); }
  /// A long step is for times when no packet is on its way: else all of them would be late.
  [[nodiscard]] Duration step(Duration longest) const { return next() == kForever ? longest : kStep; }
  using RoceNet::break_wires;
  using RoceNet::conns;
  using RoceNet::cut;
  using RoceNet::make_node;

  rc::sim::Rules rules;
  rc::sim::Counts counts;
};
#else
inline constexpr bool kOverRoce = false;
inline constexpr Duration kStep = 1ms;  ///< from turn to turn
class IbNet final : public rc::sim::Net {
 public:
  using Net::Net;
  [[nodiscard]] Duration step(Duration longest) const { return longest; }
};
#endif

}  // namespace ulnet::test
