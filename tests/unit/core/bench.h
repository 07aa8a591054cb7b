// One node's workers without control, threads or network: views made by hand, an LND whose every step the test takes.
// For tests that put the steps of a message into any order.
#pragma once
#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/stages/driver_calls.h"
#include "dataplane/stages/operation.h"
#include "dataplane/stages/worker.h"
#include "lnd/lnd.h"

namespace ulnet::test {

inline constexpr Net kTcp = Net::of(NetType::kTcp, 0);
inline constexpr Net kTcp1 = Net::of(NetType::kTcp, 1);
inline Nid tcp(uint32_t last) {
  return Nid::v4(kTcp, 0x0A000000u + last);
}
inline Nid tcp1(uint32_t last) {
  return Nid::v4(kTcp1, 0x0A010000u + last);
}

/// Headers as a peer would send them.
inline wire::Header put_header(const Nid& dest, const Nid& src, uint32_t portal, uint64_t bits, uint32_t length,
                               uint32_t offset = 0, bool ack = true) {
  wire::Header h;
  h.type = wire::MsgType::kPut;
  h.dest_nid = dest;
  h.src_nid = src;
  h.payload_length = length;
  h.set(wire::PutBody{ack ? wire::WireHandle{11, 22} : wire::WireHandle{}, bits, 99, portal, offset});
  return h;
}
inline wire::Header get_header(const Nid& dest, const Nid& src, uint32_t portal, uint64_t bits, uint32_t sink,
                               uint32_t offset = 0) {
  wire::Header h;
  h.type = wire::MsgType::kGet;
  h.dest_nid = dest;
  h.src_nid = src;
  h.set(wire::GetBody{{33, 44}, bits, portal, offset, sink});
  return h;
}

inline constexpr uint64_t kBenchCookie = 0x1234;  ///< interface cookie of the bench's node

/// The handle of a request of an ulnet node, or of a copy of it, as operations have it in `slot` of a slab.
inline wire::WireHandle request_handle(uint32_t slot, uint32_t generation = 1, bool copy = false) {
  const uint64_t object = object_cookie(WorkerId{0}, {slot, generation});
  const uint64_t life = uint64_t{life_of(kBenchCookie)} << kCookieLifeShift;
  return {kCookieOfRequests | 55 | (copy ? life : 0), object | (copy ? kCookieCopy : 0)};
}
/// The same PUT or GET with another handle.
inline wire::Header with_handle(wire::Header h, const wire::WireHandle& handle) {
  if (h.type == wire::MsgType::kPut) {
    wire::PutBody put = h.put();
    put.ack_wmd = handle;
    h.set(put);
  } else {
    wire::GetBody get = h.get();
    get.return_wmd = handle;
    h.set(get);
  }
  return h;
}

/// Worker half that does nothing by itself: the test completes sends and receives.
class ScriptLnd final : public Lnd {
 public:
  explicit ScriptLnd(LndCore& core) : core_(core) {}

