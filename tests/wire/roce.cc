// RoCEv2 reader for tests. As a receiver does, each direction of a connection accepts the packet with the expected
// number only. The hard part is a capture that begins with open connections. Two directions belong together if the NIDs
// and incarnations in their messages are the same.
#include "tests/wire/roce.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "lnd/o2iblnd/proto/message.h"

namespace ulnet::test {
namespace {

using Bytes = std::span<const std::byte>;

uint16_t be16(Bytes in, size_t at) {
  return uint16_t(uint16_t(in[at]) << 8 | uint16_t(in[at + 1]));
}
uint32_t be24(Bytes in, size_t at) {
  return uint32_t(in[at]) << 16 | be16(in, at + 1);
}
uint32_t be32(Bytes in, size_t at) {
  return uint32_t{be16(in, at)} << 16 | be16(in, at + 2);
}
uint64_t be64(Bytes in, size_t at) {
  return uint64_t{be32(in, at)} << 32 | be32(in, at + 4);
}

std::optional<RoceFrame> roce_parse(Bytes in) {
  constexpr size_t kEthernet = 14, kIpv4 = 20, kUdp = 8, kBth = 12, kIcrc = 4;
  constexpr uint16_t kRocePort = 4791;
  if (in.size() < kEthernet + kIpv4 + kUdp + kBth + kIcrc || be16(in, 12) != 0x0800) return std::nullopt;
  const Bytes ip = in.subspan(kEthernet), udp = ip.subspan(kIpv4), bth = udp.subspan(kUdp);
  if (ip[0] != std::byte{0x45} || ip[9] != std::byte{17} || be16(udp, 2) != kRocePort) return std::nullopt;
  const size_t padding = size_t(bth[1] >> 4) & 3, bytes = be16(udp, 4);
  if (bytes > udp.size() || bytes < kUdp + kBth + kIcrc + padding) return std::nullopt;
  return RoceFrame{.from = be32(ip, 12),
                   .to = be32(ip, 16),
                   .opcode = uint8_t(bth[0]),
                   .qpn = be24(bth, 5),
                   .psn = be24(bth, 9),
                   .payload = udp.subspan(kUdp + kBth, bytes - kUdp - kBth - kIcrc - padding),
                   .packet = udp.subspan(kUdp, bytes - kUdp)};
}

CmMessage cm_parse(const RoceFrame& frame) {
  constexpr size_t kDeth = 8, kMad = 24, kAttributeAt = 16, kCmaHeader = 36;
  const Bytes mad = frame.payload.subspan(kDeth), data = mad.subspan(kMad);
  CmMessage cm{.kind = CmMessage::Kind(be16(mad, kAttributeAt)),
               .time = frame.time,
               .from = frame.from,
               .to = frame.to,
               .local_id = be32(data, 0),
               .remote_id = be32(data, 4)};
  Bytes private_data;
  switch (cm.kind) {
    case CmMessage::Kind::kReq:
      cm.remote_id = 0;
      cm.qpn = be24(data, 32);
      cm.psn = be24(data, 44);
      private_data = data.subspan(140 + kCmaHeader);
      break;
    case CmMessage::Kind::kRep:
      cm.qpn = be24(data, 12);
      cm.psn = be24(data, 20);
      private_data = data.subspan(36);
      break;
    case CmMessage::Kind::kRej:
      cm.reason = be16(data, 10);
      private_data = data.subspan(84);
      break;
    case CmMessage::Kind::kDreq: cm.qpn = be24(data, 8); break;
    case CmMessage::Kind::kRtu:
    case CmMessage::Kind::kDrep: break;
  }
  cm.private_data.assign(private_data.begin(), private_data.end());
  return cm;
}

// SEND has the opcodes 0 to 5, WRITE 6 to 11, each in the same order.
constexpr uint8_t kFirst = 0, kLast = 2, kOnly = 4, kWriteFirst = 6, kWriteOnlyImmediate = 11, kUdSendOnly = 0x64;

/// All connections of one file while it is read.
class Assembler {
 public:
  void take(const RoceFrame& frame) {
    ++place_;
    if (frame.opcode == kUdSendOnly) return take_cm(cm_parse(frame));
    if (frame.opcode <= kWriteOnlyImmediate) take_request(frame);
  }
  O2ibCapture capture;

 private:
  struct Direction {
    std::optional<uint32_t> next_psn;
    std::optional<size_t> connection;
    Side from = Side::kDialler;
    std::vector<std::byte> bytes;  ///< of a SEND or WRITE that is not complete
    uint64_t address = 0;          ///< of a WRITE
    uint32_t key = 0;
  };
  using Key = std::tuple<uint32_t, uint32_t, uint32_t>;  // from, to, QPN

