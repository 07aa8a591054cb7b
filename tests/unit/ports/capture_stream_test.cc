// A capture as the answer to a request: parts, the wait for a reader, and the end.
#include "tools/ulnetd/ports/capture_stream.h"

#include <gtest/gtest.h>

#include "control/api/base64.h"

namespace ulnet {
namespace {

class CaptureStreamTest : public testing::Test {
 protected:
  CaptureStreamTest()
      : stream(
            {3, 7},
            [this](api::RequestId id, const api::Answer& answer) {
              EXPECT_EQ((api::RequestId{3, 7}), id);
              answers.push_back(answer);
            },
            [this](api::RequestId) { return backlog; }) {}
  std::vector<api::Answer> answers;
  size_t backlog = 0;
  CaptureStream stream;
};

TEST_F(CaptureStreamTest, parts_and_end) {
  const std::vector<std::byte> bytes{std::byte{1}, std::byte{2}, std::byte{255}};
  ASSERT_TRUE(stream.write(bytes).has_value());
  ASSERT_EQ(1u, answers.size());
  EXPECT_TRUE(answers[0].more);
  EXPECT_EQ(bytes, api::base64_decode(answers[0].doc.find("capture")->find("pcapng")->text()));
  stream.end(12, 3, nullptr);
  ASSERT_EQ(2u, answers.size());
  EXPECT_FALSE(answers[1].more);
  EXPECT_EQ(12, answers[1].doc.find("capture")->find("written")->integer());
  EXPECT_EQ(3, answers[1].doc.find("capture")->find("skipped")->integer());
}

TEST_F(CaptureStreamTest, waits_for_its_reader) {
  EXPECT_TRUE(stream.ready());
  backlog = api::kOutputLow - 1;
  EXPECT_TRUE(stream.ready());
  backlog = api::kOutputLow;
  EXPECT_FALSE(stream.ready());
}

// Goal: an abandoned stream holds nothing up and sends nothing.
TEST_F(CaptureStreamTest, abandoned) {
  backlog = api::kOutputMax;
  stream.abandon();
  EXPECT_TRUE(stream.ready());
  const std::vector<std::byte> bytes(10);
  EXPECT_TRUE(stream.write(bytes).has_value());
  stream.end(1, 2, nullptr);
  EXPECT_TRUE(answers.empty());
}

TEST_F(CaptureStreamTest, an_error_is_the_answer) {
  const Error error{-ENOSPC, "the disk is full", 0};
  stream.end(1, 0, &error);
  ASSERT_EQ(1u, answers.size());
  ASSERT_EQ(1u, answers[0].errors.size());
  EXPECT_EQ(-ENOSPC, answers[0].errors[0].code);
  EXPECT_EQ("the disk is full", answers[0].errors[0].descr);
}

}  // namespace
}  // namespace ulnet
