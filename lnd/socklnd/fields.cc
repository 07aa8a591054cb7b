// The configuration keys of socklnd: each row is the only place where its key is written. Source of names and defaults:
// docs/wire/socklnd.md §8. Thread: control.
#include "lnd/socklnd/socklnd.h"

namespace ulnet::socklnd {
namespace {

using enum FieldType;

constexpr int64_t kInt32Max = INT32_MAX;
constexpr int64_t kCount16 = 65535;

constexpr SettingRow<SockConfig> kSettings[] = {
    {.path = "ulnet.stream_engine",
     .type = kEnum,
     .text = "Engine that moves bytes for tcp networks; `auto` uses epoll where io_uring is forbidden.",
     .choices = "auto|io_uring|epoll",
     .needs_restart = true,
     .at = kAt<&SockConfig::engine>,
     .after = "ulnet.idle"},
    {.path = "ulnet.unprivileged_ports",
     .type = kBool,
     .text = "Connect from any port and trust the NID in a HELLO. "
             "Only for ulnet peers: a kernel peer would use the sender's address as its NID. "
             "Allows an `accept_port` of 1024 or more without privileges.",
     .needs_restart = true,
     .at = kAt<&SockConfig::unprivileged_ports>,
     .after = "ulnet.log"},
    {.path = "ulnet.accept",
     .type = kEnum,
     .text = "Connections to accept: "
             "`secure` = only from ports below 1024, `all` = from any port, `none` = no connections.",
     .choices = "secure|all|none",
     .needs_restart = true,
     .at = kAt<&SockConfig::accept>},
    {.path = "ulnet.accept_port",
     .type = kInteger,
     .text = "TCP port that tcp networks listen on and connect to.",
     .min = 1,
     .max = kCount16,
     .needs_restart = true,
     .at = kAt<&SockConfig::accept_port>},
    {.path = "ulnet.accept_backlog",
     .type = kInteger,
     .text = "Number of connections that may wait to be accepted.",
     .min = 1,
     .max = kCount16,
     .needs_restart = true,
     .at = kAt<&SockConfig::accept_backlog>},
    {.path = "ulnet.accept_timeout",
     .type = kSeconds,
     .text = "Time within which a new connection must identify its peer.",
     .min = 1,
     .max = 3600,
     .unit = "s",
     .at = kAt<&SockConfig::accept_timeout>},
    {.path = "ulnet.memory.connections_per_worker",
     .type = kInteger,
     .text = "Connections that one worker serves. "
             "From 7/8 of this number on, idle connections of the address with the most peers are closed.",
     .min = 16,
     .max = kConnectionsPerWorkerMax,
     .unit = "connections",
     .needs_restart = true,
     .at = kAt<&SockConfig::conns_max>,
     .after = "ulnet.memory.messages_per_worker"},
    {.path = "ulnet.socklnd",
     .type = kMap,
     .text = "Parameters of tcp networks that are the same for every NI.",
     .after = "ulnet.socket.mode"},
    {.path = "ulnet.socklnd.timeout",
     .type = kSeconds,
     .text = "Timeout of a transmission.",
     .min = 1,
     .max = kInt32Max,
     .unit = "s",
     .at = kAt<&SockConfig::sock_timeout>},
    {.path = "ulnet.socklnd.conns_per_peer",
     .type = kInteger,
     .text = "Bulk connections in each direction to a peer NI, if the NI does not set its own number; "
             "0 = by link speed.",
     .min = 0,
     .max = 127,
     .unit = "connections",
     .at = kAt<&SockConfig::conns_per_peer>},
    {.path = "ulnet.socklnd.typed_conns",
     .type = kBool,
     .text = "Use separate connections for control and bulk traffic; false = one connection for everything.",
     .at = kAt<&SockConfig::typed_conns>},
    {.path = "ulnet.socklnd.min_bulk",
     .type = kInteger,
     .text = "Messages of this size or larger use bulk connections.",
     .min = 0,
     .max = 1 << 20,
     .unit = "bytes",
     .at = kAt<&SockConfig::min_bulk>},
    {.path = "ulnet.socklnd.tx_buffer_size",
     .type = kInteger,
     .text = "Send buffer of a socket; 0 = the system's default.",
     .min = 0,
     .max = 1 << 30,
     .unit = "bytes",
     .at = kAt<&SockConfig::tx_buffer_bytes>},
    {.path = "ulnet.socklnd.rx_buffer_size",
     .type = kInteger,
     .text = "Receive buffer of a socket; 0 = the system's default.",
     .min = 0,
     .max = 1 << 30,
     .unit = "bytes",
     .at = kAt<&SockConfig::rx_buffer_bytes>},
    {.path = "ulnet.socklnd.nagle",
     .type = kBool,
     .text = "Let the system gather small segments.",
     .at = kAt<&SockConfig::nagle>},
    {.path = "ulnet.socklnd.congestion_control",
     .type = kEnum,
     .text = "Congestion control of TCP; `system` = the system's. "
             "`auto` is the same, but uses `cubic` (or else `reno`) instead of BBR. "
             "With BBR, connections may stand still for seconds when a failed link is back.",
     .choices = "auto|system|reno|cubic",
     .needs_restart = true,
     .at = kAt<&SockConfig::congestion>},
    {.path = "ulnet.socklnd.keepalive",
     .type = kSeconds,
     .text = "Send a NOOP on a connection that was idle for this time; 0 = never.",
     .min = 0,
     .max = kInt32Max,
     .unit = "s",
     .at = kAt<&SockConfig::keepalive>},
    {.path = "ulnet.socklnd.keepalive_idle",
     .type = kSeconds,
     .text = "TCP keepalive: idle time before the first probe; 0 = off.",
     .min = 0,
     .max = 32767,
     .unit = "s",
     .at = kAt<&SockConfig::keepalive_idle>},
    {.path = "ulnet.socklnd.keepalive_count",
     .type = kInteger,
     .text = "TCP keepalive: probes without answer.",
     .min = 0,
     .max = 127,
     .unit = "probes",
     .at = kAt<&SockConfig::keepalive_count>},
    {.path = "ulnet.socklnd.keepalive_intvl",
     .type = kSeconds,
     .text = "TCP keepalive: time between probes.",
     .min = 0,
     .max = 32767,
     .unit = "s",
     .at = kAt<&SockConfig::keepalive_interval>},
    {.path = "ulnet.socklnd.enable_csum",
     .type = kBool,
     .text = "Use checksums in messages, where the connection's protocol has them.",
     .at = kAt<&SockConfig::enable_csum>},
    {.path = "ulnet.socklnd.splice",
     .type = kBool,
     .text = "Large payloads (of about 64 KiB or more) that a router forwards between tcp networks stay in the kernel; "
             "false = ulnet copies them. "
             "Payloads with a zero-copy cookie whose sender may be on this machine are copied, too.",
     .at = kAt<&SockConfig::splice>},
    {.path = "ulnet.socklnd.zc_min_payload",
     .type = kInteger,
     .text = "Payloads of this size or larger are sent without a copy, where that is safe. "
             "Such a send ends when the peer has the payload. 0 = never.",
     .min = 0,
     .max = 1 << 30,
     .unit = "bytes",
     .at = kAt<&SockConfig::zc_min_payload>},
    {.path = "ulnet.socklnd.min_reconnectms",
     .type = kMilliseconds,
     .text = "First wait before connecting again.",
     .min = 1,
     .max = 3600000,
     .unit = "ms",
     .at = kAt<&SockConfig::min_reconnect>},
    {.path = "ulnet.socklnd.max_reconnectms",
     .type = kMilliseconds,
     .text = "Longest wait before connecting again.",
     .min = 1,
     .max = 3600000,
     .unit = "ms",
     .at = kAt<&SockConfig::max_reconnect>},
    {.path = "ulnet.socklnd.tos",
     .type = kInteger,
     .text = "DS field of the packets, if the NI does not set its own; -1 = the system's default.",
     .min = -1,
     .max = 255,
     .at = kAt<&SockConfig::tos>},
};

constexpr SettingRow<SockTunables> kTunables[] = {
    {.path = "net.local NI(s).lnd tunables.conns_per_peer",
     .type = kInteger,
     .text = "Connections (tcp: of each kind) to one peer NI; 0 = automatic.",
     .min = 0,
     .max = 127,
     .unit = "connections",
     .at = kAt<&SockTunables::conns_per_peer>,
     .after = "net.local NI(s).lnd tunables",
     .setting = "ulnet.socklnd.conns_per_peer",
     .net_set = "conns_per_peer"},
    {.path = "net.local NI(s).lnd tunables.timeout",
     .type = kSeconds,
     .text = "Timeout of a transmission. One value serves all NIs of a driver.",
     .min = 0,
     .max = kInt32Max,
     .unit = "s",
     .at = kAt<&SockTunables::timeout>,
     .setting = "ulnet.socklnd.timeout",
     .transmit_timeout = true,
     .net_set = "lnd_timeout",
     .net_set_wrong = "LND timeout is out of range"},
    {.path = "net.local NI(s).lnd tunables.tos",
     .type = kInteger,
     .text = "DS field of the packets; -1 = the system's default.",
     .min = -1,
     .max = 255,
     .at = kAt<&SockTunables::tos>},
};

static_assert(rows_apart(kSettings) && rows_apart(kTunables));
constexpr auto kSettingFields = plain_fields(kSettings, FieldHome::kDriver);
constexpr auto kTunableFields = plain_fields(kTunables, FieldHome::kNi);

}  // namespace

std::span<const DriverField> sock_setting_fields() {
  return kSettingFields;
}
std::span<const DriverField> sock_tunable_fields() {
  return kTunableFields;
}
SockConfig sock_config(std::span<const int64_t> settings) {
  return settings_of(kSettings, settings);
}
SockTunables sock_tunables(std::span<const int64_t> tunables) {
  return settings_of(kTunables, tunables);
}
std::vector<int64_t> sock_tunable_numbers(const SockTunables& tunables) {
  return setting_numbers(kTunables, tunables);
}

}  // namespace ulnet::socklnd
