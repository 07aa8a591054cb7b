#include "tools/ulnet-perf/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>

#include "dataplane/base/nid_text.h"

namespace ulnet::perf {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

constexpr uint32_t kRatePlaces = 64;  ///< usual number of operations under way at once, by a rate

/// Options as text, as CLI11 delivers them.
struct Raw {
  std::string target, self, sizes = "4K", concurrency, rate, duration = "3s", warmup, drain, timeline;
  uint64_t count = 0;
  bool verify = false;
  bool threads = false;
  bool compares = false;
  std::pair<std::string, std::string> ab;  ///< then: the options of A and of B
  uint32_t rounds = kAbRounds;
};

/// As the command line has them: at most one.
struct Formats {
  bool json = false, json_stream = false, csv = false;
};

// These options may stand before or behind the command: CLI11 passes on options that a command does not define.
void add_node_options(CLI::App& app, NodeOptions& node, Formats& formats) {
  app.fallthrough();
  CLI::Option* whole = app.add_flag("--json", formats.json, "Print JSON (schema 1, docs/ulnet-perf.md), not a table");
  CLI::Option* stream = app.add_flag("--json-stream", formats.json_stream,
                                     "Print a line of JSON for each event: start, progress, run, end");
  CLI::Option* csv = app.add_flag("--csv", formats.csv, "Print CSV: a line of names, and one for each measurement");
  whole->excludes(stream)->excludes(csv);
  stream->excludes(csv);
  app.add_option("--socket", node.socket, "Let the ulnetd with this control socket generate, instead of a node inside")
      ->option_text("PATH");
  app.add_option("--config", node.config, "Configuration (YAML) of the node inside")->option_text("FILE");
  app.add_option("--nid", node.nids, "Address of the node inside, e.g. 10.0.0.1@tcp; may be repeated")
      ->allow_extra_args(false)
      ->option_text("NID");
  app.add_option("--net", node.net, "With --if: net of the node inside, e.g. tcp")->option_text("NET");
  app.add_option("--if", node.interfaces, "Interfaces; the node uses the first IPv4 address of each")
      ->allow_extra_args(false)
      ->delimiter(',')
      ->option_text("IF,...");
  app.add_flag("--unprivileged-ports", node.unprivileged_ports,
               "Connect from any port and trust the peer's HELLO: for ulnet peers only");
  app.add_option("--accept-port", node.accept_port, "TCP port to listen on and to connect to (988)")
      ->check(CLI::Range(1, 65535))
      ->option_text("PORT");
  app.add_option("--workers", node.workers, "Worker threads (1)")->check(CLI::Range(1, 64))->option_text("N");
}

void add_job_options(CLI::App& app, Raw& raw, bool sized) {
  app.add_option("target,--target", raw.target, "NID of the peer, e.g. 10.0.0.2@tcp")->option_text("TARGET");
  app.add_option("--self", raw.self, "Local NID to send from (default: chosen by LNet)")->option_text("NID");
  if (sized) {
    app.add_option("--size", raw.sizes, "Bytes: list and ranges, 0 to 1M: 4K,64K or 1K..1M or 1..1M*4 (4K)")
        ->option_text("SIZES");
  }
  app.add_option("-c,--concurrency", raw.concurrency,
                 "Operations in progress at one time: list and ranges (1; 64 with --rate)")
      ->option_text("N,...");
  app.add_option("--rate", raw.rate, "Operations per second that begin on schedule, e.g. 2.5 or 100k")
      ->option_text("RATE");
  app.add_option("-d,--duration", raw.duration, "Time of each measurement (3s)")->option_text("TIME");
  app.add_option("-n,--count", raw.count, "Number of operations of each measurement, instead of --duration")
      ->option_text("N");
  app.add_option("--warmup", raw.warmup, "Warm-up before each measurement (500ms; 0 with --count)")
      ->option_text("TIME");
  app.add_option("--drain", raw.drain, "At the end, wait this time for unfinished operations, then cancel them (10s)")
      ->option_text("TIME");
  app.add_option("--timeline", raw.timeline, "With --json: report the operations that ended in each slice of this time")
      ->option_text("TIME");
  app.add_flag("--verify", raw.verify, "Check every byte; the data of puts is read back from the target");
  app.add_flag("--threads", raw.threads,
               "Generate the load on a thread of its own; without it, on the worker's (--verify implies it)");
  CLI::Option* ab =
      app.add_option("--ab", raw.ab, "Compare: two times options in quotes, e.g. --ab '--size 4K' '--size 8K'")
          ->option_text("A B");
  app.add_option("--rounds", raw.rounds, "With --ab: measurements of each of the two (9)")
      ->check(CLI::Range(1u, kAbRoundsMax))
      ->needs(ab)
      ->option_text("N");
}

tl::unexpected<OptionsEnd> refuse(const std::string& sentence) {
  return tl::unexpected(OptionsEnd{2, "ulnet-perf: " + sentence + "\n"});
}

/// One time option; `text` empty leaves `out` as it is.
std::optional<OptionsEnd> take_time(const char* option, const std::string& text, Duration& out) {
  if (text.empty()) return std::nullopt;
  const auto time = duration_parse(text);
  if (!time) return refuse(fmt::format("{}: {}", option, time.error())).value();
  out = *time;
  return std::nullopt;
}

/// Without -c. By a rate, operations have places enough; verified puts have as many as the target has.
uint32_t usual_concurrency(const Job& job) {
  if (job.rate == 0) return 1;
  const uint32_t largest = *std::max_element(job.sizes.begin(), job.sizes.end());
  if (!job.verify || job.operation != Operation::kPut || largest == 0) return kRatePlaces;
  return std::clamp(kTargetBytes / largest, 1u, kRatePlaces);
}

std::optional<OptionsEnd> job_fill(const Raw& raw, Operation operation, Job& job) {
  job.operation = operation;
  if (raw.target.empty()) return refuse("target is required; see ulnet-perf --help").value();
  const auto target = nid_parse(raw.target);
  if (!target || target->is_any()) {
    return refuse(fmt::format("'{}' is not a NID; write for example 10.0.0.2@tcp", raw.target)).value();
  }
  job.target.nid = *target;
  if (!raw.self.empty()) {
    const auto self = nid_parse(raw.self);
    if (!self) return refuse(fmt::format("--self: '{}' is not a NID", raw.self)).value();
    job.self = *self;
  }
  const auto sizes = sizes_parse(raw.sizes);
  if (!sizes) return refuse("--size: " + sizes.error()).value();
  job.sizes = *sizes;
  if (!raw.rate.empty()) {
    const auto rate = rate_parse(raw.rate);
    if (!rate) return refuse("--rate: " + rate.error()).value();
    job.rate = *rate;
  }
  job.count = raw.count;
  job.verify = raw.verify;
  if (raw.concurrency.empty()) {
    job.concurrency = {usual_concurrency(job)};
  } else {
    const auto concurrency = concurrency_parse(raw.concurrency);
    if (!concurrency) return refuse("--concurrency: " + concurrency.error()).value();
    job.concurrency = *concurrency;
  }
  job.threads = raw.threads;
  if (raw.count != 0) job.warmup = Duration{0};
  if (auto wrong = take_time("--duration", raw.duration, job.duration)) return wrong;
  if (auto wrong = take_time("--warmup", raw.warmup, job.warmup)) return wrong;
  if (auto wrong = take_time("--drain", raw.drain, job.drain)) return wrong;
  if (auto wrong = take_time("--timeline", raw.timeline, job.timeline)) return wrong;
  if (auto checked = job_check(job); !checked) return refuse(checked.error().what).value();
  return std::nullopt;
}

std::optional<OptionsEnd> node_check(const NodeOptions& node) {
  const bool by_address = !node.nids.empty() || !node.net.empty() || !node.interfaces.empty();
  if (!node.socket.empty() || !node.config.empty()) {
    if (node.workers != 1 || node.accept_port != 0 || node.unprivileged_ports)
      return refuse(fmt::format("{} gives a node that is configured; omit --workers, --accept-port and "
                                "--unprivileged-ports",
                                node.socket.empty() ? "--config" : "--socket"))
          .value();
  }
  if (!node.socket.empty()) {
    if (by_address || !node.config.empty()) {
      return refuse("--socket uses the node of a running ulnetd; omit --config, --nid, --net and --if").value();
    }
    return std::nullopt;
  }
  if (!node.config.empty()) {
    if (by_address) return refuse("--config gives the addresses; omit --nid, --net and --if").value();
    return std::nullopt;
  }
  if (!by_address) {
    return refuse("no address is given: use --nid NID, --net NET --if IF, --config FILE, or --socket PATH of an ulnetd")
        .value();
  }
  if (node.net.empty() != node.interfaces.empty()) return refuse("--net needs --if, and --if needs --net").value();
  if (!node.net.empty() && !net_parse(node.net)) return refuse(fmt::format("'{}' is not a net", node.net)).value();
  for (const std::string& nid : node.nids) {
    const auto parsed = nid_parse(nid);
    if (!parsed || parsed->is_any()) return refuse(fmt::format("--nid: '{}' is not a NID", nid)).value();
  }
  return std::nullopt;
}

}  // namespace

