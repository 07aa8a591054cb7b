// A driver that exists in tests only: datagrams on Unix sockets, for networks of type kfi. This file and a line in a
// registry are all of it, with the keys ulnet.fake.* and `burst` of an NI. One worker.
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "dataplane/base/nid_text.h"
#include "lnd/driver.h"

namespace ulnet::test {
namespace {

using enum FieldType;

/// Of the node.
struct FakeConfig {
  int64_t room = 0;  ///< nodes in the same room reach each other
  uint32_t burst = 4;
};
/// Of one NI.
struct FakeTunables {
  uint32_t burst = 0;
};

constexpr SettingRow<FakeConfig> kSettings[] = {
    {.path = "ulnet.fake", .type = kMap, .text = "Parameters of kfi networks."},
    {.path = "ulnet.fake.room",
     .type = kInteger,
     .text = "Nodes in the same room reach each other.",
     .min = 0,
     .max = INT32_MAX,
     .needs_restart = true,
     .at = kAt<&FakeConfig::room>},
    {.path = "ulnet.fake.burst",
     .type = kInteger,
     .text = "Datagrams that an NI reads in a row.",
     .min = 1,
     .max = 64,
     .unit = "datagrams",
     .at = kAt<&FakeConfig::burst>},
};
constexpr SettingRow<FakeTunables> kTunables[] = {
    {.path = "net.local NI(s).lnd tunables.burst",
     .type = kInteger,
     .text = "Datagrams that the NI reads in a row; 0 = as the node.",
     .min = 0,
     .max = 64,
     .unit = "datagrams",
     .at = kAt<&FakeTunables::burst>,
     .after = "net.local NI(s).lnd tunables",
     .setting = "ulnet.fake.burst",
     .net_set = "fake_burst"},
};
constexpr auto kSettingFields = plain_fields(kSettings, FieldHome::kDriver);
constexpr auto kTunableFields = plain_fields(kTunables, FieldHome::kNi);

constexpr size_t kPayloadMax = 64 * 1024;
enum class FakeMsg : uint16_t { kOpen = 1, kTune, kPeer, kStop, kWhoIs, kStopped };
struct OpenMsg {
  static constexpr auto kKind = FakeMsg::kOpen;
  NiId ni;
  int fd;
  uint32_t burst;
  NiSlice* slice;
};
struct TuneMsg {
  static constexpr auto kKind = FakeMsg::kTune;
  NiId ni;
  uint32_t burst;
};
struct PeerMsg {
  static constexpr auto kKind = FakeMsg::kPeer;
  NiId ni;
  Nid nid;
  PeerNiId peer_ni;
  PeerSlice* slice;
};
struct StopMsg {
  static constexpr auto kKind = FakeMsg::kStop;
  NiId ni;
};
struct WhoIsMsg {
  static constexpr auto kKind = FakeMsg::kWhoIs;
  NiId ni;
  Nid nid;
};
struct StoppedMsg {
  static constexpr auto kKind = FakeMsg::kStopped;
  NiId ni;
};

std::string name_of(int64_t room, const Nid& nid) {
  return "ulnet-fake-" + std::to_string(room) + "-" + nid_text(nid);
}
socklen_t address_of(int64_t room, const Nid& nid, sockaddr_un& out) {
  const std::string name = name_of(room, nid);
  out = {};
  out.sun_family = AF_UNIX;
  std::memcpy(out.sun_path + 1, name.data(), name.size());
  return socklen_t(offsetof(sockaddr_un, sun_path) + 1 + name.size());
}

class FakeLnd final : public Lnd {
 public:
  FakeLnd(LndCore& core, int64_t room) : core_(core), room_(room) {}
  ~FakeLnd() override {
    for (auto& [id, ni] : nis_) close(ni.fd);
  }

