#include "lnd/rc/roce/proto/cm_message.h"

#include <algorithm>

#include "dataplane/base/check.h"
#include "dataplane/wire/bytes.h"
#include "lnd/rc/roce/proto/bytes24.h"

namespace ulnet::rc::roce {
namespace {

constexpr unsigned kHeaderBytes = 24;                    ///< of a MAD; the offsets below count from its end
constexpr unsigned kTransactionAt = 8, kAttributeAt = 16;
constexpr unsigned kInfoMax = 72;

enum class Attribute : uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16
};

/// Reads fields of a message's data.
class Reader {
 public:
  explicit Reader(const std::byte* data) : data_(data) {}
  [[nodiscard]] uint8_t u8(unsigned at) const { return uint8_t(data_[at]); }
  [[nodiscard]] uint16_t u16(unsigned at) const { return wire::load<uint16_t>(data_ + at, true); }
  [[nodiscard]] uint32_t u24(unsigned at) const { return load24(data_ + at); }
  [[nodiscard]] uint32_t u32(unsigned at) const { return wire::load<uint32_t>(data_ + at, true); }
  [[nodiscard]] uint64_t u64(unsigned at) const { return wire::load<uint64_t>(data_ + at, true); }
  /// `bits` of a byte, the lowest at `shift`.
  [[nodiscard]] uint8_t bits(unsigned at, unsigned shift, unsigned bits) const {
    return uint8_t(u8(at) >> shift & ((1u << bits) - 1));
  }
  [[nodiscard]] IpAddress address(unsigned at) const {
    IpAddress out;
    std::memcpy(out.bytes.data(), data_ + at, out.bytes.size());
    return out;
  }
  [[nodiscard]] Bytes bytes(unsigned at, size_t count) const { return {data_ + at, count}; }

 private:
  const std::byte* data_;
};

/// Writes them. The memory is zero before.
class Writer {
 public:
  explicit Writer(std::byte* data) : data_(data) {}
  void u8(unsigned at, unsigned value) { data_[at] = std::byte(uint8_t(value)); }
  void u16(unsigned at, uint16_t value) { wire::store<uint16_t>(data_ + at, value, true); }
  void u24(unsigned at, uint32_t value) { store24(data_ + at, value); }
  void u32(unsigned at, uint32_t value) { wire::store<uint32_t>(data_ + at, value, true); }
  void u64(unsigned at, uint64_t value) { wire::store<uint64_t>(data_ + at, value, true); }
  void address(unsigned at, const IpAddress& value) { std::memcpy(data_ + at, value.bytes.data(), value.bytes.size()); }
  void bytes(unsigned at, Bytes value, size_t max) {
    ULNET_CHECK(value.size() <= max);
    std::copy(value.begin(), value.end(), data_ + at);
  }

