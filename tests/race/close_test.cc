// Submitters that are closed in the middle of everything: MDs bound and attached, full event queues, operations under
// way. Control frees a submitter as soon as its worker has let go of it: a worker that looks back is found by ASan and
// TSan. Bounded by counts; ULNET_FULL=1 runs all rounds.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "control/lib/ulnet.hh"
#include "dataplane/base/rng.h"
#include "tests/free_port.h"

// TSan calls this function. MDs of different lives share their memory on purpose: a submitter that closes does not wait
// until its memory is free. The suppressions cover only the functions that read or write payload there. The last two
// call recvmsg() and sendmsg().
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() {
  return "race:ulnet::payload_copy\nrace:place_payload\nrace:gather\nrace:UringEngine::try_hot\n"
         "race:UringEngine::send_now\n";
}

namespace ulnet {
namespace {

constexpr unsigned kThreads = 3;

unsigned rounds() {
  const char* full = std::getenv("ULNET_FULL");
  return full != nullptr && *full == '1' ? 10'000 : 3'000;
}

std::string config(const std::string& address) {
  static const uint16_t port = test::free_port();
  return fmt::format(
      "net:\n    - net type: tcp\n      local NI(s):\n        - nid: {}@tcp\n"
      "ulnet:\n    workers: 2\n    unprivileged_ports: true\n    accept_port: {}\n"
      "    memory:\n        connections_per_worker: 64\n        messages_per_worker: 4096\n",
      address, port);
}

/// One submitter: everything that can be left behind is. The memory outlives the node.
struct Life {
  Life(Instance& the_instance, WorkerId the_home, Rng& the_rng, std::vector<std::byte>& the_memory)
      : instance(the_instance), home(the_home), rng(the_rng), memory(the_memory) {}

  void run() {
    auto opened = instance.submitter_open(home, {.ops = 64, .mds = 256, .eqs = 2, .segment_blocks = 1});
    ASSERT_TRUE(opened) << opened.error().what;
    submitter = *opened;
    const EqHandle eq = submitter->eq_open(2).value();  // full after two events: nobody polls
    bind(eq);
    operate();
    if (rng.one_in(2)) (void)submitter->eq_close(eq);
    if (rng.one_in(4) && !mds.empty()) (void)submitter->unlink(mds[rng.below(mds.size())]);
    if (rng.one_in(2)) std::this_thread::yield();
    if (rng.one_in(2)) return instance.submitter_close(*submitter);
    std::atomic<bool> freed{false};
    instance.submitter_close(*submitter, [&] { freed = true; });
    while (!freed) std::this_thread::yield();
  }

  void bind(EqHandle eq) {
    const Segment segment{memory.data(), uint32_t(memory.size())};
    const unsigned count = 1 + unsigned(rng.below(200));
    for (unsigned i = 0; i < count; ++i) {
      MdSpec spec{.segments = {&segment, 1}};
      spec.options = i % 4 == 0 ? kMdPut | kMdGet | kMdManageRemote : 0;
      if (i % 2 == 0) spec.eq = eq;
      const auto md = submitter->md_bind(spec);
      if (!md) break;  // the ring is full
      if (spec.options != 0)
        (void)submitter->me_attach(PortalIndex{uint32_t(1 + home.value)}, ProcessId{}, rng.below(4), 0,
                                   MePosition::kTail, *md);
      mds.push_back(*md);
    }
  }

  void operate() {
    for (unsigned i = 0; i < 32 && !mds.empty(); ++i) {
      static const char* targets[] = {"0@lo", "127.0.0.1@tcp", "127.0.0.2@tcp"};
      const PutSpec spec{.md = mds[rng.below(mds.size())],
                         .target = {nid_parse(targets[rng.below(3)]).value(), kLnetPid},
                         .portal = uint32_t(1 + rng.below(2)),
                         .match_bits = rng.below(5),
                         .ack = rng.one_in(2),
                         .length = uint32_t(rng.one_in(8) ? 65536 : 64)};
      (void)(rng.one_in(3) ? submitter->get(spec) : submitter->put(spec));
    }
  }

  Instance& instance;
  const WorkerId home;
  Rng& rng;
  std::vector<std::byte>& memory;
  Submitter* submitter = nullptr;
  std::vector<MdHandle> mds;
};

TEST(RaceClose, submitters_close_with_bound_mds_full_queues_and_traffic) {
  std::vector<std::vector<std::byte>> memory(kThreads, std::vector<std::byte>(65536));
  auto a = Instance::open({.config = config("127.0.0.1")}), b = Instance::open({.config = config("127.0.0.2")});
  ASSERT_TRUE(a && b);
  for (Instance* node : {a->get(), b->get()})
    for (uint32_t portal : {1u, 2u})
      ASSERT_TRUE(node->portal_open(PortalIndex{portal}, WorkerId{uint16_t(portal - 1)}));
  std::atomic<unsigned> left{rounds()};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      Rng rng{t + 1};
      for (unsigned at = left.fetch_sub(1); at > 0 && at <= rounds(); at = left.fetch_sub(1)) {
        Instance& instance = rng.one_in(3) ? **b : **a;
        Life(instance, WorkerId{uint16_t(rng.below(2))}, rng, memory[t]).run();
      }
    });
  for (std::thread& thread : threads) thread.join();
  (void)(*a)->close();
  (void)(*b)->close();
}

}  // namespace
}  // namespace ulnet
