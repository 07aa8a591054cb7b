#include "tests/replay/message_place.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/wire/bytes.h"
#include "dataplane/wire/ping_info.h"
#include "lnd/lo/lo.h"
#include "lnd/sim/sim_ctl.h"

namespace ulnet::test {
namespace {

constexpr Duration kPatience = 2s;

/// Messages of one direction as a stream that pieces.h can compare: framed as socklnd frames them, cookies 0.
std::vector<std::byte> framed(const wire::Header& header, const std::vector<std::byte>& payload) {
  constexpr size_t kFrame = 24;
  std::vector<std::byte> bytes(kFrame + wire::kHeaderNid4Bytes);
  wire::store(bytes.data(), uint32_t{0xC1});
  wire::header_encode_nid4(header, std::span(bytes).subspan(kFrame).first<wire::kHeaderNid4Bytes>());
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

wire::WireHandle given_handle(const wire::Header& header) {
  if (header.type == wire::MsgType::kGet) return header.get().return_wmd;
  if (header.type == wire::MsgType::kPut) return header.put().ack_wmd;
  return {};
}

}  // namespace

MessagePlace::MessagePlace(const std::vector<std::string>& nids) {
  NodeConfig config;
  config.workers = 1;
  config.worker_size.operations = 256;
  config.worker_size.incoming = 256;
  config.features_hidden = wire::kFeaturesOurs;
  NodeDeps deps;
  deps.seed = 1;
  deps.incarnation = 0x1001;
  deps.lnds.push_back(lnd_loopback());
  for (const NetType type : {NetType::kTcp, NetType::kO2ib}) {
    deps.lnds.push_back({&sim::sim_driver(type),
                         [this](LndCore& core) {
                           auto lnd = std::make_unique<MessageLnd>(core, sent_);
                           lnds_.push_back(lnd.get());
                           return lnd;
                         },
                         [this](LndControlHost& host) {
                           auto control = std::make_unique<MessageControl>(host);
                           controls_.push_back(control.get());
                           return control;
                         }});
  }
  node_ = Node::create(config, std::move(deps), now_).value();
  config::ChangeList changes{{config::LnetConfigure{}, {}}};
  for (const std::string& text : nids) {
    ours_.push_back(*nid_parse(text));
    config::NetAdd add;
    add.net = ours_.back().net();
    add.ni.nid = ours_.back();
    changes.push_back({add, {}});
  }
  apply(std::move(changes));
}

void MessagePlace::apply(config::ChangeList changes) {
  bool done = false;
  node_->apply(std::move(changes), [&](const config::Problems& errors) {
    EXPECT_TRUE(errors.empty());
    done = true;
  });
  for (const Instant end = now_ + 60s; now_ < end && !done;) step();
  EXPECT_TRUE(done);
}

void MessagePlace::delete_now(const std::string& nid) {
  config::NetDel del;
  del.net = nid_parse(nid)->net();
  del.nid = *nid_parse(nid);
  del.now = true;
  apply({{del, {}}});
}

MessagePlace::~MessagePlace() {
  node_->stop(now_);
  for (int i = 0; i < 10'000 && !node_->stopped(); ++i) step();
  EXPECT_EQ(node_->stop_leftovers(), "");
}

bool MessagePlace::is_ours(const Nid& nid) const {
  return std::find(ours_.begin(), ours_.end(), nid) != ours_.end();
}

void MessagePlace::play(std::vector<ReplayMessage> messages) {
  messages_ = std::move(messages);
  std::erase_if(messages_, [&](const ReplayMessage& one) { return !is_ours(one.from) && !is_ours(one.to); });
  std::stable_sort(messages_.begin(), messages_.end(),
                   [](const ReplayMessage& a, const ReplayMessage& b) { return a.began < b.began; });
  sent_.clear();
  next_ = ours_before_ = 0;
  forced_ = 0;
  moved_ = now_;
}

// The partner answers with the handle that the kernel gave out. Replaces it by the handle of our node, from the message
// at the same position on the same pair of NIDs.
void MessagePlace::echo_handle(wire::Header& header) const {
  const bool answer = header.type == wire::MsgType::kReply || header.type == wire::MsgType::kAck;
  if (!answer) return;
  std::map<Pair, size_t> places;
  for (const ReplayMessage& theirs : messages_) {
    if (!is_ours(theirs.from)) continue;
    const Pair pair{theirs.from, theirs.to};
    size_t place = places[pair]++;
    if (given_handle(theirs.decoded) != header.reply().dst_wmd) continue;
    for (const WireMessage& mine : sent_) {
      if (Pair{mine.from, mine.to} != pair || place-- > 0) continue;
      header.set(wire::ReplyBody{given_handle(mine.header)});
      return;
    }
  }
}

bool MessagePlace::deliver_next() {
  for (; next_ < messages_.size() && is_ours(messages_[next_].from); ++next_) ++ours_before_;
  if (next_ == messages_.size()) return false;
  if (sent_.size() < ours_before_) {
    if (now_ - moved_ < kPatience) return false;
    ++forced_;
  }
  const ReplayMessage& theirs = messages_[next_++];
  WireMessage message{theirs.from, theirs.to, theirs.decoded, theirs.payload};
  echo_handle(message.header);
  for (size_t i = 0; i < controls_.size(); ++i) {
    const NiParams* ni = controls_[i]->ni(message.to);
    if (ni == nullptr) continue;
    const auto place = controls_[i]->host().place_peer(message.from, ni->id);
    lnds_[i]->receive(message, *ni, *place, now_);
  }
  moved_ = now_;
  return true;
}

unsigned MessagePlace::turn() {
  return node_->turn(WorkerId{0}, now_) + node_->turn_control(now_);
}

void MessagePlace::step() {
  if (turn() > 0 || deliver_next()) {
    now_ += 10us;
    return;
  }
  const Instant next = std::min(node_->worker(WorkerId{0}).next_deadline(), node_->next_deadline());
  now_ = std::max(now_ + 10us, std::min(next, now_ + 10ms));
}

void MessagePlace::run_for(Duration time) {
  for (const Instant end = now_ + time; now_ < end;) step();
}

void MessagePlace::run_to_the_end() {
  for (const Instant end = now_ + 60s; now_ < end && next_ < messages_.size();) step();
  run_for(3s);
}

int32_t MessagePlace::discover_and_wait(const std::string& nid) {
  std::optional<int32_t> error;
  node_->control().discovery->discover({*nid_parse(nid)}, false,
                                       [&error](const std::vector<DiscoverAnswer>& got) { error = got.front().error; });
  for (const Instant end = now_ + 60s; now_ < end && !error;) step();
  return error.value_or(-ETIMEDOUT);
}

int32_t MessagePlace::ping_and_wait(const std::string& nid) {
  std::optional<int32_t> error;
  PingRequest request;
  request.nids = {*nid_parse(nid)};
  request.timeout = 10s;
  node_->ping(request, [&error](const std::vector<PingAnswer>& got) { error = got.front().error; });
  for (const Instant end = now_ + 60s; now_ < end && !error;) step();
  return error.value_or(-ETIMEDOUT);
}

size_t MessagePlace::known_nids(const std::string& nid) {
  const PeerNi* ni = node_->control().peers->find(*nid_parse(nid));
  return ni == nullptr ? 0 : ni->peer->ni_count();
}

std::string MessagePlace::difference() const {
  std::string text;
  if (next_ < messages_.size()) text += "not everything was played\n";
  if (forced_ > 0) text += std::to_string(forced_) + " messages of the partner came unasked\n";
  std::map<Pair, std::pair<std::vector<std::byte>, std::vector<std::byte>>> streams;  // the kernel's, ours
  const auto append = [](std::vector<std::byte>& to, const std::vector<std::byte>& bytes) {
    to.insert(to.end(), bytes.begin(), bytes.end());
  };
  for (const ReplayMessage& one : messages_)
    if (is_ours(one.from)) append(streams[{one.from, one.to}].first, framed(one.decoded, one.payload));
  for (const WireMessage& one : sent_) append(streams[{one.from, one.to}].second, framed(one.header, one.payload));
  for (const auto& [pair, stream] : streams) {
    TcpConversation kernel;
    kernel.opened_mid = kernel.established = true;
    if (!stream.first.empty()) kernel.events.push_back({{}, Side::kDialler, TcpEvent::Kind::kData, stream.first});
    const std::string wrong = test::difference(kernel, Side::kDialler, stream.second, {ours_});
    if (!wrong.empty()) text += nid_text(pair.first) + " > " + nid_text(pair.second) + ": " + wrong + "\n";
  }
  return text;
}

}  // namespace ulnet::test
