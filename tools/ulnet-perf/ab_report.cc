#include "tools/ulnet-perf/ab_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "perf/generator/job_json.h"

namespace ulnet::perf {
namespace {

using json = nlohmann::ordered_json;

constexpr const char* kAbRow = "{:<15}{:>7}{:>15}{:>15}{:>12}{:>12}{:>12}{:>12}\n";
constexpr size_t kA = 0, kB = 1;

struct QuartileName {
  const char* name;
  double Quartiles::*value;
};
constexpr QuartileName kQuartiles[] = {
    {"first_quartile", &Quartiles::first}, {"median", &Quartiles::median}, {"third_quartile", &Quartiles::third}};

template <class... Text>
std::string row(const Text&... text) {
  return fmt::format(fmt::runtime(kAbRow), text...);
}

std::string ratio_text(const std::optional<double>& ratio) {
  return ratio ? fmt::format("{:.4f}", *ratio) : "-";
}

std::string rate_text(const RunResult& run) {
  return fmt::format("{:.1f}", run.messages_per_second());
}

std::string variant_text(const Variant& variant) {
  return variant.text.empty() ? "as given" : variant.text;
}

/// By metric, this quartile of the ratios.
std::array<std::optional<double>, kAbMetrics.size()> quartile_row(const std::vector<AbRound>& rounds,
                                                                  const QuartileName& which) {
  std::array<std::optional<double>, kAbMetrics.size()> values;
  for (size_t i = 0; i < values.size(); ++i)
    if (const auto quartiles = ab_quartiles(rounds, kAbMetrics[i])) values[i] = (*quartiles).*which.value;
  return values;
}

std::string number_text(const std::optional<double>& value) {
  return value ? fmt::format("{:.6g}", *value) : "";
}

}  // namespace

std::string ab_table_head(const std::vector<Variant>& variants) {
  std::string text =
      fmt::format("A: {}\nB: {}\nratios are A over B\n\n", variant_text(variants[kA]), variant_text(variants[kB]));
  const std::string head = row("round", "first", "A messages/s", "B messages/s", kAbMetrics[0].column,
                               kAbMetrics[1].column, kAbMetrics[2].column, kAbMetrics[3].column);
  return text + head + std::string(head.size() - 1, '-') + "\n";
}

std::string ab_table_row(size_t number, const AbRound& round) {
  const auto ratio = [&round](size_t metric) { return ratio_text(ab_ratio(round, kAbMetrics[metric])); };
  return row(number, round.a_first ? "A" : "B", rate_text(round.a), rate_text(round.b), ratio(0), ratio(1), ratio(2),
             ratio(3));
}

std::string ab_table_foot(const std::vector<AbRound>& rounds) {
  std::string text;
  for (const QuartileName& which : kQuartiles) {
    const auto values = quartile_row(rounds, which);
    std::string name = which.name;
    std::replace(name.begin(), name.end(), '_', ' ');
    text += row(name, "", "", "", ratio_text(values[0]), ratio_text(values[1]), ratio_text(values[2]),
                ratio_text(values[3]));
  }
  const auto out = std::count_if(rounds.begin(), rounds.end(), [](const AbRound& round) { return !round.counts(); });
  if (out != 0)
    text += fmt::format("LEFT OUT: {} of {} rounds, in which an operation failed or none ended\n", out, rounds.size());
  return text;
}

std::string ab_csv_head() {
  std::string line = "round,first";
  for (const AbMetric& metric : kAbMetrics) line += fmt::format(",a_{0},b_{0},ratio_{0}", metric.name);
  return line + "\n";
}

std::string ab_csv_row(size_t number, const AbRound& round) {
  std::string line = fmt::format("{},{}", number, round.a_first ? "a" : "b");
  for (const AbMetric& metric : kAbMetrics)
    line += fmt::format(",{:.1f},{:.1f},{}", metric.value(round.a), metric.value(round.b),
                        number_text(ab_ratio(round, metric)));
  return line + "\n";
}

std::string ab_csv_foot(const std::vector<AbRound>& rounds) {
  std::string text;
  for (const QuartileName& which : kQuartiles) {
    text += which.name + std::string(",");
    for (const auto& value : quartile_row(rounds, which)) text += ",,," + number_text(value);
    text += "\n";
  }
  return text;
}

json ab_variants_json(const std::vector<Variant>& variants) {
  const auto one = [](const Variant& variant) {
    json object = {{"options", variant.text}, {"socket", nullptr}, {"job", job_json(variant.job)}};
    if (!variant.node.socket.empty()) object["socket"] = variant.node.socket;
    return object;
  };
  return {{"a", one(variants[kA])}, {"b", one(variants[kB])}};
}

json ab_round_json(size_t number, const AbRound& round) {
  json ratios = json::object();
  for (const AbMetric& metric : kAbMetrics) {
    const auto ratio = ab_ratio(round, metric);
    ratios[metric.name] = ratio ? json(*ratio) : json(nullptr);
  }
  return {{"round", number},
          {"first", round.a_first ? "a" : "b"},
          {"a", result_json(round.a)},
          {"b", result_json(round.b)},
          {"ratios", std::move(ratios)}};
}

json ab_ratios_json(const std::vector<AbRound>& rounds) {
  json object = json::object();
  for (const AbMetric& metric : kAbMetrics) {
    object[metric.name] = nullptr;
    const auto quartiles = ab_quartiles(rounds, metric);
    if (!quartiles) continue;
    json& values = object[metric.name] = json::object();
    for (const QuartileName& which : kQuartiles) values[which.name] = (*quartiles).*which.value;
    values["rounds"] = quartiles->count;
  }
  return object;
}

bool ab_ok(const std::vector<AbRound>& rounds) {
  return !rounds.empty() &&
         std::all_of(rounds.begin(), rounds.end(), [](const AbRound& round) { return round.a.ok() && round.b.ok(); });
}

}  // namespace ulnet::perf
