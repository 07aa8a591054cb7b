// `ulnet-perf serve`: the target, until a signal.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dataplane/host/clock.h"
#include "perf/generator/job_json.h"
#include "perf/generator/target.h"
#include "tools/ulnet-perf/run.h"

namespace ulnet::perf {
namespace {

constexpr Duration kLookEvery = 500ms;

std::string nids_text(const std::vector<Nid>& nids) {
  std::string text;
  for (const Nid& nid : nids) text += (text.empty() ? "" : " ") + nid_text(nid);
  return text.empty() ? "loopback only" : text;
}

std::string rates_text(const Target::Counts& before, const Target::Counts& now, double seconds) {
  return fmt::format(
      "{:.0f} puts/s, {:.3f} Gb/s in; {:.0f} gets/s, {:.3f} Gb/s out", double(now.puts - before.puts) / seconds,
      double(now.put_bytes - before.put_bytes) * 8e-9 / seconds, double(now.gets - before.gets) / seconds,
      double(now.get_bytes - before.get_bytes) * 8e-9 / seconds);
}

/// Until a signal, or until the target ends by itself (false).
bool watch(const Target& target, Signals& signals, Screen& screen) {
  Target::Counts before;
  Instant before_at = clock_now();
  while (!signals.wait(kLookEvery)) {
    if (!target.serving()) return false;
    const Target::Counts now = target.counts();
    const Instant at = clock_now();
    screen.progress(rates_text(before, now, double((at - before_at).count()) * 1e-9));
    before = now;
    before_at = at;
  }
  return true;
}

}  // namespace

int serve(const Options& options, Signals& signals, Screen& screen) {
  const auto instance = open_node(options.node, screen);
  if (instance == nullptr) return 1;
  const auto submitter = instance->submitter_open(WorkerId{0}, Target::kSubmitterSize);
  if (!submitter) return screen.note(fmt::format("ulnet-perf: {}\n", submitter.error().what)), 1;
  Target target(**submitter);
  auto opened = instance->portal_open(PortalIndex{kTargetPortal}, WorkerId{0});
  if (opened) opened = target.attach();
  if (!opened) {
    screen.note(fmt::format("ulnet-perf: cannot open portal {}: {}\n", kTargetPortal, opened.error().what));
    (void)instance->close();
    return 1;
  }
  screen.print(Format::kTable, "serving puts and gets on " + nids_text(instance->nids()) + "; Ctrl-C ends\n");
  const bool served = watch(target, signals, screen);
  if (!served) screen.note("ulnet-perf: the node closed the target\n");
  const std::string left = instance->close();  // takes the MDs back, too
  if (!left.empty()) screen.note("ulnet-perf: stopped without waiting for: " + left + "\n");
  const Target::Counts sum = target.counts();
  screen.print(Format::kTable, fmt::format("served {} puts ({} bytes) and {} gets ({} bytes); {} failed\n", sum.puts,
                                           sum.put_bytes, sum.gets, sum.get_bytes, sum.failed));
  const nlohmann::ordered_json document = {{"schema", kJsonSchema},
                                           {"served",
                                            {{"puts", sum.puts},
                                             {"put_bytes", sum.put_bytes},
                                             {"gets", sum.gets},
                                             {"get_bytes", sum.get_bytes},
                                             {"failed", sum.failed}}}};
  screen.print(Format::kJson, document.dump(2) + "\n");
  return served && left.empty() ? 0 : 1;
}

}  // namespace ulnet::perf
