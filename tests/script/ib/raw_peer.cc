#include "tests/script/ib/raw_peer.h"

#include <algorithm>
#include <cstring>

namespace ulnet::test {

using namespace o2iblnd;

RawPeer::RawPeer(IbNet& net)
    : memory(4 << 20), source(1 << 20), net_(net), provider_(net.make_node({ib_address(kNumber)}, 1)) {
  EXPECT_TRUE(control().region_add(RegionId{1}, memory));
  EXPECT_TRUE(control().region_add(RegionId{2}, source));
  listener_ = *control().listen({ib_address(kNumber), kIbPort});
}

RawPeer::~RawPeer() {
  control().unlisten(listener_);
}

void RawPeer::dial(unsigned to, Instant now) {
  const auto id =
      control().dial({.local = ib_address(kNumber), .remote = {ib_address(to), kIbPort}, .needs = needs}, now);
  ASSERT_TRUE(id);
  conn_ = *id;
}

void RawPeer::turn(Instant now) {
  now_ = now;
  net_.run(now);
  std::array<rc::Event, 4> events;
  const unsigned count = control().poll(events, now);
  for (const rc::Event& event : std::span(events).first(count)) {
    switch (event.kind) {
      case rc::EventKind::kRequest:
        ++requests;
        if (!accepts || qp != nullptr) {
          control().reject(event.conn, reject_data, now);
        } else {
          control().prepare(conn_ = event.conn, needs, now);
        }
        break;
      case rc::EventKind::kReady:
        qp = event.qp;
        cause = rc::Cause::kNone;
        key = {};
        worker().adopt(*qp, *this);
        for (uint32_t i = 0; i < qp->receives; ++i) worker().receive(*qp, i);
        control().proceed(event.conn, hello, now);
        ++connections;
        break;
      case rc::EventKind::kEstablished: established = true; break;
      case rc::EventKind::kFailed:
      case rc::EventKind::kClosed: control().disconnect(event.conn, now); break;
      case rc::EventKind::kDevice: break;
    }
  }
  worker().poll(64, now);
  worker().timers(now);
  worker().flush(now);
}

void RawPeer::received(rc::Qp& at, uint32_t buffer, uint32_t bytes, Instant) {
  Came& one = came.emplace_back();
  const auto all = at.receive_buffer(buffer).first(bytes);
  one.bytes.assign(all.begin(), all.end());
  EXPECT_EQ(message_decode(one.bytes, one.message), MessageFault::kNone);
  EXPECT_EQ(one.message.ends, ib_ends(0, kNumber));
  worker().receive(at, buffer);
}

void RawPeer::broken(rc::Qp&, rc::Cause why, Instant now) {
  cause = why;
  control().disconnect(conn_, now);
}

void RawPeer::drained(rc::Qp& of, Instant now) {
  worker().release(of);
  qp = nullptr;
  established = false;
  control().destroy(conn_, now);
}

wire::Header RawPeer::header(wire::MsgType type, uint64_t bits, uint32_t bytes) const {
  wire::Header h;
  h.type = type;
  h.src_nid = ib_nid(kNumber);
  h.dest_nid = ib_nid(0);
  if (type == wire::MsgType::kGet) {
    wire::GetBody body;
    body.match_bits = bits;
    body.sink_length = bytes;
    h.set(body);
  } else {
    h.payload_length = bytes;
    wire::PutBody body;
    body.match_bits = bits;
    h.set(body);
  }
  return h;
}

void RawPeer::send_immediate(uint64_t bits, uint32_t bytes, uint8_t credits) {
  send(
      [&](MessageBuffer out) {
        const size_t all = encode_immediate(out, ends, header(wire::MsgType::kPut, bits, bytes));
        std::memcpy(out.data() + kImmediatePrefix, ib_payload(bits), bytes);
        return all;
      },
      credits);
}

void RawPeer::send_put_req(uint64_t bits, uint32_t bytes, uint64_t cookie) {
  send([&](MessageBuffer out) { return encode_put_req(out, ends, header(wire::MsgType::kPut, bits, bytes), cookie); });
}

void RawPeer::send_completion(MessageType type, uint64_t cookie, int32_t status, uint8_t credits) {
  send([&](MessageBuffer out) { return encode_completion(out, type, ends, cookie, status); }, credits);
}

void RawPeer::send_noop(uint8_t credits) {
  send([&](MessageBuffer out) { return encode_noop(out, ends); }, credits);
}

void RawPeer::introduce(MessageType type) {
  hello.resize(kMessageMax);
  hello.resize(encode_connect(MessageBuffer(hello), type, ends, {kDepth, uint16_t(kFragmentsMax)}));
}

std::vector<Fragment> RawPeer::open_all(uint32_t bytes, uint32_t piece) {
  std::vector<Fragment> fragments;
  for (uint32_t done = 0; done < bytes; done += piece)
    fragments.push_back({uint64_t(reinterpret_cast<uintptr_t>(memory.data())) + done, std::min(piece, bytes - done)});
  if (bytes % piece == 0) std::reverse(fragments.begin(), fragments.end());
  window_ = {memory.data(), bytes, RegionId{1}};
  EXPECT_EQ(worker().key_open(*qp, key, {&window_, 1, 0, bytes}), rc::Posted::kYes);
  return fragments;
}

void RawPeer::send_put_ack(uint64_t cookie, uint64_t sink_cookie, const std::vector<Fragment>& fragments) {
  send([&](MessageBuffer out) { return encode_put_ack(out, ends, cookie, sink_cookie, key.value, fragments); });
}

void RawPeer::send_get_req(uint64_t bits, uint32_t bytes, uint64_t cookie, const std::vector<Fragment>& fragments) {
  send([&](MessageBuffer out) {
    return encode_get_req(out, ends, header(wire::MsgType::kGet, bits, bytes), cookie, key.value, fragments);
  });
}

void RawPeer::write(const RemoteSink& sink, uint64_t bits, uint32_t bytes) {
  std::memcpy(source.data(), ib_payload(bits), bytes);
  uint32_t done = 0;
  for (uint32_t i = 0; i < sink.count() && done < bytes; ++i) {
    const uint32_t here = std::min(sink.at(i).bytes, bytes - done);
    const Segment from{source.data() + done, here, RegionId{2}};
    ASSERT_EQ(worker().write(*qp, {&from, 1}, sink.key(), sink.at(i).address, 0), rc::Posted::kYes);
    done += here;
  }
  ASSERT_EQ(done, bytes);
}

std::vector<std::byte> RawPeer::written(const std::vector<Fragment>& fragments) const {
  std::vector<std::byte> all;
  for (const Fragment& one : fragments) {
    const auto* from = reinterpret_cast<const std::byte*>(one.address);
    all.insert(all.end(), from, from + one.bytes);
  }
  return all;
}

Came RawPeer::next() {
  if (came.empty()) {
    ADD_FAILURE() << "no message came";
    return {};
  }
  Came one = std::move(came.front());
  came.pop_front();
  EXPECT_EQ(message_decode(one.bytes, one.message), MessageFault::kNone);
  return one;
}

}  // namespace ulnet::test
