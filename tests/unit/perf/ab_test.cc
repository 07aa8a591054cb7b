// The comparison of two variants: ratios and quartiles, and their text in each format.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/ulnet-perf/ab_ratios.h"
#include "tools/ulnet-perf/ab_report.h"

namespace ulnet::perf {
namespace {

RunResult run(uint64_t completed, Duration p50, Duration p99) {
  RunResult r;
  r.size = 1000;
  r.concurrency = 1;
  r.elapsed = 1s;
  r.completed = completed;
  r.bytes = completed * 1000;
  r.latency_p50 = p50;
  r.latency_p99 = p99;
  r.accepted = r.ended = completed;
  return r;
}

/// Ratios of messages/s: 2, 1, 4; of p50: 0.5, 1, 0.25.
std::vector<AbRound> rounds() {
  return {{.a_first = true, .a = run(200, 10us, 30us), .b = run(100, 20us, 30us)},
          {.a_first = false, .a = run(100, 20us, 30us), .b = run(100, 20us, 60us)},
          {.a_first = true, .a = run(400, 5us, 90us), .b = run(100, 20us, 30us)}};
}

std::vector<Variant> variants() {
  std::vector<Variant> two(2);
  two[0].text = "--size 1000 --socket /a";
  two[0].node.socket = "/a";
  two[1].job.concurrency = {8};
  return two;
}

TEST(PerfAb, a_ratio_is_a_over_b) {
  const AbRound first = rounds()[0];
  EXPECT_EQ(ab_ratio(first, kAbMetrics[0]), 2.0);
  EXPECT_EQ(ab_ratio(first, kAbMetrics[1]), 2.0);
  EXPECT_EQ(ab_ratio(first, kAbMetrics[2]), 0.5);
  EXPECT_EQ(ab_ratio(first, kAbMetrics[3]), 1.0);
}

TEST(PerfAb, a_round_with_a_failed_operation_or_without_any_has_no_ratio) {
  for (RunResult AbRound::*side : {&AbRound::a, &AbRound::b}) {
    AbRound failed = rounds()[0], empty = rounds()[0];
    (failed.*side).failed = 1;
    (empty.*side).completed = 0;
    for (const AbMetric& metric : kAbMetrics) {
      EXPECT_FALSE(ab_ratio(failed, metric));
      EXPECT_FALSE(ab_ratio(empty, metric));
    }
  }
  AbRound no_payload = rounds()[0];
  no_payload.b.bytes = 0;
  EXPECT_FALSE(ab_ratio(no_payload, kAbMetrics[1]));
  EXPECT_TRUE(ab_ratio(no_payload, kAbMetrics[0]));
}

TEST(PerfAb, quartiles_are_interpolated) {
  const auto is = [](std::vector<double> values, double first, double median, double third) {
    const auto quartiles = quartiles_of(values);
    ASSERT_TRUE(quartiles);
    EXPECT_DOUBLE_EQ(quartiles->first, first);
    EXPECT_DOUBLE_EQ(quartiles->median, median);
    EXPECT_DOUBLE_EQ(quartiles->third, third);
    EXPECT_EQ(quartiles->count, values.size());
  };
  is({3}, 3, 3, 3);
  is({4, 2}, 2.5, 3, 3.5);
  is({4, 1, 3, 2}, 1.75, 2.5, 3.25);
  is({5, 4, 3, 2, 1}, 2, 3, 4);
  is({9, 1, 1, 1, 1, 1, 1, 1, 9}, 1, 1, 1);
  EXPECT_FALSE(quartiles_of({}));
}

TEST(PerfAb, quartiles_are_of_the_rounds_that_count) {
  auto all = rounds();
  auto quartiles = ab_quartiles(all, kAbMetrics[0]);
  ASSERT_TRUE(quartiles);
  EXPECT_DOUBLE_EQ(quartiles->first, 1.5);
  EXPECT_DOUBLE_EQ(quartiles->median, 2);
  EXPECT_DOUBLE_EQ(quartiles->third, 3);
  all[2].b.failed = 1;
  quartiles = ab_quartiles(all, kAbMetrics[0]);
  EXPECT_DOUBLE_EQ(quartiles->median, 1.5);
  EXPECT_EQ(quartiles->count, 2u);
}

TEST(PerfAb, table) {
  std::string text = ab_table_head(variants());
  for (size_t i = 0; i < 3; ++i) text += ab_table_row(i + 1, rounds()[i]);
  text += ab_table_foot(rounds());
  EXPECT_EQ(text,
            "A: --size 1000 --socket /a\n"
            "B: as given\n"
            "ratios are A over B\n"
            "\n"
            "round            first   A messages/s   B messages/s  messages/s     bytes/s         p50         p99\n"
            "----------------------------------------------------------------------------------------------------\n"
            "1                    A          200.0          100.0      2.0000      2.0000      0.5000      1.0000\n"
            "2                    B          100.0          100.0      1.0000      1.0000      1.0000      0.5000\n"
            "3                    A          400.0          100.0      4.0000      4.0000      0.2500      3.0000\n"
            "first quartile                                            1.5000      1.5000      0.3750      0.7500\n"
            "median                                                    2.0000      2.0000      0.5000      1.0000\n"
            "third quartile                                            3.0000      3.0000      0.7500      2.0000\n");
  auto some = rounds();
  some[1].a.failed = 1;
  EXPECT_NE(ab_table_row(2, some[1]).find("100.0           -           -"), std::string::npos);
  EXPECT_NE(ab_table_foot(some).find("LEFT OUT: 1 of 3 rounds, in which an operation failed or none ended\n"),
            std::string::npos);
}

TEST(PerfAb, csv) {
  EXPECT_EQ(
      ab_csv_head(),
      "round,first,a_messages_per_second,b_messages_per_second,ratio_messages_per_second,a_bytes_per_second,"
      "b_bytes_per_second,ratio_bytes_per_second,a_p50_ns,b_p50_ns,ratio_p50_ns,a_p99_ns,b_p99_ns,ratio_p99_ns\n");
  EXPECT_EQ(ab_csv_row(2, rounds()[1]),
            "2,b,100.0,100.0,1,100000.0,100000.0,1,20000.0,20000.0,1,30000.0,60000.0,0.5\n");
  EXPECT_EQ(ab_csv_foot(rounds()),
            "first_quartile,,,,1.5,,,1.5,,,0.375,,,0.75\n"
            "median,,,,2,,,2,,,0.5,,,1\n"
            "third_quartile,,,,3,,,3,,,0.75,,,2\n");
  EXPECT_EQ(ab_csv_foot({}), "first_quartile,,,,,,,,,,,,,\nmedian,,,,,,,,,,,,,\nthird_quartile,,,,,,,,,,,,,\n");
}

TEST(PerfAb, json) {
  const auto two = ab_variants_json(variants());
  EXPECT_EQ(two["a"]["options"], "--size 1000 --socket /a");
  EXPECT_EQ(two["a"]["socket"], "/a");
  EXPECT_TRUE(two["b"]["socket"].is_null());
  EXPECT_EQ(two["b"]["job"]["concurrency"], std::vector<int>{8});
  const auto round = ab_round_json(2, rounds()[1]);
  EXPECT_EQ(round["round"], 2);
  EXPECT_EQ(round["first"], "b");
  EXPECT_EQ(round["a"]["latency_ns"]["p99"], 30000);
  EXPECT_EQ(round["b"]["latency_ns"]["p99"], 60000);
  EXPECT_EQ(round["ratios"]["p99_ns"], 0.5);
  const auto ratios = ab_ratios_json(rounds());
  EXPECT_EQ(ratios["messages_per_second"],
            (nlohmann::ordered_json{{"first_quartile", 1.5}, {"median", 2.0}, {"third_quartile", 3.0}, {"rounds", 3}}));
  EXPECT_TRUE(ab_ratios_json({})["p50_ns"].is_null());
}

TEST(PerfAb, ok_if_all_operations_ended_well) {
  auto all = rounds();
  EXPECT_TRUE(ab_ok(all));
  EXPECT_FALSE(ab_ok({}));
  all[2].b.lost = 1;
  EXPECT_FALSE(ab_ok(all));
}

}  // namespace
}  // namespace ulnet::perf
