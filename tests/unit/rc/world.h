// Two nodes with a provider of reliable connections each, for the contract of lnd/rc/rc.h. Each provider has a World
// and a test program.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "lnd/rc/rc.h"

namespace ulnet::test {

/// Two nodes that can reach each other, on a time line of their own.
class World {
 public:
  virtual ~World() = default;
  [[nodiscard]] virtual rc::Provider& node(unsigned index) = 0;
  [[nodiscard]] virtual rc::IpAddress address(unsigned index) const = 0;
  /// Of nobody, on the same network.
  [[nodiscard]] virtual rc::IpAddress nobody() const { return rc::IpAddress::of_v4(0x0A0000FE); }
  /// From now on nothing passes between the two nodes. Requires: can_cut().
  virtual void cut() = 0;
  [[nodiscard]] virtual bool can_cut() const { return true; }
  /// A peer sends a REQ to node 1 at kPort, and is silent from then on.
  virtual void silent_request() = 0;
  /// Writes outside a key's window are refused; else those outside its region are.
  [[nodiscard]] virtual bool windows_have_bounds() const { return true; }
  /// Lets a little time pass. Returns what it is then.
  virtual Instant pass() = 0;
  Instant now = kNever + 1s;
};
/// Of the provider that the test program was built with: sim_world.cc or verbs_world.cc.
[[nodiscard]] std::unique_ptr<World> make_world();

inline constexpr uint16_t kPort = 987;
inline constexpr uint32_t kBufferBytes = 4096;
inline constexpr WorkerId kWorker{0};

[[nodiscard]] inline rc::QpNeeds usual_needs() {
  return {
      .worker = kWorker, .receives = 18, .sends = 16, .buffer_bytes = kBufferBytes, .work = 30, .keys = 8, .pieces = 2};
}
[[nodiscard]] std::vector<std::byte> data_of(const std::string& text);
[[nodiscard]] std::string text_of(std::span<const std::byte> data);
void fill(std::span<std::byte> memory, uint8_t first);

/// One end of a connection, as a driver would hold it: notes the events of its queue pair.
class Side final : public rc::QpUser {
 public:
  explicit Side(rc::Worker& worker) : worker_(worker) {}
  ~Side() = default;
  void adopt(rc::Qp& what) {
    qp = &what;
    worker_.adopt(what, *this);
    for (uint32_t i = 0; post_receives && i < what.receives; ++i) worker_.receive(what, i);
  }
  void send(const std::string& text, uint64_t token = 0) { EXPECT_EQ(try_send(text, token), rc::Posted::kYes); }
  [[nodiscard]] rc::Posted try_send(const std::string& text, uint64_t token = 0, rc::Wake wake = rc::Wake::kYes) {
    const uint32_t buffer = next_send++ % qp->sends;
    const auto bytes = data_of(text);
    std::copy(bytes.begin(), bytes.end(), qp->send_buffer(buffer).begin());
    return worker_.send(*qp, buffer, uint32_t(bytes.size()), token, wake);
  }

  void received(rc::Qp& from, uint32_t buffer, uint32_t bytes, Instant) override {
    EXPECT_EQ(&from, qp);
    EXPECT_FALSE(is_broken) << "nothing comes after the end";
    messages.push_back(text_of(from.receive_buffer(buffer).first(bytes)));
    if (repost) worker_.receive(from, buffer);
  }
  void sent(rc::Qp&, uint64_t token, Instant) override {
    EXPECT_NE(token, 0u);
    EXPECT_FALSE(is_drained);
    tokens.push_back(token);
  }
  void key_closed(rc::Qp&, rc::RemoteKey& key, Instant) override {
    EXPECT_FALSE(key.open);
    EXPECT_FALSE(is_drained);
    ++keys_closed;
  }
  void broken(rc::Qp&, rc::Cause why, Instant) override {
    EXPECT_FALSE(is_broken) << "once";
    is_broken = true;
    cause = why;
  }
  void drained(rc::Qp& from, Instant) override {
    EXPECT_TRUE(is_broken);
    EXPECT_FALSE(is_drained) << "once";
    is_drained = true;
    worker_.release(from);
    qp = nullptr;
  }

  rc::Qp* qp = nullptr;
  std::vector<std::string> messages;
  std::vector<uint64_t> tokens;
  unsigned keys_closed = 0;
  bool is_broken = false, is_drained = false, repost = true, post_receives = true;
  rc::Cause cause = rc::Cause::kNone;
  uint32_t next_send = 0;

 private:
  rc::Worker& worker_;
};

/// Runs two nodes: the events of control, and those of the queue pairs.
class RcTest : public ::testing::Test {
 protected:
  RcTest() : world(make_world()) {
    for (unsigned i = 0; i < 2; ++i) sides.push_back(std::make_unique<Side>(worker(i)));
  }
  void TearDown() override;
  [[nodiscard]] rc::Control& control(unsigned node) { return world->node(node).control(); }
  [[nodiscard]] rc::Worker& worker(unsigned node) { return world->node(node).worker(kWorker); }
  /// The end at node 0, which dials, and the one at node 1.
  [[nodiscard]] Side& active() { return *sides[0]; }
  [[nodiscard]] Side& passive() { return *sides[1]; }

  /// One step of both nodes.
  void step();
  /// Until `there` is so; a failure after a long time.
  template <class F>
  void until(const F& there) {
    for (int i = 0; i < 200'000 && !there(); ++i) step();
    EXPECT_TRUE(there()) << seen;
  }
  void listen();
  void dial(rc::DialSpec spec);
  [[nodiscard]] rc::DialSpec spec(const rc::QpNeeds& needs = usual_needs()) const {
    return {.local = world->address(0), .remote = {world->address(1), kPort}, .needs = needs};
  }
  /// Takes the kRequest that node 1 has, and says yes with these needs.
  void accept(const rc::QpNeeds& needs = usual_needs());
  /// A connection that both sides have.
  void connect(const rc::QpNeeds& needs = usual_needs());
  void register_memory(unsigned node, uint32_t region, std::span<std::byte> memory);
  /// Ends all, and both nodes are as new.
  void start_again();
  /// Ends what node `index` has of the connection, and frees it.
  void finish(unsigned node);

  std::unique_ptr<World> world;
  std::vector<std::unique_ptr<Side>> sides;
  rc::ListenerId listener = 0;
  rc::ConnId conns[2] = {};
  std::string seen;  ///< events of control, "0 established hello; "
  rc::Qp* adopted[2] = {};
  bool hold_answer = false;  ///< node 1 does not proceed() by itself
  std::vector<std::pair<unsigned, uint32_t>> regions;
};

}  // namespace ulnet::test
