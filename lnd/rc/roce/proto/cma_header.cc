#include "lnd/rc/roce/proto/cma_header.h"

#include <algorithm>

#include "dataplane/wire/bytes.h"

namespace ulnet::rc::roce {
namespace {

using dpdk::IpAddress;

constexpr unsigned kSourceAt = 4, kDestinationAt = 20, kV4Gap = 12;
constexpr uint8_t kV4 = 0x40, kV6 = 0x60;

void store(const IpAddress& address, std::byte* out) {
  const unsigned from = address.is_v4() ? kV4Gap : 0;
  std::memcpy(out + from, address.bytes.data() + from, address.bytes.size() - from);
}

IpAddress load(const std::byte* at, bool v4) {
  if (v4) return IpAddress::of_v4(wire::load<uint32_t>(at + kV4Gap, true));
  IpAddress out;
  std::memcpy(out.bytes.data(), at, out.bytes.size());
  return out;
}

}  // namespace

void cma_encode(const CmaHeader& header, std::span<std::byte, kCmaHeaderBytes> out) {
  std::fill(out.begin(), out.end(), std::byte{0});
  out[1] = std::byte(header.source.is_v4() ? kV4 : kV6);
  wire::store<uint16_t>(out.data() + 2, header.source_port, true);
  store(header.source, out.data() + kSourceAt);
  store(header.destination, out.data() + kDestinationAt);
}

std::optional<CmaHeader> cma_decode(std::span<const std::byte, kCmaHeaderBytes> in) {
  const auto family = uint8_t(uint8_t(in[1]) & 0xF0);
  if (in[0] != std::byte{0} || (family != kV4 && family != kV6)) return std::nullopt;
  return CmaHeader{load(in.data() + kSourceAt, family == kV4), load(in.data() + kDestinationAt, family == kV4),
                   wire::load<uint16_t>(in.data() + 2, true)};
}

}  // namespace ulnet::rc::roce