tl::expected<uint64_t, std::string> size_parse(const std::string& text) {
  uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const std::string suffix = lower(std::string(rest, end));
  unsigned shift = 64;
  if (suffix.empty() || suffix == "b") shift = 0;
  for (unsigned i = 0; i < 3; ++i) {
    const std::string unit(1, "kmg"[i]);
    if (suffix == unit || suffix == unit + "b" || suffix == unit + "ib") shift = 10 * (i + 1);
  }
  if (error != std::errc{} || shift == 64 || value > (UINT64_MAX >> shift)) {
    return tl::unexpected(fmt::format("'{}' is not a size; write for example 0, 4096, 4K or 1M", text));
  }
  return value << shift;
}

namespace {

struct ListOf {
  uint32_t max;
  const char* above;  ///< the error of a number above `max`
  const char* wrong;  ///< the error of text that is no number
};

/// A list of numbers and ranges.
tl::expected<std::vector<uint32_t>, std::string> list_parse(const std::string& text, const ListOf& of) {
  std::vector<uint32_t> values;
  for (const std::string& part : split(text, ',')) {
    const size_t dots = part.find("..");
    const size_t star = dots == std::string::npos ? dots : part.find('*', dots);
    const auto first = size_parse(part.substr(0, dots));
    if (!first) return tl::unexpected(fmt::format("'{}' {}", part.substr(0, dots), of.wrong));
    auto last = first;
    uint64_t factor = 2;
    if (dots != std::string::npos) {
      last = size_parse(part.substr(dots + 2, star == std::string::npos ? star : star - dots - 2));
      if (!last) return tl::unexpected(fmt::format("'{}' {}", part, of.wrong));
    }
    if (star != std::string::npos) {
      const auto parsed = size_parse(part.substr(star + 1));
      if (!parsed || *parsed < 2) return tl::unexpected(fmt::format("'{}': the factor must be 2 or more", part));
      factor = *parsed;
    }
    if (*last < *first)
      return tl::unexpected(fmt::format("'{}': a range must go from a smaller to a larger number", part));
    if (*last > of.max) return tl::unexpected(fmt::format("'{}': {}", part, of.above));
    if (factor > of.max) factor = of.max;
    for (uint64_t value = *first; value < *last; value = value == 0 ? 1 : value * factor)
      values.push_back(uint32_t(value));
    values.push_back(uint32_t(*last));
    if (values.size() > kRunsMax) return tl::unexpected(fmt::format("more than {} values", kRunsMax));
  }
  return values;
}

}  // namespace