  void submit(Tx& tx, Instant now) override {
    std::byte head[wire::kHeaderNid16Bytes];
    wire::header_encode_nid16(tx.header, head);
    iovec pieces[16] = {{head, sizeof head}};
    const unsigned count = PayloadCursor(tx.payload).pieces(std::span(pieces).subspan(1));
    sockaddr_un to;
    msghdr message{};
    message.msg_name = &to;
    message.msg_namelen = address_of(room_, tx.next_hop, to);
    message.msg_iov = pieces;
    message.msg_iovlen = count + 1;
    const auto ni = nis_.find(tx.ni);
    const bool sent = ni != nis_.end() && sendmsg(ni->second.fd, &message, MSG_DONTWAIT) > 0;
    core_.tx_done(tx, sent ? Completion{} : Completion{-EIO, LndStatus::kRemoteError}, now);
  }
  unsigned poll(unsigned budget, Instant now) override {
    unsigned done = 0;
    for (auto& [id, ni] : nis_) {
      if (ni.came.size() < ni.burst) read(ni, ni.burst);
      for (; done < budget && held_ == 0 && !ni.came.empty(); ++done)
        if (!take(id, ni, now)) break;
    }
    return done;
  }
  void resume(RxSlot& slot, Instant now) override {
    --held_;
    finish(static_cast<In&>(slot), slot.verdict, now);
  }
  void from_control(const LndMsg& msg, Instant) override {
    switch (FakeMsg(msg.kind())) {
      case FakeMsg::kOpen: {
        const auto open = msg.as<OpenMsg>();
        nis_[open.ni] = {open.fd, open.burst, open.slice, {}, {}};
        return;
      }
      case FakeMsg::kTune: nis_.at(msg.as<TuneMsg>().ni).burst = msg.as<TuneMsg>().burst; return;
      case FakeMsg::kPeer: {
        const auto peer = msg.as<PeerMsg>();
        nis_.at(peer.ni).peers[peer.nid] = {peer.peer_ni, peer.slice};
        return;
      }
      case FakeMsg::kStop: {
        const NiId ni = msg.as<StopMsg>().ni;
        close(nis_.at(ni).fd);
        nis_.erase(ni);
        return core_.to_control(stopped_, StoppedMsg{ni});
      }
      case FakeMsg::kWhoIs:
      case FakeMsg::kStopped: return;  // for control
    }
  }
  bool pending() override {
    for (auto& [id, ni] : nis_) {
      pollfd one{ni.fd, POLLIN, 0};
      if (::poll(&one, 1, 0) > 0) return true;
    }
    return false;
  }
  unsigned wait_fds(std::span<int> out) override {
    unsigned count = 0;
    for (auto& [id, ni] : nis_) out[count++] = ni.fd;
    return count;
  }
  void release(RxSlot&, Instant) override {}
  void divert(RxSlot&, Instant) override {}
  void cancel(Tx&, bool, Instant) override {}
  unsigned timers(Instant) override { return 0; }
  void flush(Instant) override {}
  Instant next_deadline() override { return kForever; }
  bool idle() const override { return held_ == 0; }

 private:
  struct In : RxSlot {
    std::vector<std::byte> bytes;
  };
  struct Came {
    Nid from;
    std::vector<std::byte> bytes;
  };
  struct Peer {
    PeerNiId id{};
    PeerSlice* slice = nullptr;
  };
  struct Ni {
    int fd = -1;
    uint32_t burst = 1;
    NiSlice* slice = nullptr;
    std::map<Nid, std::optional<Peer>> peers;  // without a value: control has not answered yet
    std::deque<Came> came;
  };

