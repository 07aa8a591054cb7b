// Sends PUTs without acknowledgement, each with match bits of its own, or counts PUTs at their target. The two sides
// are two nodes of their own (libulnet), for tests in which connections break. The counting side finds a PUT that came
// twice by its match bits.
//
//   put_once count CONFIG                    until SIGTERM; status 1 if a PUT arrived twice
//   put_once send CONFIG TARGET SECONDS
//
// Each prints a line of JSON at its end.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <vector>

#include "control/lib/ulnet.h"
#include "dataplane/base/rng.h"

namespace {

constexpr unsigned kPortal = 20;
constexpr unsigned kInFlight = 64;
constexpr size_t kPutsMax = size_t{1} << 28;  ///< a byte each is counted in
constexpr unsigned kEvents = 4096;
constexpr time_t kDrainMax = 120;  ///< s; the longest that a send may take to end

volatile std::sig_atomic_t stop_wanted = 0;

[[noreturn]] void die(const char* what, const char* why) {
  std::fprintf(stderr, "put_once: %s: %s\n", what, why);
  std::exit(2);
}
void must(int error, const char* what) {
  if (error != 0) die(what, ulnet_strerror(error));
}

time_t seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec;
}

/// A node with one MD of 1 MiB and a queue.
struct Node {
  Node(const char* config, uint32_t md_options) : memory(ULNET_PAYLOAD_MAX) {
    ulnet_options_t options = {};
    char error[512];
    options.config_path = config;
    if (ulnet_open(&options, &node, error, sizeof error) != 0) die(config, error);
    must(ulnet_submitter_open(node, 0, nullptr, &submitter), "submitter");
    must(ulnet_eq_open(submitter, kEvents, nullptr, nullptr, &eq), "queue");
    const ulnet_segment_t segment = {memory.data(), uint32_t(memory.size())};
    ulnet_md_spec_t spec = ulnet_md_defaults();
    spec.segments = &segment;
    spec.segment_count = 1;
    spec.options = md_options;
    spec.threshold = ULNET_INFINITE;
    spec.eq = eq;
    must(ulnet_md_bind(submitter, &spec, &md), "memory");
  }
  ~Node() { ulnet_close(node); }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::vector<char> memory;
  ulnet_t* node = nullptr;
  ulnet_submitter_t* submitter = nullptr;
  ulnet_eq_t eq{};
  ulnet_md_t md{};
};

int count(const char* config) {
  Node at(config, ULNET_MD_PUT | ULNET_MD_MANAGE_REMOTE);
  must(ulnet_portal_open(at.node, at.submitter, kPortal, ULNET_PORTAL_SINGLE, 0), "portal");
  must(ulnet_me_attach(at.submitter, kPortal, nullptr, ULNET_PID_ANY, 0, ~0ull, ULNET_TAIL, at.md), "attach");
  std::printf("counting\n");
  std::fflush(stdout);
  std::vector<uint8_t> times;  // by match bits
  uint64_t arrived = 0, broken = 0, twice = 0;
  while (stop_wanted == 0) {
    ulnet_event_t events[64];
    const int got = ulnet_eq_wait(at.submitter, at.eq, events, 64, 100);
    for (int i = 0; i < got; ++i) {
      const ulnet_event_t& event = events[i];
      if (event.kind != ULNET_PUT) continue;
      if (event.status != 0) {
        ++broken;
        continue;
      }
      if (event.match_bits >= kPutsMax) die("match bits", "not ours");
      if (event.match_bits >= times.size()) times.resize(2 * size_t(event.match_bits) + 1);
      uint8_t& here = times[size_t(event.match_bits)];
      ++arrived;
      if (here > 0) {
        ++twice;
        std::printf("arrived again: %llu, %u bytes\n", static_cast<unsigned long long>(event.match_bits),
                    event.mlength);
      }
      here = 1;
    }
  }
  std::printf("{\"arrived\": %llu, \"broken\": %llu, \"twice\": %llu}\n", static_cast<unsigned long long>(arrived),
              static_cast<unsigned long long>(broken), static_cast<unsigned long long>(twice));
  return twice == 0 ? 0 : 1;
}

int send(const char* config, const char* target, time_t how_long) {
  Node from(config, 0);
  ulnet::Rng rng{1};
  ulnet_op_t op = ulnet_op_defaults();
  op.md = from.md;
  op.portal = kPortal;
  op.ack = 0;
  must(ulnet_nid_parse(target, &op.target), target);
  uint64_t sent = 0, well = 0, failed = 0;
  const time_t end = seconds() + how_long;
  while (seconds() < end || (sent > well + failed && seconds() < end + kDrainMax)) {
    while (seconds() < end && sent - well - failed < kInFlight && sent < kPutsMax) {
      op.match_bits = sent;
      op.length = 64u << rng.below(15);  // 64 B to 1 MiB
      if (ulnet_put(from.submitter, &op) != 0) break;
      ++sent;
    }
    ulnet_event_t events[64];
    const int got = ulnet_eq_wait(from.submitter, from.eq, events, 64, 10);
    for (int i = 0; i < got; ++i) {
      if (events[i].final == 0) continue;
      ++(events[i].status == 0 ? well : failed);
    }
  }
  std::printf("{\"sent\": %llu, \"well\": %llu, \"failed\": %llu}\n", static_cast<unsigned long long>(sent),
              static_cast<unsigned long long>(well), static_cast<unsigned long long>(failed));
  return sent == well + failed ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGTERM, [](int) { stop_wanted = 1; });
  if (argc == 3 && std::strcmp(argv[1], "count") == 0) return count(argv[2]);
  if (argc == 5 && std::strcmp(argv[1], "send") == 0) return send(argv[2], argv[3], std::atoi(argv[4]));
  std::fprintf(stderr, "usage: put_once count CONFIG | put_once send CONFIG TARGET SECONDS\n");
  return 2;
}
