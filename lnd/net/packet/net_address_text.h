// Text forms of MAC and IP addresses. Thread: control.
#pragma once
#include <string>
#include <string_view>

#include "dataplane/base/result.h"
#include "lnd/net/packet/net_address.h"

namespace ulnet::dpdk {

/// "02:00:00:00:00:01".
[[nodiscard]] std::string mac_text(const Mac& mac);
/// Errors: EINVAL.
[[nodiscard]] Result<Mac> mac_parse(std::string_view text);
/// "10.0.0.1", "fd00::1".
[[nodiscard]] std::string ip_text(const IpAddress& address);
/// Either family. Errors: EINVAL.
[[nodiscard]] Result<IpAddress> ip_parse(std::string_view text);
/// "10.0.0.1/24", "fd00::1/64"; without a slash the whole address. Errors: EINVAL.
[[nodiscard]] Result<IpPrefix> prefix_parse(std::string_view text);
[[nodiscard]] std::string prefix_text(const IpPrefix& prefix);

}  // namespace ulnet::dpdk
