#include "tests/replay/o2ib_script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>

#include "dataplane/wire/bytes.h"
#include "lnd/o2iblnd/proto/credits.h"
#include "tests/wire/roce.h"

namespace ulnet::test {
namespace {

using Kind = O2ibEvent::Kind;

/// Finds the link of each CM message by its ids, and that of each connection.
class Links {
 public:
  Links(O2ibScript& script, const O2ibCapture& capture) : script_(script), capture_(capture) {}

  size_t of_connection(size_t connection) {
    const auto known = of_connection_.find(connection);
    if (known != of_connection_.end()) return known->second;
    const O2ibConnection& mid = capture_.connections.at(connection);
    EXPECT_TRUE(mid.opened_mid);
    return of_connection_[connection] = add(mid.dialler, mid.passive, true);
  }

  size_t of(const CmMessage& cm) {
    switch (cm.kind) {
      case CmMessage::Kind::kReq: return of_request_[{cm.from, cm.local_id}] = add(cm.from, cm.to, false);
      case CmMessage::Kind::kRep: return of_connection_[cm.connection] = of_request_.at({cm.to, cm.remote_id});
      case CmMessage::Kind::kDreq:
      case CmMessage::Kind::kDrep: return of_connection(cm.connection);
      case CmMessage::Kind::kRtu: return of_request_.at({cm.from, cm.local_id});
      case CmMessage::Kind::kRej: break;
    }
    const auto own = of_request_.find({cm.from, cm.local_id});
    return own != of_request_.end() ? own->second : of_request_.at({cm.to, cm.remote_id});
  }

 private:
  size_t add(uint32_t dialler, uint32_t passive, bool opened_mid) {
    script_.links.push_back({dialler, passive, opened_mid});
    return script_.links.size() - 1;
  }
  O2ibScript& script_;
  const O2ibCapture& capture_;
  std::map<std::pair<uint32_t, uint32_t>, size_t> of_request_;  // by sender and its id
  std::map<size_t, size_t> of_connection_;
};

Kind kind_of(CmMessage::Kind kind) {
  switch (kind) {
    case CmMessage::Kind::kReq: return Kind::kRequest;
    case CmMessage::Kind::kRep: return Kind::kReply;
    case CmMessage::Kind::kRej: return Kind::kReject;
    case CmMessage::Kind::kRtu: return Kind::kReady;
    case CmMessage::Kind::kDreq: return Kind::kHangUp;
    case CmMessage::Kind::kDrep: return Kind::kHungUp;
  }
  return Kind::kReject;
}

O2ibEvent event_of(const O2ibCapture& capture, const O2ibSend& send, Kind kind, size_t link) {
  const O2ibConnection& connection = capture.connections.at(send.connection);
  O2ibEvent event{.kind = kind, .time = send.time, .link = link, .bytes = send.bytes};
  event.from = send.from == Side::kDialler ? connection.dialler : connection.passive;
  event.to = send.from == Side::kDialler ? connection.passive : connection.dialler;
  return event;
}

/// When the first frame of a pcap file was captured.
Duration first_time(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<std::byte, 32> head{};
  for (std::byte& one : head) one = std::byte(uint8_t(file.get()));
  return std::chrono::seconds(wire::load<uint32_t>(&head[24])) +
         std::chrono::microseconds(wire::load<uint32_t>(&head[28]));
}

}  // namespace

o2iblnd::Message O2ibEvent::message() const {
  o2iblnd::Message decoded;
  EXPECT_EQ(o2iblnd::message_decode(bytes, decoded), o2iblnd::MessageFault::kNone);
  return decoded;
}

std::optional<wire::Header> O2ibEvent::header() const {
  if (kind == Kind::kTcp) return tcp.decoded;
  if (kind != Kind::kMessage) return std::nullopt;
  const o2iblnd::Message decoded = message();
  return o2iblnd::uses_credit(decoded.type) ? std::optional(decoded.header) : std::nullopt;
}

std::string O2ibEvent::name() const {
  static constexpr const char* kNames[] = {"REQ", "REP", "REJ", "RTU", "DREQ", "DREP", "", "WRITE", "tcp"};
  return kind == Kind::kMessage ? o2iblnd::message_type_text(message().type) : kNames[size_t(kind)];
}

O2ibScript o2ib_script(const std::string& name) {
  const O2ibCapture capture = o2ib_read(capture_path(name));
  EXPECT_EQ(capture.error, "");
  O2ibScript script;
  script.began = first_time(capture_path(name));
  Links links(script, capture);
  std::map<size_t, std::function<O2ibEvent()>> in_order;
  for (const CmMessage& cm : capture.cm)
    in_order[cm.place] = [&] {
      O2ibEvent event{.kind = kind_of(cm.kind), .time = cm.time, .from = cm.from, .to = cm.to, .reason = cm.reason};
      event.link = links.of(cm);
      event.bytes = cm.private_data;
      return event;
    };
  for (const O2ibSend& one : capture.sends)
    in_order[one.place] = [&] { return event_of(capture, one, Kind::kMessage, links.of_connection(one.connection)); };
  for (const O2ibWrite& one : capture.writes)
    in_order[one.data.place] = [&] {
      O2ibEvent event = event_of(capture, one.data, Kind::kWrite, links.of_connection(one.data.connection));
      event.key = one.key;
      event.address = one.address;
      return event;
    };
  std::set<std::pair<size_t, uint32_t>> hung_up;
  for (const auto& [place, make] : in_order) {
    O2ibEvent event = make();
    if (event.kind == Kind::kHangUp && !hung_up.insert({event.link, event.from}).second) continue;  // sent again
    script.events.push_back(std::move(event));
  }
  return script;
}

void add_tcp(O2ibScript& script, const std::string& name, const std::vector<std::string>& addresses) {
  const Duration later = first_time(capture_path(name)) - script.began;
  const Capture capture = pcap_read(capture_path(name));
  EXPECT_EQ(capture.error, "");
  for (const std::string& address : addresses)
    for (ReplayMessage& one : replay_messages(capture, {ip(address.c_str())})) {
      O2ibEvent& event = script.events.emplace_back();
      event.kind = Kind::kTcp;
      event.time = one.began + later;
      event.from = one.from.address_v4();
      event.to = one.to.address_v4();
      event.tcp = std::move(one);
    }
  std::stable_sort(script.events.begin(), script.events.end(),
                   [](const O2ibEvent& a, const O2ibEvent& b) { return a.time < b.time; });
}

}  // namespace ulnet::test
