// A server for one client, ib_send_bw or ib_write_bw of perftest with option -R, over our RoCE on a packet port. The
// report is JSON: messages, written bytes, counts of the port.
//   perftest_server INTERFACE ADDRESS/PREFIX MTU send|write BYTES MESSAGES
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "dataplane/host/clock.h"
#include "lnd/net/packet/net_address_text.h"
#include "tests/vm/perftest/roce_port.h"
#include "tests/vm/perftest/server.h"

namespace ulnet::test {
namespace {

constexpr uint16_t kPerftestPort = 18515;
constexpr Duration kMost = 120s;  ///< for the whole run
constexpr auto kNap = std::chrono::microseconds(50);

int complain(const std::string& what) {
  std::fprintf(stderr, "perftest_server: %s\n", what.c_str());
  return 1;
}

int serve(const RocePortConfig& config, const ServerConfig& wanted) {
  auto port = RocePort::open(config);
  if (!port) return complain(port.error().what);
  Server server((*port)->provider(), wanted);
  if (auto listening = server.listen(); !listening) return complain(listening.error().what);
  std::puts("listening");
  std::fflush(stdout);
  const Instant until = clock_now() + kMost;
  while (!server.done()) {
    const Instant now = clock_now();
    if (now > until) return complain("no client, or no end");
    if ((*port)->turn(now) + server.turn(now) == 0) std::this_thread::sleep_for(kNap);
  }
  std::printf("{%s, %s}\n", server.report().c_str(), (*port)->counts().c_str());
  std::fflush(stdout);
  return server.problem().empty() ? 0 : complain(server.problem());
}

int run(std::span<char*> words) {
  const std::string kind = words.size() == 7 ? words[4] : "";
  if (kind != "send" && kind != "write")
    return complain("usage: perftest_server INTERFACE ADDRESS/PREFIX MTU send|write BYTES MESSAGES");
  const auto address = dpdk::prefix_parse(words[2]);
  if (!address) return complain(address.error().what);
  const auto number = [&](unsigned at) { return std::strtoull(words[at], nullptr, 10); };
  return serve({words[1], *address, uint16_t(number(3))}, {.at = {address->address, kPerftestPort},
                                                           .writes = kind == "write",
                                                           .message_bytes = uint32_t(number(5)),
                                                           .messages = number(6)});
}

}  // namespace
}  // namespace ulnet::test

int main(int count, char** words) {
  return ulnet::test::run({words, size_t(count)});
}
