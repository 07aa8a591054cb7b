// HELLO: the handshake of one socklnd connection. Sans-IO codec of versions 1 to 4, the answers of either side, and the
// exact verdict on everything that is no acceptable HELLO. Races, duplicates and incarnations are decided elsewhere,
// because they depend on the peer's state. Source: docs/wire/socklnd.md §2.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/nid.h"
#include "lnd/socklnd/proto/collect.h"
#include "lnd/socklnd/proto/ctype.h"

namespace ulnet::socklnd {

inline constexpr uint32_t kHelloMagic = 0x45726963;
inline constexpr uint32_t kHelloMagicV1 = 0xEEBC0DED;
inline constexpr size_t kHelloV1Bytes = 72;
inline constexpr size_t kHelloV2Bytes = 56;  ///< also version 3
inline constexpr size_t kHelloV4Bytes = 80;
inline constexpr size_t kHelloMaxBytes = kHelloV4Bytes;
inline constexpr uint32_t kHelloIpsMax = 16;  ///< most interface addresses behind a v1, v2 or v3 HELLO

struct Hello {
  uint32_t version = kVersion3;
  Nid src_nid;
  Nid dst_nid;
  uint32_t src_pid = kLnetPid;
  uint32_t dst_pid = 0;
  uint64_t src_incarnation = 0;
  uint64_t dst_incarnation = 0;         ///< not in version 1
  ConnType ctype = ConnType::kControl;  ///< from the sender's point of view
  uint32_t ip_count = 0;  ///< interface addresses that came along; they are read and forgotten, never sent
  bool flip = false;      ///< the sender has the other byte order: so do the ksock headers that follow
};

/// The version that we dial with and answer unknown versions in: 3, or 4 when the NID is large.
[[nodiscard]] constexpr uint32_t hello_best_version(const Nid& my_nid) {
  return my_nid.fits_u64() ? kVersion3 : kVersion4;
}
/// Bytes of a HELLO of this version without interface addresses; 0 for an unknown version.
[[nodiscard]] size_t hello_bytes(uint32_t version);
/// Encodes with ip_count 0, in our byte order unless hello.flip; returns the bytes written. Requires version 1..4, room
/// for hello_bytes(), and NIDs that fit in 8 bytes below version 4. Version 1 has no place for dst_nid.
size_t hello_encode(const Hello& hello, std::span<std::byte> out);

/// The HELLO of a dialling node. `version`: the best one, or the one that the peer was found to speak.
[[nodiscard]] Hello hello_request(const Nid& my_nid, const Nid& peer_nid, uint64_t my_incarnation, ConnType type,
                                  uint32_t version);
/// The answer of the passive side: same version, and the inverse type. If `refuse`: type NONE for "not now, try again".
[[nodiscard]] Hello hello_answer(const Hello& request, const Nid& my_nid, uint64_t my_incarnation, bool refuse);
/// The answer of the passive side to an unknown version, before it closes: itself as source and destination, type NONE.
[[nodiscard]] Hello hello_answer_unknown_version(const Nid& my_nid, uint64_t my_incarnation);

enum class HelloStatus : uint8_t {
  kMore,            ///< need() bytes are missing
  kHello,           ///< hello() is complete; messages follow in the stream
  kUnknownVersion,  ///< passive: send hello_answer_unknown_version(), then close; active: close
  kBadMagic,        ///< no HELLO at all. From here on: close without a word
  kBadSource,       ///< source NID is ANY
  kBadType,         ///< connection type out of range (for the passive side NONE, too)
  kTooManyIps,      ///< more than kHelloIpsMax interface addresses
  kZeroIp,          ///< one of them is 0.0.0.0
  kNotHello         ///< version 1 header of another message type
};
/// Why, as a sentence for logs; "" for kMore and kHello.
[[nodiscard]] const char* hello_status_text(HelloStatus status);

enum class HelloRole : uint8_t {
  kPassive,  ///< we were dialled and wait for a request
  kActive    ///< we dialled and wait for the answer: type NONE is a good one
};

/// Incremental decoder of one HELLO. Sticky: after a verdict it takes nothing more.
class HelloDecoder {
 public:
  explicit HelloDecoder(HelloRole role) { reset(role); }
  void reset(HelloRole role);
  /// Bytes to the next decision, at least 1 while the status is kMore, else 0. Never more than the HELLO has.
  [[nodiscard]] size_t need() const { return status_ == HelloStatus::kMore ? bytes_.need() : 0; }
  /// Takes the HELLO's bytes from the front of `in`; the bytes that stay in `in` belong to the first message.
  HelloStatus feed(std::span<const std::byte>& in);
  [[nodiscard]] HelloStatus status() const { return status_; }
  /// Valid once the status is kHello; `version` alone also after kUnknownVersion.
  [[nodiscard]] const Hello& hello() const { return hello_; }

 private:
  HelloStatus step();
  HelloStatus parse_magic_and_version();
  HelloStatus parse_fixed();
  void parse_fields_v1(uint32_t& raw_type);
  void parse_fields_v23(uint32_t& raw_type);
  void parse_fields_v4(uint32_t& raw_type);
  [[nodiscard]] HelloStatus check_ips() const;

  Collector<kHelloMaxBytes + 4 * kHelloIpsMax> bytes_;
  Hello hello_;
  HelloRole role_ = HelloRole::kPassive;
  HelloStatus status_ = HelloStatus::kMore;
};

enum class AnswerVerdict : uint8_t {
  kAccepted,      ///< the connection is up
  kRetry,         ///< type NONE: close, try again later
  kOtherVersion,  ///< close, remember the version of the answer, dial again with it
  kProtocolError  ///< not from the dialled process, or another type than we offered: close
};
/// Verdict of the dialling side on a complete answer. `peer` is the dialled process.
[[nodiscard]] AnswerVerdict hello_answer_check(const Hello& request, const ProcessId& peer, const Hello& answer);

}  // namespace ulnet::socklnd