tl::expected<std::vector<uint32_t>, std::string> sizes_parse(const std::string& text) {
  return list_parse(text, {.max = kMaxPayload,
                           .above = "a message carries at most 1M",
                           .wrong = "is not a size; write for example 0, 4096, 4K or 1M"});
}

tl::expected<std::vector<uint32_t>, std::string> concurrency_parse(const std::string& text) {
  return list_parse(text, {.max = kConcurrencyMax,
                           .above = "concurrency is 1 to 4096",
                           .wrong = "is not a number; write for example 1, 8 or 1..64"});
}

tl::expected<double, std::string> rate_parse(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  const std::string suffix = lower(std::string(rest, end));
  if (suffix == "k") value *= 1e3;
  if (suffix == "m") value *= 1e6;
  if (error != std::errc{} || !(suffix.empty() || suffix == "k" || suffix == "m") || value <= 0)
    return tl::unexpected(fmt::format("'{}' is not a rate; write for example 0.5, 2000, 100k or 1M", text));
  return value;
}

tl::expected<Duration, std::string> duration_parse(const std::string& text) {
  const auto bad = [&] {
    return tl::unexpected(fmt::format("'{}' is not a time; write for example 3s, 500ms or 2m", text));
  };
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  if (error != std::errc{}) return bad();
  const std::string unit = lower(std::string(rest, end));
  double seconds = 0;
  if (unit.empty() || unit == "s")
    seconds = value;
  else if (unit == "us")
    seconds = value * 1e-6;
  else if (unit == "ms")
    seconds = value * 1e-3;
  else if (unit == "m" || unit == "min")
    seconds = value * 60;
  else if (unit == "h")
    seconds = value * 3600;
  else
    return bad();
  if (!(seconds >= 0) || seconds > 1e8) return bad();
  return Duration(std::llround(seconds * 1e9));
}