  void take_cm(CmMessage cm) {
    cm.place = place_;
    const auto& before = capture.cm;
    const auto request = std::find_if(before.begin(), before.end(), [&](const CmMessage& one) {
      return one.kind == CmMessage::Kind::kReq && one.from == cm.to && one.local_id == cm.remote_id;
    });
    if (cm.kind == CmMessage::Kind::kRep && request != before.end()) {
      const size_t connection = cm.connection = capture.connections.size();
      capture.connections.push_back({false, request->from, cm.from});
      directions_[{cm.to, cm.from, cm.qpn}] = {cm.psn, connection, Side::kDialler, {}};
      directions_[{cm.from, cm.to, request->qpn}] = {request->psn, connection, Side::kPassive, {}};
    }
    if (cm.kind == CmMessage::Kind::kDreq) cm.connection = closed(cm);
    const auto asked = std::find_if(before.begin(), before.end(), [&](const CmMessage& one) {
      return one.kind == CmMessage::Kind::kDreq && one.from == cm.to && one.local_id == cm.remote_id;
    });
    if (cm.kind == CmMessage::Kind::kDrep && asked != before.end()) cm.connection = asked->connection;
    capture.cm.push_back(cm);
  }

  /// The connection that a DREQ ends.
  size_t closed(const CmMessage& cm) {
    Direction& direction = directions_[{cm.from, cm.to, cm.qpn}];
    if (direction.connection) return *direction.connection;
    direction.connection = capture.connections.size();
    capture.connections.push_back({true, cm.from, cm.to});
    return *direction.connection;
  }

  void take_request(const RoceFrame& frame) {
    Direction& direction = directions_[{frame.from, frame.to, frame.qpn}];
    if (direction.next_psn.value_or(frame.psn) != frame.psn) return;
    direction.next_psn = (frame.psn + 1) & 0xFFFFFF;
    const unsigned part = frame.opcode % 6;
    const bool last = part == kLast || part == kOnly, is_write = frame.opcode >= kWriteFirst;
    Bytes payload = frame.payload;
    if (is_write && (part == kFirst || part == kOnly)) {
      constexpr size_t kReth = 16;
      direction.address = be64(payload, 0);
      direction.key = be32(payload, 8);
      payload = payload.subspan(kReth);
    }
    direction.bytes.insert(direction.bytes.end(), payload.begin(), payload.end());
    if (!last) return;
    if (!direction.connection && !is_write) find_connection(direction, frame);
    O2ibSend send{frame.time, place_, direction.connection.value_or(0), direction.from, std::move(direction.bytes)};
    direction.bytes.clear();
    if (!is_write) return capture.sends.push_back(std::move(send));
    if (!direction.connection) return;
    ++capture.connections[send.connection].writes;
    capture.writes.push_back({std::move(send), direction.address, direction.key});
  }

  /// The first message of a connection that was open before.
  void find_connection(Direction& direction, const RoceFrame& frame) {
    o2iblnd::Message message;
    (void)o2iblnd::message_decode(direction.bytes, message);
    const o2iblnd::Ends& ends = message.ends;
    const o2iblnd::Ends back{ends.dst, ends.src, ends.dst_stamp, ends.src_stamp};
    const auto known =
        std::find_if(open_before_.begin(), open_before_.end(), [&](const auto& one) { return one.first == back; });
    direction.from = known == open_before_.end() ? Side::kDialler : Side::kPassive;
    direction.connection = known == open_before_.end() ? capture.connections.size() : known->second;
    if (known != open_before_.end()) return;
    open_before_.emplace_back(ends, capture.connections.size());
    capture.connections.push_back({true, frame.from, frame.to});
  }

  std::map<Key, Direction> directions_;
  size_t place_ = 0;
  std::vector<std::pair<o2iblnd::Ends, size_t>> open_before_;
};

}  // namespace

std::string roce_frames(const std::string& path, const std::function<void(const RoceFrame&)>& call) {
  return pcap_frames(path, [&](Duration time, Bytes bytes) {
    auto frame = roce_parse(bytes);
    if (!frame) return;
    frame->time = time;
    call(*frame);
  });
}

O2ibCapture o2ib_read(const std::string& path) {
  Assembler assembler;
  assembler.capture.error = roce_frames(path, [&](const RoceFrame& frame) { assembler.take(frame); });
  return std::move(assembler.capture);
}

std::vector<std::string> o2ib_capture_names() {
  std::vector<std::string> names = capture_names();
  std::erase_if(names, [](const std::string& name) {
    return name.find("o2ib") == std::string::npos || name.find("tcpside") != std::string::npos;
  });
  return names;
}

}  // namespace ulnet::test
