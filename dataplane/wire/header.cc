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

Result<Header> header_decode_nid4(std::span<const std::byte, kHeaderNid4Bytes> in) {
  return tail_decode(in.data() + 16, nid_from_wire(load<uint64_t>(in.data())),
                     nid_from_wire(load<uint64_t>(in.data() + 8)));
}

Result<Header> header_decode_nid16(std::span<const std::byte, kHeaderNid16Bytes> in) {
  return tail_decode(in.data() + 40, nid_load16(in.data()), nid_load16(in.data() + 20));
}

}  // namespace ulnet::wire
