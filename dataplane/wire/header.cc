// LNet header codec. The fields of both forms have the same order; only the width of the two NIDs differs. One pair of
// functions therefore handles the fields after the NIDs. Runs on workers: no allocation, no failure but an unknown
// type.
#include "dataplane/wire/header.h"

#include "dataplane/base/check.h"
#include "dataplane/wire/bytes.h"

namespace ulnet::wire {
namespace {

constexpr size_t kBodyBytes = 40;

// Offsets behind the two NIDs (docs/wire/lnet.md §2).
constexpr size_t kDestPid = 0;
constexpr size_t kSrcPid = 4;
constexpr size_t kType = 8;
constexpr size_t kPayloadLength = 12;
constexpr size_t kBody = 16;
static_assert(16 + kBody + kBodyBytes == kHeaderNid4Bytes);
static_assert(40 + kBody + kBodyBytes == kHeaderNid16Bytes);

void tail_encode(const Header& header, std::byte* out) {
  store(out + kDestPid, header.dest_pid);
  store(out + kSrcPid, header.src_pid);
  store(out + kType, uint32_t(header.type));
  store(out + kPayloadLength, header.payload_length);
  std::memcpy(out + kBody, header.body.data(), kBodyBytes);
}

Result<Header> tail_decode(const std::byte* in, const Nid& dest, const Nid& src) {
  const auto type = load<uint32_t>(in + kType);
  if (type >= kMsgTypes) return fail(EPROTO, "unknown LNet message type", type);
  Header header;
  header.dest_nid = dest;
  header.src_nid = src;
  header.dest_pid = load<uint32_t>(in + kDestPid);
  header.src_pid = load<uint32_t>(in + kSrcPid);
  header.type = MsgType(type);
  header.payload_length = load<uint32_t>(in + kPayloadLength);
  std::memcpy(header.body.data(), in + kBody, kBodyBytes);
  return header;
}

WireHandle handle_load(const std::byte* at) {
  return {load<uint64_t>(at), load<uint64_t>(at + 8)};
}

void handle_store(std::byte* at, const WireHandle& handle) {
  store(at, handle.interface_cookie);
  store(at + 8, handle.object_cookie);
}

}  // namespace

AckBody Header::ack() const {
  const std::byte* b = body.data();
  return {handle_load(b), load<uint64_t>(b + 16), load<uint32_t>(b + 24)};
}

PutBody Header::put() const {
  const std::byte* b = body.data();
  return {handle_load(b), load<uint64_t>(b + 16), load<uint64_t>(b + 24), load<uint32_t>(b + 32),
          load<uint32_t>(b + 36)};
}

GetBody Header::get() const {
  const std::byte* b = body.data();
  return {handle_load(b), load<uint64_t>(b + 16), load<uint32_t>(b + 24), load<uint32_t>(b + 28),
          load<uint32_t>(b + 32)};
}

ReplyBody Header::reply() const {
  return {handle_load(body.data())};
}

void Header::set(const AckBody& b) {
  body = {};
  handle_store(body.data(), b.dst_wmd);
  store(body.data() + 16, b.match_bits);
  store(body.data() + 24, b.mlength);
}

void Header::set(const PutBody& b) {
  handle_store(body.data(), b.ack_wmd);
  store(body.data() + 16, b.match_bits);
  store(body.data() + 24, b.hdr_data);
  store(body.data() + 32, b.portal);
  store(body.data() + 36, b.offset);
}

void Header::set(const GetBody& b) {
  body = {};
  handle_store(body.data(), b.return_wmd);
  store(body.data() + 16, b.match_bits);
  store(body.data() + 24, b.portal);
  store(body.data() + 28, b.src_offset);
  store(body.data() + 32, b.sink_length);
}

void Header::set(const ReplyBody& b) {
  body = {};
  handle_store(body.data(), b.dst_wmd);
}

Header response_to(const Header& request, MsgType type) {
  Header response;
  response.dest_nid = request.src_nid;
  response.src_nid = request.dest_nid;
  response.dest_pid = request.src_pid;
  response.src_pid = request.dest_pid;
  response.type = type;
  return response;
}

void header_encode_nid4(const Header& header, std::span<std::byte, kHeaderNid4Bytes> out) {
  ULNET_CHECK(header.dest_nid.fits_u64() && header.src_nid.fits_u64());
  store(out.data(), header.dest_nid.to_u64());
  store(out.data() + 8, header.src_nid.to_u64());
  tail_encode(header, out.data() + 16);
}

void header_encode_nid16(const Header& header, std::span<std::byte, kHeaderNid16Bytes> out) {
  nid_store16(out.data(), header.dest_nid);
  nid_store16(out.data() + 20, header.src_nid);
  tail_encode(header, out.data() + 40);
}

Result<Header> header_decode_nid4(std::span<const std::byte, kHeaderNid4Bytes> in) {
  return tail_decode(in.data() + 16, nid_from_wire(load<uint64_t>(in.data())),
                     nid_from_wire(load<uint64_t>(in.data() + 8)));
}

Result<Header> header_decode_nid16(std::span<const std::byte, kHeaderNid16Bytes> in) {
  return tail_decode(in.data() + 40, nid_load16(in.data()), nid_load16(in.data() + 20));
}

}  // namespace ulnet::wire
