// The LNet messages in a capture of o2iblnd over RoCEv2: the content of its IMMEDIATE messages. RDMA, the connection
// manager and acknowledgements are left out (tests/wire/roce.h has them).
#pragma once
#include <string>
#include <vector>

#include "tests/script/replay.h"

namespace ulnet::test {

/// In the order in which they were sent, each once; `from` and `to` are the NIDs of the hop, `connection` means
/// nothing. EXPECTs that the file can be read.
[[nodiscard]] std::vector<ReplayMessage> o2ib_messages(const std::string& path);

}  // namespace ulnet::test
