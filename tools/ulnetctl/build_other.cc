// debug, service-id, cpt-of-nid and the helpers of the kernel's LNet.
#include <fmt/format.h>

#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

/// The service ID that o2ib nodes listen on, in the byte order that lnetctl prints.
constexpr const char* kServiceId = "service_id:\n    value: 0xdb03060100000000\n";

Command not_needed(const char* why) {
  Command command;
  command.warnings = fmt::format("warning: nothing to do: {}\n", why);
  return command;
}

}  // namespace

Built recovery(const Words& words, const Env&) {
  return command_of(api::Call::kShowRecovery, {{"peer", words.has("peer")}});
}

Built debug_peer(const Words& words, const Env&) {
  const std::string text = words.value("nid").value_or("");
  const auto nid = nid_parse(text);
  if (!nid || nid->is_any())
    return refuse("show", "peer", -EINVAL, fmt::format("cannot parse NID: '{}'; example: --nid 10.0.0.1@tcp", text));
  return command_of(api::Call::kShowPeer, {{"verbose", 4}, {"nid", nid_text(*nid)}});
}

Built debug_nidlist(const Words& words, const Env&) {
  const std::string text = fmt::format("{}", fmt::join(words.plain, ","));
  const auto nids = config::nids_parse(text);
  if (!nids)
    return refuse("parser", "nidlist", -EINVAL,
                  fmt::format("Unable to parse nidlist from: {}: {}", text, nids.error()));
  Command command;
  for (const Nid& nid : *nids) command.text += nid_text(nid) + "\n";
  return command;
}

Built service_id(const Words&, const Env&) {
  Command command;
  command.text = kServiceId;
  return command;
}

Built cpt_of_nid(const Words& words, const Env&) {
  const auto nids = config::nids_parse(fmt::format("{}", fmt::join(words.plain, ",")));
  if (!nids) return refuse("show", "cpt-of-nid", -EINVAL, "cannot parse NID: " + nids.error());
  config::Json list = config::Json::array();
  for (const Nid& nid : *nids) list.push_back(nid_text(nid));
  return command_of(api::Call::kShowCptOfNid, {{"nids", std::move(list)}});
}

Built setup_mrrouting(const Words&, const Env&) {
  return not_needed(
      "ulnet changes no routes of the kernel. "
      "If packets of an NI leave by another interface, 'net add' and 'net show -v' show the setting to change");
}

Built setup_sysctl(const Words&, const Env&) {
  return not_needed(
      "ulnet changes no settings of the kernel; if a setting disturbs an NI, 'net add' and 'net show -v' show it");
}

}  // namespace ulnet::ctl
