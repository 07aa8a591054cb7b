// A setting that is accepted and has no effect is answered with a warning that gives the reason.
#include "config/apply.h"
#include "config/warn.h"
#include "dataplane/base/nid_text.h"
#include "tests/unit/config/golden.h"

namespace ulnet::config {
namespace {

/// The warnings of a file, one to a line.
std::string warnings_of(const std::string& text, const UlnetSection* running = nullptr) {
  const Imported imported = load_text(text, "f");
  std::string out = texts_of(imported.errors);
  for (const Problem& warning : changes_warnings(imported.changes, running)) out += problem_text(warning) + "\n";
  return out;
}

TEST(ConfigWarn, settings_without_effect_are_named_with_their_place) {
  EXPECT_EQ(warnings_of("net:\n  - net type: tcp\n    local NI(s):\n      - interfaces: {0: eth0}\n"
                        "        tunables: {peer_timeout: 9}\n        lnd tunables: {ntx: 7, tos: 3, timeout: 9}\n"
                        "global: {numa_range: 3, recovery_limit: 4, max_recovery_ping_interval: 5, retry_count: 1}\n"
                        "udsp:\n  - src: tcp\n  - src: tcp1\n"),
            "f:4:9: ntx has no effect: tcp networks have no such key\n");
  EXPECT_EQ(warnings_of("net:\n  - net type: o2ib\n    local NI(s):\n      - interfaces: {0: ib0}\n"
                        "        lnd tunables: {peercredits_hiw: 5, ntx: 7, map_on_demand: false, fmr_cache: 1}\n"
                        "ulnet: {o2iblnd: {cksum: 1, retry_count: 3, dev_failover: 0}}\n"),
            "f:4:9: map_on_demand has no effect: memory is registered before transfers, and each transfer has a key of "
            "its own\n"
            "f:4:9: ntx has no effect: credits and queue depths bound the messages under way\n"
            "f:6:26: ulnet.o2iblnd.cksum has no effect: ulnet sends no checksums, since kernels compute them in two "
            "ways; checksums of peers are verified\n");
}

TEST(ConfigWarn, defaults_are_not_warned_of) {
  for (const char* name : {"router.export", "tcp-ipv6.export"}) EXPECT_EQ(warnings_of(golden_text(name)), "") << name;
}

TEST(ConfigWarn, keys_that_need_a_restart_are_named_when_they_differ_from_what_runs) {
  UlnetSection running;
  const std::string text = "ulnet: {workers: 4, idle: busy, perf_target: true}\n";
  EXPECT_EQ(warnings_of(text), "") << "at a start they are taken";
  EXPECT_EQ(warnings_of(text, &running),
            "f:1:18: ulnet.workers takes effect at the next start of ulnetd\n"
            "f:1:27: ulnet.idle takes effect at the next start of ulnetd\n");
  running.workers = 4;
  running.idle = Idle::kBusy;
  EXPECT_EQ(warnings_of(text, &running), "");
}

TEST(ConfigWarn, commands) {
  const ChangeList changes = {{LnetConfigure{.large = true}, {}},
                              {NetAdd{*net_parse("tcp"), NiConfig{.interface = "e", .skip_mr_route_setup = true}}, {}}};
  std::string text;
  for (const Problem& warning : changes_warnings(changes, nullptr)) text += problem_text(warning) + "\n";
  EXPECT_EQ(text,
            "--large has no effect: each NID is as large as its address; give an IPv6 address with --nid\n"
            "--skip-mr-route-setup has no effect: ulnet never changes the kernel's routes\n");
}

}  // namespace
}  // namespace ulnet::config
