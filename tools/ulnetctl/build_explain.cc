// explain.
#include <fmt/format.h>

#include <algorithm>

#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

/// The row of an argument of `show explain`, which has the bounds.
const api::ArgRow& row_of_argument(std::string_view name) {
  const auto args = api::row_of(api::Call::kShowExplain).args;
  return *std::find_if(args.begin(), args.end(), [&](const api::ArgRow& row) { return row.name == name; });
}

}  // namespace

Built explain(const Words& words, const Env&) {
  if (words.plain.size() != 1)
    return refuse("show", "explain", -EINVAL, "name one destination, such as 'explain 10.0.0.2@tcp'");
  const auto nid = nid_parse(words.plain[0]);
  if (!nid || nid->is_any())
    return refuse("show", "explain", -EINVAL,
                  fmt::format("cannot parse NID: '{}'; the destination is a NID such as 10.0.0.2@tcp", words.plain[0]));
  config::Json args = {{"nid", nid_text(*nid)}};
  if (const auto text = words.value("from")) {
    const auto from = nid_parse(*text);
    if (!from || from->is_any())
      return refuse("show", "explain", -EINVAL, fmt::format("--from: '{}' is not a NID such as 10.0.0.1@tcp", *text));
    args["from"] = nid_text(*from);
  }
  for (const char* option : {"size", "numa", "accelerator", "count", "worker"})
    if (auto set = number_set(args, words, row_of_argument(option), "show", "explain"); !set)
      return tl::unexpected(set.error());
  for (const char* option : {"response", "forward"})
    if (words.has(option)) args[option] = true;
  return command_of(api::Call::kShowExplain, std::move(args));
}

}  // namespace ulnet::ctl
