// Takes one side of a captured TCP conversation apart with the codecs of socklnd, and puts every structure together
// again to compare. For tests over the captures and as the source of seeds for fuzzing.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "lnd/socklnd/proto/acceptor.h"
#include "lnd/socklnd/proto/frame.h"
#include "lnd/socklnd/proto/hello.h"
#include "tests/wire/pcap.h"

namespace ulnet::test {

struct DecodedFrame {
  socklnd::FrameHeader frame;
  std::optional<wire::Header> header;  ///< of LNET frames
  std::vector<std::byte> payload;
};

/// The structures that one side sent, as far as they could be read. Each status is that of the last structure begun.
struct DecodedSide {
  bool dialled = false;                                         ///< a connection request is due first
  socklnd::AcceptStatus accept = socklnd::AcceptStatus::kMore;  ///< of the request, when dialled
  socklnd::ConnRequest request;
  socklnd::HelloStatus hello_status = socklnd::HelloStatus::kMore;  ///< kHello also when opened mid
  std::optional<socklnd::Hello> hello;
  socklnd::FrameStatus frame_status = socklnd::FrameStatus::kMore;
  std::vector<DecodedFrame> frames;
  size_t left_over = 0;  ///< bytes behind the last structure that is complete and good
  std::string mismatch;  ///< the first structure that does not encode to the bytes that it came from
};

/// Decodes a side's stream, fed in pieces of `piece` bytes.
[[nodiscard]] DecodedSide decode_side(const TcpConversation& conversation, Side side, size_t piece);

/// Counts as "HELLO 6, GET 1, REPLY 1" in the order HELLO, GET, REPLY, PUT, ACK, NOOP, leaving out zeroes.
class MessageCount {
 public:
  void add(const DecodedSide& side);
  [[nodiscard]] std::string text() const;

 private:
  std::map<std::string, unsigned> counts_;
};

}  // namespace ulnet::test
