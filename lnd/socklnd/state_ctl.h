// What the control half of socklnd keeps: local NIs, connection sets, handshakes, listeners, what is due when. State
// only; the rules are in acceptor_ctl, dial_ctl and peer_ctl. Thread: control.
#pragma once
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "dataplane/base/log_limit.h"
#include "lnd/lnd.h"
#include "lnd/socklnd/config.h"
#include "lnd/socklnd/conn.h"
#include "lnd/socklnd/messages.h"
#include "lnd/socklnd/net_io.h"
#include "lnd/socklnd/proto/acceptor.h"
#include "lnd/socklnd/proto/hello.h"
#include "lnd/socklnd/race_ctl.h"
#include "lnd/socklnd/socklnd.h"

namespace ulnet::socklnd {

struct NiCtl {
  NiParams params;
  SockTunables tunables;  ///< of `params`
  IpAddress address;
  uint64_t incarnation = 0;
  uint32_t conns_per_peer = 1;
  Duration timeout = 50s;
  bool stopping = false;
  std::optional<bool> usable;       ///< as last told to control; nothing: never known
  uint32_t flushes_left = 0;        ///< workers that have yet to answer NiFlushMsg
  std::unique_ptr<Owed[]> flushed;  ///< their answers, by worker
  uint32_t sets = 0;                ///< ConnSets on workers, retiring ones included
};

enum class DialState : uint8_t {
  kIdle,
  kConnecting,  ///< a handshake of ours is under way
  kRetry,       ///< answered NONE, or the peer is connecting to us: again at `at`
  kBackoff      ///< failed: not before `at`
};

struct Dial {
  DialState state = DialState::kIdle;
  SocketId socket = 0;
  ConnType type = ConnType::kControl;
  uint32_t nones = 0;            ///< NONE answers in a row
  uint32_t version_changes = 0;  ///< answers in another version in a row
  Duration interval{0};          ///< of the last back-off
  Instant at = kNever;
  Instant forget_at = kNever;     ///< until then the set stays, so that `interval` is remembered
  Instant silent_since = kNever;  ///< since when no SYN was answered; of attempts that dial_now() made again
};

/// A connection that counts.
struct LiveConn {
  ConnType type = ConnType::kAny;
  IpAddress remote;  ///< the address at its other end
};

/// One connection set as control sees it. The worker-side object is lent out from creation to SetGoneMsg.
struct SetCtl {
  uint64_t id = 0;
  NiId ni{};
  Nid nid;
  uint32_t pid = kLnetPid;
  PeerPlace place;
  ConnSet* object = nullptr;
  uint32_t version = 0;  ///< what the peer speaks; 0 not known
  uint64_t incarnation = 0;
  TypeCounts counts{};  ///< of `live`
  std::map<Conn*, LiveConn> live;
  std::set<Conn*> closing;  ///< do not count any more, not given back yet
  uint32_t accepting = 0;   ///< passive handshakes whose answer is being written
  Instant made_at = kNever;
  bool abandoned = false;  ///< another set has taken its place: it only ends
  Dial dial;
};
using SetKey = std::tuple<NiId, Nid, uint32_t>;

enum class HandshakePhase : uint8_t {
  kConnecting,   ///< active: TCP connect under way
  kRequest,      ///< passive: reading the connection request
  kHello,        ///< reading the HELLO, or its answer
  kAnswer,       ///< passive: writing the answer, then placed on a worker
  kAnswerClose,  ///< passive: writing the answer, then closed
};

struct Handshake {
  SocketId socket = 0;
  bool active = false;
  HandshakePhase phase = HandshakePhase::kRequest;
  NiId ni{};            ///< passive: known after the request
  uint64_t set_id = 0;  ///< active: from the start; passive: in kAnswer
  Endpoint remote;
  Instant began = kNever;
  ConnRequestDecoder request;
  HelloDecoder hello{HelloRole::kPassive};
  Hello sent;            ///< active: our HELLO
  Conn* conn = nullptr;  ///< passive in kAnswer: what will be placed
  std::array<std::byte, kConnRequestMaxBytes + kHelloMaxBytes> out;
  size_t out_begin = 0, out_end = 0;
};

/// Moments at which keys fall due. A key has at most one.
class DueList {
 public:
  void set(uint64_t key, Instant at) {
    clear(key);
    if (at == kForever) return;
    at_[key] = at;
    order_.insert({at, key});
  }
  void clear(uint64_t key) {
    const auto it = at_.find(key);
    if (it == at_.end()) return;
    order_.erase({it->second, key});
    at_.erase(it);
  }
  [[nodiscard]] Instant next() const { return order_.empty() ? kForever : order_.begin()->first; }
  /// Takes one key that is due.
  std::optional<uint64_t> take(Instant now) {
    if (next() > now || order_.empty()) return std::nullopt;
    const uint64_t key = order_.begin()->second;
    clear(key);
    return key;
  }

