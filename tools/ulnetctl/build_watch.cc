// watch: changes of state as they happen.
#include "config/ranges.h"
#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {

Built watch(const Words& words, const Env&) {
  config::Json args = config::Json::object();
  if (words.has("kind")) args["kinds"] = words.list("kind");
  if (words.has("nid")) {
    const auto nids = config::nids_parse(words.list("nid"));
    if (!nids) return refuse("manage", "watch", -EINVAL, "--nid: " + nids.error());
    for (const Nid& nid : *nids) args["nids"].push_back(nid_text(nid));
  }
  Command command = command_of(api::Call::kWatch, std::move(args));
  command.lines = true;
  command.timeout = std::chrono::milliseconds{0};
  return command;
}

}  // namespace ulnet::ctl
