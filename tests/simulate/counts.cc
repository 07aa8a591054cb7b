#include "tests/simulate/counts.h"

#include <fmt/format.h>

#include "tests/simulate/cluster.h"

namespace ulnet::simulate {
namespace {

constexpr uint64_t kSeedsEnough = 50;  ///< fewer runs may miss something by chance

struct CountRow {
  Count count;
  const char* name;
  double least;  ///< of each run, on average
};
constexpr std::array<CountRow, size_t(Count::kCount)> kRows{{
    {Count::kSilentRails, "silent rails", 0.5},
    {Count::kHalfOpenRails, "half-open rails", 0.5},
    {Count::kFlaps, "flaps", 15},
    {Count::kLossyRails, "lossy rails", 0.5},
    {Count::kHangs, "hangs", 0.5},
    {Count::kResends, "resends", 4},
    {Count::kGoodResends, "good resends", 0.5},
    {Count::kProbes, "probes", 25},
    {Count::kFalls, "falls", 1},
    {Count::kRecoveries, "recoveries", 3},
    {Count::kChoices, "choices", 150},
    {Count::kChoicesAtRisk, "choices at risk", 4},
    {Count::kMoves, "moves", 4},
    {Count::kRailsUsed, "rails used", 5},
    {Count::kPacketsResent, "RoCE packets resent", 1},
    {Count::kDeviceWrites, "writes of RDMA devices", 5},
    {Count::kDeviceLosses, "losses of RDMA devices", 1},
}};

}  // namespace

std::string counts_wrong(const Counts& counts, uint64_t seeds) {
  if (seeds < kSeedsEnough) return "";
  for (const CountRow& row : kRows)
    if (const double least = row.least * double(seeds); double(counts[row.count]) < least)
      return fmt::format("only {} {} in {} runs, fewer than {:.0f}", counts[row.count], row.name, seeds, least);
  return "";
}

std::string text_of(const Counts& counts) {
  std::string text;
  for (const CountRow& row : kRows)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", counts[row.count], row.name);
  return text;
}

}  // namespace ulnet::simulate
