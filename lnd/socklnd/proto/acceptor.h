// The connection request: a dialling node sends it first, with the NID that it dials. Sans-IO: bytes <-> struct and the
// verdict on bytes that are no request. The caller checks whether the NID is one of ours.
// Source: docs/wire/socklnd.md §1.2, §2.5.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dataplane/base/nid.h"
#include "lnd/socklnd/proto/collect.h"

namespace ulnet::socklnd {

inline constexpr uint32_t kAcceptorMagic = 0xACCE7100;
inline constexpr size_t kConnRequestV1Bytes = 16;
inline constexpr size_t kConnRequestV2Bytes = 28;
inline constexpr size_t kConnRequestMaxBytes = kConnRequestV2Bytes;
inline constexpr size_t kAcceptorAnswerBytes = 16;

struct ConnRequest {
  uint32_t version = 1;  ///< 1: the target has a 4-byte address; 2: it is large
  Nid target;
  bool flip = false;  ///< the sender has the other byte order
};

/// Bytes that conn_request_encode() writes for this target.
[[nodiscard]] size_t conn_request_bytes(const Nid& target);
/// Encodes the request for `target`, version 1 or 2 as the NID demands; returns the bytes written. Requires `out` to
/// have room for conn_request_bytes(). `flip` writes it as a node of the other byte order would (tests).
size_t conn_request_encode(const Nid& target, std::span<std::byte> out, bool flip = false);
/// Encodes {magic, 1, 0}: the answer of a passive side to an unknown request version.
void acceptor_answer_encode(std::span<std::byte, kAcceptorAnswerBytes> out);

enum class AcceptStatus : uint8_t {
  kMore,            ///< need() bytes are missing
  kRequest,         ///< request() is complete; the HELLO follows in the stream
  kAnswerAndClose,  ///< send acceptor_answer_encode(), then close: unknown version, or a HELLO magic in its place
  kClose            ///< close without a word: no connection request
};

/// Incremental decoder of one connection request. Sticky: after a verdict it takes nothing more.
class ConnRequestDecoder {
 public:
  ConnRequestDecoder() { reset(); }
  void reset();
  /// Bytes to the next decision, at least 1 while the status is kMore, else 0. Never more than the request has.
  [[nodiscard]] size_t need() const { return status_ == AcceptStatus::kMore ? bytes_.need() : 0; }
  /// Takes the request's bytes from the front of `in`; the bytes that stay in `in` belong to the HELLO.
  AcceptStatus feed(std::span<const std::byte>& in);
  [[nodiscard]] AcceptStatus status() const { return status_; }
  /// Valid once the status is kRequest.
  [[nodiscard]] const ConnRequest& request() const { return request_; }

 private:
  AcceptStatus step();
  Collector<kConnRequestMaxBytes> bytes_;
  ConnRequest request_;
  AcceptStatus status_ = AcceptStatus::kMore;
};

}  // namespace ulnet::socklnd
