#include "tests/replay/selftest_server.h"

#include <gtest/gtest.h>

#include "dataplane/wire/bytes.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kTestRequests = 50, kFrameworkRequests = 51, kReplies = 52;
constexpr uint32_t kMessageBytes = 160;
constexpr uint32_t kReplyIdAt = 24, kBulkIdAt = 32;

}  // namespace

SelftestServer::SelftestServer(Node& node, const Capture& capture, const std::vector<IpAddress>& ours)
    : node_(node), bulk_(1 << 20) {
  for (const ReplayMessage& message : replay_messages(capture, ours)) {
    if (message.decoded.type == wire::MsgType::kGet) {
      bulk_bytes_[message.decoded.get().match_bits] = message.decoded.get().sink_length;
    } else if (message.decoded.type == wire::MsgType::kPut && message.decoded.put().portal == kReplies) {
      reply_at_[message.decoded.put().match_bits] = uint32_t(replies_.size());
      replies_.insert(replies_.end(), message.payload.begin(), message.payload.end());
    }
  }
  submitter_ = *node.submitter_open(WorkerId{0}, {.ops = 256, .mds = 16, .eqs = 2, .segment_blocks = 1});
  eq_ = *submitter_->eq_open(1024);
  const Segment replies{replies_.data(), uint32_t(replies_.size())}, bulk{bulk_.data(), uint32_t(bulk_.size())};
  replies_md_ = *submitter_->md_bind({.segments = {&replies, 1}, .eq = eq_});
  bulk_md_ = *submitter_->md_bind({.segments = {&bulk, 1}, .eq = eq_});
  for (const uint32_t portal : {kTestRequests, kFrameworkRequests}) {
    auto& memory = requests_[portal];
    memory.resize(256 * kMessageBytes);
    const Segment requests{memory.data(), uint32_t(memory.size())};
    const MdHandle md = *submitter_->md_bind({.segments = {&requests, 1}, .options = kMdPut, .eq = eq_});
    EXPECT_TRUE(node.portal_open(PortalIndex{portal}, WorkerId{0}, PortalMode::kSingle, true));
    EXPECT_TRUE(submitter_->me_attach(PortalIndex{portal}, {}, 0, ~0ull, MePosition::kTail, md));
  }
}

SelftestServer::~SelftestServer() {
  node_.submitter_close(*submitter_);
}

void SelftestServer::poll() {
  Event events[32];
  while (const unsigned count = submitter_->eq_poll(eq_, events)) {
    for (unsigned i = 0; i < count; ++i) {
      const Event& event = events[i];
      if (event.kind == EventKind::kPut) request(event);
      if (event.kind == EventKind::kReply) {
        EXPECT_EQ(event.status, 0);
        answer(fetching_.extract(event.user_data).mapped());
      }
    }
  }
}

void SelftestServer::request(const Event& event) {
  ASSERT_EQ(event.mlength, kMessageBytes);
  const std::byte* message = requests_.at(event.portal).data() + event.offset;
  const Request request{event.source, event.target, wire::load<uint64_t>(message + kReplyIdAt)};
  const uint64_t bulk = wire::load<uint64_t>(message + kBulkIdAt);
  const auto bytes = bulk_bytes_.find(bulk);
  if (event.portal != kTestRequests || bytes == bulk_bytes_.end()) return answer(request);
  fetching_[next_] = request;
  ASSERT_TRUE(submitter_->get({.md = bulk_md_,
                               .self = request.self,
                               .target = {request.client, kLnetPid},
                               .portal = kReplies,
                               .match_bits = bulk,
                               .length = bytes->second,
                               .user_data = next_++}));
}

void SelftestServer::answer(const Request& request) {
  ASSERT_TRUE(reply_at_.contains(request.reply_bits)) << "the capture has no reply to this request";
  ASSERT_TRUE(submitter_->put({.md = replies_md_,
                               .self = request.self,
                               .target = {request.client, kLnetPid},
                               .portal = kReplies,
                               .match_bits = request.reply_bits,
                               .ack = false,
                               .md_offset = reply_at_.at(request.reply_bits),
                               .length = kMessageBytes}));
  ++answered_;
}

}  // namespace ulnet::test
