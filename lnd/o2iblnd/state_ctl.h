// The state of the control half of o2iblnd: local NIs, peers with their attempts to connect, and connections. State
// only; the rules are in listen_ctl, dial_ctl, accept_ctl and conn_ctl. Thread: control.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dataplane/base/log_limit.h"
#include "lnd/lnd.h"
#include "lnd/o2iblnd/config.h"
#include "lnd/o2iblnd/conn.h"
#include "lnd/o2iblnd/messages.h"
#include "lnd/o2iblnd/proto/connect.h"

namespace ulnet::o2iblnd {

struct NiCtl {
  NiParams params;
  IbTunables tunables;
  rc::IpAddress address;
  uint64_t stamp = 0;
  ConnParams offer;              ///< in CONNREQs of this NI
  rc::ListenerId listener = 0;   ///< shared by the NIs of one address
  std::optional<bool> usable;    ///< as reported to the host; empty before the first turn()
  std::string_view why_not;      ///< the reason that the log has; constant text of the provider
  bool exposure_logged = false;  ///< that peers may write into whole regions
  bool stopping = false;
  uint32_t conns = 0;                         ///< ConnCtls
  std::array<int64_t, kPeerFaults> faults{};  ///< of peers, by PeerFault
  uint32_t flushes_left = 0;                  ///< workers that have yet to answer NiFlushMsg
  std::unique_ptr<Owed[]> flushed;            ///< their answers, by worker
};

using PeerKey = std::pair<NiId, Nid>;

enum class DialState : uint8_t {
  kIdle,
  kDialling,  ///< Dial::conns are under way
  kPause      ///< rejected: again at `at`
};
struct Dial {
  DialState state = DialState::kIdle;
  bool wanted = false;         ///< messages wait for a connection
  std::set<rc::ConnId> conns;  ///< attempts under way
  unsigned reconnects = 0;     ///< in a row
  unsigned races = 0;          ///< CONNREQs of the peer that were refused meanwhile
  ConnParams offer;            ///< of the next attempt
  Instant at = kNever;
};
/// One peer NI from one local NI, while it has connections, or an attempt is under way.
struct PeerCtl {
  uint64_t id = 0;
  PeerKey key;
  PeerPlace place;
  bool abandoned = false;  ///< another has taken its place: it only ends
  uint64_t stamp = 0;      ///< of its NI, as last heard; 0: not known
  Dial dial;
  std::set<rc::ConnId> conns;  ///< all, those that end among them
};

enum class ConnStage : uint8_t {
  kMaking,    ///< until kReady
  kAdopting,  ///< the worker posts its receive buffers
  kAsking,    ///< the REQ or REP is sent
  kUp,
  kEnding  ///< disconnected
};
struct ConnCtl {
  rc::ConnId id = 0;
  NiId ni{};
  uint64_t peer = 0;  ///< PeerCtl::id
  Instant began = kNever;
  ConnStage stage = ConnStage::kMaking;
  bool active = false;
  rc::IpAddress from;              ///< passive: the source of the REQ
  bool foreign = false;            ///< passive: `from` is not the address in the peer's NID
  ConnParams params;               ///< offered, then settled
  Ends ends;                       ///< of own messages
  Conn* object = nullptr;          ///< lent to the worker from kAdopting to ConnDeadMsg
  std::optional<Completion> lost;  ///< the worker has reported the end, and the provider's event is to come
  bool blamed = false;             ///< a fault of its peer is counted
  ConnFacts facts;
};

/// Why a line that a stranger can cause is written: each cause has a limit of its own.
enum class LogCause : uint8_t { kRequest, kRoom, kAnswer, kDial, kFault, kCount };

struct IbControl {
  LndControlHost& host;
  rc::Control& rc;
  IbConfig config;
  Instant now = kNever;

  struct Listener {
    rc::ListenerId id = 0;
    uint32_t users = 0;
  };
  std::map<NiId, NiCtl> nis;
  std::map<rc::IpAddress, Listener> listeners;
  std::map<uint64_t, PeerCtl> peers;  ///< by id
  std::map<PeerKey, uint64_t> peer_of;
  /// The end of each DialState::kPause, and PeerCtl::id. The entry stays until then, also if the pause is over before.
  std::set<std::pair<Instant, uint64_t>> pauses;
  std::map<rc::ConnId, ConnCtl> conns;
  std::unordered_map<const PeerSlice*, uint32_t> named;  ///< how many peers name it
  std::vector<uint32_t> conns_of;                        ///< connections of each worker
  std::array<LogLimit, size_t(LogCause::kCount)> log_limits;
  uint32_t half_open = 0;  ///< passive connections that are not up yet
  /// The same by ConnCtl::from, those of each address by their begin.
  std::map<rc::IpAddress, std::set<std::pair<Instant, rc::ConnId>>> half_open_of;
  std::map<rc::IpAddress, uint32_t> foreign_of;  ///< connections that are ConnCtl::foreign, by ConnCtl::from
  uint64_t next_stamp = 0;
  uint64_t next_peer = 1;

  void log_limited(LogCause cause, const std::string& line);
  /// A fault of the peer of this connection has ended it: is counted once, and logged.
  void peer_fault(ConnCtl& conn, PeerFault fault);
  [[nodiscard]] NiCtl* find_ni(NiId id) {
    const auto it = nis.find(id);
    return it == nis.end() ? nullptr : &it->second;
  }
  [[nodiscard]] PeerCtl* find_peer(uint64_t id) {
    const auto it = peers.find(id);
    return it == peers.end() ? nullptr : &it->second;
  }
  [[nodiscard]] PeerCtl* find_peer(const PeerKey& key) {
    const auto it = peer_of.find(key);
    return it == peer_of.end() ? nullptr : find_peer(it->second);
  }
  [[nodiscard]] ConnCtl* find_conn(rc::ConnId id) {
    const auto it = conns.find(id);
    return it == conns.end() ? nullptr : &it->second;
  }
};

}  // namespace ulnet::o2iblnd
