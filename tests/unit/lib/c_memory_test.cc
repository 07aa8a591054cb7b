// Memory that the C functions of libulnet allocate and keep. Callback queues allocate nothing, and closed submitters
// keep nothing. This program's operator new counts.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <thread>

#include "control/lib/ulnet.h"

namespace {

std::atomic<int64_t> blocks_live{0};
thread_local int64_t taken_here = 0;

void* counted(std::size_t bytes) {
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) std::abort();
  ++blocks_live;
  ++taken_here;
  return memory;
}
void give_back(void* memory) {
  if (memory == nullptr) return;
  --blocks_live;
  std::free(memory);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return counted(bytes);
}
void* operator new[](std::size_t bytes) {
  return counted(bytes);
}
void operator delete[](void* memory) noexcept {
  give_back(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  give_back(memory);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return counted(bytes);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  give_back(memory);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {  // all forms: sanitizers have their own
  return counted(bytes);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  give_back(memory);
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}

namespace {

struct Heard {
  std::atomic<int> unlinks{0};
};
void hear(void* context, const ulnet_event_t* event) {
  if (event->kind == ULNET_UNLINK) ++static_cast<Heard*>(context)->unlinks;
}

struct CMemory : ::testing::Test {
  CMemory() { EXPECT_EQ(ulnet_open(nullptr, &node, nullptr, 0), 0); }
  ~CMemory() override { ulnet_close(node); }
  ulnet_submitter_t* open() {
    ulnet_submitter_t* submitter = nullptr;
    EXPECT_EQ(ulnet_submitter_open(node, 0, &kSize, &submitter), 0);
    return submitter;
  }
  /// The slot of a closed queue is free again only after a moment: retries until then.
  static ulnet_eq_t open_callback(ulnet_submitter_t* submitter, Heard& heard) {
    ulnet_eq_t eq;
    int error;
    while ((error = ulnet_eq_open(submitter, 0, &hear, &heard, &eq)) != 0) {
      EXPECT_TRUE(error == -ENOSPC || error == -EAGAIN) << ulnet_submitter_reason(submitter);
      std::this_thread::yield();
    }
    return eq;
  }
  static constexpr ulnet_submitter_size_t kSize = {16, 4, 3, 1};
  ulnet_t* node = nullptr;
};

// Each queue gets its own events, also in a slot that another queue had. Opening allocates no memory.
TEST_F(CMemory, callback_queues_allocate_nothing_and_each_hears_its_own) {
  ulnet_submitter_t* submitter = open();
  std::array<Heard, 3> heard;
  std::array<ulnet_eq_t, 3> queues;
  char memory[16];
  const ulnet_segment_t segment = {memory, sizeof(memory)};
  for (size_t i = 0; i < queues.size(); ++i) queues[i] = open_callback(submitter, heard[i]);
  const int64_t before = taken_here;
  for (int round = 0; round < 1000; ++round) {
    const size_t at = size_t(round) * 7 % queues.size();
    const int told = heard[at].unlinks;
    ulnet_md_spec_t spec = ulnet_md_defaults();
    ulnet_md_t md;
    spec.segments = &segment;
    spec.segment_count = 1;
    spec.eq = queues[at];
    ASSERT_EQ(ulnet_md_bind(submitter, &spec, &md), 0) << ulnet_submitter_reason(submitter);
    ASSERT_EQ(ulnet_unlink(submitter, md), 0);
    while (heard[at].unlinks == told) std::this_thread::yield();
    ASSERT_EQ(ulnet_eq_close(submitter, queues[at]), 0);
    queues[at] = open_callback(submitter, heard[at]);
  }
  EXPECT_EQ(taken_here, before);
  EXPECT_EQ(heard[0].unlinks + heard[1].unlinks + heard[2].unlinks, 1000);
  ulnet_submitter_close(node, submitter);
}

TEST_F(CMemory, closed_submitters_are_freed) {
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) ulnet_submitter_close(node, open());
  };
  rounds(100);
  const int64_t before = blocks_live;
  constexpr int kRounds = 2000;
  rounds(kRounds);
  // The worker frees the last submitters when it releases them. The wait for this has a limit.
  for (int look = 0; blocks_live >= before + kRounds / 2 && look < 5000; ++look)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_LT(blocks_live, before + kRounds / 2);
}

}  // namespace
