#include "lnd/net/dpdk/rss.h"

#include <rte_thash.h>

namespace ulnet::dpdk {
namespace {

uint32_t word_at(const IpAddress& address, unsigned offset) {
  uint32_t out = 0;
  for (unsigned i = 0; i < 4; ++i) out = out << 8 | address.bytes[offset + i];
  return out;
}

}  // namespace

uint32_t rss_hash(const FlowKey& flow, bool ports) {
  std::array<uint32_t, 9> tuple;  // as numbers: rte_softrss takes host order
  unsigned count = 0;
  const unsigned from = flow.source.is_v4() ? 12 : 0;
  for (unsigned at = from; at < 16; at += 4) tuple[count++] = word_at(flow.source, at);
  for (unsigned at = from; at < 16; at += 4) tuple[count++] = word_at(flow.destination, at);
  if (ports) tuple[count++] = uint32_t(flow.source_port) << 16 | flow.destination_port;
  return rte_softrss(tuple.data(), count, kRssKey.data());
}

}  // namespace ulnet::dpdk
