// fault: rules that make messages fail or arrive late. Source: docs/wire/lnetctl.md §1.7.
#include "control/faults/fault_spec.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

using config::Json;

/// The options that were given as arguments of the request. Options have the names of the arguments.
tl::expected<Json, Exit> arguments_of(const Words& words, FaultKind kind, api::Call call, const char* verb) {
  Json args = {{"rule", fault_kind_text(kind)}};
  for (const api::ArgRow& row : api::row_of(call).args) {
    const std::string name(row.name);
    if (!words.has(name)) continue;
    switch (row.type) {
      case api::ArgType::kInteger:
        if (auto set = number_set(args, words, row, verb, "fault"); !set) return tl::unexpected(set.error());
        break;
      case api::ArgType::kBool: args[name] = true; break;
      case api::ArgType::kText:
      case api::ArgType::kNids: args[name] = words.list(name); break;
    }
  }
  return args;
}

Built fault_add(const Words& words, FaultKind kind) {
  for (const char* needed : {"source", "dest"})
    if (!words.has(needed))
      return refuse("add", "fault", -EINVAL,
                    std::string("missing mandatory parameter: --") + needed +
                        ", a NID such as 10.0.0.1@tcp, *@tcp for a network, or * for every NID");
  auto args = arguments_of(words, kind, api::Call::kFaultAdd, "add");
  if (!args) return tl::unexpected(std::move(args.error()));
  if (const auto spec = fault_spec_read(*args); !spec) return refuse("add", "fault", -EINVAL, spec.error());
  return command_of(api::Call::kFaultAdd, std::move(*args));
}

Built fault_del(const Words& words, FaultKind kind) {
  auto args = arguments_of(words, kind, api::Call::kFaultDel, "del");
  if (!args) return tl::unexpected(std::move(args.error()));
  if (const auto filter = fault_filter_read(*args); !filter) return refuse("del", "fault", -EINVAL, filter.error());
  return command_of(api::Call::kFaultDel, std::move(*args));
}

Built of_kind(api::Call call, FaultKind kind) {
  return command_of(call, {{"rule", fault_kind_text(kind)}});
}

}  // namespace

Built fault_drop_add(const Words& words, const Env&) {
  return fault_add(words, FaultKind::kDrop);
}
Built fault_drop_del(const Words& words, const Env&) {
  return fault_del(words, FaultKind::kDrop);
}
Built fault_drop_reset(const Words&, const Env&) {
  return of_kind(api::Call::kResetFault, FaultKind::kDrop);
}
Built fault_drop_show(const Words&, const Env&) {
  return of_kind(api::Call::kShowFault, FaultKind::kDrop);
}
Built fault_delay_add(const Words& words, const Env&) {
  return fault_add(words, FaultKind::kDelay);
}
Built fault_delay_del(const Words& words, const Env&) {
  return fault_del(words, FaultKind::kDelay);
}
Built fault_delay_reset(const Words&, const Env&) {
  return of_kind(api::Call::kResetFault, FaultKind::kDelay);
}
Built fault_delay_show(const Words&, const Env&) {
  return of_kind(api::Call::kShowFault, FaultKind::kDelay);
}

}  // namespace ulnet::ctl
