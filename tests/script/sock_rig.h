// What scripted and simulated tests of socklnd stand on: nodes that consist of both halves of socklnd, a fake LNet core
// per worker and a fake control, all on the simulated TCP; and foreign peers that send raw bytes. The fakes keep a
// trace in words and check the ownership rules of lnd/lnd.h: each Tx and each slot ends exactly once. Virtual time,
// single thread.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dataplane/host/memory_reserve.h"
#include "lnd/lnd.h"
#include "lnd/socklnd/socklnd.h"
#include "tests/cluster/sim_tcp.h"

namespace ulnet::test {

using Bytes = std::vector<std::byte>;

/// A Tx with its payload, cut into segments. Made by SockNode::put(); lives as long as the node.
struct TestTx : Tx {
  uint64_t number = 0;
  Bytes memory;
  std::vector<Segment> segments;
  PipedPayload* held = nullptr;  ///< given back at the end
  uint32_t done = 0;             ///< times that tx_done came
  Completion how;
};

/// A message that arrived, whole or not.
struct Received {
  wire::Header header;
  Nid from_nid;
  Bytes payload;  ///< what was wanted
  Completion how;
};

class SockRig;
class SockNode;

/// LNet's core as one worker of a node has it.
class FakeCore final : public LndCore {
 public:
  FakeCore(SockNode& node, WorkerId id) : node_(node), id_(id) {}
  RxVerdict rx_header(RxSlot& slot, Instant now) override;
  void rx_done(RxSlot& slot, Completion how, Instant now) override;
  void tx_done(Tx& tx, Completion how, Instant now) override;
  void get_done(Tx&, uint32_t, int32_t, Instant) override { ADD_FAILURE() << "socklnd has no remote writes"; }
  void to_control(Owed&, const LndMsg& msg) override { (void)ask_control(msg); }
  bool ask_control(const LndMsg& msg) override;
  WorkerId worker_id() const override { return id_; }
  WorkerMemory* worker_memory() const override;

  /// Makes room for a slot's payload (`wanted` bytes of it), in segments of odd sizes.
  void make_room(RxSlot& slot, uint32_t wanted);

  /// Gives a slot that was taken back, at which its payload counts as received.
  void release(RxSlot& slot, Instant now);

  /// The slot that has been receiving for longest; requires one.
  [[nodiscard]] RxSlot* oldest_receiving() const;

  struct Room {
    uint64_t sequence = 0;
    Bytes memory;
    std::vector<Segment> segments;
  };
  std::map<RxSlot*, Room> receiving;  ///< answered kReceive, no rx_done yet
  std::vector<RxSlot*> held;          ///< answered kHold, not resumed yet
  std::vector<RxSlot*> taken;         ///< answered kTaken, not released yet
  std::unique_ptr<StreamEngine> engine;
  std::unique_ptr<Lnd> lnd;
  std::deque<LndMsg> from_control;

 private:
  SockNode& node_;
  const WorkerId id_;
  uint64_t next_sequence_ = 1;
};

/// Devices whose packets cross hardware.
struct WiredDevices final : socklnd::SockDevices {
  [[nodiscard]] bool on_wire(const NiParams&, const socklnd::IpAddress&) override { return true; }
};

struct SockNodeOptions {
  std::vector<std::string> nids = {"10.0.0.1@tcp"};
  unsigned workers = 1;
  socklnd::SockTunables tunables{.conns_per_peer = 1};
  socklnd::SockConfig config;
  socklnd::SockDevices* devices = nullptr;  ///< outlives the node
  std::vector<WorkerMemory*> memory;        ///< by worker; empty: the heap
  // Other I/O than the simulated TCP.
  std::function<std::unique_ptr<NetIo>()> make_net;
  std::function<std::unique_ptr<StreamEngine>()> make_engine;
};

class SockNode final : public LndControlHost {
 public:
  SockNode(SockRig& rig, const SockNodeOptions& options);
  ~SockNode();

  // LndControlHost
  void to_worker(WorkerId worker, const LndMsg& msg) override;
  Result<PeerPlace> place_peer(const Nid& nid, NiId from) override;
  void ni_stopped(NiId ni) override;
  void ni_fatal(NiId, bool) override {}
  void peer_up(PeerNiId peer_ni) override;
  void peer_down(PeerNiId peer_ni, int error) override;
  void log(const std::string& line) override;
  unsigned worker_count() const override { return unsigned(cores.size()); }
  WorkerMemory* worker_memory(WorkerId worker) override { return memory.empty() ? nullptr : memory.at(worker.value); }
  Rng& rng() override { return rng_; }
  bool memory_low() override { return reserve != nullptr && !reserve->restore(); }

  /// Sends a PUT of so many bytes to the NID from NI `ni`; match bits are the number of the message.
  TestTx& put(const std::string& nid, uint32_t bytes, uint32_t ni = 1);
  /// Same with a header made by the caller; the payload is made to fit its payload_length.
  TestTx& send(const std::string& nid, const wire::Header& header, uint32_t ni = 1);
  /// Same with exactly this header and payload.
  TestTx& send_exact(const Nid& nid, const wire::Header& header, const Bytes& payload, uint32_t ni = 1,
                     PipedPayload* piped = nullptr);
  /// One turn of control and all workers; false when nothing was done.
  bool turn(Instant now);
  [[nodiscard]] Instant next_deadline();
  /// Goes on with a held slot of worker 0.
  void resume(size_t index, RxVerdict verdict, uint32_t wanted = UINT32_MAX);
  void stop();
  /// The machine loses power: no FIN, no RST, nothing ends. Its addresses may be given to a new node.
  void kill();
  [[nodiscard]] bool stopped() const { return stopped_ == nids.size(); }
  /// Nothing is under way and all memory is home.
  [[nodiscard]] bool idle() const;
  /// The words since the last call.
  [[nodiscard]] std::string take_trace();
  void say(const std::string& words);
  [[nodiscard]] uint32_t unfinished() const;

