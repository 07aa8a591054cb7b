// The responder of our RoCE in the place of rdma_rxe's. For the requests of the captures, its answers have to be those
// of the captures. Lost packets are not in the files. rdma_rxe acknowledges each request by itself; ours merges.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <tuple>

#include "lnd/rc/roce/proto/cm_message.h"
#include "lnd/rc/roce/proto/path.h"
#include "lnd/rc/roce/responder.h"
#include "tests/wire/roce.h"

namespace ulnet::rc::roce {
namespace {

constexpr uint32_t kBuffers = 32, kBufferBytes = 4096, kKeys = 64;

/// One end of a connection, as it receives.
struct End {
  End(Psn first, uint32_t mtu, Rng& rng)
      : keys(kKeys, rng),
        responder(
            {.receives = kBuffers, .buffer_bytes = kBufferBytes, .memory = memory.data(), .mtu = mtu, .first = first},
            keys, counts) {
    for (uint32_t i = 0; i < kBuffers; ++i) responder.receive(i);
  }
  std::vector<std::byte> memory = std::vector<std::byte>(size_t{kBuffers} * kBufferBytes);
  KeyTable keys;
  Counts counts;
  Responder responder;
  std::vector<std::byte> window;
  std::vector<std::vector<std::byte>> messages;
  uint32_t key = 0;  ///< open, of a WRITE that is under way
  std::vector<Psn> naks, naks_seen;
  uint32_t acks_seen = 0;
  Answer last;  ///< that was due
};

class Replay {
 public:
  void take(const test::RoceFrame& frame) {
    const auto packet = packet_decode(frame.packet.first(std::min<size_t>(frame.packet.size(), kRoceHeadersMax)),
                                      uint32_t(frame.packet.size()));
    ASSERT_TRUE(packet);
    switch (packet->kind) {
      case PacketKind::kDatagram: return connect(frame);
      case PacketKind::kAcknowledge: return compare(frame, *packet);
      case PacketKind::kRequest: return request(frame, *packet);
      case PacketKind::kRefused:
      case PacketKind::kCnp: FAIL() << "not in the captures";
    }
  }
  /// By address and QPN of the receiver.
  std::map<std::pair<uint32_t, uint32_t>, std::unique_ptr<End>> ends;

 private:
  void connect(const test::RoceFrame& frame) {
    const auto message = cm_decode(frame.payload.subspan(kDethBytes).first<kMadBytes>());
    ASSERT_TRUE(message);
    if (const auto* req = std::get_if<CmReq>(&message->body)) asked_[req->local_id] = *req;
    const auto* rep = std::get_if<CmRep>(&message->body);
    if (rep == nullptr || !asked_.contains(rep->remote_id)) return;
    const CmReq& req = asked_.at(rep->remote_id);
    const uint32_t mtu = mtu_bytes(req.mtu);
    // Each side expects the number that it has chosen for the other.
    ends[{frame.to, req.qpn}] = std::make_unique<End>(req.starting_psn, mtu, rng_);
    ends[{frame.from, rep->qpn}] = std::make_unique<End>(rep->starting_psn, mtu, rng_);
    peer_[{frame.to, req.qpn}] = {frame.from, rep->qpn};
    peer_[{frame.from, rep->qpn}] = {frame.to, req.qpn};
  }
  void request(const test::RoceFrame& frame, Packet packet) {
    const auto it = ends.find({frame.to, packet.bth.qpn});
    if (it == ends.end()) return;  // open before the file begins
    End& end = *it->second;
    if (packet.shape.write && packet.shape.first && end.key == 0) {
      end.window.resize(packet.reth.bytes);
      end.key = *end.keys.open(end.window);
    }
    packet.reth.key = end.key;
    packet.reth.address = uint64_t(reinterpret_cast<uintptr_t>(end.window.data()));
    const auto place = end.responder.place(packet);
    if (place) {
      std::copy_n(frame.payload.begin() + (packet.header_bytes - kBthBytes), packet.payload_bytes, place->at);
      Received message;
      if (end.responder.taken(packet, message)) {
        const std::byte* from = end.memory.data() + size_t{message.buffer} * kBufferBytes;
        end.messages.emplace_back(from, from + message.bytes);
        end.responder.receive(message.buffer);
      }
      if (packet.shape.write && packet.shape.last) end.keys.close(std::exchange(end.key, 0));
    }
    ASSERT_EQ(end.responder.failure(), Cause::kNone);
    if (!end.responder.answer_due()) return;
    end.last = end.responder.answer();
    if (end.last.aeth.verdict == Verdict::kSequence) end.naks.push_back(end.last.psn);
    end.responder.answered();
  }
  /// An answer of the real node, about what it got before.
  void compare(const test::RoceFrame& frame, const Packet& packet) {
    const auto it = peer_.find({frame.to, packet.bth.qpn});
    if (it == peer_.end()) return;
    End& end = *ends.at(it->second);
    if (packet.aeth.verdict == Verdict::kSequence) return end.naks_seen.push_back(packet.bth.psn);
    ASSERT_EQ(packet.aeth.verdict, Verdict::kAck);
    EXPECT_EQ(packet.aeth.code, 31);
    ++end.acks_seen;
    EXPECT_GE(end.last.psn - packet.bth.psn, end.last.aeth.verdict == Verdict::kAck ? 0 : 1)
        << "more than ours has got";
    if (end.last.aeth.verdict == Verdict::kAck && end.last.psn == packet.bth.psn) {
      EXPECT_EQ(end.last.aeth.msn, packet.aeth.msn);
      ++equal;
    }
  }
  std::map<uint32_t, CmReq> asked_;
  std::map<std::pair<uint32_t, uint32_t>, std::pair<uint32_t, uint32_t>> peer_;
  Rng rng_{1};

 public:
  unsigned equal = 0;  ///< answers with the number of ours
};

/// All messages of connections that begin in the file, sorted.
std::vector<std::vector<std::byte>> messages_of(const std::string& path) {
  const test::O2ibCapture capture = test::o2ib_read(path);
  std::vector<std::vector<std::byte>> messages;
  for (const test::O2ibSend& send : capture.sends)
    if (!capture.connections[send.connection].opened_mid) messages.push_back(send.bytes);
  std::sort(messages.begin(), messages.end());
  return messages;
}

TEST(RoceResponder, answers_as_the_kernel_does) {
  unsigned naks = 0, acks = 0, equal = 0;
  for (const std::string& name : test::o2ib_capture_names()) {
    SCOPED_TRACE(name);
    Replay replay;
    const auto error = test::roce_frames(test::capture_path(name), [&](const test::RoceFrame& frame) {
      if (!::testing::Test::HasFailure()) replay.take(frame);
    });
    EXPECT_EQ(error, "");
    std::vector<std::vector<std::byte>> messages;
    for (const auto& [key, end] : replay.ends) {
      EXPECT_TRUE(end->naks == end->naks_seen) << end->naks.size() << " and " << end->naks_seen.size();
      naks += unsigned(end->naks_seen.size());
      acks += end->acks_seen;
      messages.insert(messages.end(), end->messages.begin(), end->messages.end());
    }
    std::sort(messages.begin(), messages.end());
    EXPECT_TRUE(messages == messages_of(test::capture_path(name)));
    equal += replay.equal;
  }
  EXPECT_EQ(naks, 9u);
  EXPECT_GT(acks, 500u);
  EXPECT_GT(equal, acks * 9 / 10) << "ours had got more than the other acknowledgements say";
}

}  // namespace
}  // namespace ulnet::rc::roce
