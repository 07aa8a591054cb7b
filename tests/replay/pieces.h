// Splits one side of a captured TCP conversation into its structures. Compares the bytes of our node with those that
// the kernel sent in its place, byte for byte, except for the bytes of a mask. The result states the name of the field
// that differs. tests/wire/captures/README.md lists the fields that vary from run to run.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dataplane/wire/header.h"
#include "dataplane/wire/ping_info.h"
#include "tests/wire/pcap.h"

namespace ulnet::test {

enum class PieceKind : uint8_t { kRequest, kHello, kNoop, kMessage, kRest };

/// One structure of a stream. kRest: bytes that are no structure, or an incomplete one.
struct Piece {
  PieceKind kind = PieceKind::kRest;
  size_t at = 0;  ///< in the stream
  size_t bytes = 0;
  uint32_t version = 3;                ///< of HELLO
  std::optional<wire::Header> header;  ///< of kMessage
  [[nodiscard]] std::string name() const;
  [[nodiscard]] size_t body_at() const;     ///< of kMessage: where the type-specific part begins
  [[nodiscard]] size_t payload_at() const;  ///< of kMessage
};
[[nodiscard]] std::vector<Piece> split(const TcpConversation& conversation, Side side);

/// Fields that may differ. Always: our incarnation in a HELLO. In messages that we originate: the handle of a GET or
/// PUT, and the sequence number of a ping info.
struct Mask {
  std::vector<Nid> ours;  ///< our node's NIDs
  [[nodiscard]] bool originated(const Piece& piece) const;
};
/// The side's stream with everything masked set to zero.
[[nodiscard]] std::vector<std::byte> masked(const TcpConversation& conversation, Side side, const Mask& mask);

/// Compares `sent` with what `side` of the conversation sent; "" when equal, else what differs, by field.
[[nodiscard]] std::string difference(const TcpConversation& kernel, Side side, const std::vector<std::byte>& sent,
                                     const Mask& mask);

/// Captures of the same minutes in one, in order of absolute time. An error of either is the result's.
[[nodiscard]] Capture merge_captures(const std::vector<std::string>& names);

}  // namespace ulnet::test
