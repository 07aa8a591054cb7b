// A list of changes applied to a desired state: whole or not at all. Pure: it looks at no device and no daemon, so
// control can check a list here first and then do what differs. Errors carry lnetctl's errno and words. Source:
// docs/wire/lnetctl.md §6.
#pragma once
#include <vector>

#include "config/change.h"

namespace ulnet::config {

/// Applies all of `changes` to `state`. If a change is refused, `state` stays as it was. Then the result has one entry
/// for each refused change: index, code and words, without the place. Rules of ip2nets are only recorded. Health values
/// and peer states (NetSet, PeerSet) belong to the running node and are only checked. The deletion of a peer that is
/// not configured is also only checked, because the peer may be discovered. `notes` gets lines for the operator about
/// changes that are not carried out word for word; may be null.
[[nodiscard]] Problems changes_apply(DesiredState& state, const ChangeList& changes,
                                     std::vector<std::string>* notes = nullptr);

/// Whether `change` is about this NI as such (its health value, its own settings).
[[nodiscard]] bool net_set_means(const NetSet& change, const Nid& ni);
/// Applies `change` to the driver's settings of this NI. Keys that the NI's driver does not have are left out. False
/// when no key is for this NI.
[[nodiscard]] bool net_set_tune(const NetSet& change, const Nid& ni, std::map<std::string, int64_t>& lnd_tunables);

/// The whole of a configuration file as a state: its changes after `lnet configure`. Errors are added to `errors` as
/// problems of the places that they came from.
[[nodiscard]] DesiredState state_of(const ChangeList& changes, Problems& errors);

}  // namespace ulnet::config
