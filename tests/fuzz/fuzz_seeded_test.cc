// Runs every fuzz target on a fixed, seeded set of mutated inputs cut from the captures. So each compiler and sanitizer
// covers the targets in the ordinary test run. Bounded: the same inputs every time, a second or two in all.
#include <gtest/gtest.h>

#include "dataplane/base/rng.h"
#include "dataplane/wire/bytes.h"
#include "tests/fuzz/targets.h"
#include "tests/wire/decode.h"
#include "tests/wire/roce.h"

namespace ulnet::fuzz {
namespace {

using Input = std::vector<std::byte>;

constexpr unsigned kMutationsPerTarget = 100000;
constexpr size_t kInputBytesMax = 4096;

struct Seeds {
  std::vector<Input> header, ping_info, acceptor, hello, frame, nid_text, o2ib_message, o2ib_reject, roce_packet;
  [[nodiscard]] const std::vector<Input>& of(std::string_view name) const {
    if (name == "header") return header;
    if (name == "ping_info") return ping_info;
    if (name == "acceptor") return acceptor;
    if (name == "hello") return hello;
    if (name == "o2ib_message") return o2ib_message;
    if (name == "o2ib_reject") return o2ib_reject;
    if (name == "roce_packet") return roce_packet;
    return name == "frame" ? frame : nid_text;
  }
};

Input cut(std::span<const std::byte> bytes) {
  const auto part = bytes.first(std::min(bytes.size(), kInputBytesMax));
  return {part.begin(), part.end()};
}

Input prefixed(uint8_t head, std::span<const std::byte> bytes) {
  Input out = cut(bytes);
  out.insert(out.begin(), std::byte{head});
  return out;
}

/// Cuts one side of a conversation into seeds for the targets.
void collect(const test::TcpConversation& conversation, test::Side side, Seeds& seeds) {
  const auto stream = conversation.stream(side);
  if (stream.empty()) return;
  const auto decoded = test::decode_side(conversation, side, SIZE_MAX);
  const size_t request_bytes = decoded.dialled ? socklnd::conn_request_bytes(decoded.request.target) : 0;
  if (decoded.dialled) seeds.acceptor.push_back(cut(stream));
  if (!decoded.hello) return;
  const auto from_hello = std::span(stream).subspan(request_bytes);
  const auto from_frames = from_hello.subspan(socklnd::hello_bytes(decoded.hello->version));
  seeds.hello.push_back(prefixed(decoded.dialled ? 0 : 1, from_hello));
  const auto mode = uint8_t((decoded.hello->version - 1) | (decoded.hello->flip ? 4u : 0u));
  seeds.frame.push_back(prefixed(mode, from_frames));
  for (const test::DecodedFrame& frame : decoded.frames) {
    if (!frame.header) continue;
    std::array<std::byte, socklnd::kFramePrefixMaxBytes> out{};
    socklnd::frame_prefix_encode(decoded.hello->version, frame.frame, *frame.header, out);
    seeds.header.push_back(cut(std::span(out).subspan(socklnd::kFrameHeaderBytes)));
    const bool ping = frame.payload.size() >= 32 && wire::load<uint32_t>(frame.payload.data()) == 0x70696E67;
    if (ping) seeds.ping_info.push_back(cut(frame.payload));
  }
}

/// Messages of o2iblnd and private data of the CM. `other_order` swaps magic, version and length, so that mutations
/// reach the rest of a message of the other byte order.
void collect_o2ib(const test::O2ibCapture& capture, Seeds& seeds) {
  const auto other_order = [](Input input) {
    for (const auto& [at, size] : {std::pair(0, 4), std::pair(4, 2), std::pair(8, 4)})
      if (input.size() >= size_t(at + size)) std::reverse(input.begin() + at, input.begin() + at + size);
    return input;
  };
  const auto add = [&](std::vector<Input>& to, const std::vector<std::byte>& bytes) {
    to.push_back(cut(bytes));
    to.push_back(other_order(cut(bytes)));
  };
  for (const test::O2ibSend& one : capture.sends) add(seeds.o2ib_message, one.bytes);
  for (const test::CmMessage& one : capture.cm) {
    if (one.private_data.empty()) continue;
    add(one.kind == test::CmMessage::Kind::kRej ? seeds.o2ib_reject : seeds.o2ib_message, one.private_data);
  }
}

const Seeds& seeds() {
  static const Seeds all = [] {
    Seeds made;
    for (const char* name :
         {"b1-tcp-mr-discover-push", "c2-tcp-lst-brw-write-4k", "g3-tcp-crafted-hver1", "g3-tcp-crafted-hbe",
          "g3-tcp-crafted-hver2", "g3-tcp-crafted-noop", "g4-tcp-connection-race",
          "h1-tcp-ipv6-large-nid-ping-discover", "h2-tcp-ipv4-and-ipv6-nid-discover"}) {
      for (const auto& conversation : test::pcap_read(test::capture_path(name)).conversations)
        for (test::Side side : {test::Side::kDialler, test::Side::kPassive}) collect(conversation, side, made);
    }
    for (const char* name :
         {"e1-o2ib-ping-discover", "e3-o2ib-lst-brw-write-4k", "e4-o2ib-lst-brw-read-4k",
          "g7-o2ib-reject-queue-depth-renegotiate", "g9-o2ib-connection-race", "g10-o2ib-reject-wrong-net"}) {
      const std::string path = test::capture_path(name);
      collect_o2ib(test::o2ib_read(path), made);
      test::roce_frames(path, [&](const test::RoceFrame& frame) { made.roce_packet.push_back(cut(frame.packet)); });
    }
    for (const char* text :
         {"10.0.0.1@tcp", "fd00:10::2@o2ib3", "0x10@gni1", "0@lo", "<?>", "1f:2:3@<99:7>", "tcp12"}) {
      made.nid_text.push_back(cut(std::as_bytes(std::span(text, std::strlen(text)))));
    }
    for (const Input& header : made.header) made.nid_text.push_back({header.begin(), header.begin() + 20});
    return made;
  }();
  return all;
}

/// One small damage.
void mutate_once(Input& input, const std::vector<Input>& pool, Rng& rng) {
  constexpr uint32_t kWords[] = {0, 1, 2, 3, 4, 16, 17, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00100000, 0x00100001};
  const size_t at = size_t(rng.below(input.size() + 1));
  switch (rng.below(7)) {
    case 0:
      if (at < input.size()) input[at] ^= std::byte(1u << rng.below(8));
      break;
    case 1:
      if (at < input.size()) input[at] = std::byte(uint8_t(rng.next()));
      break;
    case 2:
      if (at + 4 <= input.size()) wire::store(input.data() + at, kWords[rng.below(std::size(kWords))], rng.one_in(2));
      break;
    case 3: input.resize(at); break;
    case 4: input.insert(input.begin() + std::ptrdiff_t(at), std::byte(uint8_t(rng.next()))); break;
    case 5:
      if (at < input.size()) input.erase(input.begin() + std::ptrdiff_t(at));
      break;
    case 6: {
      const Input& other = pool[size_t(rng.below(pool.size()))];
      const size_t from = size_t(rng.below(other.size() + 1));
      input.resize(at);
      input.insert(input.end(), other.begin() + std::ptrdiff_t(from), other.end());
      break;
    }
  }
}

class FuzzSeeded : public testing::TestWithParam<Target> {};

TEST_P(FuzzSeeded, holds_its_properties) {
  const std::vector<Input>& pool = seeds().of(GetParam().name);
  ASSERT_GE(pool.size(), 7u);
  for (const Input& seed : pool) GetParam().run(seed);
  for (size_t length = 0; length <= pool.front().size(); ++length)
    GetParam().run(std::span(pool.front()).first(length));
  Rng rng(0x75316E6574);
  for (unsigned i = 0; i < kMutationsPerTarget; ++i) {
    Input input = pool[size_t(rng.below(pool.size()))];
    for (uint64_t count = 1 + rng.below(4); count != 0; --count) mutate_once(input, pool, rng);
    input.resize(std::min(input.size(), kInputBytesMax));
    input.shrink_to_fit();  // so that a sanitizer sees the first byte behind it
    GetParam().run(input);
  }
}

INSTANTIATE_TEST_SUITE_P(All, FuzzSeeded, testing::ValuesIn(kTargets),
                         [](const auto& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace ulnet::fuzz
