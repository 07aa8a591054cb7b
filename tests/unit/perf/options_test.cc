// The command line of ulnet-perf: accepted options, and messages for wrong ones.
#include "tools/ulnet-perf/options.h"

#include <gtest/gtest.h>

namespace ulnet::perf {
namespace {

using Words = std::vector<std::string>;

Words words(const std::string& line) {
  Words all;
  std::string word;
  for (char c : line + " ") {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      all.push_back(std::exchange(word, ""));
    }
  }
  return all;
}
Options good(const std::string& line) {
  const auto options = options_parse(words(line));
  EXPECT_TRUE(options.has_value()) << line << ": " << options.error().text;
  return options.value_or(Options{});
}
/// Message of a command that must fail, with exit status 2.
std::string bad(const std::string& line) {
  const auto options = options_parse(words(line));
  if (options) return "accepted";
  EXPECT_EQ(options.error().exit_code, 2) << line;
  return options.error().text;
}

TEST(PerfOptions, defaults) {
  const Options o = good("put 10.0.0.2@tcp --nid 10.0.0.1@tcp");
  EXPECT_FALSE(o.serve);
  EXPECT_EQ(o.job.operation, Operation::kPut);
  EXPECT_EQ(o.job.target.nid.address_v4(), 0x0A000002u);
  EXPECT_EQ(o.job.target.pid, kLnetPid);
  EXPECT_TRUE(o.job.self.is_any());
  EXPECT_EQ(o.job.sizes, std::vector<uint32_t>{4096});
  EXPECT_EQ(o.job.concurrency, std::vector<uint32_t>{1});
  EXPECT_EQ(o.job.duration, Duration{3s});
  EXPECT_EQ(o.job.warmup, Duration{500ms});
  EXPECT_EQ(o.job.drain, Duration{10s});
  EXPECT_FALSE(o.job.verify || o.job.threads);
  EXPECT_EQ(o.format, Format::kTable);
  EXPECT_EQ(o.node.workers, 1u);
}

TEST(PerfOptions, everything_at_once) {
  const Options o = good(
      "get 10.0.0.2@tcp1 --socket /run/u.sock --self 10.0.0.9@tcp1 --size 0,4K,1M -c 8 -d 1.5m "
      "--warmup 0 --drain 1h --verify --threads --json");
  EXPECT_EQ(o.job.operation, Operation::kGet);
  EXPECT_EQ(o.job.sizes, (std::vector<uint32_t>{0, 4096, kMaxPayload}));
  EXPECT_EQ(o.job.concurrency, std::vector<uint32_t>{8});
  EXPECT_EQ(o.job.duration, Duration{90s});
  EXPECT_EQ(o.job.warmup, Duration{0});
  EXPECT_EQ(o.job.drain, Duration{1h});
  EXPECT_TRUE(o.job.verify && o.job.threads);
  EXPECT_EQ(o.format, Format::kJson);
  EXPECT_EQ(o.node.socket, "/run/u.sock");
  EXPECT_EQ(o.job.self.address_v4(), 0x0A000009u);
}

TEST(PerfOptions, count_means_no_warm_up_unless_said) {
  EXPECT_EQ(good("ping 10.0.0.2@tcp --nid 10.0.0.1 -n 3").job.warmup, Duration{0});
  EXPECT_EQ(good("ping 10.0.0.2@tcp --nid 10.0.0.1 -n 3 --warmup 1s").job.warmup, Duration{1s});
  EXPECT_EQ(good("ping 10.0.0.2@tcp --nid 10.0.0.1 -n 3").job.count, 3u);
}

TEST(PerfOptions, one_format) {
  EXPECT_EQ(good("ping 10.0.0.2 --nid 10.0.0.1 --csv").format, Format::kCsv);
  EXPECT_EQ(good("ping 10.0.0.2 --nid 10.0.0.1 --json-stream --timeline 1ms").format, Format::kJsonStream);
  for (const char* two : {"--json --csv", "--csv --json-stream", "--json-stream --json"})
    EXPECT_NE(bad(std::string("ping 10.0.0.2 --nid 10.0.0.1 ") + two).find("excludes"), std::string::npos) << two;
  for (const char* one : {"--csv", "--json-stream"}) {
    EXPECT_EQ(bad(std::string("serve --nid 10.0.0.1 ") + one),
              "ulnet-perf: serve measures nothing: use --json, or neither --json-stream nor --csv\n");
  }
}

TEST(PerfOptions, concurrency_is_a_list) {
  using List = std::vector<uint32_t>;
  EXPECT_EQ(good("put 10.0.0.2 --nid 10.0.0.1 -c 1,8,32").job.concurrency, (List{1, 8, 32}));
  EXPECT_EQ(good("ping 10.0.0.2 --nid 10.0.0.1 -c 1..64*4").job.concurrency, (List{1, 4, 16, 64}));
  EXPECT_EQ(concurrency_parse("4K").value(), List{4096});
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 -c 1,4097"),
            "ulnet-perf: --concurrency: '4097': concurrency is 1 to 4096\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 -c 1,,2"),
            "ulnet-perf: --concurrency: '' is not a number; write for example 1, 8 or 1..64\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 -c 1..x"),
            "ulnet-perf: --concurrency: '1..x' is not a number; write for example 1, 8 or 1..64\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 -c 1..1K --size 1..64"),
            "ulnet-perf: 1 to 64 runs: sizes times concurrencies\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --json --timeline 1ms -c 1,2"),
            "ulnet-perf: a time line needs exactly one size and one concurrency\n");
}

