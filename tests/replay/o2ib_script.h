// A capture of o2ib as a list of events of both parties, in the order of the file: CM messages, messages, RDMA writes.
// LNet messages over tcp in the same file or another can be among them. For replays with a whole node in one place.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "lnd/o2iblnd/proto/message.h"
#include "tests/script/replay.h"

namespace ulnet::test {

/// One attempt to connect, and the connection that comes of it.
struct O2ibLink {
  uint32_t dialler = 0, passive = 0;  ///< IPv4 addresses
  bool opened_mid = false;            ///< is open before the file begins
};

struct O2ibEvent {
  enum class Kind : uint8_t {
    kRequest,  ///< REQ
    kReply,    ///< REP
    kReject,   ///< REJ
    kReady,    ///< RTU
    kHangUp,   ///< the first DREQ of a side
    kHungUp,   ///< DREP
    kMessage,
    kWrite,
    kTcp  ///< an LNet message over tcp: `tcp`
  };
  Kind kind = Kind::kMessage;
  Duration time{};
  size_t link = 0;            ///< not of kTcp
  uint32_t from = 0, to = 0;  ///< IPv4 addresses
  uint16_t reason = 0;        ///< kReject: of the CM
  std::vector<std::byte> bytes;
  uint32_t key = 0;      ///< kWrite
  uint64_t address = 0;  ///< kWrite
  ReplayMessage tcp;
  /// kMessage: decoded. The result refers to `bytes`.
  [[nodiscard]] o2iblnd::Message message() const;
  /// kMessage, kTcp: the LNet header; null if it has none.
  [[nodiscard]] std::optional<wire::Header> header() const;
  [[nodiscard]] std::string name() const;
};

struct O2ibScript {
  Duration began{};  ///< of the first frame, since 1970
  std::vector<O2ibLink> links;
  std::vector<O2ibEvent> events;
};

/// Reads tests/wire/captures/`name`. EXPECTs that the file can be read.
[[nodiscard]] O2ibScript o2ib_script(const std::string& name);
/// Adds the LNet messages over tcp between these addresses in file `name`, at their absolute times.
void add_tcp(O2ibScript& script, const std::string& name, const std::vector<std::string>& addresses);

}  // namespace ulnet::test
