#include "tools/ulnet-perf/ab_ratios.h"

#include <algorithm>
#include <cmath>

namespace ulnet::perf {

std::optional<double> ab_ratio(const AbRound& round, const AbMetric& metric) {
  const double b = metric.value(round.b);
  if (!round.counts() || b == 0) return std::nullopt;
  return metric.value(round.a) / b;
}

std::optional<Quartiles> quartiles_of(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const auto at = [&values](double part) {
    const double place = part * double(values.size() - 1);
    const auto below = size_t(place);
    const size_t above = std::min(below + 1, values.size() - 1);
    return std::lerp(values[below], values[above], place - double(below));
  };
  return Quartiles{at(0.25), at(0.5), at(0.75), values.size()};
}

std::optional<Quartiles> ab_quartiles(const std::vector<AbRound>& rounds, const AbMetric& metric) {
  std::vector<double> ratios;
  for (const AbRound& round : rounds)
    if (const auto ratio = ab_ratio(round, metric)) ratios.push_back(*ratio);
  return quartiles_of(std::move(ratios));
}

}  // namespace ulnet::perf
