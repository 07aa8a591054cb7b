// One Instance of libulnet, used by several threads at once as docs/libulnet.md allows.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>
#include <vector>

#include "control/lib/ulnet.h"
#include "control/lib/ulnet.hh"
#include "dataplane/host/turnable.h"

namespace {

constexpr int kThreads = 4;

void count_unlinks(void* context, const ulnet_event_t* event) {
  if (event->kind == ULNET_UNLINK) ++*static_cast<std::atomic<int>*>(context);
}

/// A submitter's whole life: one put over loopback, its events to a callback. "" or what went wrong.
std::string one_life(ulnet_t* node, unsigned worker) {
  ulnet_submitter_t* submitter;
  const ulnet_submitter_size_t size = {16, 2, 1, 1};
  if (const int error = ulnet_submitter_open(node, worker, &size, &submitter); error != 0) return ulnet_strerror(error);
  std::atomic<int> unlinked{0};
  char memory[8] = "";
  const ulnet_segment_t segment = {memory, sizeof(memory)};
  ulnet_md_spec_t spec = ulnet_md_defaults();
  ulnet_op_t op = ulnet_op_defaults();
  spec.segments = &segment;
  spec.segment_count = 1;
  op.portal = 1;  // not open: dropped there
  op.ack = 0;
  const bool good = ulnet_eq_open(submitter, 0, &count_unlinks, &unlinked, &spec.eq) == 0 &&
                    ulnet_md_bind(submitter, &spec, &op.md) == 0 && ulnet_nid_parse("0@lo", &op.target) == 0 &&
                    ulnet_put(submitter, &op) == 0 && ulnet_unlink(submitter, op.md) == 0;
  if (!good) return ulnet_submitter_reason(submitter);
  while (unlinked == 0) std::this_thread::yield();
  ulnet_submitter_close(node, submitter);
  return "";
}

// Goal: several threads open and close submitters at once. A thread without a submitter gets one: the open waits for
// submitters that are still being closed.
// Method: more submitters than a worker has slots, with other calls meanwhile.
TEST(RaceInstance, submitters_come_and_go_in_several_threads) {
  ulnet_options_t options{};
  options.config = "ulnet:\n    workers: 2\n";
  ulnet_t* node = nullptr;
  char error[256];
  ASSERT_EQ(ulnet_open(&options, &node, error, sizeof(error)), 0) << error;
  std::vector<std::string> wrong(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 150 && wrong[size_t(t)].empty(); ++i) {
        wrong[size_t(t)] = one_life(node, unsigned(t & 1));
        if (i % 50 == 0) (void)ulnet_nids(node, nullptr, 0);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : wrong) EXPECT_EQ(text, "");
  ulnet_close(node);
}

// Each thread closes its submitters at once. Only the slots that are still being closed bound the speed.
TEST(RaceInstance, a_slot_being_closed_is_waited_for) {
  ulnet_t* node = nullptr;
  ASSERT_EQ(ulnet_open(nullptr, &node, nullptr, 0), 0);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        ulnet_submitter_t* submitter;
        if (ulnet_submitter_open(node, 0, nullptr, &submitter) != 0)
          ++refused;
        else
          ulnet_submitter_close(node, submitter);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 0);
  ulnet_close(node);
}

