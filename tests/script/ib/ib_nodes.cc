#include "tests/script/ib/ib_nodes.h"

#include <array>

namespace ulnet::test {

using namespace o2iblnd;

void IbStranger::request(unsigned to, const Nid& source, uint64_t stamp, Instant now) {
  const auto id = provider_->control().dial(
      {.local = address, .remote = {ib_address(to), kIbPort}, .answer_max = 100s, .needs = ib_needs()}, now);
  ASSERT_TRUE(id);
  asking_[*id] = {source, ib_nid(to), stamp, 0};
}

void IbStranger::turn(Instant now) {
  net_.run(now);
  rc::Control& control = provider_->control();
  rc::Worker& worker = provider_->worker(WorkerId{0});
  worker.poll(64, now);
  std::array<rc::Event, 16> events;
  const unsigned count = control.poll(events, now);
  for (const rc::Event& event : std::span(events).first(count)) {
    std::array<std::byte, kMessageMax> buffer;
    Reject reject;
    switch (event.kind) {
      case rc::EventKind::kReady:
        control.proceed(event.conn,
                        std::span(buffer).first(encode_connect(buffer, MessageType::kConnReq, asking_.at(event.conn),
                                                               {kDepth, kFragmentsMax, kMessageMax})),
                        now);
        break;
      case rc::EventKind::kEstablished: ++accepted; break;
      case rc::EventKind::kFailed:
        if (reject_decode(event.private_data(), reject)) {
          rejects.push_back(reject.reason);
          break;
        }
        [[fallthrough]];
      case rc::EventKind::kClosed: ++closed; break;
      case rc::EventKind::kRequest:
      case rc::EventKind::kDevice: break;
    }
  }
  worker.timers(now);
  worker.flush(now);
}

}  // namespace ulnet::test
