// pcap reader and TCP reassembly for tests. The hard part is a capture that begins with open connections. The first
// sequence number of a side then comes from its first data or from the other side's acknowledgement, whichever is
// first.
#include "tests/wire/pcap.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <span>

#include "dataplane/base/nid_text.h"

namespace ulnet::test {
namespace {

using Bytes = std::span<const std::byte>;

constexpr uint16_t kAcceptorPort = 988;
constexpr uint8_t kFlagFin = 0x01, kFlagSyn = 0x02, kFlagRst = 0x04, kFlagAck = 0x10;

uint16_t be16(Bytes in, size_t at) {
  return uint16_t((uint16_t(in[at]) << 8) | uint16_t(in[at + 1]));
}
uint32_t be32(Bytes in, size_t at) {
  return (uint32_t{be16(in, at)} << 16) | be16(in, at + 2);
}

/// One TCP segment as it stands in a frame.
struct Segment {
  TcpAddress from;
  TcpAddress to;
  uint32_t seq = 0;
  uint32_t ack = 0;
  uint8_t flags = 0;
  Bytes payload;
  [[nodiscard]] bool flag(uint8_t which) const { return (flags & which) != 0; }
};

std::optional<Segment> tcp_parse(Bytes in, Segment segment) {
  if (in.size() < 20) return std::nullopt;
  const size_t header_bytes = size_t(in[12] >> 4) * 4;
  if (header_bytes < 20 || header_bytes > in.size()) return std::nullopt;
  segment.from.port = be16(in, 0);
  segment.to.port = be16(in, 2);
  segment.seq = be32(in, 4);
  segment.ack = be32(in, 8);
  segment.flags = uint8_t(in[13]);
  segment.payload = in.subspan(header_bytes);
  return segment;
}

std::optional<Segment> ipv4_parse(Bytes in) {
  if (in.size() < 20 || uint8_t(in[0] >> 4) != 4) return std::nullopt;
  const size_t header_bytes = size_t(in[0] & std::byte{15}) * 4;
  const size_t total_bytes = be16(in, 2);
  const bool fragment = (be16(in, 6) & 0x3FFF) != 0;
  if (header_bytes < 20 || total_bytes < header_bytes || total_bytes > in.size() || fragment || in[9] != std::byte{6}) {
    return std::nullopt;
  }
  Segment segment;
  for (size_t i = 0; i < 4; ++i) {
    segment.from.addr[i] = uint8_t(in[12 + i]);
    segment.to.addr[i] = uint8_t(in[16 + i]);
  }
  return tcp_parse(in.first(total_bytes).subspan(header_bytes), segment);
}

std::optional<Segment> ipv6_parse(Bytes in) {
  constexpr size_t kHeaderBytes = 40;
  if (in.size() < kHeaderBytes || uint8_t(in[0] >> 4) != 6 || in[6] != std::byte{6}) return std::nullopt;
  const size_t payload_bytes = be16(in, 4);
  if (kHeaderBytes + payload_bytes > in.size()) return std::nullopt;
  Segment segment;
  segment.from.ipv6 = segment.to.ipv6 = true;
  for (size_t i = 0; i < 16; ++i) {
    segment.from.addr[i] = uint8_t(in[8 + i]);
    segment.to.addr[i] = uint8_t(in[24 + i]);
  }
  return tcp_parse(in.subspan(kHeaderBytes, payload_bytes), segment);
}

std::optional<Segment> frame_parse(Bytes in) {
  if (in.size() < 14) return std::nullopt;
  const uint16_t ethertype = be16(in, 12);
  if (ethertype == 0x0800) return ipv4_parse(in.subspan(14));
  if (ethertype == 0x86DD) return ipv6_parse(in.subspan(14));
  return std::nullopt;
}

/// Distance from b to a on the circle of sequence numbers.
int32_t seq_after(uint32_t a, uint32_t b) {
  return int32_t(a - b);
}

/// One direction of a connection.
class Direction {
 public:
  /// Something that the stream reached: data, or its end.
  struct Delivery {
    std::vector<std::byte> bytes;
    bool fin = false;
  };