TEST(PerfOptions, a_rate) {
  EXPECT_EQ(good("put 10.0.0.2 --nid 10.0.0.1").job.rate, 0);
  const Options o = good("put 10.0.0.2 --nid 10.0.0.1 --rate 2.5k");
  EXPECT_EQ(o.job.rate, 2500);
  EXPECT_EQ(o.job.concurrency, std::vector<uint32_t>{64});
  EXPECT_EQ(good("put 10.0.0.2 --nid 10.0.0.1 --rate 1M -c 7").job.concurrency, std::vector<uint32_t>{7});
  EXPECT_EQ(good("put 10.0.0.2 --nid 10.0.0.1 --rate 9 --verify --size 4K,64K").job.concurrency[0], 16u);
  EXPECT_EQ(good("get 10.0.0.2 --nid 10.0.0.1 --rate 9 --verify --size 64K").job.concurrency[0], 64u);
  EXPECT_EQ(rate_parse("0.5").value(), 0.5);
  for (const char* wrong : {"0", "-1", "fast", "1G", "1kk", ""})
    EXPECT_EQ(rate_parse(wrong).error(),
              std::string("'") + wrong + "' is not a rate; write for example 0.5, 2000, 100k or 1M");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --rate 2000M"),
            "ulnet-perf: a rate is 0.01 to 1000000000 operations per second\n");
}

TEST(PerfOptions, a_time_line_is_optional) {
  EXPECT_EQ(good("put 10.0.0.2@tcp --nid 10.0.0.1 --json --timeline 2ms").job.timeline, Duration{2ms});
  EXPECT_EQ(good("put 10.0.0.2@tcp --nid 10.0.0.1 --json").job.timeline, Duration{0});
}

TEST(PerfOptions, serve_takes_a_node_only) {
  const Options o = good("serve --net tcp1 --if eth0,eth1 --unprivileged-ports --accept-port 1988 --workers 2");
  EXPECT_TRUE(o.serve);
  EXPECT_EQ(o.node.net, "tcp1");
  EXPECT_EQ(o.node.interfaces, (Words{"eth0", "eth1"}));
  EXPECT_TRUE(o.node.unprivileged_ports);
  EXPECT_EQ(o.node.accept_port, 1988u);
  EXPECT_EQ(node_yaml(o.node),
            "net:\n    - net type: tcp1\n      local NI(s):\n        - interfaces:\n              0: \"eth0\"\n"
            "        - interfaces:\n              0: \"eth1\"\n"
            "ulnet:\n    workers: 2\n    unprivileged_ports: true\n    accept_port: 1988\n");
  EXPECT_EQ(node_yaml(good("serve --nid 10.0.0.1@tcp1").node),
            "net:\n    - net type: tcp1\n      local NI(s):\n        - nid: \"10.0.0.1@tcp1\"\n"
            "ulnet:\n    workers: 1\n    unprivileged_ports: false\n");
}