/// Puts over loopback, each after the end of the one before it. The thread sleeps for each event. How many ended.
int puts_one_by_one(ulnet_t* node, unsigned worker, int count) {
  ulnet_submitter_t* submitter;
  if (ulnet_submitter_open(node, worker, nullptr, &submitter) != 0) return -1;
  char memory[8] = "";
  const ulnet_segment_t segment = {memory, sizeof(memory)};
  ulnet_md_spec_t spec = ulnet_md_defaults();
  spec.segments = &segment;
  spec.segment_count = 1;
  ulnet_op_t op = ulnet_op_defaults();
  op.portal = 1;  // not open: dropped there
  op.ack = 0;
  if (ulnet_eq_open(submitter, 4, nullptr, nullptr, &spec.eq) != 0 || ulnet_md_bind(submitter, &spec, &op.md) != 0 ||
      ulnet_nid_parse("0@lo", &op.target) != 0)
    return -1;
  int done = 0;
  ulnet_event_t event;
  for (; done < count; ++done)
    if (ulnet_put(submitter, &op) != 0 || ulnet_eq_wait(submitter, spec.eq, &event, 1, 60'000) != 1) break;
  if (ulnet_unlink(submitter, op.md) != 0 || ulnet_eq_wait(submitter, spec.eq, &event, 1, 60'000) != 1) return -1;
  ulnet_submitter_close(node, submitter);
  return done;
}

// Goal: no wake-up of a thread that sleeps on its event queue is lost. A lost one shows as a wait of a minute.
TEST(RaceInstance, threads_sleep_for_their_events) {
  constexpr int kPuts = 5000;
  ulnet_options_t options{};
  options.config = "ulnet:\n    workers: 2\n";
  ulnet_t* node = nullptr;
  ASSERT_EQ(ulnet_open(&options, &node, nullptr, 0), 0);
  std::vector<int> done(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] { done[size_t(t)] = puts_one_by_one(node, unsigned(t & 1), kPuts); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, std::vector<int>(kThreads, kPuts));
  ulnet_close(node);
}

/// Puts over loopback, each after the end of the one before it, on the thread of the worker.
class PutsInTurns final : public ulnet::Turnable {
 public:
  PutsInTurns(ulnet::Submitter& submitter, unsigned count) : left(count), submitter_(submitter) {
    EXPECT_TRUE(gate_.open().has_value());
    eq_ = *submitter_.eq_open(4);
    const ulnet::Segment segment{memory_.data(), uint32_t(memory_.size())};
    md_ = *submitter_.md_bind({.segments = {&segment, 1}, .eq = eq_});
  }
  unsigned turn(ulnet::Instant) override {
    thread = std::this_thread::get_id();
    ulnet::Event event;
    const unsigned came = submitter_.eq_poll(eq_, {&event, 1});
    if (came == 1 && event.final) {
      --left;
      under_way_ = false;
    }
    if (!under_way_ && left > 0) {
      const ulnet::ProcessId target{ulnet::kLoNid, ulnet::kLnetPid};
      under_way_ = submitter_.put({.md = md_, .target = target, .portal = 1, .ack = false}).has_value();
      return 1;
    }
    if (left == 0 && !unlinked_) {
      unlinked_ = submitter_.unlink(md_).has_value();
      return 1;
    }
    return came;
  }
  bool pending() override { return !submitter_.eq_empty(eq_); }
  ulnet::Instant next_deadline() override { return ulnet::kForever; }
  unsigned wait_fds(std::span<int>) override { return 0; }
  ulnet::IdleGate& gate() override { return gate_; }
  void note_asleep() override {}
  void note_awake(ulnet::Duration) override {}
  std::atomic<unsigned> left;
  std::atomic<std::thread::id> thread{};

 private:
  ulnet::Submitter& submitter_;
  ulnet::IdleGate gate_;
  std::array<std::byte, 8> memory_{};
  ulnet::EqHandle eq_;
  ulnet::MdHandle md_;
  bool under_way_ = false, unlinked_ = false;
};

// Goal: an item beside a worker submits and polls there, and no event is lost while the thread sleeps when it can.
TEST(RaceInstance, an_item_on_the_thread_of_a_worker) {
  auto node = ulnet::Instance::open({.config = "ulnet:\n    workers: 1\n    idle: interrupt\n"});
  ASSERT_TRUE(node) << node.error().what;
  auto submitter = (*node)->submitter_open(ulnet::WorkerId{0}, {});
  ASSERT_TRUE(submitter);
  PutsInTurns puts(**submitter, 5000);
  ASSERT_TRUE((*node)->turn_with(ulnet::WorkerId{0}, puts));
  for (int i = 0; i < 60'000 && puts.left > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(puts.left, 0u);
  (*node)->turn_without(ulnet::WorkerId{0}, puts);
  EXPECT_NE(puts.thread.load(), std::this_thread::get_id());
  EXPECT_EQ((*node)->close(), "");
  EXPECT_EQ((*node)->turn_with(ulnet::WorkerId{0}, puts).error().code, -ESHUTDOWN);
  (*node)->turn_without(ulnet::WorkerId{0}, puts);
}

TEST(RaceInstance, no_item_where_the_application_turns) {
  auto node = ulnet::Instance::open({.config = "ulnet:\n    workers: 1\n", .mode = ulnet::InstanceMode::kAttach});
  ASSERT_TRUE(node) << node.error().what;
  auto submitter = (*node)->submitter_open(ulnet::WorkerId{0}, {});
  ASSERT_TRUE(submitter);
  PutsInTurns puts(**submitter, 1);
  EXPECT_EQ((*node)->turn_with(ulnet::WorkerId{0}, puts).error().code, -ENOTSUP);
}

}  // namespace