  [[nodiscard]] bool started() const { return next_.has_value(); }
  [[nodiscard]] std::optional<uint32_t> first_seq() const { return isn_; }
  [[nodiscard]] bool waiting() const { return !early_.empty(); }
  void syn(uint32_t seq) {
    isn_ = seq;
    next_ = seq + 1;
  }
  void learn(uint32_t seq) {
    if (!next_) next_ = seq;
  }

  /// Takes a segment; returns what became complete with it, in order.
  std::vector<Delivery> take(uint32_t seq, Bytes payload, bool fin) {
    std::vector<Delivery> done;
    if (payload.empty() && !fin) return done;
    learn(seq);
    early_.insert({seq, {{payload.begin(), payload.end()}, fin}});
    while (!fin_) {
      const auto ready = std::find_if(early_.begin(), early_.end(),
                                      [this](const auto& item) { return seq_after(item.first, *next_) <= 0; });
      if (ready == early_.end()) break;
      deliver(ready->first, std::move(ready->second), done);
      early_.erase(ready);
    }
    if (fin_) early_.clear();
    return done;
  }

 private:
  void deliver(uint32_t seq, Delivery item, std::vector<Delivery>& done) {
    const auto old = size_t(seq_after(*next_, seq));
    const bool ends_here = item.fin && old <= item.bytes.size();
    if (old > item.bytes.size() || (old == item.bytes.size() && !ends_here)) return;
    item.bytes.erase(item.bytes.begin(), item.bytes.begin() + std::ptrdiff_t(old));
    *next_ += uint32_t(item.bytes.size());
    fin_ = ends_here;
    done.push_back(std::move(item));
  }

  std::optional<uint32_t> isn_;
  std::optional<uint32_t> next_;
  std::multimap<uint32_t, Delivery> early_;
  bool fin_ = false;
};

/// All connections of one file while it is read.
class Assembler {
 public:
  void take(const Segment& segment, Duration time) {
    const Key key = segment.from < segment.to ? Key{segment.from, segment.to} : Key{segment.to, segment.from};
    auto found = current_.find(key);
    const bool opens = segment.flag(kFlagSyn) && !segment.flag(kFlagAck);
    if (found == current_.end() || (opens && begins_anew(found->second, segment))) {
      current_[key] = begin(segment, opens);
      found = current_.find(key);
    }
    add(found->second, segment, time);
  }

  std::vector<TcpConversation> finish() {
    std::vector<TcpConversation> all;
    for (State& state : states_) {
      state.conversation.gap = state.directions[0].waiting() || state.directions[1].waiting();
      all.push_back(std::move(state.conversation));
    }
    return all;
  }

 private:
  using Key = std::pair<TcpAddress, TcpAddress>;
  struct State {
    TcpConversation conversation;
    Direction directions[2];
  };

  bool begins_anew(size_t index, const Segment& segment) const {
    const Direction& dialler = states_[index].directions[0];
    return dialler.first_seq() != segment.seq || states_[index].conversation.dialler != segment.from;
  }

  size_t begin(const Segment& segment, bool opens) {
    State state;
    TcpConversation& conversation = state.conversation;
    const bool from_dialler = opens || (!segment.flag(kFlagSyn) && segment.to.port == kAcceptorPort);
    conversation.dialler = from_dialler ? segment.from : segment.to;
    conversation.passive = from_dialler ? segment.to : segment.from;
    conversation.opened_mid = conversation.established = !opens;
    states_.push_back(std::move(state));
    return states_.size() - 1;
  }

