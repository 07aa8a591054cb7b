// Encodes a decoded o2iblnd message again, for tests that compare bytes or fields.
#pragma once
#include <algorithm>
#include <array>
#include <vector>

#include "lnd/o2iblnd/proto/message.h"

namespace ulnet::test {

inline std::vector<o2iblnd::Fragment> fragments_of(const o2iblnd::RemoteSink& sink) {
  std::vector<o2iblnd::Fragment> all;
  for (uint32_t i = 0; i < sink.count(); ++i) all.push_back(sink.at(i));
  return all;
}

/// In this node's byte order, without checksum.
inline std::vector<std::byte> o2iblnd_encode(const o2iblnd::Message& message) {
  using o2iblnd::MessageType;
  std::array<std::byte, o2iblnd::kMessageMax> out{};
  const o2iblnd::MessageBuffer buffer(out);
  const auto encode = [&]() -> size_t {
    const auto& ends = message.ends;
    switch (message.type) {
      case MessageType::kConnReq:
      case MessageType::kConnAck: return encode_connect(buffer, message.type, ends, message.params);
      case MessageType::kNoop: return encode_noop(buffer, ends);
      case MessageType::kImmediate:
        std::copy(message.payload.begin(), message.payload.end(), out.begin() + o2iblnd::kImmediatePrefix);
        return encode_immediate(buffer, ends, message.header);
      case MessageType::kPutReq: return encode_put_req(buffer, ends, message.header, message.cookie);
      case MessageType::kPutAck:
        return encode_put_ack(buffer, ends, message.cookie, message.sink_cookie, message.sink.key(),
                              fragments_of(message.sink));
      case MessageType::kGetReq:
        return encode_get_req(buffer, ends, message.header, message.cookie, message.sink.key(),
                              fragments_of(message.sink));
      case MessageType::kPutNak:
      case MessageType::kPutDone:
      case MessageType::kGetDone: return encode_completion(buffer, message.type, ends, message.cookie, message.status);
    }
    return 0;
  };
  const size_t bytes = encode();
  o2iblnd::set_credits(buffer, message.credits);
  return {out.begin(), out.begin() + std::ptrdiff_t(bytes)};
}

}  // namespace ulnet::test