  void submit(Tx& tx, Instant) override {
    const auto asks = [&](const RxSlot* slot) { return slot->token == tx.token; };
    if (tx.token != 0 && std::any_of(held.begin(), held.end(), asks)) reply_before_verdict = true;
    sent.push_back(&tx);
  }
  void resume(RxSlot& slot, Instant) override {
    resumed.push_back(&slot);
    held.erase(std::find(held.begin(), held.end(), &slot));
    accept(slot, slot.verdict);
  }
  void release(RxSlot& slot, Instant) override {
    taken.erase(std::find(taken.begin(), taken.end(), &slot));
    if (on_release) return on_release(slot);
    const Segment& all = slot.arrived_piece;
    std::fill_n(all.base, all.bytes, std::byte{0xEE});  // ours again: whoever still reads it is found
  }
  void divert(RxSlot& slot, Instant) override { diverted.push_back(&slot); }
  void cancel(Tx& tx, bool force, Instant) override {
    cancelled.emplace_back(&tx, force);
    if (on_cancel) on_cancel();
  }
  Instant moved(NiId, PeerNiId, Instant now) override {
    moved_early |= now_ != now;
    return moves ? now : kNever;
  }
  unsigned poll(unsigned, Instant now) override {
    now_ = now;
    unsigned done = 0;
    while (!actions.empty()) {
      auto action = std::move(actions.front());
      actions.pop_front();
      action();
      ++done;
    }
    return done;
  }
  unsigned timers(Instant) override { return 0; }
  void flush(Instant now) override {
    now_ = now;
    if (on_flush) on_flush();
    for (Tx* tx : std::exchange(done_in_flush, {})) core_.tx_done(*tx, {}, now);
  }
  void from_control(const LndMsg&, Instant) override {}
  Instant next_deadline() override { return kForever; }
  bool pending() override { return !actions.empty(); }
  bool patient() const override { return is_patient; }
  unsigned wait_fds(std::span<int>) override { return 0; }
  uint32_t copied_bytes() const override { return copied; }
  bool idle() const override { return sent.empty() && receiving.empty() && held.empty() && taken.empty(); }

  /// A header arrives; in the next poll. Messages without payload are done at once, as lnd.h says.
  RxSlot& inject(const wire::Header& header, NiId ni, NiSlice* ni_slice, PeerNiId from, PeerSlice* peer,
                 const Nid& from_nid) {
    slots.push_back(std::make_unique<RxSlot>());
    RxSlot& slot = *slots.back();
    slot.header = header;
    slot.ni = ni;
    slot.ni_slice = ni_slice;
    slot.from_ni = from;
    slot.from = peer;
    slot.from_nid = from_nid;
    actions.push_back([this, &slot] {
      const RxVerdict verdict = core_.rx_header(slot, now_);
      if (verdict == RxVerdict::kHold)
        held.push_back(&slot);
      else if (verdict == RxVerdict::kTaken)
        taken.push_back(&slot);
      else
        accept(slot, verdict);
    });
    return slot;
  }
  /// The message of a slot that was injected and has not come yet was read whole: its payload is `fill`.
  void make_movable(RxSlot& slot, uint8_t fill) {
    payloads.emplace_back(slot.header.payload_length, std::byte{fill});
    slot.movable = true;
    slot.arrived_whole(payloads.back().data(), slot.header.payload_length);
  }
  /// The payload is in place (filled with `fill`), or lost; in the next poll.
  void complete_rx(RxSlot& slot, int error, uint8_t fill = 0) {
    receiving.erase(std::find(receiving.begin(), receiving.end(), &slot));
    actions.push_back([this, &slot, error, fill] {
      if (error == 0) fill_payload(slot.into, fill);
      core_.rx_done(slot, {error, error == 0 ? LndStatus::kOk : LndStatus::kRemoteError}, now_);
    });
  }
  /// The transport lets go of a Tx; in the next poll.
  void complete_tx(Tx& tx, Completion how) {
    sent.erase(std::find(sent.begin(), sent.end(), &tx));
    actions.push_back([this, &tx, how] { core_.tx_done(tx, how, now_); });
  }
  /// The peer has filled `bytes` of the GET's sink with `fill`, or refused the GET; in the next poll.
  void complete_get(Tx& tx, uint32_t bytes, int32_t error, uint8_t fill = 0) {
    sent.erase(std::find(sent.begin(), sent.end(), &tx));
    actions.push_back([this, &tx, bytes, error, fill] {
      Payload written = tx.sink;
      written.length = bytes;
      fill_payload(written, fill);
      core_.get_done(tx, bytes, error, now_);
    });
  }