  void add(size_t index, const Segment& segment, Duration time) {
    State& state = states_[index];
    TcpConversation& conversation = state.conversation;
    const Side from = segment.from == conversation.dialler ? Side::kDialler : Side::kPassive;
    Direction& here = state.directions[size_t(from)];
    Direction& there = state.directions[size_t(other(from))];
    const auto event = [&](TcpEvent::Kind kind, std::vector<std::byte> bytes = {}) {
      conversation.events.push_back({time, from, kind, std::move(bytes)});
    };
    if (segment.flag(kFlagRst)) {
      event(TcpEvent::Kind::kRst);
      return;
    }
    if (segment.flag(kFlagSyn)) {
      if (here.first_seq()) return;  // sent again
      here.syn(segment.seq);
      if (from == Side::kPassive) conversation.established = true;
      event(TcpEvent::Kind::kSyn);
      return;
    }
    for (auto& delivery : here.take(segment.seq, segment.payload, segment.flag(kFlagFin))) {
      if (!delivery.bytes.empty()) event(TcpEvent::Kind::kData, std::move(delivery.bytes));
      if (delivery.fin) event(TcpEvent::Kind::kFin);
    }
    if (segment.flag(kFlagAck)) there.learn(segment.ack);
  }

  std::vector<State> states_;
  std::map<Key, size_t> current_;  ///< the latest conversation of a pair of addresses
};

std::vector<std::byte> file_read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> chars{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::byte> bytes(chars.size());
  std::transform(chars.begin(), chars.end(), bytes.begin(), [](char c) { return std::byte(c); });
  return bytes;
}

uint32_t le32(Bytes in, size_t at) {
  return uint32_t(in[at]) | (uint32_t(in[at + 1]) << 8) | (uint32_t(in[at + 2]) << 16) | (uint32_t(in[at + 3]) << 24);
}

}  // namespace

Nid TcpAddress::nid(Net net) const {
  if (ipv6) return Nid::v6(net, addr);
  Nid nid = Nid::v4(net, 0);
  std::copy_n(addr.begin(), 4, nid.addr.begin());
  return nid;
}

std::string TcpAddress::text() const {
  std::string ip = nid_text(nid());
  ip.resize(ip.find('@'));
  return (ipv6 ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

std::vector<std::byte> TcpConversation::stream(Side side) const {
  std::vector<std::byte> all;
  for (const TcpEvent& event : events)
    if (event.from == side) all.insert(all.end(), event.bytes.begin(), event.bytes.end());
  return all;
}

bool TcpConversation::has(Side side, TcpEvent::Kind kind) const {
  return std::any_of(events.begin(), events.end(),
                     [&](const TcpEvent& event) { return event.from == side && event.kind == kind; });
}

std::string pcap_frames(const std::string& path, const std::function<void(Duration, Bytes)>& call) {
  constexpr size_t kFileHeader = 24, kRecordHeader = 16;
  constexpr uint32_t kEthernet = 1, kMicroseconds = 0xA1B2C3D4, kNanoseconds = 0xA1B23C4D;
  const std::vector<std::byte> file = file_read(path);
  const Bytes in(file);
  if (in.size() < kFileHeader) return path + ": missing or too short";
  const uint32_t magic = le32(in, 0);
  if (magic != kMicroseconds && magic != kNanoseconds) return path + ": no little-endian classic pcap file";
  if (le32(in, 20) != kEthernet) return path + ": link type is not Ethernet";
  const Duration unit = magic == kMicroseconds ? Duration(1us) : Duration(1ns);
  std::optional<Duration> start;
  for (size_t at = kFileHeader; at < in.size();) {
    if (in.size() - at < kRecordHeader) return path + ": ends inside a record header";
    const size_t bytes = le32(in, at + 8);
    if (in.size() - at - kRecordHeader < bytes) return path + ": ends inside a frame";
    const Duration time = std::chrono::seconds(le32(in, at)) + unit * le32(in, at + 4);
    if (!start) start = time;
    call(time - *start, in.subspan(at + kRecordHeader, bytes));
    at += kRecordHeader + bytes;
  }
  return "";
}

Capture pcap_read(const std::string& path) {
  Capture capture;
  Assembler assembler;
  capture.error = pcap_frames(path, [&](Duration time, Bytes frame) {
    ++capture.frame_count;
    if (const auto segment = frame_parse(frame)) assembler.take(*segment, time);
  });
  if (capture.error.empty()) capture.conversations = assembler.finish();
  return capture;
}

std::string capture_path(const std::string& name) {
  return std::string(ULNET_CAPTURES) + "/" + name + ".pcap";
}

std::vector<std::string> capture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ULNET_CAPTURES))
    if (entry.path().extension() == ".pcap") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ulnet::test
