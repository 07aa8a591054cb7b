// Each row is the only place where its key is written. Source of names and defaults: docs/wire/o2iblnd.md §11.
#include "lnd/o2iblnd/fields.h"

namespace ulnet::o2iblnd {
namespace {

using enum FieldType;

constexpr int64_t kInt32Max = INT32_MAX;
constexpr int64_t kCount16 = 65535;
constexpr int64_t kRetriesMax = 7;  ///< the fields of the CM have three bits
constexpr int64_t kSegmentsMax = 16;

constexpr const char* kNoChecksums =
    "ulnet sends no checksums, since kernels compute them in two ways; checksums of peers are verified";
constexpr const char* kNoMtu = "the connection manager takes the MTU of the path, so set the MTU of the interfaces";
constexpr const char* kNoGaps = "a key covers one piece of memory";
constexpr const char* kNoFailover = "NIs fail over to other NIs: add an NI for each device";
constexpr const char* kNoMapping = "memory is registered before transfers, and each transfer has a key of its own";
constexpr const char* kNoPools = "ulnet has no pools of registrations";
constexpr const char* kNoDescriptors = "credits and queue depths bound the messages under way";

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
    {.path = "ulnet.o2iblnd.timeout",
     .type = kSeconds,
     .text = "Timeout of a transmission.",
     .min = 1,
     .max = kInt32Max,
     .unit = "s",
     .at = kAt<&IbConfig::timeout>},
    {.path = "ulnet.o2iblnd.retry_count",
     .type = kInteger,
     .text = "Number of times that the device sends a packet again before the connection ends. "
             "Holds for connections that are made from now on.",
     .min = 0,
     .max = kRetriesMax,
     .unit = "times",
     .at = kAt<&IbConfig::retry_count>},
    {.path = "ulnet.o2iblnd.rnr_retry_count",
     .type = kInteger,
     .text = "The same number for packets that find no receive buffer at the peer; 7 = without end.",
     .min = 0,
     .max = kRetriesMax,
     .unit = "times",
     .at = kAt<&IbConfig::rnr_retry_count>},
    {.path = "ulnet.o2iblnd.ib_mtu",
     .type = kEnum,
     .text = "Largest payload of a packet, in bytes; 0 = as the path allows.",
     .choices = "0|256|512|1024|2048|4096",
     .no_effect = kNoMtu,
     .at = kAt<&IbConfig::ib_mtu>},
    {.path = "ulnet.o2iblnd.wrq_sge",
     .type = kInteger,
     .text = "Segments of memory that one write may have. Holds for connections that are made from now on.",
     .min = 1,
     .max = kSegmentsMax,
     .unit = "segments",
     .at = kAt<&IbConfig::wrq_sge>},
    {.path = "ulnet.o2iblnd.keepalive",
     .type = kSeconds,
     .text = "Send a NOOP on a connection that was idle for this time, or for the NI's timeout if that is longer; 0 = "
             "never.",
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
    {.path = "ulnet.o2iblnd.cksum",
     .type = kBool,
     .text = "Use checksums in messages.",
     .no_effect = kNoChecksums,
     .at = kAt<&IbConfig::cksum>},
    {.path = "ulnet.o2iblnd.use_fastreg_gaps",
     .type = kBool,
     .text = "Register memory with gaps.",
     .no_effect = kNoGaps,
     .at = kAt<&IbConfig::use_fastreg_gaps>},
    {.path = "ulnet.o2iblnd.dev_failover",
     .type = kBool,
     .text = "Move an NI to another device of a bond.",
     .no_effect = kNoFailover,
     .at = kAt<&IbConfig::dev_failover>},
};

// In lnetctl's order. The last three are keys of other drivers, too.
constexpr SettingRow<IbTunables> kTunables[] = {
    {.path = "net.local NI(s).lnd tunables.peercredits_hiw",
     .type = kInteger,
     .text =
         "o2ib: return credits to a peer when this many are owed; 0 = half of `peer_credits`, which is also the least.",
     .min = 0,
     .max = kCount16,
     .unit = "credits",
     .at = kAt<&IbTunables::peercredits_hiw>,
     .after = "net.local NI(s).lnd tunables"},
    {.path = "net.local NI(s).lnd tunables.concurrent_sends",
     .type = kInteger,
     .text =
         "o2ib: sends under way on one connection; 0 = `peer_credits`. At least half of `peer_credits`, at most twice.",
     .min = 0,
     .max = kCount16,
     .unit = "sends",
     .at = kAt<&IbTunables::concurrent_sends>},
    {.path = "net.local NI(s).lnd tunables.map_on_demand",
     .type = kBool,
     .text = "o2ib: register memory for each transfer.",
     .no_effect = kNoMapping,
     .at = kAt<&IbTunables::map_on_demand>},
    {.path = "net.local NI(s).lnd tunables.fmr_pool_size",
     .type = kInteger,
     .text = "o2ib: registrations in the pool.",
     .min = 1,
     .max = 1 << 20,
     .no_effect = kNoPools,
     .at = kAt<&IbTunables::fmr_pool_size>},
    {.path = "net.local NI(s).lnd tunables.fmr_flush_trigger",
     .type = kInteger,
     .text = "o2ib: dirty registrations that start a flush.",
     .min = 1,
     .max = 1 << 20,
     .no_effect = kNoPools,
     .at = kAt<&IbTunables::fmr_flush_trigger>},
    {.path = "net.local NI(s).lnd tunables.fmr_cache",
     .type = kInteger,
     .text = "o2ib: keep registrations.",
     .min = 0,
     .max = 1,
     .no_effect = kNoPools,
     .at = kAt<&IbTunables::fmr_cache>},
    {.path = "net.local NI(s).lnd tunables.ntx",
     .type = kInteger,
     .text = "o2ib: transmit descriptors of a worker group.",
     .min = 1,
     .max = 1 << 20,
     .unit = "descriptors",
     .no_effect = kNoDescriptors,
     .at = kAt<&IbTunables::ntx>},
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
     .setting = "ulnet.o2iblnd.timeout",
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