 private:
  std::byte* data_;
};

Attribute put(Writer out, const CmReq& req) {
  out.u32(0, req.local_id);
  out.u64(8, req.service_id);
  out.u64(16, req.ca_guid);
  out.u24(32, req.qpn);
  out.u8(35, req.responder_resources);
  out.u8(39, req.initiator_depth);
  out.u8(43, req.remote_timeout << 3 | req.transport << 1 | (req.flow_control ? 1 : 0));
  out.u24(44, req.starting_psn.value());
  out.u8(47, req.local_timeout << 3 | req.retry_count);
  out.u16(48, req.partition);
  out.u8(50, req.mtu << 4 | req.rnr_retry_count);
  out.u8(51, req.cm_retries << 4);
  out.u16(52, req.local_lid);
  out.u16(54, req.remote_lid);
  out.address(56, req.local_gid);
  out.address(72, req.remote_gid);
  out.u32(88, req.flow_label << 12);
  out.u8(92, req.traffic_class);
  out.u8(93, req.hop_limit);
  out.u8(94, req.service_level << 4 | (req.subnet_local ? 8 : 0));
  out.u8(95, req.ack_timeout << 3);
  out.bytes(140, req.private_data, kReqDataMax);
  return Attribute::kReq;
}

CmReq get_req(Reader in) {
  return {.local_id = in.u32(0),
          .service_id = in.u64(8),
          .ca_guid = in.u64(16),
          .qpn = in.u24(32),
          .responder_resources = in.u8(35),
          .initiator_depth = in.u8(39),
          .remote_timeout = in.bits(43, 3, 5),
          .local_timeout = in.bits(47, 3, 5),
          .transport = in.bits(43, 1, 2),
          .flow_control = in.bits(43, 0, 1) != 0,
          .starting_psn = Psn(in.u24(44)),
          .retry_count = in.bits(47, 0, 3),
          .rnr_retry_count = in.bits(50, 0, 3),
          .partition = in.u16(48),
          .mtu = in.bits(50, 4, 4),
          .cm_retries = in.bits(51, 4, 4),
          .local_lid = in.u16(52),
          .remote_lid = in.u16(54),
          .local_gid = in.address(56),
          .remote_gid = in.address(72),
          .flow_label = in.u32(88) >> 12,
          .traffic_class = in.u8(92),
          .hop_limit = in.u8(93),
          .service_level = in.bits(94, 4, 4),
          .subnet_local = in.bits(94, 3, 1) != 0,
          .ack_timeout = in.bits(95, 3, 5),
          .has_alternate = in.u16(96) != 0,
          .private_data = in.bytes(140, kReqDataMax)};
}

Attribute put(Writer out, const CmRep& rep) {
  out.u32(0, rep.local_id);
  out.u32(4, rep.remote_id);
  out.u24(12, rep.qpn);
  out.u24(20, rep.starting_psn.value());
  out.u8(24, rep.responder_resources);
  out.u8(25, rep.initiator_depth);
  out.u8(26, rep.target_ack_delay << 3 | (rep.flow_control ? 1 : 0));
  out.u8(27, rep.rnr_retry_count << 5);
  out.u64(28, rep.ca_guid);
  out.bytes(36, rep.private_data, kRepDataMax);
  return Attribute::kRep;
}

CmRep get_rep(Reader in) {
  return {.local_id = in.u32(0),
          .remote_id = in.u32(4),
          .qpn = in.u24(12),
          .starting_psn = Psn(in.u24(20)),
          .responder_resources = in.u8(24),
          .initiator_depth = in.u8(25),
          .target_ack_delay = in.bits(26, 3, 5),
          .flow_control = in.bits(26, 0, 1) != 0,
          .rnr_retry_count = in.bits(27, 5, 3),
          .ca_guid = in.u64(28),
          .private_data = in.bytes(36, kRepDataMax)};
}

Attribute put(Writer out, const CmRej& rej) {
  out.u32(0, rej.local_id);
  out.u32(4, rej.remote_id);
  out.u8(8, unsigned(rej.about) << 6);
  out.u8(9, unsigned(rej.info.size()) << 1);
  out.u16(10, rej.reason);
  out.bytes(12, rej.info, kInfoMax);
  out.bytes(84, rej.private_data, kRejDataMax);
  return Attribute::kRej;
}

CmRej get_rej(Reader in) {
  return {.local_id = in.u32(0),
          .remote_id = in.u32(4),
          .about = CmAbout(std::min<uint8_t>(in.bits(8, 6, 2), uint8_t(CmAbout::kOther))),
          .reason = in.u16(10),
          .info = in.bytes(12, std::min<unsigned>(in.bits(9, 1, 7), kInfoMax)),
          .private_data = in.bytes(84, kRejDataMax)};
}

Attribute put(Writer out, const CmMra& mra) {
  out.u32(0, mra.local_id);
  out.u32(4, mra.remote_id);
  out.u8(8, unsigned(mra.about) << 6);
  out.u8(9, mra.service_timeout << 3);
  return Attribute::kMra;
}

CmMra get_mra(Reader in) {
  return {in.u32(0), in.u32(4), CmAbout(std::min<uint8_t>(in.bits(8, 6, 2), uint8_t(CmAbout::kOther))),
          in.bits(9, 3, 5)};
}

Attribute put(Writer out, const CmRtu& rtu) {
  out.u32(0, rtu.local_id);
  out.u32(4, rtu.remote_id);
  return Attribute::kRtu;
}
Attribute put(Writer out, const CmDreq& dreq) {
  out.u32(0, dreq.local_id);
  out.u32(4, dreq.remote_id);
  out.u24(8, dreq.remote_qpn);
  return Attribute::kDreq;
}
Attribute put(Writer out, const CmDrep& drep) {
  out.u32(0, drep.local_id);
  out.u32(4, drep.remote_id);
  return Attribute::kDrep;
}

}  // namespace

void cm_encode(const CmMessage& message, std::span<std::byte, kMadBytes> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  std::memcpy(out.data(), kCmStart.data(), kCmStart.size());
  wire::store<uint64_t>(out.data() + kTransactionAt, message.transaction, true);
  const Writer data(out.data() + kHeaderBytes);
  const Attribute attribute = std::visit([&](const auto& body) { return put(data, body); }, message.body);
  wire::store<uint16_t>(out.data() + kAttributeAt, uint16_t(attribute), true);
}

Decoded<CmMessage> cm_decode(std::span<const std::byte, kMadBytes> mad) {
  if (std::memcmp(mad.data(), kCmStart.data(), kCmStart.size()) != 0) return dpdk::drop(FrameDrop::kRoceMad);
  CmMessage message{.transaction = wire::load<uint64_t>(mad.data() + kTransactionAt, true), .body = {}};
  const Reader data(mad.data() + kHeaderBytes);
  switch (Attribute(wire::load<uint16_t>(mad.data() + kAttributeAt, true))) {
    case Attribute::kReq: message.body = get_req(data); break;
    case Attribute::kMra: message.body = get_mra(data); break;
    case Attribute::kRej: message.body = get_rej(data); break;
    case Attribute::kRep: message.body = get_rep(data); break;
    case Attribute::kRtu: message.body = CmRtu{data.u32(0), data.u32(4)}; break;
    case Attribute::kDreq: message.body = CmDreq{data.u32(0), data.u32(4), data.u24(8)}; break;
    case Attribute::kDrep: message.body = CmDrep{data.u32(0), data.u32(4)}; break;
    default: return dpdk::drop(FrameDrop::kRoceMad);
  }
  return message;
}

}  // namespace ulnet::rc::roce
