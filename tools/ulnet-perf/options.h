// The command line of ulnet-perf. Pure: this code reads no file and opens nothing.
#pragma once
#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "perf/generator/job.h"

namespace ulnet::perf {

/// Where the load comes from: a Node inside ulnet-perf (by a file, or by addresses), or a running ulnetd.
struct NodeOptions {
  std::string socket;             ///< of a running ulnetd; then nothing else counts
  std::string config;             ///< YAML file
  std::vector<std::string> nids;  ///< 10.0.0.1@tcp
  std::string net;                ///< with `interfaces`: the first IPv4 address of each
  std::vector<std::string> interfaces;
  bool unprivileged_ports = false;
  uint32_t accept_port = 0;  ///< 0 = default
  uint32_t workers = 1;
};

/// The form of the results on stdout.
enum class Format : uint8_t {
  kTable,
  kJson,        ///< one document at the end
  kJsonStream,  ///< a line of JSON for each event, when it happens
  kCsv,         ///< a line of names, and one for each run
};

/// One side of a comparison.
struct Variant {
  std::string text;  ///< its own options, as given
  Job job;           ///< one size and one concurrency
  NodeOptions node;
};

inline constexpr uint32_t kAbRounds = 9, kAbRoundsMax = 1000;

struct Options {
  bool serve = false;  ///< be the target; `job` means nothing then
  Job job;
  Format format = Format::kTable;
  NodeOptions node;
  std::vector<Variant> variants;  ///< none, or A and B, which are compared; `job` and `node` mean nothing then
  uint32_t rounds = kAbRounds;    ///< with variants
};

/// Result without options: the text to print, and the exit status. A request for help is no error.
struct OptionsEnd {
  int exit_code = 0;
  std::string text;  ///< whole lines
};

/// `arguments` without the program's name.
[[nodiscard]] tl::expected<Options, OptionsEnd> options_parse(const std::vector<std::string>& arguments);

/// "4K" is 4096; suffixes K, M, G, any case, with or without B or iB.
[[nodiscard]] tl::expected<uint64_t, std::string> size_parse(const std::string& text);
/// "0,4K,64K..1M": lists, and ranges that double ("..") or grow by a factor ("1..1M*4"); the end of a range always
/// counts.
[[nodiscard]] tl::expected<std::vector<uint32_t>, std::string> sizes_parse(const std::string& text);
/// The same for numbers of operations under way at once.
[[nodiscard]] tl::expected<std::vector<uint32_t>, std::string> concurrency_parse(const std::string& text);
/// Operations per second: "0.5", "2000", "100k", "1M" (a million).
[[nodiscard]] tl::expected<double, std::string> rate_parse(const std::string& text);
/// "3s", "500ms", "1.5m", "2h"; a plain number is in seconds.
[[nodiscard]] tl::expected<Duration, std::string> duration_parse(const std::string& text);
/// The configuration that `node` describes without a file, as YAML.
[[nodiscard]] std::string node_yaml(const NodeOptions& node);

}  // namespace ulnet::perf
