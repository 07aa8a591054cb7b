// peer, ping and discover.
#include <fmt/format.h>

#include <algorithm>

#include "control/api/error_yaml.h"
#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

struct PeerOptions {
  Nid primary;
  std::vector<Nid> nids;              ///< without the primary
  std::optional<int64_t> primary_at;  ///< place of the primary in --nid
};

/// --prim_nid and --nid; without --prim_nid the first of --nid is the primary one when `first_is_primary`.
tl::expected<PeerOptions, Exit> peer_options(const Words& words, const char* verb, bool first_is_primary) {
  PeerOptions options;
  if (words.has("nid") || words.has("ip2nets")) {
    const std::string first = words.list("nid"), second = words.list("ip2nets");
    auto nids = config::nids_parse(first + (first.empty() || second.empty() ? "" : ",") + second);
    if (!nids) return refuse(verb, "peer", -EINVAL, "cannot parse NID: " + nids.error());
    options.nids = std::move(*nids);
  }
  if (auto text = words.value("prim_nid")) {
    auto nid = nid_parse(*text);
    if (!nid || nid->is_any())
      return refuse(verb, "peer", -EINVAL, fmt::format("cannot parse primary NID: '{}'; example: 10.0.0.1@tcp", *text));
    options.primary = *nid;
  } else if (first_is_primary && !options.nids.empty()) {
    options.primary = options.nids.front();
  } else {
    return refuse(verb, "peer", -EFAULT, "missing primary NID: give --prim_nid");
  }
  const auto listed = std::find(options.nids.begin(), options.nids.end(), options.primary);
  if (listed == options.nids.end()) return options;
  options.primary_at = listed - options.nids.begin();
  options.nids.erase(listed);
  const auto again = std::find(options.nids.begin(), options.nids.end(), options.primary);
  if (again == options.nids.end()) return options;
  return refuse(verb, "peer", -EEXIST,
                fmt::format("failed to {} peer: {} is listed twice (index {} and {} of the NIDs)", verb,
                            nid_text(options.primary), *options.primary_at, again - options.nids.begin() + 1));
}

struct NidWords {
  config::Json nids = config::Json::array();
  std::vector<api::ApiError> wrong;  ///< one for each word that is no NID
};

/// The NIDs of a command line: words and commas, with ranges. Words that are no NIDs become entries in `wrong`, and the
/// command runs for the others. Errors: no word is a NID.
tl::expected<NidWords, Exit> nid_words(const Words& words, const char* entity) {
  if (words.plain.empty())
    return refuse("manage", entity, -EINVAL, "missing NID: name at least one, such as 10.0.0.1@tcp");
  NidWords out;
  const auto take = [&](const std::string& text) {
    auto nids = config::nids_parse(text);
    if (!nids) return out.wrong.push_back({"manage", entity, -EINVAL, "cannot parse NID: " + nids.error(), {}});
    for (const Nid& nid : *nids) out.nids.push_back(nid_text(nid));
  };
  for (const std::string& word : words.plain) {
    const auto parts = config::list_split(word);
    if (!parts) {
      take(word);  // says why
    } else {
      for (const std::string& part : *parts) take(part);
    }
  }
  if (!out.nids.empty()) return out;
  Exit end{.errors = std::move(out.wrong)};
  end.exit_status = api::exit_status(end.errors);
  return tl::unexpected(std::move(end));
}

Command manage(api::Call call, config::Json args, std::vector<api::ApiError> wrong, std::chrono::milliseconds timeout) {
  Command command;
  command.errors = std::move(wrong);
  command.requests.push_back(api::Request::of(call, std::move(args)));
  command.timeout = timeout;
  return command;
}

}  // namespace

Built peer_add(const Words& words, const Env&) {
  auto options = peer_options(words, "add", true);
  if (!options) return tl::unexpected(options.error());
  config::PeerAdd add{{options->primary, std::move(options->nids), !words.has("non_mr"), words.has("lock_prim")}};
  add.primary_at = options->primary_at;
  return change({std::move(add)});
}

