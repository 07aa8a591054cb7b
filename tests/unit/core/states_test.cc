// Goal: each step of an Operation or an Incoming leads to the state that dataplane/state/message.h describes, with the
// events and counters of that step.
// Method: a row is a list of steps and the outcome of the last one. The worker has memory for one Operation and one
// Incoming, so that a row with two messages uses the memory of the first again. Every order of the steps is in
// orders_test.cc.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "tests/unit/core/bench.h"

namespace ulnet::test {
namespace {

using wire::MsgType;

const char* name(OperationState state) {
  switch (state) {
    case OperationState::kFree: return "kFree";
    case OperationState::kReady: return "kReady";
    case OperationState::kParked: return "kParked";
    case OperationState::kSending: return "kSending";
    case OperationState::kSendingGivenUp: return "kSendingGivenUp";
    case OperationState::kSendingReceiving: return "kSendingReceiving";
    case OperationState::kSendingAnswered: return "kSendingAnswered";
    case OperationState::kAwaiting: return "kAwaiting";
    case OperationState::kReceiving: return "kReceiving";
    case OperationState::kFinishing: return "kFinishing";
  }
  return "?";
}

const char* name(IncomingState state) {
  switch (state) {
    case IncomingState::kFree: return "kFree";
    case IncomingState::kReady: return "kReady";
    case IncomingState::kReceiving: return "kReceiving";
    case IncomingState::kParked: return "kParked";
    case IncomingState::kSending: return "kSending";
    case IncomingState::kFinishing: return "kFinishing";
  }
  return "?";
}

const char* name(EventKind kind) {
  switch (kind) {
    case EventKind::kPut: return "PUT";
    case EventKind::kGet: return "GET";
    case EventKind::kReply: return "REPLY";
    case EventKind::kAck: return "ACK";
    case EventKind::kSend: return "SEND";
    case EventKind::kUnlink: return "UNLINK";
  }
  return "?";
}

std::string last_byte(const Nid& nid) {
  return nid.is_any() ? "-" : std::to_string(nid.addr[3]);
}

/// A node with two rails to the peer 2, 3. Each step is a word.
class States {
 public:
  States() : bench_({.operations = 1, .incoming = 1}) {
    for (uint32_t peer : {2, 3, 4}) bench_.add_peer(tcp(peer));
    bench_.join(tcp(2), tcp(2));
    bench_.join(tcp(2), tcp(3));
    bench_.open_portal(9, WorkerId{0});
    bench_.node.retry_count = 1;
    bench_.publish();
    submitter_ = &bench_.submitter(WorkerId{0});
    eq_ = *submitter_->eq_open(2);
    bench_.settle();
    const auto operation = [this](const Nid& to, bool get, bool ack) { return [=, this] { start(to, get, ack); }; };
    const auto incoming = [this](const Nid& from, bool get, bool ack) { return [=, this] { arrive(from, get, ack); }; };
    const auto lease = [this](int32_t error, LndStatus health) {
      return [=, this] { bench_.lnd().complete_tx(*bench_.lnd().sent.at(0), {error, health}); };
    };
    steps_ = {
        {"put", operation(tcp(2), false, true)},
        {"put_no_ack", operation(tcp(2), false, false)},
        {"get", operation(tcp(2), true, false)},
        {"put_unknown", operation(tcp(9), false, true)},
        {"get_unknown", operation(tcp(9), true, false)},
        {"put_twice", [this] { put_twice(); }},
        {"in_put", incoming(tcp(2), false, true)},
        {"in_put_no_ack", incoming(tcp(2), false, false)},
        {"in_get", incoming(tcp(2), true, false)},
        {"in_put_without_way_back", incoming(tcp1(7), false, true)},
        {"in_put_unknown", incoming(tcp(9), false, true)},
        {"in_get_unknown", incoming(tcp(9), true, false)},
        {"lease_ok", lease(0, LndStatus::kOk)},
        {"lease_fails", lease(-EPIPE, LndStatus::kRemoteError)},
        {"lease_dropped", lease(-ECONNRESET, LndStatus::kRemoteDropped)},
        {"sink", [this] { bench_.lnd().complete_get(*bench_.lnd().sent.at(0), 50, 0); }},
        {"refused", [this] { bench_.lnd().complete_get(*bench_.lnd().sent.at(0), 0, -ENODATA); }},
        {"ack", [this] { answer(0); }},
        {"reply", [this] { answer(60); }},
        {"long_reply", [this] { answer(61); }},
        {"payload", [this] { bench_.lnd().complete_rx(*bench_.lnd().receiving.at(0), 0); }},
        {"lost", [this] { bench_.lnd().complete_rx(*bench_.lnd().receiving.at(0), -ECONNRESET); }},
        {"unlink", [this] { EXPECT_TRUE(submitter_->unlink(md_)); }},
        {"no_credits", [this] { set_credits(0); }},
        {"credits", [this] { set_credits(8); }},
        {"deadline", [this] { bench_.advance(150s); }},
        {"full", [this] { fill_queue(); }},
        {"poll", [this] { poll(); }},
        {"resolved", [this] { resolve(0); }},
        {"unresolved", [this] { resolve(-EHOSTUNREACH); }},
    };
  }