std::string node_yaml(const NodeOptions& node) {
  std::string yaml = "net:\n";
  for (const std::string& nid : node.nids) {
    const auto parsed = nid_parse(nid);
    yaml += fmt::format("    - net type: {}\n      local NI(s):\n        - nid: \"{}\"\n",
                        parsed ? net_text(parsed->net()) : "tcp", nid);
  }
  if (!node.interfaces.empty()) {
    yaml += fmt::format("    - net type: {}\n      local NI(s):\n", node.net);
    for (const std::string& name : node.interfaces)
      yaml += fmt::format("        - interfaces:\n              0: \"{}\"\n", name);
  }
  yaml += fmt::format("ulnet:\n    workers: {}\n    unprivileged_ports: {}\n", node.workers, node.unprivileged_ports);
  if (node.accept_port != 0) yaml += fmt::format("    accept_port: {}\n", node.accept_port);
  return yaml;
}

namespace {

/// A command line as CLI11 delivers it.
struct Line {
  Raw raw;
  Formats formats;
  NodeOptions node;
  bool serve = false;
  Operation operation = Operation::kPut;
};

/// With `last_counts`, an option that is given again replaces the value before. NIDs and interfaces add up.
tl::expected<Line, OptionsEnd> line_parse(const std::vector<std::string>& arguments, bool last_counts) {
  Line line;
  CLI::App app("Measures LNet: pings, acknowledged puts and gets against a target.", "ulnet-perf");
  app.require_subcommand(1);
  app.footer("ulnet-perf wire --help: packet ports without LNet, as the upper limit for LNet over them");
  add_node_options(app, line.node, line.formats);
  CLI::App* serve = app.add_subcommand("serve", "Run a target: portal 63 takes puts and serves gets, until Ctrl-C");
  CLI::App* ping = app.add_subcommand("ping", "LNet pings: every LNet node answers them");
  CLI::App* put = app.add_subcommand("put", "Acknowledged PUTs into a target (ulnet-perf serve, or perf_target: true)");
  CLI::App* get = app.add_subcommand("get", "GETs from a target");
  add_job_options(*ping, line.raw, false);
  add_job_options(*put, line.raw, true);
  add_job_options(*get, line.raw, true);
  for (CLI::App* one : {&app, ping, put, get})
    for (CLI::Option* option : one->get_options())
      if (last_counts && option->get_expected_max() == 1 && option->get_items_expected_max() == 1) option->take_last();
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    const auto chosen = app.get_subcommands();  // a command's own options, and those of all
    return tl::unexpected(OptionsEnd{0, (chosen.empty() ? "" : chosen.front()->help() + "\n") + app.help()});
  } catch (const CLI::ParseError& error) {
    return refuse(std::string(error.what()) + "; see ulnet-perf --help");
  }
  for (const CLI::App* one : {ping, put, get}) line.raw.compares = line.raw.compares || one->count("--ab") != 0;
  line.serve = serve->parsed();
  line.operation = ping->parsed() ? Operation::kPing : put->parsed() ? Operation::kPut : Operation::kGet;
  return line;
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::string& word : split(text, ' '))
    if (!word.empty()) words.push_back(std::move(word));
  return words;
}

