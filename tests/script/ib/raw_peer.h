// A peer of o2iblnd that a test plays: it sends exactly the messages that the test writes, and notes what comes.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <vector>

#include "lnd/o2iblnd/proto/credits.h"
#include "lnd/o2iblnd/proto/message.h"
#include "tests/script/ib/ib_end.h"
#include "tests/script/ib/ib_net.h"

namespace ulnet::test {

/// A message that came, with its own bytes.
struct Came {
  std::vector<std::byte> bytes;
  o2iblnd::Message message;
};

class RawPeer final : public rc::QpUser {
 public:
  static constexpr unsigned kNumber = 1;
  RawPeer(IbNet& net);
  ~RawPeer();

  void turn(Instant now);
  /// Connects to node `to`, instead of waiting for its REQ.
  void dial(unsigned to, Instant now);
  /// Sends what `encode` writes; `credits` are returned with it.
  template <class F>
  void send(const F& encode, uint8_t credits = 0) {
    const uint32_t buffer = next_send_++ % qp->sends;
    const o2iblnd::MessageBuffer out(qp->send_buffer(buffer).first<o2iblnd::kMessageMax>());
    const size_t bytes = encode(out);
    o2iblnd::set_credits(out, credits);
    ASSERT_EQ(worker().send(*qp, buffer, uint32_t(bytes), 0, rc::Wake::kYes), rc::Posted::kYes);
  }
  void send_immediate(uint64_t bits, uint32_t bytes, uint8_t credits = 0);
  void send_put_req(uint64_t bits, uint32_t bytes, uint64_t cookie);
  void send_completion(o2iblnd::MessageType type, uint64_t cookie, int32_t status, uint8_t credits = 0);
  void send_noop(uint8_t credits);
  /// Introduces itself as the control half does, with CONNREQ or CONNACK.
  void introduce(o2iblnd::MessageType type);
  /// Offers `bytes` of `memory` in one piece.
  std::vector<o2iblnd::Fragment> open(uint32_t bytes) { return open_all(bytes, bytes); }
  /// Offers `bytes` in fragments of `piece`, side by side under one key, in another order than they lie there.
  std::vector<o2iblnd::Fragment> open_all(uint32_t bytes, uint32_t piece);
  void send_put_ack(uint64_t cookie, uint64_t sink_cookie, const std::vector<o2iblnd::Fragment>& fragments);
  void send_get_req(uint64_t bits, uint32_t bytes, uint64_t cookie, const std::vector<o2iblnd::Fragment>& fragments);
  /// Writes the payload of these bits to where the peer has offered.
  void write(const o2iblnd::RemoteSink& sink, uint64_t bits, uint32_t bytes);
  /// The bytes in the fragments, in order.
  [[nodiscard]] std::vector<std::byte> written(const std::vector<o2iblnd::Fragment>& fragments) const;
  /// The next message that came; fails if there is none.
  [[nodiscard]] Came next();

  void received(rc::Qp& qp, uint32_t buffer, uint32_t bytes, Instant now) override;
  void sent(rc::Qp&, uint64_t, Instant) override {}
  void key_closed(rc::Qp&, rc::RemoteKey&, Instant) override {}
  void broken(rc::Qp& qp, rc::Cause cause, Instant now) override;
  void drained(rc::Qp& qp, Instant now) override;
  [[nodiscard]] rc::Worker& worker() { return provider_->worker(WorkerId{0}); }
  [[nodiscard]] rc::Control& control() { return provider_->control(); }

  rc::Qp* qp = nullptr;
  std::deque<Came> came;
  std::vector<std::byte> memory, source;
  o2iblnd::Ends ends = ib_ends(kNumber, 0);
  rc::Cause cause = rc::Cause::kNone;
  unsigned connections = 0;
  bool accepts = true, established = false;
  unsigned requests = 0;               ///< REQs that came
  std::vector<std::byte> reject_data;  ///< private data of rejects
  std::vector<std::byte> hello;        ///< of its REQs and REPs
  rc::QpNeeds needs = ib_needs();      ///< of its queue pairs
  rc::RemoteKey key;
  [[nodiscard]] wire::Header header(wire::MsgType type, uint64_t bits, uint32_t bytes) const;

 private:
  IbNet& net_;
  std::unique_ptr<rc::Provider> provider_;
  rc::ListenerId listener_ = 0;
  rc::ConnId conn_ = 0;
  Segment window_;
  uint32_t next_send_ = 0;
  Instant now_ = kNever;
};

}  // namespace ulnet::test