  void read(Ni& ni, uint32_t burst) const {
    for (uint32_t i = 0; i < burst; ++i) {
      std::vector<std::byte> bytes(wire::kHeaderNid16Bytes + kPayloadMax);
      sockaddr_un from{};
      socklen_t length = sizeof from;
      const auto got =
          recvfrom(ni.fd, bytes.data(), bytes.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &length);
      if (got < ssize_t(wire::kHeaderNid16Bytes)) return;
      bytes.resize(size_t(got));
      const std::string name(from.sun_path + 1, length - offsetof(sockaddr_un, sun_path) - 1);
      if (const auto nid = nid_parse(name.substr(name.rfind('-') + 1))) ni.came.push_back({*nid, std::move(bytes)});
    }
  }
  bool take(NiId id, Ni& ni, Instant now) {
    const Nid from = ni.came.front().from;
    const auto [peer, fresh] = ni.peers.try_emplace(from);
    if (!peer->second) {
      if (fresh && !core_.ask_control(WhoIsMsg{id, from})) ni.peers.erase(from);
      return false;
    }
    auto* in = new In;
    in->bytes = std::move(ni.came.front().bytes);
    ni.came.pop_front();
    wire::Header header;
    if (!wire::header_decode_nid16(std::span(in->bytes).first<wire::kHeaderNid16Bytes>(), header))
      return delete in, true;
    in->begin(header, id, ni.slice, peer->second->id, peer->second->slice, from);
    const RxVerdict verdict = core_.rx_header(*in, now);
    if (verdict == RxVerdict::kHold) return ++held_, true;
    finish(*in, verdict, now);
    return true;
  }
  void finish(In& in, RxVerdict verdict, Instant now) {
    if (verdict == RxVerdict::kReceive) {
      iovec pieces[16];
      const std::byte* at = in.bytes.data() + wire::kHeaderNid16Bytes;
      const unsigned count = PayloadCursor(in.into).pieces(pieces);
      for (unsigned i = 0; i < count; at += pieces[i++].iov_len) std::memcpy(pieces[i].iov_base, at, pieces[i].iov_len);
      core_.rx_done(in, {}, now);
    }
    delete &in;
  }

  LndCore& core_;
  const int64_t room_;
  std::map<NiId, Ni> nis_;
  unsigned held_ = 0;
  Owed stopped_;
};

class FakeControl final : public LndControl {
 public:
  FakeControl(LndControlHost& host, int64_t room) : host_(host), room_(room) {}

  Result<void> ni_start(const NiParams& params, Instant) override {
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    sockaddr_un at;
    const socklen_t length = address_of(room_, params.nid, at);
    if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&at), length) != 0) return fail(errno, "no socket");
    const uint32_t burst = uint32_t(settings_of(kTunables, params.tunables).burst);
    host_.to_worker(WorkerId{0}, OpenMsg{params.id, fd, burst, params.slices.front()});
    return {};
  }
  Result<void> ni_tune(NiId ni, std::span<const int64_t> tunables, Instant) override {
    const uint32_t burst = uint32_t(settings_of(kTunables, tunables).burst);
    host_.to_worker(WorkerId{0}, TuneMsg{ni, burst});
    host_.log("fake: burst " + std::to_string(burst));
    return {};
  }
  void ni_stop(NiId ni, Instant) override { host_.to_worker(WorkerId{0}, StopMsg{ni}); }
  void from_worker(WorkerId, const LndMsg& msg, Instant) override {
    if (FakeMsg(msg.kind()) == FakeMsg::kStopped) return host_.ni_stopped(msg.as<StoppedMsg>().ni);
    const auto ask = msg.as<WhoIsMsg>();
    const Result<PeerPlace> place = host_.place_peer(ask.nid, ask.ni);
    if (!place) return;
    named_.insert(place->slice);
    host_.to_worker(WorkerId{0}, PeerMsg{ask.ni, ask.nid, place->id, place->slice});
  }
  bool names(const PeerSlice& slice) const override { return named_.contains(&slice); }
  unsigned turn(Instant) override { return 0; }
  Instant next_deadline() override { return kForever; }
  void wait_fds(std::vector<int>&) override {}

 private:
  LndControlHost& host_;
  const int64_t room_;
  std::set<const PeerSlice*> named_;
};

class FakeDriver final : public Driver {
 public:
  explicit FakeDriver(const FakeConfig& config) : config_(config) {}
  std::unique_ptr<LndControl> make_control(LndControlHost& host) override {
    return std::make_unique<FakeControl>(host, config_.room);
  }
  std::unique_ptr<Lnd> make_worker(LndCore& core) override { return std::make_unique<FakeLnd>(core, config_.room); }
  DriverNote note() const override { return {"fake", "room " + std::to_string(config_.room)}; }

 private:
  const FakeConfig config_;
};

}  // namespace

extern const DriverType kFakeDriver;
const DriverType kFakeDriver{.name = "fake",
                             .net_type = NetType::kKfi,
                             .settings = kSettingFields,
                             .ni_tunables = kTunableFields,
                             .open = [](const DriverContext& context) -> Result<std::unique_ptr<Driver>> {
                               return std::make_unique<FakeDriver>(settings_of(kSettings, context.settings));
                             }};

}  // namespace ulnet::test