/// `arguments`: the whole command line, to which the words of the variant are added.
tl::expected<Variant, std::string> variant_parse(std::vector<std::string> arguments, const std::string& text) {
  bool has_duration = false;
  for (std::string& word : words_of(text)) {
    has_duration = has_duration || word.starts_with("-d") || word.starts_with("--duration");
    const std::string name = word.substr(0, word.find('='));
    for (const char* common : {"--ab", "--rounds", "--json", "--json-stream", "--csv", "--timeline", "--help", "-h"})
      if (name == common) return tl::unexpected(fmt::format("{} holds for both variants, or for none", name));
    arguments.push_back(std::move(word));
  }
  const auto wrong = [](const OptionsEnd& end) {
    constexpr std::string_view kName = "ulnet-perf: ";
    const std::string& sentence = end.text;  // "ulnet-perf: sentence\n"
    return tl::unexpected(sentence.substr(kName.size(), sentence.size() - kName.size() - 1));
  };
  const auto line = line_parse(arguments, true);
  if (!line) return wrong(line.error());
  Variant variant{.text = text, .job = {}, .node = line->node};
  if (auto end = job_fill(line->raw, line->operation, variant.job)) return wrong(*end);
  if (auto end = node_check(variant.node)) return wrong(*end);
  if (has_duration && variant.job.count != 0)
    return tl::unexpected(std::string("the measurement ends by --count; with --duration, give --count 0"));
  if (run_count(variant.job) != 1)
    return tl::unexpected(fmt::format("{} measurements: give one size and one concurrency", run_count(variant.job)));
  if (variant.job.timeline != Duration{0})
    return tl::unexpected(std::string("--timeline: a comparison has no time line"));
  return variant;
}

std::optional<OptionsEnd> ab_fill(const std::vector<std::string>& arguments, const Raw& raw, Options& options) {
  options.rounds = raw.rounds;
  for (const std::string& text : {raw.ab.first, raw.ab.second}) {
    auto variant = variant_parse(arguments, text);
    const char name = options.variants.empty() ? 'A' : 'B';
    if (!variant) return refuse(fmt::format("--ab: variant {} ('{}'): {}", name, text, variant.error())).value();
    options.variants.push_back(std::move(*variant));
  }
  return std::nullopt;
}

Format format_of(const Formats& formats) {
  if (formats.json) return Format::kJson;
  if (formats.json_stream) return Format::kJsonStream;
  return formats.csv ? Format::kCsv : Format::kTable;
}

}  // namespace

tl::expected<Options, OptionsEnd> options_parse(const std::vector<std::string>& arguments) {
  const auto line = line_parse(arguments, false);
  if (!line) return tl::unexpected(line.error());
  Options options{.serve = line->serve, .format = format_of(line->formats), .node = line->node};
  if (options.serve && (options.format == Format::kJsonStream || options.format == Format::kCsv))
    return refuse("serve measures nothing: use --json, or neither --json-stream nor --csv");
  if (options.serve && !options.node.socket.empty()) {
    return refuse("a running ulnetd serves with `ulnet: perf_target: true`; omit --socket");
  }
  if (line->raw.compares) {
    if (auto end = ab_fill(arguments, line->raw, options)) return tl::unexpected(*end);
    return options;
  }
  if (!options.serve) {
    if (auto end = job_fill(line->raw, line->operation, options.job)) return tl::unexpected(*end);
    if (options.job.timeline != Duration{0} && !line->formats.json && !line->formats.json_stream) {
      return refuse("--timeline: the time line is a part of the JSON report; add --json");
    }
  }
  if (auto end = node_check(options.node)) return tl::unexpected(*end);
  return options;
}

}  // namespace ulnet::perf
