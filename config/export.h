// The desired state as the document that `export --backup` prints and `import` takes back, and the pieces of it that
// other shows share. Source: docs/wire/lnetctl.md §3.
#pragma once
#include "config/doc.h"
#include "config/model.h"

namespace ulnet::config {

/// Sections in this order: net, route, peer, routing, buffers, global, udsp, ulnet. Empty sections are left out, and so
/// are routing, buffers and ulnet with default values. An import of the result gives the same state, except for rules
/// of ip2nets, which `state` has already resolved to NIs. `all_cpts`: the worker groups of the node, shown for an NI
/// that names none. If `all_cpts` is empty, such an NI has no CPT.
[[nodiscard]] Doc export_backup(const DesiredState& state, const std::vector<uint16_t>& all_cpts = {});

/// Sets `routing:` and `buffers:` as a backup has them: only what differs from the defaults.
void export_routing(Doc& doc, const DesiredState& state);
/// The value of `global:`, also for `global show`.
[[nodiscard]] Doc export_global(const Global& global);
/// The value of `tunables:` of an NI.
[[nodiscard]] Doc export_tunables(const Tunables& tunables);
/// The value of `lnd tunables:`, in lnetctl's order. lnetctl leaves a timeout out of a backup; here it is kept if it
/// was set.
[[nodiscard]] Doc export_lnd_tunables(const std::map<std::string, int64_t>& tunables);
/// The value of `udsp:`; null without rules.
[[nodiscard]] Doc export_udsp(const std::vector<UdspRule>& rules);
/// The value of `ulnet:`: only what differs from the defaults, null when nothing does.
[[nodiscard]] Doc export_ulnet(const UlnetSection& ulnet);

/// The lnd_timeout in `global show`: the time of one transmission, so that all retries fit into a transaction.
[[nodiscard]] Seconds lnd_timeout_of(const Global& global);

}  // namespace ulnet::config