TEST(PerfOptions, node_options_stand_anywhere) {
  for (const char* line : {"--socket /s --json ping -c 2 10.0.0.2", "ping -c 2 10.0.0.2 --socket /s --json",
                           "--json ping 10.0.0.2 --socket /s -c 2"}) {
    const Options o = good(line);
    EXPECT_EQ(o.node.socket, "/s") << line;
    EXPECT_EQ(o.format, Format::kJson) << line;
    EXPECT_EQ(o.job.concurrency, std::vector<uint32_t>{2}) << line;
  }
  EXPECT_EQ(good("put --nid 10.0.0.1 --nid 10.0.1.1@tcp1 10.0.0.2").node.nids, (Words{"10.0.0.1", "10.0.1.1@tcp1"}));
}

TEST(PerfOptions, commands_that_must_fail_give_the_reason) {
  EXPECT_EQ(bad(""), "ulnet-perf: A subcommand is required; see ulnet-perf --help\n");
  EXPECT_EQ(bad("put"), "ulnet-perf: target is required; see ulnet-perf --help\n");
  EXPECT_EQ(bad("put 10.0.0.2@tcp"),
            "ulnet-perf: no address is given: "
            "use --nid NID, --net NET --if IF, --config FILE, or --socket PATH of an ulnetd\n");
  EXPECT_EQ(bad("put nowhere@xyz --nid 10.0.0.1"),
            "ulnet-perf: 'nowhere@xyz' is not a NID; write for example 10.0.0.2@tcp\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid x@y"), "ulnet-perf: --nid: 'x@y' is not a NID\n");
  EXPECT_EQ(bad("put 10.0.0.2 --self x@y --nid 10.0.0.1"), "ulnet-perf: --self: 'x@y' is not a NID\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --size 2M"), "ulnet-perf: --size: '2M': a message carries at most 1M\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --size 4X"),
            "ulnet-perf: --size: '4X' is not a size; write for example 0, 4096, 4K or 1M\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --duration soon"),
            "ulnet-perf: --duration: 'soon' is not a time; write for example 3s, 500ms or 2m\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --json --timeline 1us"),
            "ulnet-perf: a slice of the time line is at least 100us\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --json --timeline 1ms --size 1,2"),
            "ulnet-perf: a time line needs exactly one size and one concurrency\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --timeline 1ms"),
            "ulnet-perf: --timeline: the time line is a part of the JSON report; add --json\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --duration 0"), "ulnet-perf: the duration must be above 0\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 -c 0"), "ulnet-perf: concurrency is 1 to 4096\n");
  EXPECT_EQ(
      bad("put 10.0.0.2 --nid 10.0.0.1 -c 4 --size 1M --verify"),
      "ulnet-perf: verified puts need size x concurrency of at most 1 MiB: each has its own place in the target\n");
  EXPECT_EQ(bad("put 10.0.0.2 --socket /x --nid 10.0.0.1"),
            "ulnet-perf: --socket uses the node of a running ulnetd; omit --config, --nid, --net and --if\n");
  EXPECT_EQ(bad("put 10.0.0.2 --config f --nid 10.0.0.1"),
            "ulnet-perf: --config gives the addresses; omit --nid, --net and --if\n");
  EXPECT_EQ(bad("put 10.0.0.2 --net tcp"), "ulnet-perf: --net needs --if, and --if needs --net\n");
  EXPECT_EQ(bad("serve --socket /s"),
            "ulnet-perf: a running ulnetd serves with `ulnet: perf_target: true`; omit --socket\n");
  EXPECT_EQ(bad("serve --net xyz --if eth0"), "ulnet-perf: 'xyz' is not a net\n");
  EXPECT_EQ(bad("ping 10.0.0.2 --nid 10.0.0.1 --size 4K"),
            "ulnet-perf: The following arguments were not expected: 4K --size; see ulnet-perf --help\n");
  EXPECT_EQ(bad("serve --nid 10.0.0.1 --accept-port 70000"),
            "ulnet-perf: --accept-port: Value 70000 not in range 1 to 65535; see ulnet-perf --help\n");
}

