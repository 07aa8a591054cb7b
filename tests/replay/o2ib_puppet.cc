#include "tests/replay/o2ib_puppet.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::test {
namespace {

using o2iblnd::MessageType;
using Kind = O2ibEvent::Kind;

constexpr uint32_t kTestRequests = 50, kFrameworkRequests = 51;
constexpr uint32_t kRequestBytes = 64 << 10;  ///< for the requests of one portal
constexpr uint32_t kDiscoverySink = 272;      ///< bytes: discovery requests less than a ping does

bool is_get(const wire::Header& header) {
  return header.type == wire::MsgType::kGet;
}
uint32_t portal_of(const wire::Header& header) {
  return is_get(header) ? header.get().portal : header.put().portal;
}
uint64_t bits_of(const wire::Header& header) {
  return is_get(header) ? header.get().match_bits : header.put().match_bits;
}

/// The first event behind `after` on its link that fits.
template <class P>
const O2ibEvent* find_behind(const O2ibScript& script, const O2ibEvent& after, P&& fits) {
  for (const O2ibEvent* one = &after + 1; one < script.events.data() + script.events.size(); ++one)
    if (one->kind != Kind::kTcp && one->link == after.link && fits(*one)) return one;
  return nullptr;
}

std::vector<std::byte> written_to(const O2ibScript& script, const O2ibEvent& offer) {
  const o2iblnd::Message message = offer.message();
  const O2ibEvent* write = find_behind(script, offer, [&](const O2ibEvent& one) {
    return one.kind == Kind::kWrite && one.key == message.sink.key() && one.address == message.sink.at(0).address;
  });
  return write == nullptr ? std::vector<std::byte>{} : write->bytes;
}

}  // namespace

std::vector<std::byte> payload_of(const O2ibScript& script, const O2ibEvent& event) {
  if (event.kind == Kind::kTcp) return event.tcp.payload;
  const o2iblnd::Message message = event.message();
  if (message.type == MessageType::kGetReq) return written_to(script, event);
  if (message.type == MessageType::kPutReq) {
    const O2ibEvent* ack = find_behind(script, event, [&](const O2ibEvent& one) {
      return one.kind == Kind::kMessage && one.message().type == MessageType::kPutAck &&
             one.message().cookie == message.cookie;
    });
    return ack == nullptr ? std::vector<std::byte>{} : written_to(script, *ack);
  }
  if (!is_get(message.header)) return {message.payload.begin(), message.payload.end()};
  const O2ibEvent* reply = find_behind(script, event, [&](const O2ibEvent& one) {
    const auto header = one.header();
    return header && header->type == wire::MsgType::kReply &&
           header->reply().dst_wmd == message.header.get().return_wmd;
  });
  return reply == nullptr ? std::vector<std::byte>{} : payload_of(script, *reply);
}

O2ibPuppet::O2ibPuppet(Node& node) : node_(node) {
  submitter_ = *node.submitter_open(WorkerId{0}, {.ops = 512, .mds = 512, .eqs = 2, .segment_blocks = 1});
  eq_ = *submitter_->eq_open(2048);
}

O2ibPuppet::~O2ibPuppet() {
  node_.submitter_close(*submitter_);
}

bool O2ibPuppet::is_request(const wire::Header& header) {
  if (is_get(header)) return true;
  return header.type == wire::MsgType::kPut && header.put().portal >= kTestRequests;
}

void O2ibPuppet::prepare(const O2ibScript& script, const std::vector<Nid>& ours) {
  const auto is_ours = [&](const Nid& nid) { return std::find(ours.begin(), ours.end(), nid) != ours.end(); };
  areas_.clear();
  registered_ = false;
  size_t bytes = 0;
  for (const O2ibEvent& event : script.events) {
    const auto header = event.header();
    if (!header || !is_request(*header) || portal_of(*header) < kTestRequests) continue;
    const bool sends = is_ours(header->src_nid);
    if (!sends && !is_ours(header->dest_nid)) continue;
    if (!sends && portal_of(*header) <= kFrameworkRequests) continue;
    Area& area = areas_[&event];
    area = {bytes, payload_of(script, event), *header, sends == is_get(*header)};
    if (is_get(*header)) {
      EXPECT_EQ(area.bytes.size(), header->get().sink_length);
    }
    bytes += (std::max<size_t>(area.bytes.size(), 1) + 63) / 64 * 64;
  }
  requests_at_ = bytes;
  memory_ = memories_.emplace_back(std::make_unique<std::vector<std::byte>>(bytes + 2 * kRequestBytes)).get();
  node_.region_add(*memory_, [this](const auto& added) { registered_ = added.has_value(); });
}