  /// Runs the steps and returns the outcome of the last one. Events of earlier steps are part of it.
  std::string run(const std::string& steps) {
    std::istringstream words(steps);
    for (std::string word; words >> word;) {
      const auto step = steps_.find(word);
      EXPECT_NE(step, steps_.end()) << word;
      if (step != steps_.end()) step->second();
      for (int i = 0; i < 4; ++i) bench_.turn(WorkerId{0});
      if (!queue_full_) poll();
    }
    for (const Tx* tx : bench_.lnd().sent) EXPECT_EQ(tx->payload.length, tx->header.payload_length);
    std::string outcome;
    Worker& w = bench_.worker();
    w.operations.for_each_out([&](Operation& op) { outcome += name(op.state); });
    w.incoming.for_each_out([&](Incoming& m) { outcome += name(m.state); });
    if (outcome.empty()) outcome = "over";
    for (const auto& [tx, force] : bench_.lnd().cancelled) outcome += force ? ", cancelled by force" : ", cancelled";
    if (!bench_.lnd().diverted.empty()) outcome += ", diverted";
    if (const uint64_t times = w.counters[Stat::kResendCount].get()) outcome += ", resent " + std::to_string(times);
    if (const uint64_t times = w.counters[Stat::kErrors].get()) outcome += ", errors " + std::to_string(times);
    uint64_t samples = 0;
    for (const Nid& nid : {tcp(2), tcp(3)})
      for (NiLatency which : {NiLatency::kGetRtt, NiLatency::kPutAck})
        samples += bench_.local(nid).latencies[which].samples.get();
    if (samples > 0) outcome += ", sampled " + std::to_string(samples);
    for (const std::string& event : events_) outcome += ", " + event;
    for (size_t i = 0; i < size_t(Drop::kCount); ++i)
      if (w.counters[Drop(i)].get() != 0) outcome += std::string(", dropped: ") + texts_of<Drop>()[i].name;
    return outcome;
  }

  /// Lets everything end; "" when nothing is left.
  std::string finish() {
    for (int round = 0; round < 8; ++round) {
      ScriptLnd& lnd = bench_.lnd();
      while (!lnd.receiving.empty()) lnd.complete_rx(*lnd.receiving[0], -ECANCELED);
      while (!lnd.sent.empty()) lnd.complete_tx(*lnd.sent[0], {-EPIPE, LndStatus::kRemoteError});
      for (const MdHandle md : mds_) (void)submitter_->unlink(md);
      bench_.tell(WorkerId{0}, ResolvedMsg{tcp(9), -EHOSTUNREACH});
      bench_.settle();
      poll();
      bench_.advance(200s);
    }
    EXPECT_EQ(submitter_->eq_slot(eq_.index).users, 0u);
    return bench_.not_at_rest();
  }