/// `put` with these two variants.
tl::expected<Options, OptionsEnd> compare(const std::string& line, const std::string& a, const std::string& b) {
  Words all = words("put 10.0.0.2 " + line);
  all.insert(all.end(), {"--ab", a, b});
  return options_parse(all);
}
std::string bad_compare(const std::string& a, const std::string& b, const std::string& line = "--nid 10.0.0.1") {
  const auto options = compare(line, a, b);
  if (options) return "accepted";
  EXPECT_EQ(options.error().exit_code, 2);
  return options.error().text;
}

TEST(PerfOptions, variants_are_the_line_with_their_own_options) {
  const auto o = compare("--nid 10.0.0.1 --size 64K -n 100 --json", "", "--size 4K -c 8  --self 10.0.0.1 --threads");
  ASSERT_TRUE(o) << o.error().text;
  ASSERT_EQ(o->variants.size(), 2u);
  EXPECT_EQ(o->rounds, 9u);
  EXPECT_EQ(o->format, Format::kJson);
  const Job &a = o->variants[0].job, &b = o->variants[1].job;
  EXPECT_EQ(o->variants[1].text, "--size 4K -c 8  --self 10.0.0.1 --threads");
  EXPECT_EQ(a.sizes, std::vector<uint32_t>{65536});
  EXPECT_EQ(b.sizes, std::vector<uint32_t>{4096});
  EXPECT_EQ(a.concurrency, std::vector<uint32_t>{1});
  EXPECT_EQ(b.concurrency, std::vector<uint32_t>{8});
  EXPECT_TRUE(a.self.is_any());
  EXPECT_EQ(b.self.address_v4(), 0x0A000001u);
  EXPECT_FALSE(a.threads);
  EXPECT_TRUE(b.threads);
  EXPECT_EQ(a.count, 100u);
  EXPECT_EQ(b.count, 100u);
  EXPECT_EQ(o->variants[0].node.nids, std::vector<std::string>{"10.0.0.1"});
}

TEST(PerfOptions, variants_may_have_each_its_own_node_and_target) {
  const auto o = compare("--rounds 3", "--socket /a", "--nid 10.0.0.9 --workers 2 --target 10.0.0.3");
  ASSERT_TRUE(o) << o.error().text;
  EXPECT_EQ(o->rounds, 3u);
  EXPECT_EQ(o->variants[0].node.socket, "/a");
  EXPECT_EQ(o->variants[0].job.target.nid.address_v4(), 0x0A000002u);
  EXPECT_EQ(o->variants[1].node.workers, 2u);
  EXPECT_EQ(o->variants[1].node.nids, std::vector<std::string>{"10.0.0.9"});
  EXPECT_EQ(o->variants[1].job.target.nid.address_v4(), 0x0A000003u);
}

