#include "tests/replay/kernel_place.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "control/discovery/runner.h"
#include "control/lnd_host.h"
#include "dataplane/base/nid_text.h"

namespace ulnet::test {
namespace {

using End = ReplayConnection::End;
using Kind = TcpEvent::Kind;

const char* end_text(End end) {
  switch (end) {
    case End::kOpen: return "leaves it open";
    case End::kFin: return "sends FIN";
    case End::kReset: return "sends RST";
    case End::kRefused: return "refuses it";
  }
  return "?";
}

/// How a side ended the connection, if it did before the other.
End captured_end(const TcpConversation& conversation, Side side) {
  for (const TcpEvent& event : conversation.events) {
    if (event.kind != Kind::kFin && event.kind != Kind::kRst) continue;
    if (event.from != side) return End::kOpen;
    if (!conversation.established) return End::kRefused;
    return event.kind == Kind::kFin ? End::kFin : End::kReset;
  }
  return End::kOpen;
}

constexpr size_t kHandleBytes = 16;

NodeSpec as_upstream(NodeSpec spec) {
  spec.zc_min_payload = 16384;
  spec.like_kernel = true;
  return spec;
}

}  // namespace

KernelPlace::KernelPlace(const NodeSpec& spec, std::vector<IpAddress> theirs)
    : spec_(as_upstream(spec)), theirs_(std::move(theirs)), net_({.seed = 1, .transport = Transport::kSockTcp}) {
  net_.tcp().record = true;
  node_ = &net_.add_node(spec_);
}

KernelPlace::~KernelPlace() {
  partners_silent(false);
}

void KernelPlace::play(Capture capture, bool by_time) {
  dead_.reset();
  replay_.reset();
  capture_ = std::move(capture);
  EXPECT_EQ(capture_.error, "");
  played_.clear();
  find_handles();
  replay_ = std::make_unique<Replay>(net_.tcp(), capture_,
                                     ReplayOptions{.theirs = theirs_, .by_time = by_time, .patience = 600s});
  replay_->rewrite = [this](ReplayConnection& connection, std::vector<std::byte>& bytes) {
    echo_handles(connection, bytes);
  };
}

void KernelPlace::partners_dead() {
  replay_.reset();
  dead_ = net_.tcp().net_io(theirs_);
}

void KernelPlace::partners_silent(bool on) {
  for (const IpAddress& address : theirs_) net_.tcp().silence(address, on);
}

void KernelPlace::has_address_without_lnet(const IpAddress& address) {
  without_lnet_.push_back(net_.tcp().net_io({address}));
}

void KernelPlace::find_handles() {
  std::map<wire::WireHandle, Place> given;
  const auto each = [&](auto&& call) {
    for (size_t index = 0; index < capture_.conversations.size(); ++index)
      for (const Side side : {Side::kDialler, Side::kPassive})
        for (const Piece& piece : split(capture_.conversations[index], side))
          if (piece.kind == PieceKind::kMessage) call(index, piece);
  };
  const Mask mask{ours()};
  each([&](size_t index, const Piece& piece) {
    if (!mask.originated(piece)) return;
    const Place place{index, piece.at + piece.body_at()};
    if (piece.header->type == wire::MsgType::kGet) given[piece.header->get().return_wmd] = place;
    if (piece.header->type == wire::MsgType::kPut) given[piece.header->put().ack_wmd] = place;
  });
  echoes_.clear();
  each([&](size_t index, const Piece& piece) {
    const auto type = piece.header->type;
    if (type != wire::MsgType::kReply && type != wire::MsgType::kAck) return;
    const auto found = given.find(piece.header->reply().dst_wmd);
    if (found != given.end()) echoes_[{index, piece.at + piece.body_at()}] = found->second;
  });
}

// A handle does not lie across two segments in these captures; should it, the comparison fails.
void KernelPlace::echo_handles(ReplayConnection& connection, std::vector<std::byte>& bytes) {
  const size_t index = size_t(connection.captured - capture_.conversations.data());
  const size_t begin = played_[index];
  played_[index] += bytes.size();
  for (const auto& [theirs, ours] : echoes_) {
    if (theirs.first != index || theirs.second < begin || theirs.second + kHandleBytes > played_[index]) continue;
    for (const auto& c : replay_->connections()) {
      if (c->captured != &capture_.conversations[ours.conversation] || c->sent.size() < ours.at + kHandleBytes)
        continue;
      std::copy_n(c->sent.begin() + ptrdiff_t(ours.at), kHandleBytes, bytes.begin() + ptrdiff_t(theirs.second - begin));
    }
  }
}

int32_t KernelPlace::ping_and_wait(const std::string& nid, Duration timeout) {
  ping(nid, timeout);
  EXPECT_TRUE(run_until([&] { return ping_ended(); }, timeout + 5s)) << (replay_ ? replay_->waiting() : "");
  return ping_ended() ? ping_error() : -ETIMEDOUT;
}

int32_t KernelPlace::discover_and_wait(const std::string& nid) {
  std::optional<int32_t> error;
  node_->node().control().discovery->discover(
      {*nid_parse(nid)}, false, [&error](const std::vector<DiscoverAnswer>& got) { error = got.front().error; });
  EXPECT_TRUE(run_until([&] { return error.has_value(); }, 60s)) << (replay_ ? replay_->waiting() : "");
  return error.value_or(-ETIMEDOUT);
}

size_t KernelPlace::known_nids(const std::string& nid) {
  const PeerNi* ni = node_->node().control().peers->find(*nid_parse(nid));
  return ni == nullptr ? 0 : ni->peer->ni_count();
}

int KernelPlace::health(const std::string& peer_nid) {
  const PeerNi* ni = node_->node().control().peers->find(*nid_parse(peer_nid));
  return ni == nullptr ? -1 : int(ni->health.value());
}

void KernelPlace::link(const std::string& nid, bool up) {
  Control& control = node_->node().control();
  const LocalNi* ni = control.nis->find(*nid_parse(nid));
  control.lnd_hosts[ni->lnd]->ni_fatal(ni->id, !up);
}

void KernelPlace::turn(Instant limit) {
  net_.tcp().advance(net_.now());
  if (replay_ != nullptr) {
    for (int i = 0; i < 100 && replay_->turn(net_.now()); ++i) {
    }
  }
  if (application) application();
  net_.step(std::min(limit, net_.now() + 1ms));  // the replay has its own times
}

void KernelPlace::run_for(Duration time) {
  const Instant end = net_.now() + time;
  while (net_.now() < end) turn(end);
}

bool KernelPlace::all_sent() const {
  const auto& connections = replay_->connections();
  return std::all_of(connections.begin(), connections.end(), [](const auto& c) {
    return c->sent.size() >= c->expected().size() &&
           (c->end != End::kOpen || captured_end(*c->captured, other(c->theirs)) == End::kOpen);
  });
}

void KernelPlace::run_to_the_end(Duration limit) {
  run_until([&] { return replay_->done() && all_sent(); }, limit);
  run_for(3s);
}

std::string KernelPlace::difference(const Capture& kernel, Mask mask) const {
  mask.ours = ours();
  std::string text;
  if (!replay_->done()) text += "stuck, " + replay_->waiting() + "\n";
  if (replay_->forced() > 0) text += std::to_string(replay_->forced()) + " steps of the partner came unasked\n";
  if (replay_->unexpected() > 0)
    text += std::to_string(replay_->unexpected()) + " connections that the capture does not have\n";
  for (const auto& c : replay_->connections()) {
    const Side side = other(c->theirs);
    const TcpConversation& theirs = kernel.conversations.at(size_t(c->captured - capture_.conversations.data()));
    const std::string bytes = test::difference(theirs, side, c->sent, mask);
    if (!bytes.empty()) text += bytes + "\n";
    const End expected = captured_end(theirs, side);
    if (expected == End::kOpen && c->closed) continue;  // the partner was first
    if (expected != c->end) text += c->name() + ": kernel " + end_text(expected) + ", ulnet " + end_text(c->end) + "\n";
  }
  return text;
}

size_t KernelPlace::pings() const {
  size_t count = 0;
  const Mask mask{ours()};
  for (const TcpConversation& conversation : capture_.conversations)
    for (const Side side : {Side::kDialler, Side::kPassive})
      for (const Piece& piece : split(conversation, side))
        count += mask.originated(piece) && piece.header->type == wire::MsgType::kGet;
  return count;
}

std::vector<Nid> KernelPlace::ours() const {
  std::vector<Nid> nids;
  for (const std::string& text : spec_.nis) nids.push_back(*nid_parse(text));
  return nids;
}

}  // namespace ulnet::test