  std::vector<Tx*> sent;
  uint32_t copied = 0;       ///< copied_bytes()
  bool is_patient = false;   ///< patient()
  bool moves = false;        ///< bytes move over its connections
  bool moved_early = false;  ///< moved() was called in a turn before poll()
  std::vector<RxSlot*> receiving, held, taken, resumed, diverted;
  std::vector<std::pair<Tx*, bool>> cancelled;
  std::vector<RxSlot*> refused;
  std::vector<std::pair<uint64_t, int32_t>> answered;  ///< requests that were refused: token and errno
  bool reply_before_verdict = false;                   ///< a REPLY came while its request was still held
  std::vector<Tx*> done_in_flush;                      ///< given back at the next flush
  std::deque<std::function<void()>> actions;
  std::vector<std::unique_ptr<RxSlot>> slots;
  std::deque<std::vector<std::byte>> payloads;  ///< of movable slots
  std::function<void(RxSlot&)> on_release;      ///< for payloads that are the test's own
  std::function<void()> on_cancel;              ///< called by cancel()
  std::function<void()> on_flush;               ///< called in the last stage of each turn

 private:
  static void fill_payload(const Payload& payload, uint8_t fill) {
    PayloadCursor cursor(payload);
    iovec piece[8];
    while (cursor.left() > 0) {
      const unsigned n = cursor.pieces(piece);
      for (unsigned i = 0; i < n; ++i) {
        memset(piece[i].iov_base, fill, piece[i].iov_len);
        cursor.advance(uint32_t(piece[i].iov_len));
      }
    }
  }
  void accept(RxSlot& slot, RxVerdict verdict) {
    if (verdict == RxVerdict::kProtocolError) {
      refused.push_back(&slot);
    } else if (verdict == RxVerdict::kRefused) {
      answered.emplace_back(slot.token, slot.refused);
      core_.rx_done(slot, {}, now_);
    } else if (slot.header.payload_length == 0) {
      core_.rx_done(slot, {}, now_);
    } else {
      receiving.push_back(&slot);
    }
  }
  LndCore& core_;
  Instant now_{};
};

inline constexpr uint16_t kPeerLife = 0x2A5;  ///< of each peer that takes copies

struct BenchOptions {
  unsigned workers = 1;
  uint32_t operations = 64;
  uint32_t incoming = 64;
  uint32_t parked_peers = 64;
  uint32_t control_queue = 64;
  uint32_t lo_slots = 64;
  int32_t peer_credits = 8;
  int32_t rtr_credits = 8;
  int32_t ni_credits = 256;  ///< of each NI on each worker
  uint32_t ring_size = 64;
  RoutingState routing = RoutingState::kDisabled;
  uint64_t interface_cookie = kBenchCookie;
};

/// Node 10.0.0.1@tcp and 10.1.0.1@tcp1 with peers added by the test.
class Bench {
 public:
  explicit Bench(const BenchOptions& options = {});
  ~Bench();

  struct PeerMemory {
    std::unique_ptr<PeerSlice> slice;
    std::vector<std::unique_ptr<PeerLocal>> locals;
    std::vector<PeerLocal*> pointers;
  };
  /// One more NI from the next publish() on, with its distances by NUMA node.
  void add_ni(const Nid& nid, std::vector<uint32_t> distances = {});
  /// A single-NI peer served by `server`.
  PeerSlice& add_peer(const Nid& nid, WorkerId server = WorkerId{0});
  /// From the next publish() on, `nid` (a peer so far) is a rail of the multi-rail peer whose primary NID is given.
  void join(const Nid& primary, const Nid& nid) { primaries_[nid] = primary; }
  /// A local NI has lost its link.
  void set_fatal(const Nid& nid, bool fatal) { fatal_[nid] = fatal; }
  void set_health(const Nid& nid, uint16_t health) { health_[nid] = health; }
  void set_down(const Nid& nid, bool down) { down_[nid] = down; }
  void set_known_down(const Nid& nid, bool down) { known_down_[nid] = down; }
  /// Of the peer with this primary NID; `since`: when its life was first known.
  void set_knows_copies(const Nid& primary, bool knows = true, Instant since = kNever) {
    knows_copies_[primary] = knows;
    life_since_[primary] = since;
  }
  [[nodiscard]] PeerLocal& local(const Nid& nid, WorkerId worker = WorkerId{0}) {
    return *peers_.at(nid).locals[worker.value];
  }
  [[nodiscard]] PeerSlice& slice(const Nid& nid) { return *peers_.at(nid).slice; }
  void add_route(Net remote, const Nid& gateway);
  /// All routes over it.
  void set_alive(const Nid& gateway, bool alive);
  void open_portal(uint32_t index, WorkerId home, bool lazy = false, PortalMode mode = PortalMode::kSingle);
  void set_peer_credits(int32_t credits) { options_.peer_credits = credits; }
  void add_router_buffers(WorkerId worker, std::array<uint32_t, kRouterPools> counts, uint32_t numa = UINT32_MAX);
  /// Publishes what was changed since.
  void publish();
  Submitter& submitter(WorkerId worker);

