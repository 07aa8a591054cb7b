// Tests of what lies in the rings (dataplane/state/ring_messages.h, posted.h): a message is read as the type that it
// was made of, or the process ends.
#include "dataplane/state/ring_messages.h"

#include <gtest/gtest.h>

#include <optional>

#include "dataplane/state/message.h"

namespace ulnet {
namespace {

enum class Kind : uint16_t { kSmall = 3, kLargest };
struct SmallMsg {
  static constexpr auto kKind = Kind::kSmall;
  NiId ni;
  std::optional<int64_t> number;
};
struct LargestMsg {
  static constexpr auto kKind = Kind::kLargest;
  std::array<uint8_t, kLndMsgBytes> bytes;
};
struct TooLargeMsg {
  static constexpr auto kKind = Kind::kLargest;
  std::array<uint8_t, kLndMsgBytes + 1> bytes;
};
struct KindlessMsg {
  int number;
};
static_assert(std::is_convertible_v<LargestMsg, LndMsg>);
static_assert(!std::is_convertible_v<TooLargeMsg, LndMsg> && !std::is_convertible_v<KindlessMsg, LndMsg>);
static_assert(std::is_trivially_copyable_v<LndMsg> && std::is_trivially_copyable_v<PostItem>);

TEST(RingMessages, a_drivers_struct_comes_back_as_it_was) {
  WorkerMsg in_ring = LndMsg(SmallMsg{NiId{7}, 1ll << 40});
  const LndMsg small = std::get<LndMsg>(in_ring);
  EXPECT_EQ(Kind(small.kind()), Kind::kSmall);
  EXPECT_EQ(small.as<SmallMsg>().ni, NiId{7});
  EXPECT_EQ(small.as<SmallMsg>().number, 1ll << 40);
  LargestMsg largest;
  for (unsigned i = 0; i < kLndMsgBytes; ++i) largest.bytes[i] = uint8_t(i + 1);
  in_ring = LndMsg(largest);
  EXPECT_EQ(std::get<LndMsg>(in_ring).as<LargestMsg>().bytes, largest.bytes);
}

TEST(RingMessages, a_drivers_struct_is_not_read_as_another) {
  const LndMsg msg = SmallMsg{NiId{1}, {}};
  EXPECT_DEATH((void)msg.as<LargestMsg>(), "broken invariant");
  EXPECT_DEATH((void)LndMsg().as<SmallMsg>(), "broken invariant");
}

TEST(RingMessages, a_posted_object_is_not_read_as_another) {
  Tx tx;
  const PostItem item{PostKind::kLease, &tx};
  EXPECT_EQ(&item.as<PostKind::kLease>(), &tx);
  EXPECT_DEATH((void)item.as<PostKind::kMatchRequest>(), "broken invariant");
}

}  // namespace
}  // namespace ulnet
