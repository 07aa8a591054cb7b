// Each row is the only place where its key is written. Source of names and defaults: docs/wire/o2iblnd.md §11.
#include "lnd/o2iblnd/fields.h"

namespace ulnet::o2iblnd {
namespace {

using enum FieldType;

constexpr int64_t kInt32Max = INT32_MAX;

constexpr SettingRow<IbConfig> kSettings[] = {
    {.path = "ulnet.o2iblnd",
     .type = kMap,
     .text = "Parameters of o2ib networks that are the same for every NI.",
     .after = "ulnet.socklnd.tos"},
    {.path = "ulnet.o2iblnd.service",
     .type = kInteger,
     .text = "Port of the connection manager that o2ib networks listen on and connect to.",
     .min = 1,
     .max = 65535,
     .needs_restart = true,
     .at = kAt<&IbConfig::service>},
    {.path = "ulnet.o2iblnd.keepalive",
     .type = kSeconds,
     .text = "Send a NOOP on a connection that was idle for this time; 0 = never.",
     .min = 0,
     .max = kInt32Max,
     .unit = "s",
     .at = kAt<&IbConfig::keepalive>},
    {.path = "ulnet.o2iblnd.use_privileged_port",
     .type = kBool,
     .text = "Connect from a port below 1024.",
     .at = kAt<&IbConfig::use_privileged_port>},
    {.path = "ulnet.o2iblnd.require_privileged_port",
     .type = kBool,
     .text = "Accept connections from ports below 1024 only.",
     .at = kAt<&IbConfig::require_privileged_port>},
};

constexpr SettingRow<IbTunables> kTunables[] = {
    {.path = "net.local NI(s).lnd tunables.conns_per_peer",
     .type = kInteger,
     .text = "Connections (tcp: of each kind) to one peer NI; 0 = automatic.",
     .min = 0,
     .max = 127,
     .unit = "connections",
     .at = kAt<&IbTunables::conns_per_peer>,
     .net_set = "conns_per_peer"},
    {.path = "net.local NI(s).lnd tunables.timeout",
     .type = kSeconds,
     .text = "Timeout of a transmission. One value serves all NIs of a driver.",
     .min = 0,
     .max = kInt32Max,
     .unit = "s",
     .at = kAt<&IbTunables::timeout>,
     .transmit_timeout = true,
     .net_set = "lnd_timeout",
     .net_set_wrong = "LND timeout is out of range"},
    {.path = "net.local NI(s).lnd tunables.tos",
     .type = kInteger,
     .text = "DS field of the packets; -1 = the system's default.",
     .min = -1,
     .max = 255,
     .at = kAt<&IbTunables::tos>},
};

static_assert(rows_apart(kSettings) && rows_apart(kTunables));
constexpr auto kSettingFields = plain_fields(kSettings, FieldHome::kDriver);
constexpr auto kTunableFields = plain_fields(kTunables, FieldHome::kNi);

}  // namespace

std::span<const DriverField> ib_setting_fields() {
  return kSettingFields;
}
std::span<const DriverField> ib_tunable_fields() {
  return kTunableFields;
}
IbConfig ib_config(std::span<const int64_t> settings) {
  return settings_of(kSettings, settings);
}
IbTunables ib_tunables(std::span<const int64_t> tunables) {
  return settings_of(kTunables, tunables);
}
std::vector<int64_t> ib_tunable_numbers(const IbTunables& tunables) {
  return setting_numbers(kTunables, tunables);
}

}  // namespace ulnet::o2iblnd