 private:
  MdHandle bind(uint32_t options, uint32_t threshold = kInfinite) {
    const Segment segment{memory_.data(), 64};
    mds_.push_back(
        *submitter_->md_bind({.segments = {&segment, 1}, .threshold = threshold, .options = options, .eq = eq_}));
    return mds_.back();
  }
  void start(const Nid& to, bool get, bool ack) {
    md_ = bind(0);
    PutSpec spec{.md = md_, .target = {to, kLnetPid}, .portal = 9, .match_bits = 5, .hdr_data = 6, .ack = ack};
    spec.md_offset = 4;
    EXPECT_TRUE(get ? submitter_->get(spec) : submitter_->put(spec));
    bench_.turn(WorkerId{0});
    if (!bench_.lnd().sent.empty()) request_ = bench_.lnd().sent[0]->header;
  }
  /// Two puts over an MD that takes one. The second waits for the memory of the first.
  void put_twice() {
    md_ = bind(0, 1);
    const PutSpec spec{
        .md = md_, .target = {tcp(2), kLnetPid}, .portal = 9, .match_bits = 5, .hdr_data = 6, .ack = false};
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(submitter_->put(spec));
  }
  void arrive(const Nid& source, bool get, bool ack) {
    md_ = bind(kMdPut | kMdGet);
    EXPECT_TRUE(submitter_->me_attach(PortalIndex{9}, {}, 77, 0, MePosition::kTail, md_));
    bench_.turn(WorkerId{0});
    bench_.inject(get ? get_header(tcp(1), source, 9, 77, 64) : put_header(tcp(1), source, 9, 77, 64, 0, ack), tcp(2));
  }
  void answer(uint32_t length) {
    wire::Header h;
    h.dest_nid = request_.src_nid;
    h.src_nid = request_.dest_nid;
    if (request_.type == MsgType::kPut) {
      h.type = MsgType::kAck;
      h.set(wire::AckBody{request_.put().ack_wmd, request_.put().match_bits, 60});
    } else {
      h.type = MsgType::kReply;
      h.payload_length = length;
      h.set(wire::ReplyBody{request_.get().return_wmd});
    }
    bench_.inject(h, tcp(2));
  }
  void fill_queue() {
    queue_full_ = true;
    for (int i = 0; i < 2; ++i) EXPECT_TRUE(submitter_->unlink(bind(0)));
  }
  void set_credits(int32_t credits) {
    for (const Nid& nid : {tcp(2), tcp(3)}) bench_.tell(WorkerId{0}, PeerCreditsMsg{&bench_.slice(nid), credits, 8});
  }
  void resolve(int32_t error) {
    if (error == 0) {
      bench_.add_peer(tcp(9));
      bench_.publish();
    }
    bench_.tell(WorkerId{0}, ResolvedMsg{tcp(9), error});
  }
  void poll() {
    Event event;
    queue_full_ = false;
    while (submitter_->eq_poll(eq_, {&event, 1}) == 1) {
      if (event.kind == EventKind::kUnlink) continue;
      std::string text = std::string(name(event.kind)) + " " + std::to_string(event.status);
      text += " " + std::to_string(event.mlength) + "/" + std::to_string(event.rlength);
      for (const Nid* nid : {&event.initiator, &event.source, &event.sender, &event.target})
        text += " " + last_byte(*nid);
      if (event.match_bits != (event.kind == EventKind::kPut || event.kind == EventKind::kGet ? 77u : 5u))
        text += " match bits " + std::to_string(event.match_bits);
      if (event.offset != 0) text += " at " + std::to_string(event.offset);
      if (event.hdr_data != 0) text += " hdr " + std::to_string(event.hdr_data);
      events_.push_back(text);
      for (int i = 0; i < 2; ++i) bench_.turn(WorkerId{0});
    }
  }

