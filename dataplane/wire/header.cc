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

Result<void> tail_decode(const std::byte* in, Header& out) {
  const auto type = load<uint32_t>(in + kType);
  if (type >= kMsgTypes) return fail(EPROTO, "unknown LNet message type", type);
  out.dest_pid = load<uint32_t>(in + kDestPid);
  out.src_pid = load<uint32_t>(in + kSrcPid);
  out.type = MsgType(type);
  out.payload_length = load<uint32_t>(in + kPayloadLength);
  std::memcpy(out.body.data(), in + kBody, kBodyBytes);
  return {};
}

}  // namespace

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

Result<void> header_decode_nid4(std::span<const std::byte, kHeaderNid4Bytes> in, Header& out) {
  out.dest_nid = nid_from_wire(load<uint64_t>(in.data()));
  out.src_nid = nid_from_wire(load<uint64_t>(in.data() + 8));
  return tail_decode(in.data() + 16, out);
}

Result<void> header_decode_nid16(std::span<const std::byte, kHeaderNid16Bytes> in, Header& out) {
  out.dest_nid = nid_load16(in.data());
  out.src_nid = nid_load16(in.data() + 20);
  return tail_decode(in.data() + 40, out);
}

}  // namespace ulnet::wire