  ScriptLnd& lnd(WorkerId worker = WorkerId{0}) { return *lnds_[worker.value]; }
  Worker& worker(WorkerId id = WorkerId{0}) { return *workers_[id.value]; }
  /// The core as lnd(id) calls it.
  DriverCalls& calls(WorkerId id = WorkerId{0}) { return *calls_[id.value]; }
  /// A header arrives over the connection of `from` (which must be a peer) to NI `at`.
  RxSlot& inject(const wire::Header& header, const Nid& from, const Nid& at = tcp(1));
  /// Turns every worker until none finds work.
  void settle();
  /// One turn of one worker.
  unsigned turn(WorkerId id) { return workers_[id.value]->turn(now); }
  void advance(Duration by) { now += by; }
  /// What control would have got.
  std::vector<WorkerMsg> take_control_items(WorkerId worker = WorkerId{0});
  void tell(WorkerId worker, const ControlMsg& msg) { ASSERT_PUSHED(mesh->to_worker[worker.value]->push(msg)); }
  /// "" when every pool is full, all credits are home, nothing waits; else what is not.
  [[nodiscard]] std::string not_at_rest();

  Instant now{1s};
  std::unique_ptr<Mesh> mesh;
  NodeView node;
  const FaultTable* faults = nullptr;  ///< of the next publish(); the test's own

 private:
  static void ASSERT_PUSHED(bool ok) { ULNET_CHECK(ok); }
  struct Ni {
    NiId id;
    Nid nid;
    std::vector<std::unique_ptr<NiSlice>> slices;
    std::vector<uint32_t> distances;
  };
  BenchOptions options_;
  std::vector<std::unique_ptr<IdleGate>> gates_;
  IdleGate control_gate_;
  std::vector<Ni> nis_;
  std::map<Nid, PeerMemory> peers_;
  std::map<Nid, WorkerId> servers_;
  std::map<Nid, Nid> primaries_;  // of rails
  std::map<Nid, uint16_t> health_;
  std::map<Nid, bool> down_, known_down_;
  std::map<Nid, bool> fatal_;
  std::map<Nid, bool> knows_copies_;   // by primary NID
  std::map<Nid, Instant> life_since_;  // by primary NID
  RouteTable route_table_;
  PortalTable portal_table_;
  // Everything ever published stays until the end: retirement is another test's business.
  struct Published {
    LocalView local;
    std::vector<std::unique_ptr<PeerView>> peers;
    std::map<std::pair<size_t, size_t>, std::vector<PeerTable::Entry>> leaves;  // by both numbers of child()
    std::map<size_t, PeerTable::Limb> limbs;
    PeerTable table;
    RouteTable routes;
    PortalTable portals;
    ViewSet set;
    void enter(const Nid& nid, PeerRef ref);
  };
  std::vector<std::unique_ptr<Published>> published_;
  std::vector<std::unique_ptr<Submitter>> submitters_;
  std::vector<std::unique_ptr<DriverCalls>> lo_calls_, calls_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<ScriptLnd*> lnds_;
  std::vector<std::unique_ptr<RouterBlock>> blocks_;
  std::vector<std::vector<std::byte>> block_memory_;
};

}  // namespace ulnet::test
