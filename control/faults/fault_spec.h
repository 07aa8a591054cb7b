// Fault rules as text: the arguments of `manage fault_add` and `fault_del` to a FaultSpec, and back for `fault show`.
// ulnetctl checks its arguments with the same functions. Pure. Source: docs/wire/lnetctl.md §1.7.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "config/emit.h"
#include "dataplane/state/fault_rules.h"

namespace ulnet {

/// A NID, `*@net` for all NIDs of a net, or `*` for every NID. Errors: a sentence.
[[nodiscard]] tl::expected<FaultNids, std::string> fault_nids_parse(std::string_view text);
/// The form that fault_nids_parse() reads back.
[[nodiscard]] std::string fault_nids_text(const FaultNids& nids);

[[nodiscard]] const char* fault_kind_text(FaultKind kind);
/// `drop` or `delay`. Errors: a sentence.
[[nodiscard]] tl::expected<FaultKind, std::string> fault_kind_parse(std::string_view text);

/// The rule that the arguments of `manage fault_add` describe. Requires: api::args_wrong() accepts them. Errors: a
/// sentence that names the argument, its value, and the allowed values.
[[nodiscard]] tl::expected<FaultSpec, std::string> fault_spec_read(const config::Json& args);
/// The first contradiction in a rule, as a sentence; empty if there is none.
[[nodiscard]] std::string fault_spec_wrong(const FaultSpec& spec);

/// The rules that `manage fault_del` names.
struct FaultFilter {
  FaultKind kind = FaultKind::kDrop;
  bool all = false;
  // Without `all`, at least one of these. A rule fits if it has exactly these NIDs.
  bool has_source = false, has_dest = false;
  FaultNids source, dest;
  [[nodiscard]] bool fits(const FaultSpec& spec) const {
    if (spec.kind != kind) return false;
    return all || ((!has_source || spec.source == source) && (!has_dest || spec.dest == dest));
  }
};
[[nodiscard]] tl::expected<FaultFilter, std::string> fault_filter_read(const config::Json& args);

/// The names of the failures in a mask, as `--health_error` takes them; `random` for all of them.
[[nodiscard]] std::string fault_failures_text(uint16_t failures);

}  // namespace ulnet