MdHandle O2ibPuppet::bind(const Area& area, uint32_t options) {
  std::byte* at = memory_->data() + area.at;
  if (!area.comes) std::copy(area.bytes.begin(), area.bytes.end(), at);
  const Segment segment{at, uint32_t(area.bytes.size())};
  return *submitter_->md_bind({.segments = {&segment, 1}, .threshold = 1, .options = options, .eq = eq_});
}

void O2ibPuppet::attach() {
  size_t at = requests_at_;
  for (const uint32_t portal : {kTestRequests, kFrameworkRequests}) {
    if (open_) break;
    const Segment segment{memory_->data() + at, kRequestBytes};
    at += kRequestBytes;
    const MdHandle md = *submitter_->md_bind({.segments = {&segment, 1}, .options = kMdPut, .eq = eq_});
    EXPECT_TRUE(node_.portal_open(PortalIndex{portal}, WorkerId{0}, PortalMode::kSingle, true));
    EXPECT_TRUE(submitter_->me_attach(PortalIndex{portal}, {}, 0, ~0ull, MePosition::kTail, md));
  }
  constexpr uint32_t kReplies = 52;
  if (!std::exchange(open_, true)) {
    EXPECT_TRUE(node_.portal_open(PortalIndex{kReplies}, WorkerId{0}, PortalMode::kSingle, true));
  }
  for (const auto& [event, area] : areas_) {
    if (area.comes == is_get(area.header)) continue;  // an own request
    const MdHandle md = bind(area, is_get(area.header) ? kMdGet : kMdPut);
    EXPECT_TRUE(submitter_->me_attach(PortalIndex{kReplies}, {}, bits_of(area.header), 0, MePosition::kTail, md));
  }
}

void O2ibPuppet::send(const O2ibEvent& event, const Nid& ping) {
  const wire::Header header = *event.header();
  const Nid target = ping.is_any() ? header.dest_nid : ping;
  if (portal_of(header) < kTestRequests) {
    if (header.get().sink_length == kDiscoverySink)
      return node_.control().discovery->discover({target}, false, [](const auto&) {});
    PingRequest request;
    request.nids = {target};
    request.timeout = 10s;
    return node_.ping(request, [this](const std::vector<PingAnswer>& got) { failed_pings_ += got.front().error != 0; });
  }
  const Area& area = areas_.at(&event);
  PutSpec spec{.md = bind(area, 0),
               .self = header.src_nid,
               .target = {header.dest_nid, kLnetPid},
               .portal = portal_of(header),
               .match_bits = bits_of(header)};
  if (is_get(header)) {
    EXPECT_TRUE(submitter_->get(spec));
    return;
  }
  spec.ack = !header.put().ack_wmd.is_none();
  spec.hdr_data = header.put().hdr_data;
  EXPECT_TRUE(submitter_->put(spec));
}

std::string O2ibPuppet::difference() {
  Event events[32];
  while (const unsigned count = submitter_->eq_poll(eq_, events))
    for (unsigned i = 0; i < count; ++i)
      if (events[i].status != 0) failures_ += "an operation ended with " + std::to_string(events[i].status) + "\n";
  std::string text = failures_;
  for (const auto& [event, area] : areas_)
    if (area.comes && !std::equal(area.bytes.begin(), area.bytes.end(), memory_->begin() + ptrdiff_t(area.at)))
      text += "payload of " + event->name() + " is not that of the capture\n";
  return text;
}

}  // namespace ulnet::test