 private:
  std::map<uint64_t, Instant> at_;
  std::set<std::pair<Instant, uint64_t>> order_;
};

/// Why a line that a stranger can cause is written: each cause has a limit of its own.
enum class LogCause : uint8_t {
  kRequest,  ///< a connection request or a HELLO that is refused
  kRoom,     ///< no slot for a connection, or others were closed for it
  kMemory,
  kClaim,  ///< a NID that a node at another address has
  kDial,
  kHold,  ///< a connection that is not held to its interface
  kCount
};

struct SockControl {
  LndControlHost& host;
  NetIo& net;
  SockConfig config;
  SockDevices* devices = nullptr;
  Instant now = kNever;

  struct Listener {
    ListenerId id = 0;
    uint32_t users = 0;
  };
  /// Connections of one worker.
  struct Slots {
    uint32_t used = 0;           ///< all that have not been given back
    uint32_t closing = 0;        ///< of them, those that do not count any more
    Instant next_look = kNever;  ///< earliest look for connections that could be closed
  };
  std::map<NiId, NiCtl> nis;
  std::map<Endpoint, Listener> listeners;
  std::map<uint64_t, SetCtl> sets;  ///< by id
  std::map<SetKey, uint64_t> set_of;
  std::map<uint64_t, std::pair<NiId, ConnSet*>> retiring;  ///< sets that workers have yet to give back
  std::unordered_map<const PeerSlice*, uint32_t> named;    ///< how many sets, retiring ones among them, name it
  std::map<SocketId, Handshake> handshakes;
  uint32_t half_open = 0;                      ///< passive handshakes
  std::map<IpAddress, uint32_t> half_open_of;  ///< the same by address_share()
  DueList due;
  std::array<LogLimit, size_t(LogCause::kCount)> log_limits;
  std::vector<Slots> slots;  ///< by worker
  uint64_t next_set_id = 1;
  uint64_t next_incarnation = 0;
  bool look_at_links = false;  ///< an NI was started: nobody has looked at its link yet

  /// For lines that a stranger can cause.
  void log_limited(LogCause cause, const std::string& line);
  [[nodiscard]] Slots& slots_of(const SetCtl& set) {
    if (slots.size() <= set.place.worker.value) slots.resize(size_t{set.place.worker.value} + 1);
    return slots[set.place.worker.value];
  }
  [[nodiscard]] NiCtl* find_ni(NiId id) {
    const auto it = nis.find(id);
    return it == nis.end() ? nullptr : &it->second;
  }
  [[nodiscard]] SetCtl* find_set(uint64_t id) {
    const auto it = sets.find(id);
    return it == sets.end() ? nullptr : &it->second;
  }
  /// Keys of `due`.
  [[nodiscard]] static uint64_t due_key(const SetCtl& set) { return set.id * 2 + 1; }
  [[nodiscard]] static uint64_t due_key(const Handshake& shake) { return uint64_t{shake.socket} * 2; }
};

}  // namespace ulnet::socklnd