  SockRig& rig;
  std::vector<WorkerMemory*> memory;
  std::vector<Nid> nids;
  std::unique_ptr<NetIo> net;
  std::vector<std::unique_ptr<FakeCore>> cores;
  std::unique_ptr<LndControl> control;
  std::deque<std::pair<WorkerId, LndMsg>> to_control;
  std::deque<TestTx> txs;
  std::vector<Received> received;
  std::vector<std::string> logged;
  std::map<Nid, PeerPlace> places;
  uint32_t unfinished_fast = 0;  ///< for tests that count themselves
  bool trace_on = true;
  bool one_segment = false;        ///< payloads of messages sent from now on are one segment each
  Instant tx_deadline = kForever;  ///< of messages sent from now on
  bool dead = false;               ///< not turned any more
  /// What the core answers to a header; kReceive into room for all of it unless set.
  std::function<RxVerdict(FakeCore&, RxSlot&)> on_header;
  std::function<void(FakeCore&, TestTx&)> on_tx_done;
  /// A payload has come, with a part in a pipe if it is not null. The pipe is the callee's then. If this is not set,
  /// the part is copied to its place.
  std::function<void(Received&, PipedPayload*)> on_received;
  std::function<void(bool begins)> around_control;  ///< called before and after each turn of the control half
  MemoryReserve* reserve = nullptr;

 private:
  unsigned turn_control(Instant now);
  Rng rng_;
  std::string trace_;
  uint64_t next_number_ = 1;
  size_t stopped_ = 0;
  uint32_t next_peer_ = 1;
};

/// A node that is not ulnet: a socket and raw bytes. Either dials or listens.
class RawPeer {
 public:
  RawPeer(SockRig& rig, const char* address);
  void dial(const char* to, bool privileged = true, uint16_t port = 988);
  void listen(uint16_t port = 988);
  void send(const Bytes& bytes);
  void close();
  /// Takes what has come; called by the rig.
  bool turn(Instant now);
  /// Takes the first `count` bytes received; fewer when fewer have come.
  Bytes take(size_t count);

  enum class End : uint8_t { kOpen, kFin, kReset };
  End end = End::kOpen;
  bool connected = false;
  int connect_error = 0;
  Bytes in;  ///< received, not taken
  unsigned accepted = 0;

 private:
  SockRig& rig_;
  std::unique_ptr<NetIo> net_;
  IpAddress address_;
  SocketId socket_ = 0;
  Bytes out_;
};

class SockRig {
 public:
  explicit SockRig(const SimTcpOptions& options = {}) : tcp(options), rng(options.seed * 77 + 1) {}
  ~SockRig();
  SockNode& add(const SockNodeOptions& options);
  RawPeer& foreign(const char* address);
  /// Turns everybody, time passing by events.
  void run_for(Duration span);
  template <class F>
  bool run_until(F&& done, Duration at_most) {
    const Instant end = now + at_most;
    while (!done()) {
      if (now >= end) return false;
      step(end);
    }
    return true;
  }
  /// Stops all nodes and checks that nothing is left over. False (and says why) otherwise.
  [[nodiscard]] bool shut_down();

  SimTcp tcp;
  Rng rng;
  Instant now{1s};
  bool real_time = false;                          ///< with kernel sockets: time is the machine's
  std::vector<std::function<bool(Instant)>> also;  ///< turned with everybody else; true when something was done

 private:
  void step(Instant end);
  std::deque<std::unique_ptr<SockNode>> nodes_;
  std::deque<std::unique_ptr<RawPeer>> peers_;
};

/// The byte at `index` of the payload of message `number`.
[[nodiscard]] constexpr std::byte payload_byte(uint64_t number, uint64_t index) {
  return std::byte(uint8_t(number * 31 + index * 7 + (index >> 8)));
}
[[nodiscard]] bool payload_right(const Received& received);

/// Bytes of the handshake as a foreign peer writes them.
[[nodiscard]] Bytes raw_request(const std::string& nid);
[[nodiscard]] Bytes raw_hello(uint32_t version, const std::string& src, const std::string& dst, uint32_t ctype,
                              uint64_t incarnation = 77);
/// One message: frame header (cookies), LNet header, payload of the pattern above; version 1 to 4.
[[nodiscard]] Bytes raw_put(uint32_t version, const std::string& src, const std::string& dst, uint64_t number,
                            uint32_t payload_bytes, uint64_t cookie0 = 0, uint64_t cookie1 = 0, bool csum = false);
[[nodiscard]] Bytes raw_noop(uint64_t cookie0, uint64_t cookie1);
[[nodiscard]] Bytes operator+(const Bytes& a, const Bytes& b);
[[nodiscard]] Bytes hex_bytes(const char* text);
/// Little-endian number at `offset`; 0 beyond the end.
[[nodiscard]] uint32_t u32_at(const Bytes& bytes, size_t offset);
/// The connection type in a dialler's first bytes: request and HELLO over IPv4, up to version 3.
[[nodiscard]] uint32_t offered_type(const SimConnection& connection);
/// The types that were offered, in the order of the SYNs: "123".
[[nodiscard]] std::string types_of(const SimTcp& tcp);

}  // namespace ulnet::test
