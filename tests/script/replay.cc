#include "tests/script/replay.h"

#include <algorithm>

#include "lnd/socklnd/proto/acceptor.h"
#include "lnd/socklnd/proto/frame.h"
#include "lnd/socklnd/proto/hello.h"
#include "tests/wire/decode.h"

namespace ulnet::test {
namespace {

constexpr uint16_t kPort = 988;

bool plays(const std::vector<IpAddress>& theirs, const TcpAddress& address) {
  return std::find(theirs.begin(), theirs.end(), ip_of(address)) != theirs.end();
}

/// Bytes of a side's stream that are handshake.
size_t handshake_bytes(const TcpConversation& conversation, Side side) {
  if (conversation.opened_mid) return 0;
  const DecodedSide decoded = decode_side(conversation, side, 1 << 20);
  size_t bytes = decoded.hello ? socklnd::hello_bytes(decoded.hello->version) : 0;
  if (decoded.dialled) bytes += socklnd::conn_request_bytes(decoded.request.target);
  return bytes;
}

uint32_t version_of(const TcpConversation& conversation, Side side) {
  if (conversation.opened_mid) return conversation.dialler.ipv6 ? 4 : 3;
  const DecodedSide decoded = decode_side(conversation, side, 1 << 20);
  return decoded.hello ? decoded.hello->version : 3;
}

}  // namespace

IpAddress ip_of(const TcpAddress& address) {
  return {address.ipv6, address.addr};
}

Replay::Replay(SimTcp& tcp, const Capture& capture, ReplayOptions options)
    : tcp_(tcp), options_(std::move(options)), net_(tcp.net_io(options_.theirs)) {
  for (const IpAddress& address : options_.theirs) (void)net_->listen({address, kPort}, 127, {});
  for (const TcpConversation& conversation : capture.conversations) {
    const bool dialled = plays(options_.theirs, conversation.dialler);
    if (dialled == plays(options_.theirs, conversation.passive)) continue;
    auto connection = std::make_unique<ReplayConnection>();
    connection->captured = &conversation;
    connection->theirs = dialled ? Side::kDialler : Side::kPassive;
    size_t ours = 0;
    bool ended = false;
    for (const TcpEvent& event : conversation.events) {
      if (event.from == connection->theirs) {
        if (event.kind != TcpEvent::Kind::kSyn || dialled) steps_.push_back({connection.get(), &event, ours, ended});
      } else {
        ours += event.bytes.size();
        ended |= event.kind == TcpEvent::Kind::kFin || event.kind == TcpEvent::Kind::kRst;
      }
    }
    connections_.push_back(std::move(connection));
    if (conversation.opened_mid) open_mid(*connections_.back());
  }
  std::stable_sort(steps_.begin(), steps_.end(),
                   [](const Step& a, const Step& b) { return a.event->time < b.event->time; });
}

/// Makes a connection that was open before the capture begins. The replay always dials, because the node sees only the
/// connection's type. Source ports count down from 1023: CONTROL, BULK_IN, BULK_OUT of the side that had dialled.
void Replay::open_mid(ReplayConnection& connection) {
  const TcpConversation& c = *connection.captured;
  const uint32_t version = version_of(c, connection.theirs);
  const Nid mine = c.address(connection.theirs).nid(options_.net),
            node = c.address(other(connection.theirs)).nid(options_.net);
  const auto dialled_as = socklnd::ConnType(1 + (1023u - std::min<uint32_t>(c.dialler.port, 1023)) % 3);
  const auto type = connection.theirs == Side::kDialler ? dialled_as : conn_type_inverse(dialled_as);
  auto& out = connection.out;
  out.resize(socklnd::kConnRequestMaxBytes + socklnd::kHelloMaxBytes);
  size_t bytes = socklnd::conn_request_encode(node, out);
  bytes += socklnd::hello_encode(socklnd::hello_request(mine, node, 1, type, version), std::span(out).subspan(bytes));
  out.resize(bytes);
  connection.skip = socklnd::hello_bytes(version);
  dial(connection);
}

bool Replay::started() const {
  return std::all_of(connections_.begin(), connections_.end(), [](const auto& c) {
    return !c->captured->opened_mid || (c->established && c->skip == 0) || c->closed;
  });
}

bool Replay::ready(const Step& step) const {
  const ReplayConnection& c = *step.connection;
  if (step.event->kind == TcpEvent::Kind::kSyn || c.closed) return true;
  if (step.ended_before && c.end == ReplayConnection::End::kOpen) return false;
  return c.established && c.skip == 0 && c.sent.size() >= step.ours_before;
}

void Replay::dial(ReplayConnection& connection) {
  SocketOptions options;
  const TcpConversation& c = *connection.captured;
  options.privileged_ports = c.dialler.port <= 1023;
  const IpAddress from = ip_of(c.address(connection.theirs)), to = ip_of(c.address(other(connection.theirs)));
  connection.socket = *net_->connect(from, {to, kPort}, options);
  connection.opened = true;
}

void Replay::play(const Step& step) {
  ReplayConnection& c = *step.connection;
  switch (step.event->kind) {
    case TcpEvent::Kind::kSyn: return dial(c);
    case TcpEvent::Kind::kData: {
      std::vector<std::byte> bytes = step.event->bytes;
      if (rewrite) rewrite(c, bytes);
      c.out.insert(c.out.end(), bytes.begin(), bytes.end());
      return;
    }
    case TcpEvent::Kind::kFin:
    case TcpEvent::Kind::kRst:
      if (c.socket == 0 || c.closed) return;
      while (move_bytes(c)) {
      }
      c.closed = true;
      if (step.event->kind == TcpEvent::Kind::kRst) tcp_.abort(c.socket);
      net_->close(c.socket);
      return;
  }
}

void Replay::accepted(const NetEvent& event) {
  const Endpoint local = net_->local_endpoint(event.socket);
  const auto it = std::find_if(connections_.begin(), connections_.end(), [&](const auto& c) {
    return !c->opened && c->theirs == Side::kPassive && ip_of(c->captured->passive) == local.address &&
           ip_of(c->captured->dialler) == event.remote.address;
  });
  if (it == connections_.end()) {
    ++unexpected_;
    return net_->close(event.socket);
  }
  (*it)->opened = (*it)->established = true;
  (*it)->socket = event.socket;
}

bool Replay::move_bytes(ReplayConnection& c) {
  if (c.socket == 0 || !c.established || c.closed) return false;
  bool moved = false;
  if (!c.out.empty()) {
    const int put = net_->write(c.socket, c.out);
    if (put > 0) c.out.erase(c.out.begin(), c.out.begin() + put);
    moved = put > 0;
  }
  if (c.end != ReplayConnection::End::kOpen) return moved;
  std::array<std::byte, 16384> bytes;
  const int got = net_->read(c.socket, bytes);
  if (got == -EAGAIN) return moved;
  if (got <= 0) {
    c.end = got == 0 ? ReplayConnection::End::kFin : ReplayConnection::End::kReset;
    net_->want(c.socket, false, false);
    return true;
  }
  const size_t skipped = std::min(c.skip, size_t(got));
  c.skip -= skipped;
  c.sent.insert(c.sent.end(), bytes.begin() + ptrdiff_t(skipped), bytes.begin() + got);
  return true;
}

bool Replay::turn(Instant now) {
  if (began_ == kNever) began_ = moved_ = now;
  std::array<NetEvent, 32> events;
  const unsigned count = net_->poll(events, now);
  bool worked = false;
  for (unsigned i = 0; i < count; ++i) {
    const NetEvent& event = events[i];
    if (event.kind == NetEventKind::kReadable || event.kind == NetEventKind::kWritable) continue;
    worked = true;
    if (event.kind == NetEventKind::kAccepted) {
      accepted(event);
      continue;
    }
    for (auto& c : connections_) {
      if (c->socket != event.socket) continue;
      c->established = event.kind == NetEventKind::kConnected;
      c->closed = !c->established;
      if (c->closed) c->end = ReplayConnection::End::kRefused;
    }
  }
  for (auto& c : connections_)
    while (move_bytes(*c)) worked = true;
  if (worked) moved_ = now;
  if (!started()) return worked;
  while (next_ < steps_.size()) {
    const Step& step = steps_[next_];
    if (options_.by_time && now - began_ < step.event->time) break;
    if (!ready(step)) {
      if (now - moved_ < options_.patience) break;
      ++forced_;
    }
    play(step);
    moved_ = now;
    worked = true;
    ++next_;
  }
  return worked;
}

std::string Replay::waiting() const {
  if (done()) return "nothing";
  const Step& step = steps_[next_];
  return step.connection->name() + ": " + std::to_string(step.ours_before) + " bytes of ours, has " +
         std::to_string(step.connection->sent.size());
}

std::vector<ReplayMessage> replay_messages(const Capture& capture, const std::vector<IpAddress>& party, Net net) {
  std::vector<ReplayMessage> all;
  for (size_t index = 0; index < capture.conversations.size(); ++index) {
    const TcpConversation& c = capture.conversations[index];
    const bool dialled = plays(party, c.dialler);
    if (!dialled && !plays(party, c.passive)) continue;
    const Side side = dialled ? Side::kDialler : Side::kPassive;
    size_t skip = handshake_bytes(c, side);
    const uint32_t version = version_of(c, side);
    socklnd::FrameDecoder decoder(version);
    ReplayMessage message;
    size_t payload_left = 0;
    for (const TcpEvent& event : c.events) {
      if (event.from != side) continue;
      std::span<const std::byte> in(event.bytes);
      const size_t skipped = std::min(skip, in.size());
      skip -= skipped;
      in = in.subspan(skipped);
      while (!in.empty()) {
        if (payload_left == 0) {
          if (decoder.at_boundary()) message = {index, {}, {}, event.time, {}, {}};
          const auto status = decoder.feed(in);
          if (status == socklnd::FrameStatus::kMore) continue;
          if (status == socklnd::FrameStatus::kNoop) decoder.next();
          if (status == socklnd::FrameStatus::kNoop) continue;
          if (status != socklnd::FrameStatus::kMessage) break;
          message.decoded = decoder.header();
          message.from = c.address(side).nid(net);
          message.to = c.address(other(side)).nid(net);
          payload_left = message.decoded.payload_length;
          decoder.next();
        }
        const size_t bytes = std::min(payload_left, in.size());
        message.payload.insert(message.payload.end(), in.begin(), in.begin() + ptrdiff_t(bytes));
        in = in.subspan(bytes);
        payload_left -= bytes;
        if (payload_left == 0) all.push_back(message);
      }
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.began < b.began; });
  return all;
}

}  // namespace ulnet::test
