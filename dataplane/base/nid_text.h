// Text forms of nets and NIDs, both ways: "10.0.0.1@tcp", "fd00::1@tcp1", "7@gni", "tcp1". Not for the data path: it
// formats and allocates. Source: docs/wire/lnet.md §1.3.
#pragma once
#include <string>
#include <string_view>

#include "dataplane/base/nid.h"
#include "dataplane/base/result.h"

namespace ulnet {

/// Parses "tcp", "tcp0", "o2ib1", "lo"; errors are EINVAL with a sentence.
[[nodiscard]] Result<Net> net_parse(std::string_view text);
/// "tcp" for number 0, "tcp1"; an unknown type prints as "<type:num>"; any net as "*".
[[nodiscard]] std::string net_text(Net net);

/// Parses "ADDR@NET"; a missing "@NET" means tcp; "<?>" and "*" mean ANY. Errors are EINVAL with a sentence.
[[nodiscard]] Result<Nid> nid_parse(std::string_view text);
/// The form that nid_parse reads back; ANY prints as "<?>".
[[nodiscard]] std::string nid_text(const Nid& nid);

}  // namespace ulnet
