#include "tests/replay/o2ib_capture.h"

#include <gtest/gtest.h>

#include "lnd/o2iblnd/proto/message.h"
#include "tests/wire/roce.h"

namespace ulnet::test {

std::vector<ReplayMessage> o2ib_messages(const std::string& path) {
  const O2ibCapture capture = o2ib_read(path);
  EXPECT_EQ(capture.error, "");
  std::vector<ReplayMessage> all;
  for (const O2ibSend& one : capture.sends) {
    o2iblnd::Message decoded;
    EXPECT_EQ(o2iblnd::message_decode(one.bytes, decoded), o2iblnd::MessageFault::kNone);
    if (decoded.type != o2iblnd::MessageType::kImmediate) continue;
    ReplayMessage& message = all.emplace_back();
    message.began = one.time;
    message.from = decoded.ends.src;
    message.to = decoded.ends.dst;
    message.decoded = decoded.header;
    message.payload.assign(decoded.payload.begin(), decoded.payload.end());
  }
  return all;
}

}  // namespace ulnet::test
