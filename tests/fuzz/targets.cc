// See targets.h. The properties: no decoder reads beyond its input (sanitizers). Pieces of any size give the same
// result as the whole. An accepted input survives encoding and decoding again.
#include "tests/fuzz/targets.h"

#include <algorithm>
#include <string_view>

#include "dataplane/base/check.h"
#include "dataplane/base/limits.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/wire/bytes.h"
#include "dataplane/wire/ping_info.h"
#include "lnd/o2iblnd/proto/connect.h"
#include "lnd/rc/roce/proto/cm_message.h"
#include "lnd/rc/roce/proto/cma_header.h"
#include "lnd/socklnd/proto/acceptor.h"
#include "lnd/socklnd/proto/frame.h"
#include "lnd/socklnd/proto/hello.h"
#include "lnd/socklnd/proto/zc.h"
#include "tests/wire/o2iblnd_encode.h"

namespace ulnet::fuzz {
namespace {

using namespace socklnd;

/// Feeds `in` in pieces of `piece`, never more than that; returns how many bytes the decoder took.
template <class Decoder>
size_t feed(Decoder& decoder, Bytes in, size_t piece) {
  size_t taken = 0;
  while (taken < in.size() && decoder.need() != 0) {
    const size_t need = decoder.need();
    Bytes part = in.subspan(taken, std::min(piece, in.size() - taken));
    const size_t offered = part.size();
    decoder.feed(part);
    ULNET_CHECK(offered - part.size() >= std::min(need, offered));
    taken += offered - part.size();
  }
  return taken;
}

/// Both ways of feeding agree; the first decoder is the one that got all at once.
template <class Decoder>
size_t feed_both_ways(Decoder& whole, Decoder& single, Bytes in) {
  const size_t taken = feed(whole, in, SIZE_MAX);
  ULNET_CHECK(feed(single, in, 1) == taken);
  ULNET_CHECK(whole.status() == single.status());
  ULNET_CHECK(whole.need() == single.need());
  return taken;
}

void check_same(const wire::Header& a, const wire::Header& b) {
  ULNET_CHECK(a.dest_nid == b.dest_nid && a.src_nid == b.src_nid && a.dest_pid == b.dest_pid && a.src_pid == b.src_pid);
  ULNET_CHECK(a.type == b.type && a.payload_length == b.payload_length && a.body == b.body);
}

/// Setting a body from itself keeps the fields that it has.
void check_bodies(wire::Header header) {
  const auto ack = header.ack();
  const auto get = header.get();
  const auto body = header.body;
  header.set(header.put());
  ULNET_CHECK(header.body == body);
  header.set(ack);
  ULNET_CHECK(header.ack().dst_wmd == ack.dst_wmd && header.ack().mlength == ack.mlength);
  header.set(get);
  ULNET_CHECK(header.get().portal == get.portal && header.get().sink_length == get.sink_length);
}

auto sorted_nids(const wire::PingInfo& info) {
  std::vector<std::pair<Nid, uint32_t>> out;
  for (const wire::PingNi& ni : info.nis) out.emplace_back(ni.nid, ni.status);
  std::sort(out.begin(), out.end());
  return out;
}

Bytes rest(Bytes in) {
  return in.empty() ? in : in.subspan(1);
}
uint8_t first(Bytes in) {
  return in.empty() ? 0 : uint8_t(in[0]);
}

}  // namespace

void fuzz_header(Bytes in) {
  if (in.size() >= wire::kHeaderNid4Bytes) {
    if (wire::Header header, again; wire::header_decode_nid4(in.first<wire::kHeaderNid4Bytes>(), header)) {
      std::array<std::byte, wire::kHeaderNid4Bytes> out;
      wire::header_encode_nid4(header, out);
      ULNET_CHECK(wire::header_decode_nid4(out, again));
      check_same(header, again);
      check_bodies(header);
    }
  }
  if (in.size() >= wire::kHeaderNid16Bytes) {
    if (wire::Header header, again; wire::header_decode_nid16(in.first<wire::kHeaderNid16Bytes>(), header)) {
      std::array<std::byte, wire::kHeaderNid16Bytes> out;
      wire::header_encode_nid16(header, out);
      ULNET_CHECK(wire::header_decode_nid16(out, again));
      check_same(header, again);
    }
  }
}

void fuzz_ping_info(Bytes in) {
  const auto decoded = wire::ping_info_decode(in, kPeerNidsMax);
  if (!decoded) return;
  ULNET_CHECK(decoded->info.nis.size() <= in.size() / 12);
  ULNET_CHECK(decoded->needed_bytes <= kMaxPayload);
  ULNET_CHECK(decoded->truncated == (in.size() < decoded->needed_bytes));
  const auto bytes = wire::ping_info_encode(decoded->info);
  ULNET_CHECK(bytes.size() == wire::ping_info_size(decoded->info));
  if (bytes.size() > kMaxPayload) return;
  const auto again = wire::ping_info_decode(bytes, UINT32_MAX);
  ULNET_CHECK(again.has_value() && !again->truncated && again->needed_bytes == bytes.size());
  ULNET_CHECK(again->info.sequence == decoded->info.sequence && again->info.pid == decoded->info.pid);
  ULNET_CHECK(sorted_nids(again->info) == sorted_nids(decoded->info));
  if (!again->info.nis.empty()) ULNET_CHECK(again->info.nis.front().nid == decoded->info.nis.front().nid);
}

void fuzz_acceptor(Bytes in) {
  ConnRequestDecoder whole, single;
  const size_t taken = feed_both_ways(whole, single, in);
  ULNET_CHECK(taken <= kConnRequestMaxBytes);
  if (whole.status() != AcceptStatus::kRequest) return;
  const ConnRequest& request = whole.request();
  std::array<std::byte, kConnRequestMaxBytes> out;
  const size_t bytes = conn_request_encode(request.target, out, request.flip);
  ConnRequestDecoder again;
  ULNET_CHECK(feed(again, Bytes(out).first(bytes), SIZE_MAX) == bytes);
  ULNET_CHECK(again.status() == AcceptStatus::kRequest && again.request().target == request.target);
}

void fuzz_hello(Bytes in) {
  const HelloRole role = (first(in) & 1) != 0 ? HelloRole::kActive : HelloRole::kPassive;
  HelloDecoder whole(role), single(role);
  const size_t taken = feed_both_ways(whole, single, rest(in));
  ULNET_CHECK(taken <= kHelloMaxBytes + 4 * kHelloIpsMax);
  if (whole.status() != HelloStatus::kHello) return;
  Hello hello = whole.hello();
  hello.flip = false;  // the 8-byte NIDs of the other byte order do not come back
  std::array<std::byte, kHelloMaxBytes> out;
  const size_t bytes = hello_encode(hello, out);
  HelloDecoder again(role);
  ULNET_CHECK(feed(again, Bytes(out).first(bytes), SIZE_MAX) == bytes);
  ULNET_CHECK(again.status() == HelloStatus::kHello);
  const Hello& copy = again.hello();
  ULNET_CHECK(copy.src_nid == hello.src_nid && copy.src_pid == hello.src_pid && copy.dst_pid == hello.dst_pid);
  ULNET_CHECK(copy.src_incarnation == hello.src_incarnation && copy.ctype == hello.ctype);
  ULNET_CHECK(hello.version == kVersion1 || copy.dst_nid == hello.dst_nid);
  const Nid me = hello.dst_nid.is_any() || !hello.dst_nid.fits_u64() ? kLoNid : hello.dst_nid;
  if (hello.version != kVersion4) ULNET_CHECK(hello_encode(hello_answer(hello, me, 1, false), out) == bytes);
}

void fuzz_frame_stream(Bytes in) {
  const uint32_t version = kVersion1 + (first(in) & 3);
  const bool flip = (first(in) & 4) != 0;
  FrameDecoder whole(version, flip), single(version, flip);
  for (Bytes left = rest(in);;) {
    const size_t taken = feed_both_ways(whole, single, left);
    ULNET_CHECK(taken <= kFramePrefixMaxBytes);
    const bool message = whole.status() == FrameStatus::kMessage;
    if (!message && whole.status() != FrameStatus::kNoop) return;
    ULNET_CHECK(whole.frame() == single.frame() && whole.csum() == single.csum());
    const ZcAck ack = zc_ack_of(whole.frame(), version);
    ULNET_CHECK(ack.kind != ZcAck::Kind::kRange || ack.first <= ack.last);
    left = left.subspan(taken);
    if (message) {
      check_same(whole.header(), single.header());
      const size_t payload = whole.header().payload_length;
      if (payload > left.size()) return;
      const uint32_t csum = csum_update(whole.csum(), left.first(payload));
      ULNET_CHECK(csum == csum_update(csum_update(whole.csum(), left.first(payload / 3)),
                                      left.subspan(payload / 3, payload - payload / 3)));
      left = left.subspan(payload);
    }
    whole.next();
    single.next();
  }
}

void fuzz_nid_text(Bytes in) {
  const std::string text(reinterpret_cast<const char*>(in.data()), in.size());
  if (const auto nid = nid_parse(text)) ULNET_CHECK(nid_parse(nid_text(*nid)).value() == *nid);
  if (const auto net = net_parse(text)) ULNET_CHECK(net_parse(net_text(*net)).value() == *net);
  if (in.size() < sizeof(Nid)) return;
  const Nid nid = wire::nid_load16(in.data());
  const std::string printed = nid_text(nid);
  const bool regular = nid.size <= 12 && nid.size % 4 == 0 &&
                       std::all_of(nid.addr.begin() + nid.size + 4, nid.addr.end(), [](uint8_t b) { return b == 0; });
  const auto parsed = nid_parse(printed);
  if (nid.is_any() || regular) ULNET_CHECK(parsed.has_value() && *parsed == nid);
}

namespace {

/// Both verdicts on private data, whatever it is. An accepted request can be answered.
void check_verdicts(Bytes in, const o2iblnd::Message& message, o2iblnd::MessageFault fault) {
  const o2iblnd::ConnParams mine{8, o2iblnd::kFragmentsMax, o2iblnd::kMessageMax};
  const o2iblnd::PassiveSide here{.ni_found = true,
                                  .ni_ready = true,
                                  .stamp = message.ends.dst_stamp,
                                  .params = mine,
                                  .connecting = (first(in) & 1) != 0};
  const o2iblnd::PassiveVerdict verdict = o2iblnd::judge_request(in, message, fault, here);
  ULNET_CHECK(verdict.accepted() == (*verdict.why == 0));
  ULNET_CHECK(!verdict.accepted() || message.type == o2iblnd::MessageType::kConnReq);
  ULNET_CHECK(!verdict.accepted() || verdict.params.queue_depth <= mine.queue_depth);
  const o2iblnd::Ends sent{message.ends.dst, message.ends.src, message.ends.dst_stamp, 0};
  if (o2iblnd::judge_answer(message, fault, sent, mine) != o2iblnd::AnswerFault::kNone) return;
  ULNET_CHECK(message.params.fragments >= 1 && message.params.fragments <= mine.fragments);
}

}  // namespace

void fuzz_o2ib_message(Bytes in) {
  o2iblnd::Message message;
  const o2iblnd::MessageFault fault = o2iblnd::message_decode(in, message);
  check_verdicts(in, message, fault);
  if (fault != o2iblnd::MessageFault::kNone) {
    ULNET_CHECK(*o2iblnd::message_fault_text(fault) != 0);
    return;
  }
  ULNET_CHECK(o2iblnd::message_version(in) == o2iblnd::kVersion);
  const auto bytes = test::o2iblnd_encode(message);
  o2iblnd::Message again;
  ULNET_CHECK(bytes.size() <= in.size() && o2iblnd::message_decode(bytes, again) == o2iblnd::MessageFault::kNone);
  ULNET_CHECK(again.type == message.type && again.credits == message.credits && again.ends == message.ends);
  ULNET_CHECK(again.params == message.params && again.status == message.status && !again.flip);
  ULNET_CHECK(again.cookie == message.cookie && again.sink_cookie == message.sink_cookie);
  check_same(again.header, message.header);
  ULNET_CHECK(std::equal(again.payload.begin(), again.payload.end(), message.payload.begin(), message.payload.end()));
  ULNET_CHECK(again.sink.key() == message.sink.key() && again.sink.bytes() == message.sink.bytes());
  ULNET_CHECK(test::fragments_of(again.sink) == test::fragments_of(message.sink));
}

void fuzz_o2ib_reject(Bytes in) {
  o2iblnd::Reject reject;
  const bool block = o2iblnd::reject_decode(in, reject);
  const o2iblnd::ActiveSide here{{8, o2iblnd::kFragmentsMax, o2iblnd::kMessageMax}, true, false};
  const o2iblnd::Reaction reaction = o2iblnd::react(o2iblnd::kCmConsumer, in, here);
  ULNET_CHECK((reaction.kind == o2iblnd::Reaction::Kind::kFail) == (reaction.error != 0));
  if (reaction.kind == o2iblnd::Reaction::Kind::kReconnect)
    ULNET_CHECK(reaction.params.queue_depth >= 1 && reaction.params.fragments >= 1);
  if (!block || reject.version < o2iblnd::kVersion) return;
  std::array<std::byte, o2iblnd::kRejectBytes> out;
  o2iblnd::reject_encode(reject, out);
  o2iblnd::Reject again;
  ULNET_CHECK(o2iblnd::reject_decode(out, again) && again == reject);
}

void fuzz_roce_packet(Bytes in) {
  using namespace rc::roce;
  const auto packet = packet_decode(in.first(std::min<size_t>(in.size(), kRoceHeadersMax)), uint32_t(in.size()));
  if (!packet) return;
  ULNET_CHECK(packet->header_bytes + packet->payload_bytes + packet->bth.pad_bytes + kIcrcBytes == in.size());
  if (packet->kind == PacketKind::kRequest) ULNET_CHECK(uint8_t(opcode_of(packet->shape)) == packet->bth.opcode);
  std::array<std::byte, kBthBytes> bth;
  bth_encode(packet->bth, bth.data());
  const auto again = packet_decode(bth, kBthBytes + kIcrcBytes + packet->bth.pad_bytes);
  ULNET_CHECK(!again || (again->bth.qpn == packet->bth.qpn && again->bth.psn == packet->bth.psn));
  if (packet->kind != PacketKind::kDatagram || packet->payload_bytes < kMadBytes) return;
  const auto message = cm_decode(in.subspan(packet->header_bytes).first<kMadBytes>());
  if (!message) return;
  std::array<std::byte, kMadBytes> mad;
  cm_encode(*message, mad);
  const auto decoded = cm_decode(mad);
  ULNET_CHECK(decoded && decoded->body.index() == message->body.index());
  std::array<std::byte, kMadBytes> twice;
  cm_encode(*decoded, twice);
  ULNET_CHECK(mad == twice);
  if (const auto* req = std::get_if<CmReq>(&message->body))
    (void)cma_decode(req->private_data.first<kCmaHeaderBytes>());
}

}  // namespace ulnet::fuzz
