// The record of the sim LND. As `tcp` it stands in for socklnd in tests: the same keys, the same settings behind them.
#include "lnd/sim/sim_ctl.h"

namespace ulnet::sim {
namespace {

using enum FieldType;

constexpr SettingRow<SimTunables> kTcpRows[] = {
    {.path = "net.local NI(s).lnd tunables.timeout",
     .type = kSeconds,
     .at = kAt<&SimTunables::timeout>,
     .setting = "ulnet.socklnd.timeout",
     .transmit_timeout = true},
    {.path = "net.local NI(s).lnd tunables.tos",
     .type = kInteger,
     .no_effect = "the sim LND sends no packets",
     .at = kAt<&SimTunables::tos>},
    {.path = "net.local NI(s).lnd tunables.conns_per_peer",
     .type = kInteger,
     .at = kAt<&SimTunables::conns_per_peer>,
     .setting = "ulnet.socklnd.conns_per_peer"},
};
constexpr SettingRow<SimTunables> kO2ibRows[] = {
    {.path = "net.local NI(s).lnd tunables.timeout",
     .type = kSeconds,
     .at = kAt<&SimTunables::timeout>,
     .transmit_timeout = true},
    {.path = "net.local NI(s).lnd tunables.tos",
     .type = kInteger,
     .no_effect = "the sim LND sends no packets",
     .at = kAt<&SimTunables::tos>},
};
constexpr auto kTcpFields = plain_fields(kTcpRows, FieldHome::kNi);
constexpr auto kO2ibFields = plain_fields(kO2ibRows, FieldHome::kNi);

constexpr DriverType kTcp{.name = "sim-tcp", .net_type = NetType::kTcp, .ni_tunables = kTcpFields};
constexpr DriverType kO2ib{.name = "sim-o2ib", .net_type = NetType::kO2ib, .ni_tunables = kO2ibFields};

}  // namespace

const DriverType& sim_driver(NetType type) {
  return type == NetType::kTcp ? kTcp : kO2ib;
}
SimTunables sim_tunables(std::span<const int64_t> tunables) {
  return settings_of(kTcpRows, tunables);  // the rows of o2ib are the first of these
}
std::vector<int64_t> sim_tunable_numbers(const SimTunables& tunables) {
  return setting_numbers(kTcpRows, tunables);
}

}  // namespace ulnet::sim
