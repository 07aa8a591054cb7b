#include "tests/script/sock_rig.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "dataplane/base/nid_text.h"
#include "dataplane/state/failures.h"
#include "lnd/socklnd/proto/acceptor.h"
#include "lnd/socklnd/proto/frame.h"
#include "lnd/socklnd/proto/hello.h"

namespace ulnet::test {
namespace {

Nid nid_of(const std::string& text) {
  return *nid_parse(text);
}

IpAddress address_of(const Nid& nid) {
  IpAddress address;
  address.v6 = nid.size != 0;
  std::copy_n(nid.addr.begin(), address.v6 ? 16 : 4, address.bytes.begin());
  return address;
}

const char* type_name(wire::MsgType type) {
  switch (type) {
    case wire::MsgType::kAck: return "ACK";
    case wire::MsgType::kPut: return "PUT";
    case wire::MsgType::kGet: return "GET";
    case wire::MsgType::kReply: return "REPLY";
    case wire::MsgType::kHello: return "HELLO";
  }
  return "?";
}

std::string words_of(Completion how) {
  static const std::map<int, std::string> names = {{0, "ok"},
                                                   {-ECANCELED, "ECANCELED"},
                                                   {-ECONNRESET, "ECONNRESET"},
                                                   {-ECONNREFUSED, "ECONNREFUSED"},
                                                   {-ETIMEDOUT, "ETIMEDOUT"},
                                                   {-EPROTO, "EPROTO"},
                                                   {-EIO, "EIO"},
                                                   {-ESHUTDOWN, "ESHUTDOWN"},
                                                   {-EHOSTUNREACH, "EHOSTUNREACH"},
                                                   {-ESTALE, "ESTALE"},
                                                   {-EALREADY, "EALREADY"},
                                                   {-EADDRINUSE, "EADDRINUSE"},
                                                   {-EAFNOSUPPORT, "EAFNOSUPPORT"}};
  const auto it = names.find(how.error);
  const std::string error = it == names.end() ? std::to_string(how.error) : it->second;
  return how.error == 0 && how.health == LndStatus::kOk ? "ok" : error + "/" + failure_class(how.health).name;
}

void cut_segments(Rng& rng, Bytes& memory, std::vector<Segment>& segments, uint32_t bytes) {
  memory.resize(bytes);
  for (uint32_t at = 0; at < bytes;) {
    uint32_t piece = rng.one_in(2) ? 4096 : uint32_t(1 + rng.below(20000));
    if (bytes > 100000) piece = std::max(piece, bytes / 200);
    piece = std::min(piece, bytes - at);
    segments.push_back({memory.data() + at, piece});
    at += piece;
  }
}

}  // namespace

// ---- FakeCore ------------------------------------------------------------------------------------------------------

void FakeCore::make_room(RxSlot& slot, uint32_t wanted) {
  Room& room = receiving[&slot];
  room.sequence = next_sequence_++;
  wanted = std::min(wanted, slot.header.payload_length);
  cut_segments(node_.rng(), room.memory, room.segments, wanted);
  slot.into = {room.segments.data(), uint32_t(room.segments.size()), 0, wanted};
}

RxSlot* FakeCore::oldest_receiving() const {
  const auto older = [](const auto& a, const auto& b) { return a.second.sequence < b.second.sequence; };
  return std::min_element(receiving.begin(), receiving.end(), older)->first;
}

RxVerdict FakeCore::rx_header(RxSlot& slot, Instant) {
  EXPECT_FALSE(receiving.contains(&slot)) << "slot used again before rx_done";
  if (node_.on_header) {
    slot.verdict = node_.on_header(*this, slot);
  } else {
    make_room(slot, UINT32_MAX);
    slot.verdict = RxVerdict::kReceive;
  }
  if (slot.verdict == RxVerdict::kHold) held.push_back(&slot);
  if (slot.verdict == RxVerdict::kTaken) taken.push_back(&slot);
  return slot.verdict;
}

void FakeCore::release(RxSlot& slot, Instant now) {
  ASSERT_EQ(std::erase(taken, &slot), 1u);
  ASSERT_EQ(slot.arrived.length, slot.header.payload_length);
  const Segment& all = slot.arrived_piece;
  node_.received.push_back({slot.header, slot.from_nid, Bytes(all.base, all.base + all.bytes), {}});
  lnd->release(slot, now);
}

void FakeCore::rx_done(RxSlot& slot, Completion how, Instant) {
  const auto it = receiving.find(&slot);
  ASSERT_NE(it, receiving.end()) << "rx_done of a slot that is not ours";
  const uint64_t number = slot.header.put().match_bits;
  PipedPayload* piped = std::exchange(slot.piped, nullptr);
  EXPECT_TRUE(piped == nullptr || (how.error == 0 && slot.may_pipe));
  if (piped != nullptr && !node_.on_received) {
    piped->to_memory(slot.into);
    piped->give_back();
  }
  Received got{slot.header, slot.from_nid, std::move(it->second.memory), how};
  got.payload.resize(slot.into.length);
  receiving.erase(it);
  if (node_.trace_on)
    node_.say("rx " + std::string(type_name(slot.header.type)) + " " + std::to_string(number) + " " + words_of(how));
  node_.received.push_back(std::move(got));
  if (node_.on_received) node_.on_received(node_.received.back(), piped);
}

void FakeCore::tx_done(Tx& tx, Completion how, Instant) {
  auto& test_tx = static_cast<TestTx&>(tx);
  EXPECT_FALSE(static_cast<Linked<TxTag>&>(tx).linked());
  EXPECT_EQ(test_tx.done, 0u) << "Tx " << test_tx.number << " ended twice";
  ++test_tx.done;
  test_tx.how = how;
  std::fill(test_tx.memory.begin(), test_tx.memory.end(),
            std::byte{0xEE});  // the memory is ours again: a driver that still reads it sends this value
  if (node_.trace_on) node_.say("tx " + std::to_string(test_tx.number) + " " + words_of(how));
  if (node_.on_tx_done) node_.on_tx_done(*this, test_tx);
  if (PipedPayload* piped = std::exchange(test_tx.held, nullptr)) piped->give_back();
}

bool FakeCore::ask_control(const LndMsg& msg) {
  node_.to_control.push_back({id_, msg});
  return true;
}

// ---- SockNode ------------------------------------------------------------------------------------------------------

WorkerMemory* FakeCore::worker_memory() const {
  return node_.worker_memory(id_);
}

SockNode::SockNode(SockRig& the_rig, const SockNodeOptions& options)
    : rig(the_rig), memory(options.memory), rng_(the_rig.rng.next()) {
  std::vector<IpAddress> addresses;
  for (const std::string& text : options.nids) {
    nids.push_back(nid_of(text));
    addresses.push_back(address_of(nids.back()));
  }
  net = options.make_net ? options.make_net() : rig.tcp.net_io(addresses);
  for (uint16_t i = 0; i < options.workers; ++i) {
    auto core = std::make_unique<FakeCore>(*this, WorkerId{i});
    core->engine = options.make_engine ? options.make_engine() : rig.tcp.engine();
    core->lnd = socklnd::make_sock_lnd(*core, *core->engine, options.config);
    cores.push_back(std::move(core));
  }
  control = socklnd::make_sock_lnd_control(*this, *net, options.config, options.devices);
  for (uint32_t i = 0; i < nids.size(); ++i) {
    NiParams ni;
    ni.id = {i + 1};
    ni.nid = nids[i];
    ni.tunables = socklnd::sock_tunable_numbers(options.tunables);
    ni.slices.resize(options.workers);
    const Result<void> started = control->ni_start(ni, rig.now);
    EXPECT_TRUE(started.has_value()) << (started ? "" : started.error().what);
  }
}

SockNode::~SockNode() {
  for (auto& core : cores) core->lnd.reset();
  control.reset();
}

void SockNode::kill() {
  dead = true;
  for (const Nid& nid : nids) rig.tcp.forget_sockets(address_of(nid));
  for (auto& core : cores) core->lnd.reset();
  for (auto& core : cores) core->engine.reset();
  control.reset();
  net.reset();
}

void SockNode::to_worker(WorkerId worker, const LndMsg& msg) {
  cores[worker.value]->from_control.push_back(msg);
}

Result<PeerPlace> SockNode::place_peer(const Nid& nid, NiId) {
  PeerPlace& place = places[nid];
  if (place.id.value == 0) {
    place.id = {next_peer_++};
    place.worker = {uint16_t(place.id.value % cores.size())};
  }
  return place;
}

void SockNode::ni_stopped(NiId) {
  ++stopped_;
}

void SockNode::peer_up(PeerNiId peer_ni) {
  for (const auto& [nid, place] : places)
    if (place.id == peer_ni && trace_on) say("up " + nid_text(nid));
}

void SockNode::peer_down(PeerNiId peer_ni, int error) {
  for (const auto& [nid, place] : places)
    if (place.id == peer_ni && trace_on) say("down " + nid_text(nid) + " " + words_of({error, LndStatus::kOk}));
}

void SockNode::log(const std::string& line) {
  logged.push_back(line);
}

TestTx& SockNode::send_exact(const Nid& nid, const wire::Header& header, const Bytes& payload, uint32_t ni,
                             PipedPayload* piped) {
  TestTx& tx = txs.emplace_back();
  tx.piped = tx.held = piped;
  tx.number = next_number_++;
  tx.header = header;
  if (one_segment) {
    tx.memory.resize(header.payload_length);
    tx.segments = {{tx.memory.data(), header.payload_length}};
  } else {
    cut_segments(rng_, tx.memory, tx.segments, header.payload_length);
  }
  std::copy(payload.begin(), payload.end(), tx.memory.begin());
  tx.payload = {tx.segments.data(), uint32_t(tx.segments.size()), 0, header.payload_length};
  tx.ni = {ni};
  tx.deadline = tx_deadline;
  tx.next_hop = nid;
  const PeerPlace place = *place_peer(tx.next_hop, tx.ni);
  tx.peer_ni = place.id;
  cores[place.worker.value]->lnd->submit(tx, rig.now);
  return tx;
}

TestTx& SockNode::send(const std::string& nid, const wire::Header& header, uint32_t ni) {
  wire::Header numbered = header;
  if (header.type == wire::MsgType::kPut) {
    wire::PutBody body = header.put();
    body.match_bits = next_number_;
    numbered.set(body);
  }
  Bytes payload(header.payload_length);
  for (uint32_t i = 0; i < header.payload_length; ++i) payload[i] = payload_byte(next_number_, i);
  return send_exact(nid_of(nid), numbered, payload, ni);
}

TestTx& SockNode::put(const std::string& nid, uint32_t bytes, uint32_t ni) {
  wire::Header header;
  header.dest_nid = nid_of(nid);
  header.src_nid = nids[ni - 1];
  header.type = wire::MsgType::kPut;
  header.payload_length = bytes;
  header.set(wire::PutBody{});
  return send(nid, header, ni);
}

bool SockNode::turn(Instant now) {
  if (dead) return false;
  bool worked = false;
  for (auto& core : cores) {
    for (size_t left = core->from_control.size(); left > 0; --left, worked = true) {
      const LndMsg msg = core->from_control.front();
      core->from_control.pop_front();
      core->lnd->from_control(msg, now);
    }
    worked |= core->lnd->poll(64, now) > 0;
    worked |= core->lnd->timers(now) > 0;
    core->lnd->flush(now);
    worked |= core->lnd->pending();
  }
  if (around_control) around_control(true);
  worked |= turn_control(now) > 0;
  if (around_control) around_control(false);
  return worked;
}

unsigned SockNode::turn_control(Instant now) {
  unsigned done = 0;
  for (size_t left = to_control.size(); left > 0; --left, ++done) {
    const auto [worker, msg] = to_control.front();
    to_control.pop_front();
    control->from_worker(worker, msg, now);
  }
  return done + control->turn(now);
}

Instant SockNode::next_deadline() {
  Instant next = control->next_deadline();
  for (auto& core : cores) next = std::min(next, core->lnd->next_deadline());
  return next;
}

void SockNode::resume(size_t index, RxVerdict verdict, uint32_t wanted) {
  FakeCore& core = *cores[0];
  RxSlot& slot = *core.held.at(index);
  core.held.erase(core.held.begin() + ptrdiff_t(index));
  slot.verdict = verdict;
  if (verdict == RxVerdict::kReceive) core.make_room(slot, wanted);
  core.lnd->resume(slot, rig.now);
}

void SockNode::stop() {
  for (uint32_t i = 0; i < nids.size(); ++i) control->ni_stop({i + 1}, rig.now);
}

uint32_t SockNode::unfinished() const {
  uint32_t count = 0;
  for (const TestTx& tx : txs) count += tx.done == 0;
  return count;
}

bool SockNode::idle() const {
  return unfinished() == 0 && std::all_of(cores.begin(), cores.end(), [](const auto& core) {
           return core->lnd->idle() && core->receiving.empty() && core->held.empty() && core->taken.empty();
         });
}

void SockNode::say(const std::string& words) {
  trace_ += (trace_.empty() ? "" : "; ") + words;
}

std::string SockNode::take_trace() {
  return std::exchange(trace_, {});
}

// ---- RawPeer -------------------------------------------------------------------------------------------------------

RawPeer::RawPeer(SockRig& rig, const char* address)
    : rig_(rig), net_(rig.tcp.net_io({ip(address)})), address_(ip(address)) {}

void RawPeer::dial(const char* to, bool privileged, uint16_t port) {
  SocketOptions options;
  options.privileged_ports = privileged;
  end = End::kOpen;
  connected = false;
  socket_ = *net_->connect(address_, {ip(to), port}, options);
}

void RawPeer::listen(uint16_t port) {
  (void)*net_->listen({address_, port}, 127, {});
}

void RawPeer::send(const Bytes& bytes) {
  out_.insert(out_.end(), bytes.begin(), bytes.end());
}

void RawPeer::close() {
  if (socket_ != 0) net_->close(std::exchange(socket_, 0));
}

Bytes RawPeer::take(size_t count) {
  count = std::min(count, in.size());
  Bytes first(in.begin(), in.begin() + ptrdiff_t(count));
  in.erase(in.begin(), in.begin() + ptrdiff_t(count));
  return first;
}

bool RawPeer::turn(Instant now) {
  std::array<NetEvent, 16> events;
  const unsigned count = net_->poll(events, now);
  bool worked = false;
  for (unsigned i = 0; i < count; ++i) {
    const NetEvent& event = events[i];
    if (event.kind == NetEventKind::kAccepted) {
      close();
      socket_ = event.socket;
      end = End::kOpen;
      ++accepted;
    }
    if (event.kind == NetEventKind::kFailed) {
      connect_error = event.error;
      socket_ = 0;
    }
    connected |= event.kind == NetEventKind::kConnected || event.kind == NetEventKind::kAccepted;
    worked |= event.kind != NetEventKind::kReadable;
  }
  if (socket_ == 0 || !connected || end != End::kOpen) return worked;
  while (!out_.empty()) {
    const int put = net_->write(socket_, out_);
    if (put <= 0) break;
    out_.erase(out_.begin(), out_.begin() + put);
    worked = true;
  }
  std::array<std::byte, 65536> bytes;
  for (;;) {
    const int got = net_->read(socket_, bytes);
    if (got == -EAGAIN) return worked;
    worked = true;
    if (got <= 0) {
      end = got == 0 ? End::kFin : End::kReset;
      net_->want(socket_, false, false);
      return true;
    }
    in.insert(in.end(), bytes.begin(), bytes.begin() + got);
  }
}

// ---- SockRig -------------------------------------------------------------------------------------------------------

SockRig::~SockRig() {
  nodes_.clear();
  peers_.clear();
}

SockNode& SockRig::add(const SockNodeOptions& options) {
  nodes_.push_back(std::make_unique<SockNode>(*this, options));
  return *nodes_.back();
}

RawPeer& SockRig::foreign(const char* address) {
  peers_.push_back(std::make_unique<RawPeer>(*this, address));
  return *peers_.back();
}

void SockRig::step(Instant end) {
  if (real_time) {
    const Instant began{std::chrono::steady_clock::now().time_since_epoch()};
    now = now == Instant{1s} ? began : std::max(now, began);
    bool worked = false;
    for (auto& node : nodes_) worked |= node->turn(now);
    if (!worked) std::this_thread::sleep_for(100us);
    return;
  }
  tcp.advance(now);
  for (int round = 0; round < 100; ++round) {
    bool worked = false;
    for (auto& node : nodes_) worked |= node->turn(now);
    for (auto& peer : peers_) worked |= peer->turn(now);
    for (auto& other : also) worked |= other(now);
    if (!worked) break;
  }
  Instant next = std::min(end, tcp.next_event());
  // Deadlines may be a millisecond late: next_deadline() scans the wheels, so the rig calls it seldom.
  if (next > now + 1ms)
    for (auto& node : nodes_)
      if (!node->dead) next = std::min(next, node->next_deadline());
  now = std::max(now + 1us, std::min(next, end));
}

void SockRig::run_for(Duration span) {
  const Instant end = now + span;
  while (now < end) step(end);
}

bool SockRig::shut_down() {
  for (auto& node : nodes_) {
    if (node->dead) continue;
    for (auto& core : node->cores)
      while (!core->held.empty()) {  // a core that stops lets go of what it holds
        RxSlot& slot = *core->held.back();
        core->held.pop_back();
        slot.verdict = RxVerdict::kReceive;
        core->make_room(slot, 0);
        core->lnd->resume(slot, now);
      }
    node->on_header = nullptr;
    node->stop();
  }
  const auto all_home = [&] {
    return std::all_of(nodes_.begin(), nodes_.end(),
                       [](auto& node) { return node->dead || (node->stopped() && node->idle()); });
  };
  const bool home = run_until(all_home, 30s);
  for (auto& node : nodes_) {
    if (node->dead) continue;
    EXPECT_TRUE(node->stopped()) << "NIs do not stop: " << nid_text(node->nids[0]);
    EXPECT_EQ(node->unfinished(), 0u) << "a Tx never ended: " << nid_text(node->nids[0]);
    for (auto& core : node->cores) {
      EXPECT_TRUE(core->receiving.empty()) << "a slot never ended: " << nid_text(node->nids[0]);
      EXPECT_TRUE(core->lnd->idle()) << "something is left in the worker half: " << nid_text(node->nids[0]);
    }
  }
  return home;
}

// ---- bytes ---------------------------------------------------------------------------------------------------------

bool payload_right(const Received& received) {
  const uint64_t number = received.header.put().match_bits;
  for (size_t i = 0; i < received.payload.size(); ++i)
    if (received.payload[i] != payload_byte(number, i)) return false;
  return true;
}

Bytes raw_request(const std::string& nid) {
  Bytes out(socklnd::kConnRequestMaxBytes);
  out.resize(socklnd::conn_request_encode(nid_of(nid), out));
  return out;
}

Bytes raw_hello(uint32_t version, const std::string& src, const std::string& dst, uint32_t ctype,
                uint64_t incarnation) {
  socklnd::Hello hello;
  hello.version = version;
  hello.src_nid = nid_of(src);
  hello.dst_nid = nid_of(dst);
  hello.src_incarnation = incarnation;
  hello.ctype = socklnd::ConnType(ctype);
  Bytes out(socklnd::kHelloMaxBytes);
  out.resize(socklnd::hello_encode(hello, out));
  return out;
}

Bytes raw_put(uint32_t version, const std::string& src, const std::string& dst, uint64_t number, uint32_t payload_bytes,
              uint64_t cookie0, uint64_t cookie1, bool csum) {
  wire::Header header;
  header.src_nid = nid_of(src);
  header.dest_nid = nid_of(dst);
  header.type = wire::MsgType::kPut;
  header.payload_length = payload_bytes;
  wire::PutBody body;
  body.match_bits = number;
  header.set(body);
  socklnd::FrameHeader frame{socklnd::FrameType::kLnet, 0, cookie0, cookie1};
  Bytes prefix(socklnd::kFramePrefixMaxBytes);
  const std::span<std::byte, socklnd::kFramePrefixMaxBytes> out(prefix.data(), prefix.size());
  prefix.resize(socklnd::frame_prefix_encode(version, frame, header, out));
  Bytes payload(payload_bytes);
  for (uint32_t i = 0; i < payload_bytes; ++i) payload[i] = payload_byte(number, i);
  if (csum) {
    frame.csum = socklnd::csum_update(socklnd::frame_csum_start(prefix), payload);
    socklnd::frame_header_encode(frame, std::span<std::byte, socklnd::kFrameHeaderBytes>(prefix.data(), 24));
  }
  return prefix + payload;
}

Bytes raw_noop(uint64_t cookie0, uint64_t cookie1) {
  Bytes out(socklnd::kFrameHeaderBytes);
  socklnd::frame_header_encode({socklnd::FrameType::kNoop, 0, cookie0, cookie1},
                               std::span<std::byte, socklnd::kFrameHeaderBytes>(out.data(), out.size()));
  return out;
}

Bytes operator+(const Bytes& a, const Bytes& b) {
  Bytes sum = a;
  sum.insert(sum.end(), b.begin(), b.end());
  return sum;
}

Bytes hex_bytes(const char* text) {
  Bytes out;
  unsigned high = 16;
  for (; *text != '\0'; ++text) {
    if (*text == ' ') continue;
    const char lower = char(*text | 0x20);
    const unsigned digit = unsigned(lower >= 'a' ? lower - 'a' + 10 : lower - '0');
    if (high == 16) {
      high = digit;
    } else {
      out.push_back(std::byte(high * 16 + digit));
      high = 16;
    }
  }
  return out;
}

uint32_t u32_at(const Bytes& bytes, size_t offset) {
  uint32_t value = 0;
  if (bytes.size() >= offset + 4) std::memcpy(&value, bytes.data() + offset, 4);
  return value;
}

uint32_t offered_type(const SimConnection& connection) {
  return u32_at(connection.sent[0], 16 + 48);
}

std::string types_of(const SimTcp& tcp) {
  std::string types;
  for (const SimConnection& connection : tcp.connections) types += char('0' + offered_type(connection));
  return types;
}

}  // namespace ulnet::test
