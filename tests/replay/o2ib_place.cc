#include "tests/replay/o2ib_place.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/wire/ping_info.h"
#include "lnd/lo/lo.h"
#include "lnd/o2iblnd/fields.h"
#include "lnd/o2iblnd/ib_lnd.h"
#include "lnd/o2iblnd/ib_lnd_ctl.h"
#include "lnd/sim/sim_ctl.h"

namespace ulnet::test {
namespace {

using o2iblnd::Ends;

constexpr Duration kPatience = 5s;
constexpr uint64_t kIncarnation = 0x1001;
constexpr uint16_t kCmNoListener = 8, kCmTimeout = 4, kCmConsumer = 28;

const DriverType& ib_driver() {
  static const DriverType driver{
      .name = "o2iblnd", .net_type = NetType::kO2ib, .ni_tunables = o2iblnd::ib_tunable_fields()};
  return driver;
}

Nid nid_of(uint32_t address) {
  return Nid::v4(Net::of(NetType::kO2ib, 0), address);
}

rc::Cause cause_of(const O2ibEvent& reject) {
  if (reject.reason == kCmConsumer) return rc::Cause::kRejected;
  return reject.reason == kCmNoListener ? rc::Cause::kNoListener : rc::Cause::kRefused;
}

/// The event of the kernel that such a deed of our node is.
bool is_same_kind(const O2ibEvent& event, RcDeed::Kind deed) {
  switch (event.kind) {
    case O2ibEvent::Kind::kRequest: return deed == RcDeed::Kind::kRequest;
    case O2ibEvent::Kind::kReply: return deed == RcDeed::Kind::kReply;
    case O2ibEvent::Kind::kReject:
      return deed == (event.reason == kCmTimeout ? RcDeed::Kind::kGiveUp : RcDeed::Kind::kReject);
    case O2ibEvent::Kind::kHangUp: return deed == RcDeed::Kind::kHangUp;
    case O2ibEvent::Kind::kMessage: return deed == RcDeed::Kind::kMessage;
    case O2ibEvent::Kind::kWrite: return deed == RcDeed::Kind::kWrite;
    default: return false;
  }
}

const char* deed_text(RcDeed::Kind kind) {
  static constexpr const char* kNames[] = {"REQ", "REP", "REJ", "REJ 4", "DREQ", "message", "WRITE"};
  return kNames[size_t(kind)];
}

bool is_race(const O2ibEvent& event) {
  return event.kind == O2ibEvent::Kind::kReject && event.reason == kCmConsumer && event.bytes[6] == std::byte{1};
}

/// The answer to a request of LNet itself.
std::optional<wire::Header> answer_to(const wire::Header& request, const std::vector<std::byte>& ping_info) {
  wire::Header header = request;
  if (request.type == wire::MsgType::kGet) {
    become_response(header, wire::MsgType::kReply);
    header.set(wire::ReplyBody{request.get().return_wmd});
    header.payload_length = uint32_t(ping_info.size());
    return header;
  }
  if (request.type != wire::MsgType::kPut || request.put().ack_wmd.is_none()) return std::nullopt;
  become_response(header, wire::MsgType::kAck);
  header.set(wire::AckBody{request.put().ack_wmd, request.put().match_bits, request.payload_length});
  return header;
}

config::ChangeList changes_of(const O2ibPlaceSpec& spec) {
  config::ChangeList changes{{config::LnetConfigure{}, {}}};
  changes.push_back({config::UlnetSet{"alive_router_check_interval", config::Doc(spec.router_check)}, {}});
  for (const std::string& text : spec.nids) {
    config::NetAdd add;
    const Nid nid = *nid_parse(text);
    add.net = nid.net();
    add.ni.nid = nid;
    add.ni.tunables.peer_credits = spec.peer_credits;
    if (add.net.type() == NetType::kO2ib) add.ni.lnd_tunables["timeout"] = spec.timeout;
    changes.push_back({add, {}});
  }
  for (const auto& [net, gateway] : spec.routes)
    changes.push_back({config::RouteAdd{{.net = *net_parse(net), .gateway = *nid_parse(gateway)}}, {}});
  if (spec.routing) changes.push_back({config::SetBuffers{16, 16, 4}, {}});
  if (spec.routing) changes.push_back({config::SetRouting{true}, {}});
  return changes;
}

}  // namespace

// --- The node --------------------------------------------------------------------------------------------------------

O2ibPlace::O2ibPlace(const O2ibPlaceSpec& spec) : spec_(spec), staging_(o2iblnd::Staging::kBlockBytes) {
  std::map<Nid, uint64_t> stamps;
  for (const std::string& text : spec.nids) {
    ours_.push_back(*nid_parse(text));
    addresses_.insert(ours_.back().address_v4());
    if (ours_.back().net().type() != NetType::kO2ib) continue;
    const uint64_t stamp = kIncarnation + stamps.size();
    stamps[ours_.back()] = stamp;
  }
  twin_ = std::make_unique<O2ibTwin>(stamps, ours_);
  NodeConfig config;
  config.workers = 1;
  config.worker_size.operations = 256;
  config.worker_size.incoming = 256;
  config.features_hidden = wire::kFeaturesOurs;
  NodeDeps deps;
  deps.incarnation = kIncarnation;
  deps.helper = &helper_;
  deps.lnds.push_back(lnd_loopback());
  deps.lnds.push_back({&sim::sim_driver(NetType::kTcp),
                       [this](LndCore& core) {
                         auto lnd = std::make_unique<MessageLnd>(core, sent_tcp_);
                         tcp_lnd_ = lnd.get();
                         return lnd;
                       },
                       [this](LndControlHost& host) {
                         auto control = std::make_unique<MessageControl>(host);
                         tcp_control_ = control.get();
                         return control;
                       }});
  const o2iblnd::IbConfig ib{.incarnation = kIncarnation};
  EXPECT_TRUE(rc_.control().region_add(o2iblnd::kStagingRegion, staging_));
  deps.lnds.push_back(
      {&ib_driver(),
       [this, ib](LndCore& core) {
         return std::make_unique<o2iblnd::IbLnd>(core, rc_.worker(core.worker_id()), ib, staging_);
       },
       [this, ib](LndControlHost& host) { return std::make_unique<o2iblnd::IbLndControl>(host, rc_.control(), ib); }});
  node_ = Node::create(config, std::move(deps), now_).value();
  apply(changes_of(spec));
  puppet_ = std::make_unique<O2ibPuppet>(*node_);
}

O2ibPlace::~O2ibPlace() {
  puppet_.reset();
  rc_.silent = false;
  node_->stop(now_);
  for (int i = 0; i < 10'000 && !node_->stopped(); ++i) {
    (void)turn();
    now_ += 10ms;
  }
  EXPECT_EQ(node_->stop_leftovers(), "");
  node_.reset();
}

void O2ibPlace::apply(config::ChangeList changes) {
  bool done = false;
  node_->apply(std::move(changes), [&](const config::Problems& errors) {
    for (const auto& error : errors) ADD_FAILURE() << error.what;
    done = true;
  });
  for (const Instant end = now_ + 60s; now_ < end && !done;) step();
  EXPECT_TRUE(done);
}

void O2ibPlace::ping_instead(const std::string& nid) {
  ping_ = *nid_parse(nid);
}

void O2ibPlace::pings_by_itself(const std::string& nid) {
  by_itself_.insert(*nid_parse(nid));
}

void O2ibPlace::ping(const std::string& nid) {
  PingRequest request;
  request.nids = {*nid_parse(nid)};
  request.timeout = 10s;
  node_->ping(request, [](const auto&) {});
}

void O2ibPlace::discover(const std::string& nid) {
  node_->control().discovery->discover({*nid_parse(nid)}, false, [](const auto&) {});
}

size_t O2ibPlace::known_nids(const std::string& nid) {
  const PeerNi* ni = node_->control().peers->find(*nid_parse(nid));
  return ni == nullptr ? 0 : ni->peer->ni_count();
}

unsigned O2ibPlace::turn() {
  const unsigned done = node_->turn(WorkerId{0}, now_) + node_->turn_control(now_);
  take_deeds();
  return done;
}

void O2ibPlace::step() {
  if (turn() > 0 || send_due() || deliver()) {
    now_ += 10us;
    return;
  }
  const Instant next = std::min(node_->worker(WorkerId{0}).next_deadline(), node_->next_deadline());
  now_ = std::max(now_ + 10us, std::min(next, now_ + 10ms));
}

void O2ibPlace::run_for(Duration time) {
  for (const Instant end = now_ + time; now_ < end;) step();
}

bool O2ibPlace::run_until_done(size_t event, Duration limit) {
  for (const Instant end = now_ + limit; now_ < end && !done_.at(event);) step();
  return done_.at(event);
}

void O2ibPlace::run_to_the_end(Duration limit) {
  moved_ = now_;
  const auto is_left = [&] { return std::find(done_.begin(), done_.end(), false) != done_.end(); };
  for (const Instant end = now_ + limit; now_ < end && now_ - moved_ < kPatience && is_left();) step();
  run_for(1s);
}

// --- The partners ----------------------------------------------------------------------------------------------------

bool O2ibPlace::is_seen(const O2ibEvent& event) const {
  return event.kind != Kind::kReady && event.kind != Kind::kHungUp;
}

bool O2ibPlace::done_before(size_t event) const {
  return std::all_of(done_.begin(), done_.begin() + ptrdiff_t(event), [](bool done) { return done; });
}

void O2ibPlace::play(O2ibScript script) {
  script_ = std::move(script);
  std::erase_if(script_.events, [&](const O2ibEvent& one) { return !is_ours(one.from) && !is_ours(one.to); });
  done_.assign(script_.events.size(), false);
  for (size_t i = 0; i < done_.size(); ++i)
    done_[i] = is_ours(script_.events[i].from) ? !is_seen(script_.events[i]) : script_.events[i].kind == Kind::kHungUp;
  conns_.assign(script_.links.size(), 0);
  sent_tcp_.clear();
  tcp_taken_ = 0;
  wrong_.clear();
  twin_->restart();
  find_due();
  open_mid();
  puppet_->prepare(script_, ours_);
  for (int i = 0; i < 1000 && !puppet_->ready(); ++i) {
    (void)turn();
    now_ += 10us;
  }
  puppet_->attach();
  for (int i = 0; i < 20; ++i) (void)turn();
  moved_ = now_;
}

/// A request of our node is due when the kernel had begun to connect for it. The kernel refuses a REQ as a race only
/// while it connects itself: its own attempt began before. An attempt that got no answer was for a request that was
/// lost: our node sends the next one of the capture in its place.
void O2ibPlace::find_due() {
  struct Attempts {
    std::optional<size_t> began;
    std::vector<size_t> lost;
  };
  due_.clear();
  std::map<std::pair<uint32_t, uint32_t>, Attempts> attempts;
  for (size_t i = 0; i < script_.events.size(); ++i) {
    const O2ibEvent& event = script_.events[i];
    if (!is_ours(event.from)) continue;
    const auto header = event.header();
    const bool is_own = header && O2ibPuppet::is_request(*header) &&
                        std::find(ours_.begin(), ours_.end(), header->src_nid) != ours_.end();
    if (event.kind == Kind::kTcp) {
      if (is_own) due_.push_back({i, i});
      continue;
    }
    Attempts& pair = attempts[{event.from, event.to}];
    if (is_race(event) && !pair.began) {
      const auto asked = std::find_if(script_.events.begin(), script_.events.end(),
                                      [&](const O2ibEvent& one) { return one.link == event.link; });
      pair.began = size_t(asked - script_.events.begin());
    }
    if (event.kind == Kind::kRequest && !pair.began) pair.began = i;
    if (event.kind == Kind::kReject && event.reason == kCmTimeout && pair.began)
      pair.lost.push_back(*std::exchange(pair.began, std::nullopt));
    if (event.kind != Kind::kMessage) continue;
    if (is_own) {
      for (const size_t lost : pair.lost) due_.push_back({i, lost});
      due_.push_back({i, pair.began.value_or(i)});
    }
    pair = {};
  }
}

void O2ibPlace::open_mid() {
  std::map<uint32_t, uint64_t> stamps;
  for (const O2ibEvent& event : script_.events) {
    if (event.kind != Kind::kMessage) continue;
    const Ends ends = event.message().ends;
    stamps[event.from] = ends.src_stamp;
    stamps[event.to] = ends.dst_stamp;
  }
  for (size_t link = 0; link < script_.links.size(); ++link) {
    const O2ibLink& one = script_.links[link];
    const bool concerns = is_ours(one.dialler) || is_ours(one.passive);
    if (one.opened_mid && concerns) open_mid(link, stamps[is_ours(one.dialler) ? one.passive : one.dialler]);
  }
}

void O2ibPlace::open_mid(size_t link, uint64_t their_stamp) {
  const O2ibLink& one = script_.links[link];
  const bool dials = is_ours(one.dialler);
  const uint32_t our = dials ? one.dialler : one.passive, their = dials ? one.passive : one.dialler;
  const auto open = open_.find({our, their});
  if (open != open_.end() && rc_.is_up(open->second)) {
    conns_[link] = open->second;
    return;
  }
  std::vector<std::byte> request(o2iblnd::kMessageMax);
  o2iblnd::encode_connect(std::span(request).first<o2iblnd::kMessageMax>(), o2iblnd::MessageType::kConnReq,
                          {nid_of(their), nid_of(our), their_stamp, 0}, {8, o2iblnd::kFragmentsMax});
  const rc::ConnId conn = rc_.request(rc::IpAddress::of_v4(their), rc::IpAddress::of_v4(our),
                                      std::span(request).first(o2iblnd::kConnectBytes));
  ignored_.insert(conn);
  for (int i = 0; i < 100 && ignored_.contains(conn); ++i) {
    (void)turn();
    now_ += 10us;
  }
  EXPECT_TRUE(rc_.established(conn, {}));
  open_[{our, their}] = conns_[link] = conn;
  for (int i = 0; i < 20; ++i) (void)turn();
}

bool O2ibPlace::send_due() {
  for (size_t i = 0; i < due_.size(); ++i) {
    if (!done_before(due_[i].before)) continue;
    const O2ibEvent& one = script_.events[due_[i].event];
    const wire::Header header = *one.header();
    const bool is_ping = header.type == wire::MsgType::kGet && header.get().portal == 0;
    if (!is_ping || !by_itself_.contains(header.dest_nid)) puppet_->send(one, is_ping ? ping_ : kAnyNid);
    due_.erase(due_.begin() + ptrdiff_t(i));
    moved_ = now_;
    return true;
  }
  return false;
}

bool O2ibPlace::deliver() {
  bool any = false;
  for (size_t i = 0; i < done_.size(); ++i) {
    if (done_[i]) continue;
    if (is_ours(script_.events[i].from) || !deliver(script_.events[i])) break;
    done_[i] = any = true;
    moved_ = now_;
    // The kernel acted upon a REJ before more came, and upon a message before one came over the other network.
    const bool other_net =
        i + 1 < done_.size() && (script_.events[i].kind == Kind::kTcp) != (script_.events[i + 1].kind == Kind::kTcp);
    if (script_.events[i].kind == Kind::kReject || other_net) break;
  }
  return any;
}

/// False: our node is not ready for it.
bool O2ibPlace::deliver(const O2ibEvent& event) {
  if (event.kind == Kind::kTcp) return deliver_tcp(event.tcp);
  rc::ConnId& conn = conns_.at(event.link);
  const bool mid = script_.links[event.link].opened_mid;
  switch (event.kind) {
    case Kind::kRequest:
      conn = rc_.request(rc::IpAddress::of_v4(event.from), rc::IpAddress::of_v4(event.to),
                         twin_->to_ours(event, 0, false));
      return conn != 0;
    case Kind::kReady:
    case Kind::kReply:
      if (!rc_.established(conn,
                           event.kind == Kind::kReply ? twin_->to_ours(event, conn, false) : std::vector<std::byte>{}))
        return false;
      open_[{event.to, event.from}] = conn;
      return true;
    case Kind::kReject: rc_.ended(conn, cause_of(event), event.bytes); return true;
    case Kind::kHangUp: rc_.ended(conn, rc::Cause::kPeerClosed, {}); return true;
    case Kind::kHungUp: return true;
    case Kind::kMessage: return rc_.is_up(conn) && rc_.message(conn, twin_->to_ours(event, conn, mid));
    case Kind::kWrite: {
      const O2ibTwin::Place place = twin_->place_of(event);
      return rc_.write(conn, place.key, place.address, event.bytes);
    }
    case Kind::kTcp: break;
  }
  return false;
}

bool O2ibPlace::deliver_tcp(const ReplayMessage& message) {
  const NiParams* ni = tcp_control_->ni(message.to);
  if (ni == nullptr) return false;
  WireMessage wire{message.from, message.to, message.decoded, message.payload};
  twin_->echo(wire.header);
  const auto place = tcp_control_->host().place_peer(message.from, ni->id);
  tcp_lnd_->receive(wire, *ni, *place, now_);
  return true;
}

// --- Our node --------------------------------------------------------------------------------------------------------

std::string O2ibPlace::where(size_t event) const {
  const O2ibEvent& one = script_.events.at(event);
  return "event " + std::to_string(event) + " " + one.name() + " " + nid_text(nid_of(one.from)) + " > " +
         nid_text(nid_of(one.to));
}

void O2ibPlace::take_deeds() {
  for (; !rc_.deeds.empty(); rc_.deeds.pop_front()) take(rc_.deeds.front());
  for (; tcp_taken_ < sent_tcp_.size(); ++tcp_taken_) take_tcp(sent_tcp_[tcp_taken_]);
}

std::optional<size_t> O2ibPlace::link_of(const RcDeed& deed) {
  const auto known = std::find(conns_.begin(), conns_.end(), deed.conn);
  if (known != conns_.end()) return size_t(known - conns_.begin());
  if (deed.kind != RcDeed::Kind::kRequest) return std::nullopt;
  for (size_t link = 0; link < conns_.size(); ++link) {
    const O2ibLink& one = script_.links[link];
    if (conns_[link] != 0 || one.opened_mid || one.dialler != deed.local.v4() || one.passive != deed.remote.v4())
      continue;
    conns_[link] = deed.conn;
    return link;
  }
  return std::nullopt;
}

void O2ibPlace::take(const RcDeed& deed) {
  if (ignored_.erase(deed.conn) > 0) return;
  const auto link = link_of(deed);
  for (size_t i = 0; link && i < done_.size(); ++i) {
    const O2ibEvent& event = script_.events[i];
    if (done_[i] || event.kind == Kind::kTcp || event.link != *link || !is_ours(event.from)) continue;
    if (!is_same_kind(event, deed.kind)) break;
    done_[i] = true;
    ++compared_;
    moved_ = now_;
    const std::string difference = twin_->difference(event, deed);
    if (!difference.empty()) wrong_ += where(i) + ": " + difference + "\n";
    return;
  }
  if (answer(deed)) return;
  wrong_ += std::string("the kernel has no such ") + deed_text(deed.kind) + ": " + nid_text(nid_of(deed.local.v4())) +
            " > " + nid_text(nid_of(deed.remote.v4()));
  o2iblnd::Message message;
  if (deed.kind == RcDeed::Kind::kMessage && message_decode(deed.bytes, message) == o2iblnd::MessageFault::kNone)
    wrong_ += std::string(" ") + message_type_text(message.type) + ", LNet type " +
              std::to_string(unsigned(message.header.type));
  wrong_ += "\n";
}

void O2ibPlace::take_tcp(const WireMessage& message) {
  for (size_t i = 0; i < done_.size(); ++i) {
    const O2ibEvent& event = script_.events[i];
    if (done_[i] || event.kind != Kind::kTcp || !is_ours(event.from)) continue;
    if (event.tcp.to != message.to) continue;  // `from` is the source, which may be another node
    done_[i] = true;
    ++compared_;
    moved_ = now_;
    const std::string difference = twin_->difference(event.tcp, message.header, message.payload);
    if (!difference.empty()) wrong_ += where(i) + ": " + difference + "\n";
    return;
  }
  if (answer_tcp(message)) return;
  wrong_ += "the kernel has no such message over tcp: LNet type " + std::to_string(unsigned(message.header.type)) +
            " " + nid_text(message.header.src_nid) + " > " + nid_text(message.header.dest_nid) + "\n";
}

// These messages stand for those before the file. The test does not compare them.
bool O2ibPlace::answer_tcp(const WireMessage& message) {
  const auto info = ping_infos_.find(message.to);
  if (info == ping_infos_.end()) return false;
  const auto reply = answer_to(message.header, info->second);
  if (!reply) return false;
  const bool get = message.header.type == wire::MsgType::kGet;
  return deliver_tcp({.from = message.to,
                      .to = message.from,
                      .decoded = *reply,
                      .payload = get ? info->second : std::vector<std::byte>{}});
}

bool O2ibPlace::answer(const RcDeed& deed) {
  o2iblnd::Message message;
  if (deed.kind != RcDeed::Kind::kMessage || message_decode(deed.bytes, message) != o2iblnd::MessageFault::kNone)
    return false;
  const auto info = ping_infos_.find(message.ends.dst);
  if (info == ping_infos_.end() || message.type != o2iblnd::MessageType::kImmediate) return false;
  const auto reply = answer_to(message.header, info->second);
  if (!reply) return false;
  std::vector<std::byte> bytes(o2iblnd::kMessageMax);
  const auto buffer = std::span(bytes).first<o2iblnd::kMessageMax>();
  const Ends& ends = message.ends;
  const size_t size = o2iblnd::encode_immediate(buffer, {ends.dst, ends.src, ends.dst_stamp, ends.src_stamp}, *reply);
  o2iblnd::set_credits(buffer, 1);
  if (reply->payload_length > 0)
    std::copy(info->second.begin(), info->second.end(), bytes.begin() + o2iblnd::kImmediatePrefix);
  bytes.resize(size);
  twin_->pass_over(deed.conn, deed.bytes, bytes);
  return rc_.message(deed.conn, bytes);
}

std::string O2ibPlace::difference() {
  std::string text = wrong_ + puppet_->difference();
  for (size_t i = 0; i < done_.size(); ++i)
    if (!done_[i]) text += where(i) + (is_ours(script_.events[i].from) ? " was not done\n" : " was not played\n");
  return text;
}

}  // namespace ulnet::test
