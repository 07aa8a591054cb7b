#include "perf/hostile/hostile_roce.h"

#include <algorithm>

#include "dataplane/wire/bytes.h"
#include "lnd/rc/roce/proto/cm_message.h"
#include "lnd/rc/roce/proto/cma_header.h"
#include "lnd/rc/roce/proto/path.h"

namespace ulnet::perf {
namespace {

using namespace rc::roce;

constexpr std::array<const char*, kHostileKinds> kTexts{"nobody", "live", "damaged", "mads", "requests", "other"};
constexpr uint32_t kWorkerMask = 0xFC'0000;                  ///< of a queue pair number: its worker
constexpr size_t kAttributeAt = 16;                          ///< in a MAD
constexpr uint16_t kFirstAttribute = 0x10, kAttributes = 8;  ///< REQ to DREP, and one more

}  // namespace

std::vector<std::byte> roce_packet(const FlowAddresses& flow, const Bth& bth, std::span<const std::byte> behind) {
  std::array<std::byte, kFrameHeadMax> lead;
  const unsigned bytes = FrameHead(flow).write(bth, uint32_t(behind.size()), lead.data());
  std::vector<std::byte> all(bytes + behind.size() + kIcrcBytes);
  std::copy_n(lead.begin(), bytes, all.begin());
  std::copy(behind.begin(), behind.end(), all.begin() + bytes);
  Icrc crc(Bytes(all).first(bytes), behind.size());
  crc.add(behind);
  wire::store<uint32_t>(&all[bytes + behind.size()], crc.value());
  return all;
}

const char* text_of(HostileKind kind) {
  return kTexts[size_t(kind)];
}

std::optional<HostileKind> hostile_kind(const std::string& text) {
  const auto found = std::find(kTexts.begin(), kTexts.end(), text);
  if (found == kTexts.end()) return std::nullopt;
  return HostileKind(found - kTexts.begin());
}

std::vector<std::byte> HostileRoce::make(HostileKind kind) {
  const uint32_t random = uint32_t(rng_.next()) & kQpnMask;
  switch (kind) {
    case HostileKind::kNobody: return for_qp(random);
    case HostileKind::kLive: return for_qp(target_.qpn);
    case HostileKind::kDamaged: {
      std::vector<std::byte> packet = target_.qpn == 0 ? mad(true) : for_qp(target_.qpn);
      packet.back() ^= std::byte{1};
      return packet;
    }
    case HostileKind::kMads: return mad(false);
    case HostileKind::kRequests: return mad(true);
    case HostileKind::kOtherWorker:
      return for_qp(rng_.one_in(2) ? target_.qpn : (target_.qpn & kWorkerMask) | (random & ~kWorkerMask));
  }
  return {};
}

/// Requests of each kind, acknowledgements, CNPs, and opcodes that ulnet does not use.
std::vector<std::byte> HostileRoce::for_qp(uint32_t qpn) {
  static constexpr std::array kUsual{Opcode::kSendFirst, Opcode::kSendMiddle, Opcode::kSendLast,
                                     Opcode::kSendOnly,  Opcode::kWriteFirst, Opcode::kWriteMiddle,
                                     Opcode::kWriteLast, Opcode::kWriteOnly,  Opcode::kAcknowledge};
  Bth bth{.opcode = uint8_t(kUsual[rng_.below(kUsual.size())]),
          .qpn = qpn,
          .ack_request = rng_.one_in(2),
          .psn = Psn(uint32_t(rng_.next()))};
  if (rng_.one_in(16)) bth.opcode = uint8_t(rng_.below(32));
  if (rng_.one_in(64)) bth.opcode = uint8_t(Opcode::kCnp);
  const bool answer = bth.opcode == uint8_t(Opcode::kAcknowledge);
  std::vector<std::byte> behind(answer ? kAethBytes : kRethBytes + target_.payload_bytes);
  for (size_t i = 0; i < std::min<size_t>(behind.size(), kRethBytes); ++i) behind[i] = std::byte(rng_.next());
  if (answer) behind[0] = std::byte(rng_.one_in(2) ? 0x1F : 0x60);
  return roce_packet({target_.from, target_.to, target_.source_port, 0}, bth, behind);
}

std::vector<std::byte> HostileRoce::mad(bool request) {
  std::array<std::byte, kMadBytes> mad;
  for (std::byte& one : mad) one = std::byte(rng_.next());
  if (!request && rng_.one_in(2)) {  // at least the kind of message is right
    std::copy(kCmStart.begin(), kCmStart.end(), mad.begin());
    wire::store<uint16_t>(mad.data() + kAttributeAt, uint16_t(kFirstAttribute + rng_.below(kAttributes)), true);
  }
  if (request) {
    std::array<std::byte, kReqDataMax> data{};
    cma_encode({target_.from, target_.to, uint16_t(512 + rng_.below(512))}, std::span(data).first<kCmaHeaderBytes>());
    std::copy(target_.request_data.begin(), target_.request_data.end(), data.begin() + kCmaHeaderBytes);
    CmReq req;
    req.local_id = uint32_t(rng_.next()) | 1;
    req.service_id = service_id_of(target_.service);
    req.ca_guid = rng_.next();
    req.qpn = (uint32_t(rng_.next()) & kQpnMask) | 2;
    req.starting_psn = Psn(uint32_t(rng_.next()));
    req.mtu = target_.mtu;
    req.local_gid = target_.from;
    req.remote_gid = target_.to;
    req.private_data = data;
    cm_encode({rng_.next(), req}, mad);
  }
  std::vector<std::byte> behind(kDethBytes);
  deth_encode({kGsiQkey, kGsiQpn}, behind.data());
  behind.insert(behind.end(), mad.begin(), mad.end());
  const Bth bth{.opcode = uint8_t(Opcode::kUdSendOnly), .qpn = kGsiQpn, .psn = Psn(uint32_t(rng_.next()))};
  return roce_packet({target_.from, target_.to, target_.source_port, 0}, bth, behind);
}

}  // namespace ulnet::perf
