// HELLO codec. The versions differ in layout only, so each has one parser and one writer of its fields. The checks and
// the interface addresses that may follow are common. A peer of the other byte order is treated as upstream does it.
// Integers are swapped; the 8-byte NIDs of versions 2 and 3 stay as they came (docs/wire/socklnd.md §2.4).
#include "lnd/socklnd/proto/hello.h"

#include "dataplane/wire/bytes.h"
#include "dataplane/wire/header.h"

namespace ulnet::socklnd {

using wire::byte_swap;
using wire::load;
using wire::store;

namespace {

constexpr uint16_t kV1Major = 1;
constexpr uint16_t kV1Minor = 0;

// Version 1 is an LNet header with the destination NID replaced (docs/wire/socklnd.md §2.3).
constexpr size_t kV1SrcNid = 8;
constexpr size_t kV1DestPid = 16;
constexpr size_t kV1SrcPid = 20;
constexpr size_t kV1Type = 24;
constexpr size_t kV1PayloadLength = 28;
constexpr size_t kV1Incarnation = 32;
constexpr size_t kV1ConnType = 40;

size_t encode_v1(const Hello& hello, std::byte* out) {
  std::memset(out, 0, kHelloV1Bytes);
  store(out, kHelloMagicV1);
  store(out + 4, kV1Major);
  store(out + 6, kV1Minor);
  store(out + kV1SrcNid, hello.src_nid.to_u64());
  store(out + kV1DestPid, hello.dst_pid);
  store(out + kV1SrcPid, hello.src_pid);
  store(out + kV1Type, uint32_t(wire::MsgType::kHello));
  store(out + kV1Incarnation, hello.src_incarnation);
  store(out + kV1ConnType, uint32_t(hello.ctype));
  return kHelloV1Bytes;
}

/// Writes the fields behind the NIDs, which v2, v3 and v4 have in common.
void encode_tail(const Hello& hello, std::byte* out) {
  store(out, hello.src_pid, hello.flip);
  store(out + 4, hello.dst_pid, hello.flip);
  store(out + 8, hello.src_incarnation, hello.flip);
  store(out + 16, hello.dst_incarnation, hello.flip);
  store(out + 24, uint32_t(hello.ctype), hello.flip);
  store(out + 28, uint32_t{0});
}

/// Reads what encode_tail() writes; returns the raw connection type.
uint32_t parse_tail(const std::byte* in, Hello& hello, uint32_t& ip_count) {
  hello.src_pid = load<uint32_t>(in, hello.flip);
  hello.dst_pid = load<uint32_t>(in + 4, hello.flip);
  hello.src_incarnation = load<uint64_t>(in + 8, hello.flip);
  hello.dst_incarnation = load<uint64_t>(in + 16, hello.flip);
  ip_count = load<uint32_t>(in + 28, hello.flip);
  return load<uint32_t>(in + 24, hello.flip);
}

}  // namespace

size_t hello_bytes(uint32_t version) {
  switch (version) {
    case kVersion1: return kHelloV1Bytes;
    case kVersion2:
    case kVersion3: return kHelloV2Bytes;
    case kVersion4: return kHelloV4Bytes;
    default: return 0;
  }
}

size_t hello_encode(const Hello& hello, std::span<std::byte> out) {
  const size_t bytes = hello_bytes(hello.version);
  ULNET_CHECK(bytes != 0 && out.size() >= bytes);
  if (hello.version == kVersion1) return encode_v1(hello, out.data());
  store(out.data(), kHelloMagic, hello.flip);
  store(out.data() + 4, hello.version, hello.flip);
  if (hello.version == kVersion4) {
    wire::nid_store16(out.data() + 8, hello.src_nid);
    wire::nid_store16(out.data() + 28, hello.dst_nid);
    encode_tail(hello, out.data() + 48);
  } else {
    ULNET_CHECK(hello.src_nid.fits_u64() && hello.dst_nid.fits_u64());
    store(out.data() + 8, hello.src_nid.to_u64(), hello.flip);
    store(out.data() + 16, hello.dst_nid.to_u64(), hello.flip);
    encode_tail(hello, out.data() + 24);
  }
  return bytes;
}

Hello hello_request(const Nid& my_nid, const Nid& peer_nid, uint64_t my_incarnation, ConnType type, uint32_t version) {
  Hello hello;
  hello.version = version;
  hello.src_nid = my_nid;
  hello.dst_nid = peer_nid;
  hello.src_incarnation = my_incarnation;
  hello.ctype = type;
  return hello;
}

Hello hello_answer(const Hello& request, const Nid& my_nid, uint64_t my_incarnation, bool refuse) {
  Hello answer;
  answer.version = request.version;
  answer.src_nid = my_nid;
  answer.dst_nid = request.src_nid;
  answer.dst_pid = request.version == kVersion1 ? 0 : request.dst_pid;
  answer.src_incarnation = my_incarnation;
  answer.dst_incarnation = request.dst_incarnation;
  answer.ctype = refuse ? ConnType::kNone : conn_type_inverse(request.ctype);
  return answer;
}

Hello hello_answer_unknown_version(const Nid& my_nid, uint64_t my_incarnation) {
  return hello_request(my_nid, my_nid, my_incarnation, ConnType::kNone, hello_best_version(my_nid));
}

const char* hello_status_text(HelloStatus status) {
  switch (status) {
    case HelloStatus::kMore:
    case HelloStatus::kHello: return "";
    case HelloStatus::kUnknownVersion: return "HELLO of an unknown protocol version";
    case HelloStatus::kBadMagic: return "the first bytes are not a HELLO";
    case HelloStatus::kBadSource: return "HELLO without a source NID";
    case HelloStatus::kBadType: return "HELLO with a connection type out of range";
    case HelloStatus::kTooManyIps: return "HELLO with more than 16 interface addresses";
    case HelloStatus::kZeroIp: return "HELLO with interface address 0.0.0.0";
    case HelloStatus::kNotHello: return "version 1 HELLO with another message type in it";
  }
  return "";
}

void HelloDecoder::reset(HelloRole role) {
  bytes_.reset(4);
  hello_ = {};
  role_ = role;
  status_ = HelloStatus::kMore;
}

HelloStatus HelloDecoder::feed(std::span<const std::byte>& in) {
  while (status_ == HelloStatus::kMore && bytes_.take(in)) status_ = step();
  return status_;
}

HelloStatus HelloDecoder::step() {
  if (bytes_.have() <= 8) return parse_magic_and_version();
  if (bytes_.have() == hello_bytes(hello_.version)) return parse_fixed();
  return check_ips();
}

HelloStatus HelloDecoder::parse_magic_and_version() {
  const std::byte* at = bytes_.data();
  const auto magic = load<uint32_t>(at);
  if (bytes_.have() == 4) {
    hello_.flip = magic == byte_swap(kHelloMagic);
    if (magic != kHelloMagic && magic != kHelloMagicV1 && !hello_.flip) return HelloStatus::kBadMagic;
    bytes_.set_goal(8);
    return HelloStatus::kMore;
  }
  if (magic == kHelloMagicV1) {
    const bool known = load<uint16_t>(at + 4) == kV1Major && load<uint16_t>(at + 6) == kV1Minor;
    hello_.version = known ? kVersion1 : 0;
  } else {
    hello_.version = load<uint32_t>(at + 4, hello_.flip);
    if (hello_.version == kVersion1) return HelloStatus::kUnknownVersion;  // version 1 has its own magic
  }
  const size_t bytes = hello_bytes(hello_.version);
  if (bytes == 0) return HelloStatus::kUnknownVersion;
  bytes_.set_goal(bytes);
  return HelloStatus::kMore;
}

void HelloDecoder::parse_fields_v1(uint32_t& raw_type) {
  const std::byte* at = bytes_.data();
  hello_.src_nid = wire::nid_from_wire(load<uint64_t>(at + kV1SrcNid));
  hello_.dst_pid = load<uint32_t>(at + kV1DestPid);
  hello_.src_pid = load<uint32_t>(at + kV1SrcPid);
  hello_.src_incarnation = load<uint64_t>(at + kV1Incarnation);
  hello_.ip_count = load<uint32_t>(at + kV1PayloadLength) / 4;
  raw_type = load<uint32_t>(at + kV1ConnType);
}

void HelloDecoder::parse_fields_v23(uint32_t& raw_type) {
  const std::byte* at = bytes_.data();
  hello_.src_nid = wire::nid_from_wire(load<uint64_t>(at + 8));
  hello_.dst_nid = wire::nid_from_wire(load<uint64_t>(at + 16));
  raw_type = parse_tail(at + 24, hello_, hello_.ip_count);
}

void HelloDecoder::parse_fields_v4(uint32_t& raw_type) {
  const std::byte* at = bytes_.data();
  hello_.src_nid = wire::nid_load16(at + 8);
  hello_.dst_nid = wire::nid_load16(at + 28);
  uint32_t ignored;
  raw_type = parse_tail(at + 48, hello_, ignored);
}

HelloStatus HelloDecoder::parse_fixed() {
  uint32_t raw_type = 0;
  if (hello_.version == kVersion1) {
    if (load<uint32_t>(bytes_.data() + kV1Type) != uint32_t(wire::MsgType::kHello)) return HelloStatus::kNotHello;
    parse_fields_v1(raw_type);
  } else if (hello_.version == kVersion4) {
    parse_fields_v4(raw_type);
  } else {
    parse_fields_v23(raw_type);
  }
  const bool none_is_fine = role_ == HelloRole::kActive && raw_type == uint32_t(ConnType::kNone);
  if (hello_.src_nid.is_any()) return HelloStatus::kBadSource;
  if (!conn_type_valid(raw_type) && !none_is_fine) return HelloStatus::kBadType;
  hello_.ctype = ConnType(raw_type);
  if (hello_.ip_count > kHelloIpsMax) return HelloStatus::kTooManyIps;
  if (hello_.ip_count == 0) return HelloStatus::kHello;
  bytes_.set_goal(bytes_.have() + 4 * size_t{hello_.ip_count});
  return HelloStatus::kMore;
}

HelloStatus HelloDecoder::check_ips() const {
  const std::byte* at = bytes_.data() + hello_bytes(hello_.version);
  for (uint32_t i = 0; i < hello_.ip_count; ++i)
    if (load<uint32_t>(at + 4 * i) == 0) return HelloStatus::kZeroIp;
  return HelloStatus::kHello;
}

AnswerVerdict hello_answer_check(const Hello& request, const ProcessId& peer, const Hello& answer) {
  if (answer.src_nid != peer.nid || answer.src_pid != peer.pid) return AnswerVerdict::kProtocolError;
  if (answer.version != request.version) return AnswerVerdict::kOtherVersion;
  if (answer.ctype == ConnType::kNone) return AnswerVerdict::kRetry;
  return answer.ctype == conn_type_inverse(request.ctype) ? AnswerVerdict::kAccepted : AnswerVerdict::kProtocolError;
}

}  // namespace ulnet::socklnd