TEST(PerfOptions, wrong_comparisons) {
  const std::string a = "ulnet-perf: --ab: variant A ", b = "ulnet-perf: --ab: variant B ";
  EXPECT_EQ(bad_compare("--size 3M", ""), a + "('--size 3M'): --size: '3M': a message carries at most 1M\n");
  EXPECT_EQ(bad_compare("", "--size 1K,2K -c 1,2"),
            b + "('--size 1K,2K -c 1,2'): 4 measurements: give one size and one concurrency\n");
  EXPECT_EQ(bad_compare("", "--json"), b + "('--json'): --json holds for both variants, or for none\n");
  EXPECT_EQ(bad_compare("--rounds=3", ""), a + "('--rounds=3'): --rounds holds for both variants, or for none\n");
  EXPECT_EQ(bad_compare("", "64K"),
            b + "('64K'): The following argument was not expected: 64K; see ulnet-perf --help\n");
  EXPECT_EQ(bad_compare("--socket /a", ""),
            a + "('--socket /a'): --socket uses the node of a running ulnetd; omit --config, --nid, --net and --if\n");
  EXPECT_EQ(bad_compare("", "--socket /a", ""),
            a + "(''): no address is given: use --nid NID, --net NET --if IF, --config FILE, or --socket PATH of an "
                "ulnetd\n");
  EXPECT_EQ(bad_compare("", "", "--nid 10.0.0.1 --timeline 1ms"),
            a + "(''): --timeline: a comparison has no time line\n");
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --ab --threads").find("ulnet-perf: --ab: 2 required"), 0u);
  EXPECT_EQ(bad("put 10.0.0.2 --nid 10.0.0.1 --rounds 3"),
            "ulnet-perf: --rounds requires --ab; see ulnet-perf --help\n");
  EXPECT_EQ(bad_compare("", "", "--nid 10.0.0.1 --rounds 0"),
            "ulnet-perf: --rounds: Value 0 not in range 1 to 1000; see ulnet-perf --help\n");
}

TEST(PerfOptions, help_is_no_error) {
  const auto help = options_parse({"--help"});
  ASSERT_FALSE(help);
  EXPECT_EQ(help.error().exit_code, 0);
  EXPECT_NE(help.error().text.find("serve"), std::string::npos);
  const auto put = options_parse({"put", "--help"});
  EXPECT_EQ(put.error().exit_code, 0);
  EXPECT_NE(put.error().text.find("--concurrency"), std::string::npos);
}

TEST(PerfOptions, sizes) {
  using Sizes = std::vector<uint32_t>;
  EXPECT_EQ(sizes_parse("0").value(), Sizes{0});
  EXPECT_EQ(sizes_parse("4k,8KiB,1mb").value(), (Sizes{4096, 8192, kMaxPayload}));
  EXPECT_EQ(sizes_parse("1K..8K").value(), (Sizes{1024, 2048, 4096, 8192}));
  EXPECT_EQ(sizes_parse("3..10").value(), (Sizes{3, 6, 10}));
  EXPECT_EQ(sizes_parse("0..4").value(), (Sizes{0, 1, 2, 4}));
  EXPECT_EQ(sizes_parse("0..1M").value().size(), 22u);
  EXPECT_EQ(sizes_parse("1..1M*32").value(), (Sizes{1, 32, 1024, 32768, kMaxPayload}));
  EXPECT_EQ(sizes_parse("7..7").value(), Sizes{7});
  EXPECT_EQ(sizes_parse("1..1M*99999999999").value(), (Sizes{1, kMaxPayload}));
  EXPECT_EQ(sizes_parse("8..4").error(), "'8..4': a range must go from a smaller to a larger number");
  EXPECT_EQ(sizes_parse("1..4*1").error(), "'1..4*1': the factor must be 2 or more");
  EXPECT_EQ(sizes_parse("0..1M,0..1M,0..1M").error(), "more than 64 values");
  for (const char* text : {"", ",", "4K,", "-1", "1.5K", "..", "1..", "99999999999999999999", "99999999999999G"})
    EXPECT_FALSE(sizes_parse(text)) << text;
}

TEST(PerfOptions, durations) {
  EXPECT_EQ(duration_parse("3").value(), Duration{3s});
  EXPECT_EQ(duration_parse("0.25s").value(), Duration{250ms});
  EXPECT_EQ(duration_parse("20us").value(), Duration{20us});
  EXPECT_EQ(duration_parse("2min").value(), Duration{120s});
  for (const char* text : {"", "s", "-1s", "1e99s", "nan", "inf", "3 s", "3sec"})
    EXPECT_FALSE(duration_parse(text)) << text;
}

}  // namespace
}  // namespace ulnet::perf
