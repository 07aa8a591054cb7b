// RoCEv2 frames in captures of o2iblnd: messages of the connection manager (CM), SENDs and RDMA WRITEs. A SEND or WRITE
// is listed when its receiver accepts it. ACKs and duplicates are left out. For tests that decode or replay the files
// in tests/wire/captures/. Source: docs/wire/roce.md §1, §2, §7.
#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "dataplane/base/time.h"
#include "tests/wire/pcap.h"

namespace ulnet::test {

struct RoceFrame {
  Duration time{};            ///< since the first frame of the file
  uint32_t from = 0, to = 0;  ///< IPv4 addresses, as Nid::address_v4()
  uint8_t opcode = 0;
  uint32_t qpn = 0;  ///< of the receiver
  uint32_t psn = 0;
  std::span<const std::byte> payload;  ///< behind the BTH, without padding and ICRC
  std::span<const std::byte> packet;   ///< from the BTH to the ICRC
};
/// Calls `call` for each RoCEv2 frame over IPv4; returns "" or what is wrong with the file.
std::string roce_frames(const std::string& path, const std::function<void(const RoceFrame&)>& call);

/// One message of the connection manager, with the fields that its kind has.
struct CmMessage {
  enum class Kind : uint16_t { kReq = 0x10, kRej = 0x12, kRep = 0x13, kRtu = 0x14, kDreq = 0x15, kDrep = 0x16 };
  Kind kind = Kind::kReq;
  Duration time{};
  size_t place = 0;  ///< in the file, as O2ibSend::place
  uint32_t from = 0, to = 0;
  uint32_t local_id = 0, remote_id = 0;
  uint32_t qpn = 0, psn = 0;            ///< REQ, REP: the sender's; DREQ: `qpn` is the receiver's
  size_t connection = 0;                ///< REP, DREQ, DREP: index of the connection
  uint16_t reason = 0;                  ///< REJ
  std::vector<std::byte> private_data;  ///< REQ (behind the cma header), REP, REJ; with its padding
};

/// One connection. The side that sent the REQ is Side::kDialler; if the file begins later, the sender of the first
/// message is.
struct O2ibConnection {
  bool opened_mid = false;
  uint32_t dialler = 0, passive = 0;
  unsigned writes = 0;  ///< RDMA WRITEs that are complete
};
struct O2ibSend {
  Duration time{};
  size_t place = 0;  ///< orders all events of the file: SENDs, WRITEs, CM messages
  size_t connection = 0;
  Side from = Side::kDialler;
  std::vector<std::byte> bytes;
};
/// One RDMA WRITE.
struct O2ibWrite {
  O2ibSend data;  ///< `bytes` are the bytes written
  uint64_t address = 0;
  uint32_t key = 0;
};
struct O2ibCapture {
  std::string error;  ///< not empty: the file could not be read, and why
  std::vector<CmMessage> cm;
  std::vector<O2ibConnection> connections;
  std::vector<O2ibSend> sends;  ///< in the order in which their receivers accepted them
  std::vector<O2ibWrite> writes;
};
[[nodiscard]] O2ibCapture o2ib_read(const std::string& path);
/// Names of all files of tests/wire/captures/ with o2ib in them, sorted.
[[nodiscard]] std::vector<std::string> o2ib_capture_names();

}  // namespace ulnet::test