  Bench bench_;
  Submitter* submitter_;
  EqHandle eq_;
  MdHandle md_;                ///< of the newest message
  std::vector<MdHandle> mds_;  ///< all
  wire::Header request_;
  bool queue_full_ = false;
  std::vector<std::string> events_;
  std::map<std::string, std::function<void()>> steps_;
  std::array<std::byte, 64> memory_{};
};

struct Row {
  const char* steps;
  const char* outcome;
};

void expect_rows(std::span<const Row> rows) {
  for (const Row& row : rows) {
    SCOPED_TRACE(row.steps);
    States states;
    EXPECT_EQ(states.run(row.steps), row.outcome);
    EXPECT_EQ(states.finish(), "");
  }
}

TEST(States, the_steps_of_a_put) {
  const Row rows[] = {
      {"put_twice lease_ok", "over, errors 1, SEND 0 64/64 - - - 2 hdr 6, SEND -2 0/0 - - - 2"},
      {"put", "kSending"},
      {"put_no_ack", "kSending"},
      {"put_no_ack lease_ok", "over, SEND 0 60/60 - - - 2 at 4 hdr 6"},
      {"put_no_ack lease_fails", "over, errors 1, SEND -32 0/60 - - - 2 at 4 hdr 6"},
      {"put_no_ack lease_dropped", "kSending, resent 1"},
      {"put_no_ack lease_dropped lease_dropped", "over, resent 1, errors 1, SEND -104 0/60 - - - 2 at 4 hdr 6"},
      {"put_no_ack unlink", "kSending"},
      {"put_no_ack unlink lease_ok", "over, SEND 0 60/60 - - - 2 at 4 hdr 6"},
      {"put_no_ack unlink lease_dropped", "over, errors 1, SEND -104 0/60 - - - 2 at 4 hdr 6"},
      {"put lease_ok", "kAwaiting"},
      {"put lease_fails", "over, errors 1, ACK -32 0/60 - - - 2 at 4 hdr 6"},
      {"put lease_ok ack", "over, sampled 1, ACK 0 60/60 2 2 2 1 at 4 hdr 6"},
      {"put ack", "kSendingAnswered, sampled 1"},
      {"put ack lease_ok", "over, sampled 1, ACK 0 60/60 2 2 2 1 at 4 hdr 6"},
      {"put ack lease_dropped", "over, sampled 1, ACK 0 60/60 2 2 2 1 at 4 hdr 6"},
      {"put ack ack", "kSendingAnswered, sampled 1, dropped: reply_twice"},
      {"put ack unlink", "kSendingAnswered, sampled 1"},
      {"put ack unlink ack", "kSendingAnswered, sampled 1, dropped: stale_handle"},
      {"put ack unlink lease_ok", "over, sampled 1, ACK 0 60/60 2 2 2 1 at 4 hdr 6"},
      {"put ack deadline", "kSendingAnswered, cancelled by force, sampled 1"},
      {"put ack deadline ack", "kSendingAnswered, cancelled by force, sampled 1, dropped: stale_handle"},
      {"put ack deadline lease_fails", "over, cancelled by force, sampled 1, ACK 0 60/60 2 2 2 1 at 4 hdr 6"},
      {"put unlink", "kSendingGivenUp, cancelled"},
      {"put unlink ack", "kSendingGivenUp, cancelled, dropped: stale_handle"},
      {"put unlink lease_ok", "over, cancelled, errors 1, ACK -125 0/60 - - - 2 at 4 hdr 6"},
      {"put unlink lease_dropped", "over, cancelled, errors 1, ACK -104 0/60 - - - 2 at 4 hdr 6"},
      {"put unlink deadline lease_ok",
       "over, cancelled, cancelled by force, errors 1, ACK -110 0/60 - - - 2 at 4 hdr 6"},
      {"put deadline", "kSendingGivenUp, cancelled by force"},
      {"put deadline ack", "kSendingGivenUp, cancelled by force, dropped: stale_handle"},
      {"put deadline lease_ok", "over, cancelled by force, errors 1, ACK -110 0/60 - - - 2 at 4 hdr 6"},
      {"put deadline lease_dropped", "over, cancelled by force, errors 1, ACK -110 0/60 - - - 2 at 4 hdr 6"},
      {"put deadline unlink", "kSendingGivenUp, cancelled by force"},
      {"put lease_ok unlink", "over, errors 1, ACK -125 0/60 - - - 2 at 4 hdr 6"},
      {"put lease_ok deadline", "over, errors 1, ACK -110 0/60 - - - 2 at 4 hdr 6"},
      {"put lease_ok full ack", "kFinishing, sampled 1"},
      {"put lease_ok full ack poll", "over, sampled 1, ACK 0 60/60 2 2 2 1 at 4 hdr 6"},
      {"put ack full lease_ok", "kFinishing, sampled 1"},
      {"put ack full lease_ok poll", "over, sampled 1, ACK 0 60/60 2 2 2 1 at 4 hdr 6"},
      {"put unlink deadline lease_dropped",
       "over, cancelled, cancelled by force, errors 1, ACK -110 0/60 - - - 2 at 4 hdr 6"},
      {"no_credits put_no_ack unlink credits", "kSending"},
  };
  expect_rows(rows);
}

TEST(States, the_steps_of_a_get) {
  const Row rows[] = {
      {"get lease_ok", "kAwaiting"},
      {"get lease_ok reply", "kReceiving"},
      {"get lease_ok reply payload", "over, sampled 1, REPLY 0 60/60 2 2 2 1 at 4"},
      {"get lease_ok reply lost", "over, errors 1, REPLY -104 60/60 2 2 2 1 at 4"},
      {"get lease_ok reply unlink", "kReceiving, diverted"},
      {"get lease_ok reply unlink payload", "over, diverted, sampled 1, REPLY 0 60/60 2 2 2 1 at 4"},
      {"get lease_ok reply unlink lost", "over, diverted, errors 1, REPLY -125 60/60 2 2 2 1 at 4"},
      {"get lease_ok reply deadline", "kReceiving, diverted"},
      {"get lease_ok reply deadline payload", "over, diverted, errors 1, sampled 1, REPLY -110 60/60 2 2 2 1 at 4"},
      {"get lease_ok reply deadline lost", "over, diverted, errors 1, REPLY -110 60/60 2 2 2 1 at 4"},
      {"get lease_ok reply reply", "kReceiving, dropped: reply_twice"},
      {"get lease_ok reply unlink reply", "kReceiving, diverted, dropped: stale_handle"},
      {"get lease_ok long_reply", "kAwaiting, dropped: reply_too_long"},
      {"get lease_ok long_reply deadline", "over, errors 1, REPLY -110 0/60 2 2 2 1 at 4, dropped: reply_too_long"},
      {"get lease_ok full deadline", "kFinishing, errors 1"},
      {"get lease_ok full deadline poll", "over, errors 1, REPLY -110 0/60 - - - 2 at 4"},
      {"get reply", "kSendingReceiving"},
      {"get reply lease_ok", "kReceiving"},
      {"get reply lease_dropped", "kReceiving"},
      {"get reply payload", "kSendingAnswered, sampled 1"},
      {"get reply payload lease_dropped", "over, sampled 1, REPLY 0 60/60 2 2 2 1 at 4"},
      {"get reply payload deadline", "kSendingAnswered, cancelled by force, sampled 1"},
      {"get reply payload deadline lease_ok",
       "over, cancelled by force, errors 1, sampled 1, REPLY -110 60/60 2 2 2 1 at 4"},
      {"get reply payload unlink lease_ok", "over, sampled 1, REPLY 0 60/60 2 2 2 1 at 4"},
      {"get reply lost", "kSendingAnswered"},
      {"get reply lost lease_ok", "over, errors 1, REPLY -104 60/60 2 2 2 1 at 4"},
      {"get reply unlink", "kSendingReceiving, diverted"},
      {"get reply sink", "kReceiving, dropped: reply_twice"},
      {"get reply payload sink", "over, sampled 1, REPLY 0 60/60 2 2 2 1 at 4, dropped: reply_twice"},
      {"get sink", "over, sampled 1, REPLY 0 50/60 2 2 2 1 at 4"},
      {"get refused", "over, errors 1, REPLY -61 0/60 - - - 2 at 4"},
      {"get unlink", "kSendingGivenUp, cancelled"},
      {"get unlink reply", "kSendingGivenUp, cancelled, dropped: stale_handle"},
      {"get unlink sink", "over, cancelled, sampled 1, REPLY 0 50/60 2 2 2 1 at 4"},
      {"get unlink refused", "over, cancelled, errors 1, REPLY -125 0/60 - - - 2 at 4"},
      {"get unlink lease_ok", "over, cancelled, errors 1, REPLY -125 0/60 - - - 2 at 4"},
      {"get deadline", "kSendingGivenUp, cancelled by force"},
      {"get deadline sink", "over, cancelled by force, errors 1, REPLY -110 0/60 - - - 2 at 4, dropped: stale_handle"},
      {"get deadline refused",
       "over, cancelled by force, errors 1, REPLY -110 0/60 - - - 2 at 4, dropped: stale_handle"},
      {"get deadline unlink sink",
       "over, cancelled by force, errors 1, REPLY -110 0/60 - - - 2 at 4, dropped: stale_handle"},
      {"get full sink poll", "over, sampled 1, REPLY 0 50/60 2 2 2 1 at 4"},
      {"no_credits get deadline", "over, errors 1, REPLY -110 0/60 - - - 2 at 4"},
  };
  expect_rows(rows);
}

TEST(States, the_steps_of_an_operation_for_an_unknown_peer) {
  const Row rows[] = {
      {"put_unknown", "kParked"},
      {"put_unknown resolved", "kSending"},
      {"put_unknown unresolved", "over, errors 1, ACK -113 0/60 - - - 9 at 4 hdr 6"},
      {"put_unknown unlink", "over, errors 1, ACK -125 0/60 - - - 9 at 4 hdr 6"},
      {"put_unknown deadline", "over, errors 1, ACK -110 0/60 - - - 9 at 4 hdr 6"},
      {"get_unknown resolved", "kSending"},
      {"get_unknown unlink", "over, errors 1, REPLY -125 0/60 - - - 9 at 4"},
      {"get_unknown deadline", "over, errors 1, REPLY -110 0/60 - - - 9 at 4"},
  };
  expect_rows(rows);
}

TEST(States, the_steps_of_a_message_for_this_node) {
  const Row rows[] = {
      {"in_put", "kReceiving"},
      {"in_put payload", "kSending, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put payload lease_ok", "over, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put payload lease_fails", "over, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put payload lease_dropped", "kSending, resent 1, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put payload lease_dropped lease_dropped", "over, resent 1, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put lost", "over, PUT -104 64/64 2 2 2 1 hdr 99, dropped: receive_failed"},
      {"in_put unlink", "kReceiving, diverted"},
      {"in_put unlink payload", "kSending, diverted, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put unlink payload lease_dropped", "over, diverted, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put unlink lost", "over, diverted, PUT -125 64/64 2 2 2 1 hdr 99, dropped: md_unlinked"},
      {"in_put full payload", "kSending"},
      {"in_put full payload poll", "kSending, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put full payload lease_ok", "kFinishing"},
      {"in_put full payload lease_ok poll", "over, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put_no_ack payload", "over, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put_no_ack full payload", "kFinishing"},
      {"in_put_no_ack full payload unlink", "kFinishing"},
      {"in_put_no_ack full payload poll", "over, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_get", "kSending"},
      {"in_get lease_ok", "over, GET 0 64/64 2 2 2 1"},
      {"in_get lease_fails", "over, GET -32 64/64 2 2 2 1"},
      {"in_get lease_dropped", "kSending, resent 1"},
      {"in_get unlink", "kSending"},
      {"in_get unlink lease_ok", "over, GET 0 64/64 2 2 2 1"},
      {"in_get unlink lease_dropped", "over, GET -104 64/64 2 2 2 1"},
      {"in_get full lease_ok", "kFinishing"},
      {"in_get full lease_ok poll", "over, GET 0 64/64 2 2 2 1"},
      {"in_put_without_way_back payload", "over, PUT 0 64/64 7 7 2 1 hdr 99, dropped: no_route"},
      {"in_put_unknown payload", "kParked, PUT 0 64/64 9 9 2 1 hdr 99"},
      {"in_put_unknown payload resolved", "kSending, PUT 0 64/64 9 9 2 1 hdr 99"},
      {"in_put_unknown payload unresolved", "over, PUT 0 64/64 9 9 2 1 hdr 99, dropped: no_route"},
      {"in_put_unknown full payload", "kParked"},
      {"in_put_unknown full payload poll", "kParked, PUT 0 64/64 9 9 2 1 hdr 99"},
      {"in_put_unknown full payload unresolved", "kFinishing, dropped: no_route"},
      {"in_get_unknown", "kParked"},
      {"in_get_unknown resolved", "kSending"},
      {"in_get_unknown unresolved", "over, GET -113 64/64 9 9 2 1, dropped: no_route"},
      {"in_get_unknown unlink", "kParked"},
      {"in_get_unknown unlink resolved lease_ok", "over, GET 0 64/64 9 9 2 1"},
      {"in_get_unknown unlink unresolved", "over, GET -113 64/64 9 9 2 1, dropped: no_route"},
  };
  expect_rows(rows);
}

TEST(States, a_message_begins_without_a_trace_of_the_one_before) {
  const Row rows[] = {
      {"get long_reply unlink lease_ok put lease_dropped",
       "kSending, cancelled, resent 1, errors 1, REPLY -125 0/60 2 2 2 1 at 4, dropped: reply_too_long"},
      {"get long_reply unlink lease_ok put lease_dropped lease_ok deadline",
       "over, cancelled, resent 1, errors 2, REPLY -125 0/60 2 2 2 1 at 4, ACK -110 0/60 - - - 2 at 4 hdr 6, dropped: "
       "reply_too_long"},
      {"put lease_dropped lease_ok deadline put lease_dropped",
       "kSending, resent 2, errors 1, ACK -110 0/60 - - - 2 at 4 hdr 6"},
      {"no_credits put unlink credits put", "kSending, errors 1, ACK -125 0/60 - - - 2 at 4 hdr 6"},
      {"in_get lease_dropped lease_fails unlink in_get lease_dropped", "kSending, resent 2, GET -32 64/64 2 2 2 1"},
      {"in_get lease_ok unlink in_put payload", "kSending, GET 0 64/64 2 2 2 1, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put lost unlink in_get unlink lease_dropped in_get lease_dropped",
       "kSending, resent 1, PUT -104 64/64 2 2 2 1 hdr 99, GET -104 64/64 2 2 2 1, dropped: receive_failed"},
      {"in_put_no_ack payload unlink in_get lease_fails unlink in_put_no_ack payload",
       "over, PUT 0 64/64 2 2 2 1 hdr 99, GET -32 64/64 2 2 2 1, PUT 0 64/64 2 2 2 1 hdr 99"},
      {"in_put_without_way_back payload unlink in_get lease_ok",
       "over, PUT 0 64/64 7 7 2 1 hdr 99, GET 0 64/64 2 2 2 1, dropped: no_route"},
  };
  expect_rows(rows);
}

// Goal: home requests the memory of a receive back from the worker of the connection, and gets it back.
TEST(States, a_receive_on_another_worker_is_diverted_there_and_ends_at_home) {
  for (const WorkerId home : {WorkerId{0}, WorkerId{1}}) {
    const WorkerId conn{uint16_t(1 - home.value)};
    Bench bench({.workers = 2});
    bench.add_peer(tcp(2), conn);
    bench.open_portal(9, home);
    bench.publish();
    Submitter& submitter = bench.submitter(home);
    const EqHandle eq = *submitter.eq_open(4);
    std::array<std::byte, 64> memory{};
    const Segment segment{memory.data(), 64};
    const MdHandle md = *submitter.md_bind({.segments = {&segment, 1}, .options = kMdPut, .eq = eq});
    ASSERT_TRUE(submitter.me_attach(PortalIndex{9}, {}, 77, 0, MePosition::kTail, md));
    bench.settle();
    bench.inject(put_header(tcp(1), tcp(2), 9, 77, 64), tcp(2));
    bench.settle();
    ASSERT_TRUE(submitter.unlink(md));
    bench.settle();
    EXPECT_EQ(bench.lnd(conn).diverted.size(), 1u);
    bench.lnd(conn).complete_rx(*bench.lnd(conn).receiving.at(0), -ECANCELED);
    bench.settle();
    std::array<Event, 4> events;
    ASSERT_EQ(submitter.eq_poll(eq, events), 2u);
    EXPECT_EQ(events[0].status, -ECANCELED);
    EXPECT_EQ(bench.worker(home).counters[Drop::kMdUnlinked].get(), 1u);
    EXPECT_EQ(bench.not_at_rest(), "");
  }
}

// Goal: a forwarded message begins without a trace of the one that used its buffer before.
// Method: one buffer. The first message is sent as often as allowed. Then payloads that do not come lose the buffer.
TEST(States, a_forwarded_message_begins_without_a_trace_of_the_one_before) {
  Bench bench({.routing = RoutingState::kEnabled});
  bench.add_peer(tcp(2));
  bench.add_peer(tcp1(2));
  bench.add_router_buffers(WorkerId{0}, {0, 1, 0});
  bench.node.retry_count = 1;
  bench.publish();
  ScriptLnd& lnd = bench.lnd();
  const auto arrive = [&] { bench.inject(put_header(tcp1(2), tcp(2), 9, 1, 100), tcp(2)); };
  for (uint64_t message = 1; message <= 2; ++message) {
    arrive();
    bench.settle();
    lnd.complete_rx(*lnd.receiving.at(0), 0);
    bench.settle();
    for (int attempt = 0; attempt < 2; ++attempt) {
      lnd.complete_tx(*lnd.sent.at(0), {-EIO, LndStatus::kLocalDropped});
      bench.settle();
    }
    EXPECT_TRUE(lnd.sent.empty());
    EXPECT_EQ(bench.worker().counters[Stat::kResendCount].get(), message);
  }
  for (int i = 0; i < 3; ++i) arrive();
  bench.settle();
  for (size_t late = 1; late <= 2; ++late) {
    bench.advance(kComingMax + 1s);
    bench.settle();
    ASSERT_EQ(lnd.diverted.size(), late);
    lnd.complete_rx(*lnd.receiving.at(0), -ECANCELED);
    bench.settle();
  }
  lnd.complete_rx(*lnd.receiving.at(0), -ECANCELED);
  bench.settle();
  EXPECT_EQ(bench.not_at_rest(), "");
}

}  // namespace
}  // namespace ulnet::test
