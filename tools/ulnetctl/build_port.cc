// port and capture: the packet ports of `ulnet: devices:`.
#include <fmt/format.h>

#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

/// A whole number between these. Errors: refused.
tl::expected<std::optional<int64_t>, Exit> within(const Words& words, const char* option, int64_t least, int64_t most) {
  const auto text = words.value(option);
  if (!text) return std::optional<int64_t>{};
  const auto number = config::integer_parse(*text);
  if (number && *number >= least && *number <= most) return number;
  return refuse("manage", "capture", -EINVAL, fmt::format("--{}: '{}'; allowed: {} to {}", option, *text, least, most));
}

}  // namespace

Built port_show(const Words& words, const Env&) {
  const auto verbose = verbosity(words, "port");
  if (!verbose) return tl::unexpected(verbose.error());
  config::Json args = {{"verbose", *verbose}};
  if (const auto name = words.value("name")) args["name"] = *name;
  return command_of(api::Call::kShowPort, std::move(args));
}

Built port_reset(const Words& words, const Env&) {
  const auto name = words.value("name");
  if (!name) return refuse("manage", "port_reset", -EINVAL, "missing --name: the port as `port show` names it");
  return command_of(api::Call::kPortReset, {{"name", *name}});
}

Built capture(const Words& words, const Env&) {
  const auto name = words.value("if");
  if (!name) return refuse("manage", "capture", -EINVAL, "missing --if: the port as `port show` names it");
  const auto output = words.value("output");
  if (!output) return refuse("manage", "capture", -EINVAL, "missing --output: a file, or - for standard output");
  config::Json args = {{"if", *name}};
  if (const auto filter = words.value("filter")) args["filter"] = *filter;
  struct Limit {
    const char* option;
    int64_t least, most, unit;
  };
  constexpr int64_t kMebibyte = 1 << 20;
  for (const Limit& one :
       {Limit{"snap", api::kCaptureSnapMin, api::kCaptureSnapMax, 1}, Limit{"seconds", 1, api::kCaptureSecondsMax, 1},
        Limit{"size", 1, api::kCaptureSizeMax / kMebibyte, kMebibyte}, Limit{"rate", 1, api::kCaptureRateMax, 1}}) {
    const auto number = within(words, one.option, one.least, one.most);
    if (!number) return tl::unexpected(number.error());
    if (*number) args[one.option] = **number * one.unit;
  }
  Command command = command_of(api::Call::kCapture, std::move(args));
  command.pcapng = true;
  command.timeout = std::chrono::milliseconds{0};
  if (*output != "-") command.output_file = *output;
  return command;
}

}  // namespace ulnet::ctl