Built peer_del(const Words& words, const Env&) {
  auto options = peer_options(words, "del", false);
  if (!options) return tl::unexpected(options.error());
  if (options->primary_at) options->nids.clear();  // the primary goes: the whole peer
  return change({config::PeerDel{options->primary, std::move(options->nids), words.has("force")}});
}

Built peer_show(const Words& words, const Env&) {
  auto level = verbosity(words, "peer");
  if (!level) return tl::unexpected(level.error());
  config::Json args = {{"verbose", *level}};
  if (auto text = words.value("nid")) {
    auto nid = nid_parse(*text);
    if (!nid || nid->is_any())
      return refuse("show", "peer", -EINVAL, fmt::format("cannot parse NID: '{}'; example: 10.0.0.1@tcp", *text));
    args["nid"] = nid_text(*nid);
  }
  return command_of(api::Call::kShowPeer, std::move(args));
}

Built peer_list(const Words&, const Env&) {
  return command_of(api::Call::kShowPeerList);
}

Built peer_set(const Words& words, const Env&) {
  config::PeerSet set;
  set.all = words.has("all");
  if (auto text = words.value("nid")) {
    auto nid = nid_parse(*text);
    if (!nid || nid->is_any())
      return refuse("set", "peer", -EINVAL, fmt::format("cannot parse NID: '{}'; example: 10.0.0.1@tcp", *text));
    set.nid = *nid;
  }
  for (const char* name : {"health", "state"}) {
    auto text = words.value(name);
    if (!text) continue;
    const bool health = std::string_view(name) == "health";
    auto value = health ? config::health_parse(*text) : config::integer_parse(*text);
    if (!value && health)
      return refuse("set", "peer", -EINVAL,
                    fmt::format("--health: '{}' is not a health value; allowed: 0..1000, or auto", *text));
    if (!value) return refuse("set", "peer", -EINVAL, fmt::format("--{}: '{}' is not a number", name, *text));
    (health ? set.health : set.state) = value;
  }
  if (!set.nid && !set.all) return refuse("set", "peer", -EINVAL, "no peer NI is given: use --nid or --all");
  if (!set.health && !set.state) return refuse("set", "peer", -EINVAL, "nothing to set: give --health");
  return change({set});
}

Built ping(const Words& words, const Env&) {
  auto asked = nid_words(words, "ping");
  if (!asked) return tl::unexpected(asked.error());
  int64_t seconds = 1;
  if (auto text = words.value("timeout")) {
    auto value = config::integer_parse(*text);
    if (!value || *value < 1 || std::chrono::seconds(*value) > api::kPingTimeoutMax) {
      return refuse("manage", "ping", -EINVAL,
                    fmt::format("--timeout: '{}' is not a time; allowed: 1..86400 s", *text));
    }
    seconds = *value;
  }
  const auto count = static_cast<int64_t>(asked->nids.size());
  config::Json args = {{"nids", std::move(asked->nids)}, {"timeout_ms", seconds * 1000}};
  if (auto text = words.value("source")) {
    auto nid = nid_parse(*text);
    if (!nid || nid->is_any())
      return refuse("manage", "ping", -EINVAL, fmt::format("--source: '{}' is not a NID such as 10.0.0.1@tcp", *text));
    args["source"] = nid_text(*nid);
  }
  return manage(api::Call::kPing, std::move(args), std::move(asked->wrong), std::chrono::seconds(30 + seconds * count));
}

Built discover(const Words& words, const Env&) {
  auto asked = nid_words(words, "discover");
  if (!asked) return tl::unexpected(asked.error());
  config::Json args = {{"nids", std::move(asked->nids)}, {"force", words.has("force")}};
  return manage(api::Call::kDiscover, std::move(args), std::move(asked->wrong), std::chrono::minutes(10));
}

}  // namespace ulnet::ctl
