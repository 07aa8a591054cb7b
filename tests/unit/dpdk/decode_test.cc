// Packet headers (lnd/net/packet): real bytes decode to the right values and encode back to the same bytes. Damaged
// headers are refused for the right reason.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "lnd/net/dpdk/port_addresses.h"
#include "lnd/net/packet/arp.h"
#include "lnd/net/packet/eth.h"
#include "lnd/net/packet/icmp.h"
#include "lnd/net/packet/nd.h"
#include "lnd/net/packet/net_address_text.h"
#include "lnd/net/packet/udp.h"

namespace ulnet::dpdk {
namespace {

std::vector<std::byte> hex(std::string_view text) {
  std::vector<std::byte> out;
  unsigned digits = 0, value = 0;
  for (const char c : text) {
    if (c == ' ') continue;
    value = value * 16 + unsigned(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    if (++digits % 2 == 0) {
      out.push_back(std::byte(uint8_t(value)));
      value = 0;
    }
  }
  return out;
}

IpAddress ip(std::string_view text) {
  return ip_parse(text).value();
}

// Packet 1 of docs/wire/roce.md §3: a captured CNP of a ConnectX-4, from the IP header on.
const char* const kCnp =
    "45 c2 00 3c 71 8c 40 00 40 11 91 61 0a 00 11 01 0a 00 12 01"
    "00 00 12 b7 00 28 00 00 81 00 ff ff 40 00 01 18 00 00 00 00"
    "00000000000000000000000000000000  82 fd 00 2a";

TEST(DpdkDecode, captured_roce_packet) {
  const auto bytes = hex(kCnp);
  const auto header = ipv4_decode(bytes, bytes.size(), ChecksumCheck::kVerify);
  ASSERT_TRUE(header.has_value());
  EXPECT_EQ(ip("10.0.17.1"), header->source);
  EXPECT_EQ(ip("10.0.18.1"), header->destination);
  EXPECT_EQ(kProtocolUdp, header->protocol);
  EXPECT_EQ(0xC2, header->traffic_class);
  EXPECT_EQ(40, header->payload_bytes);
  EXPECT_FALSE(header->may_fragment);
  std::byte again[kIpv4Bytes];
  EXPECT_EQ(kIpv4Bytes, ip_encode(*header, again));
  EXPECT_EQ(0, std::memcmp(again, bytes.data(), kIpv4Bytes));
  const auto udp = udp_decode(std::span(bytes).subspan(20), header->payload_bytes);
  ASSERT_TRUE(udp.has_value());
  EXPECT_EQ(4791, udp->destination_port);
  EXPECT_EQ(32, udp->payload_bytes);
  EXPECT_EQ(0, udp->checksum);
  std::byte udp_again[kUdpBytes];
  udp_encode(*udp, udp_again);
  EXPECT_EQ(0, std::memcmp(udp_again, bytes.data() + 20, kUdpBytes));
}

// Goal: each single flipped bit of an IPv4 header is detected, and each cut is refused.
TEST(DpdkDecode, damaged_ipv4_headers) {
  const auto good = hex(kCnp);
  for (unsigned bit = 0; bit < 160; ++bit) {
    auto bytes = good;
    bytes[bit / 8] ^= std::byte(1u << bit % 8);
    EXPECT_FALSE(ipv4_decode(bytes, bytes.size(), ChecksumCheck::kVerify).has_value()) << bit;
  }
  for (size_t length = 0; length < good.size(); ++length) {
    const auto cut = ipv4_decode(std::span(good).first(length), length, ChecksumCheck::kVerify);
    ASSERT_FALSE(cut.has_value()) << length;
    EXPECT_EQ(length < 20 ? FrameDrop::kTruncated : FrameDrop::kIpLength, cut.error()) << length;
  }
}

TEST(DpdkDecode, ipv4_refusals) {
  const auto with = [](size_t at, uint8_t value) {
    auto bytes = hex(kCnp);
    bytes[at] = std::byte{value};
    return ipv4_decode(bytes, bytes.size(), ChecksumCheck::kSkip).map_error([](FrameDrop d) { return d; });
  };
  EXPECT_EQ(FrameDrop::kIpHeader, with(0, 0x65).error());
  EXPECT_EQ(FrameDrop::kIpHeader, with(0, 0x44).error());
  EXPECT_EQ(FrameDrop::kIpLength, with(3, 19).error());
  EXPECT_EQ(FrameDrop::kIpLength, with(2, 1).error());
  EXPECT_EQ(FrameDrop::kIpFragment, with(6, 0x20).error());  // first fragment
  EXPECT_EQ(FrameDrop::kIpFragment, with(7, 0x01).error());  // a later one
  EXPECT_EQ(24u, with(0, 0x46)->header_bytes);               // options are skipped
}

TEST(DpdkDecode, ipv6) {
  IpHeader header;
  header.source = ip("fd00::1");
  header.destination = ip("fd00::2");
  header.protocol = kProtocolIcmpv6;
  header.traffic_class = 0xAB;
  header.flow_label = 0x54321;
  header.payload_bytes = 8;
  std::vector<std::byte> bytes(kIpv6Bytes + 8);
  EXPECT_EQ(kIpv6Bytes, ip_encode(header, bytes.data()));
  const auto decoded = ipv6_decode(bytes, bytes.size());
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(header.source, decoded->source);
  EXPECT_EQ(header.destination, decoded->destination);
  EXPECT_EQ(0xAB, decoded->traffic_class);
  EXPECT_EQ(0x54321u, decoded->flow_label);
  EXPECT_EQ(FrameDrop::kIpLength, ipv6_decode(bytes, bytes.size() - 1).error());
  bytes[6] = std::byte{44};
  EXPECT_EQ(FrameDrop::kIpFragment, ipv6_decode(bytes, bytes.size()).error());
  bytes[6] = std::byte{0};
  EXPECT_EQ(FrameDrop::kIpExtension, ipv6_decode(bytes, bytes.size()).error());
  bytes[0] = std::byte{0x40};
  EXPECT_EQ(FrameDrop::kIpHeader, ipv6_decode(bytes, bytes.size()).error());
}

// Goal: frames without a tag, with one and with two tags are accepted. A third tag, and a length in place of a type,
// are refused.
TEST(DpdkDecode, ethernet_and_vlan) {
  const Mac a = mac_parse("02:00:00:00:00:01").value(), b = mac_parse("02:00:00:00:00:02").value();
  for (uint8_t tags = 0; tags <= 2; ++tags) {
    EthHeader header{
        a, b, kEthIpv4, tags, {tags > 0 ? uint16_t{0x6123} : uint16_t{}, tags > 1 ? uint16_t{7} : uint16_t{}}};
    std::byte bytes[kEthBytesMax];
    ASSERT_EQ(header.bytes(), eth_encode(header, bytes));
    EXPECT_EQ(header, eth_decode({bytes, header.bytes()}).value());
    for (size_t length = 0; length < header.bytes(); ++length)
      EXPECT_EQ(FrameDrop::kTruncated, eth_decode({bytes, length}).error());
  }
  const auto three = hex("020000000001 020000000002 88a80001 81000002 81000003 0800");
  EXPECT_EQ(FrameDrop::kVlanStacked, eth_decode(three).error());
  const auto length_field = hex("0180c2000000 020000000002 0026");
  EXPECT_EQ(FrameDrop::kEthType, eth_decode(length_field).error());
}

TEST(DpdkDecode, arp) {
  const auto bytes = hex("0001 0800 06 04 0001 020000000001 0a000001 000000000000 0a000002");
  const auto packet = arp_decode(bytes);
  ASSERT_TRUE(packet.has_value());
  EXPECT_FALSE(packet->reply);
  EXPECT_EQ(ip("10.0.0.1"), packet->sender);
  EXPECT_EQ(ip("10.0.0.2"), packet->target);
  std::byte again[kArpBytes];
  EXPECT_EQ(kArpBytes, arp_encode(*packet, again));
  EXPECT_EQ(0, std::memcmp(again, bytes.data(), kArpBytes));
  for (const size_t at : {1, 3, 4, 5, 7, 8}) {
    auto bad = bytes;
    bad[at] = std::byte{0x0D};
    EXPECT_EQ(FrameDrop::kArpFormat, arp_decode(bad).error()) << at;
  }
  EXPECT_EQ(FrameDrop::kTruncated, arp_decode(std::span(bytes).first(27)).error());
}

TEST(DpdkDecode, neighbour_discovery) {
  IpHeader from;
  from.source = ip("fe80::1");
  from.destination = solicited_node(ip("fd00::12:3456"));
  from.ttl = kNdHopLimit;
  EXPECT_EQ(ip("ff02::1:ff12:3456"), from.destination);
  EXPECT_EQ("33:33:ff:12:34:56", mac_text(group_mac(from.destination)));
  const NdMessage solicitation{false, ip("fd00::12:3456"), false, false, true, {{2, 0, 0, 0, 0, 1}}};
  std::vector<std::byte> bytes(kNdBytesMax);
  ASSERT_EQ(kNdBytesMax, nd_encode(solicitation, bytes.data()));
  EXPECT_EQ(solicitation, nd_decode(from, bytes).value());
  IpHeader routed = from;
  routed.ttl = 254;
  EXPECT_EQ(FrameDrop::kNdFormat, nd_decode(routed, bytes).error());
  IpHeader probe = from;
  probe.source = ip("::");
  EXPECT_EQ(FrameDrop::kNdFormat, nd_decode(probe, bytes).error());  // a probe has no sender option
  EXPECT_TRUE(nd_decode(probe, std::span(bytes).first(kNdBytes)).has_value());
  bytes[25] = std::byte{0};
  EXPECT_EQ(FrameDrop::kNdFormat, nd_decode(from, bytes).error());  // option of length 0: no endless loop
  bytes[25] = std::byte{2};
  EXPECT_EQ(FrameDrop::kNdFormat, nd_decode(from, bytes).error());
  const NdMessage answer{true, ip("fd00::2"), true, true, true, {{2, 0, 0, 0, 0, 2}}};
  nd_encode(answer, bytes.data());
  from.destination = ip("fd00::1");
  EXPECT_EQ(answer, nd_decode(from, bytes).value());
  from.destination = kAllNodes;
  EXPECT_EQ(FrameDrop::kNdFormat, nd_decode(from, bytes).error());  // solicited answers do not go to groups
}

// Goal: an answered echo has a right checksum, for both versions and every data length around a word.
TEST(DpdkDecode, echo_answers_have_right_checksums) {
  for (const bool v6 : {false, true}) {
    IpHeader header;
    header.source = ip(v6 ? "fd00::1" : "10.0.0.1");
    header.destination = ip(v6 ? "fd00::2" : "10.0.0.2");
    header.protocol = v6 ? kProtocolIcmpv6 : kProtocolIcmp;
    for (unsigned data = 0; data < 40; ++data) {
      std::vector<std::byte> message(kIcmpEchoBytes + data, std::byte{0xA5});
      const auto sum_of = [&] {
        Checksum sum = v6 ? pseudo_header(header, uint32_t(message.size())) : Checksum{};
        sum.add(message);
        return sum.value();
      };
      icmp_echo_encode({IcmpKind::kEchoRequest, 0, 0, 0, 7, uint16_t(data)}, v6, message.data());
      const uint16_t checksum = sum_of();
      icmp_echo_encode({IcmpKind::kEchoRequest, 0, 0, checksum, 7, uint16_t(data)}, v6, message.data());
      ASSERT_EQ(0, sum_of());
      icmp_echo_answer(message.data(), v6);
      const auto decoded = icmp_decode(message, v6);
      ASSERT_TRUE(decoded.has_value());
      EXPECT_EQ(IcmpKind::kEchoReply, decoded->kind);
      EXPECT_EQ(7, decoded->identifier);
      EXPECT_EQ(data, decoded->sequence);
      std::swap(header.source, header.destination);
      EXPECT_EQ(0, sum_of());
    }
  }
}

// Goal: the checksum of a byte string is the same for every cut into pieces.
TEST(DpdkDecode, checksum_of_pieces) {
  std::vector<std::byte> bytes(23);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(uint8_t(i * 37 + 200));
  Checksum whole;
  whole.add(bytes);
  for (size_t a = 0; a <= bytes.size(); ++a)
    for (size_t b = a; b <= bytes.size(); ++b) {
      Checksum pieces;
      pieces.add(std::span(bytes).first(a));
      pieces.add(std::span(bytes).subspan(a, b - a));
      pieces.add(std::span(bytes).subspan(b));
      ASSERT_EQ(whole.value(), pieces.value()) << a << ' ' << b;
    }
}

TEST(DpdkDecode, udp_lengths) {
  const auto bytes = hex("c000 12b7 000c 0000 01020304");
  EXPECT_EQ(4, udp_decode(bytes, 12)->payload_bytes);
  EXPECT_EQ(4, udp_decode(bytes, 20)->payload_bytes);
  EXPECT_EQ(FrameDrop::kUdpLength, udp_decode(bytes, 11).error());
  EXPECT_EQ(FrameDrop::kTruncated, udp_decode(bytes, 7).error());
  EXPECT_EQ(FrameDrop::kUdpLength, udp_decode(hex("c000 12b7 0007 0000"), 8).error());
}

TEST(DpdkAddress, text_and_prefixes) {
  for (const char* text : {"10.0.0.1", "fd00::1", "0.0.0.0", "::", "fe80::a:b:c:d"}) EXPECT_EQ(text, ip_text(ip(text)));
  for (const char* text : {"", "10.0.0", "10.0.0.256", "fd00::1::2", "host"}) EXPECT_FALSE(ip_parse(text).has_value());
  for (const char* text : {"10.0.0.1/33", "10.0.0.1/", "10.0.0.1/a", "fd00::1/129", "10.0.0.1/-1"})
    EXPECT_FALSE(prefix_parse(text).has_value()) << text;
  for (const char* text : {"", "02:00:00:00:00", "02-00-00-00-00-01", "0g:00:00:00:00:01"})
    EXPECT_FALSE(mac_parse(text).has_value()) << text;
  const IpPrefix net = prefix_parse("10.0.0.130/25").value();
  EXPECT_TRUE(net.covers(ip("10.0.0.128")));
  EXPECT_FALSE(net.covers(ip("10.0.0.127")));
  EXPECT_FALSE(net.covers(ip("fd00::1")));
  EXPECT_TRUE(prefix_parse("0.0.0.0/0")->covers(ip("1.2.3.4")));
  EXPECT_TRUE(prefix_parse("fd00::1/65")->covers(ip("fd00::7fff:0:0:2")));
  EXPECT_FALSE(prefix_parse("fd00::1/65")->covers(ip("fd00::8000:0:0:2")));
}

// Goal: a prefix of each length looks at its own bits, and at no others.
TEST(DpdkAddress, each_bit_of_each_prefix) {
  for (const char* text : {"10.1.2.200", "fd00:1:2:3:4:5:6:7"}) {
    const IpAddress address = ip(text);
    const unsigned first = address.is_v4() ? 96 : 0;
    for (unsigned bits = 0; bits <= 128 - first; ++bits) {
      const IpPrefix net{address, uint8_t(bits)};
      EXPECT_TRUE(net.covers(address)) << text << '/' << bits;
      for (unsigned bit = first; bit < 128; ++bit) {
        IpAddress other = address;
        other.bytes[bit / 8] ^= uint8_t(0x80 >> bit % 8);
        EXPECT_EQ(net.covers(other), bit >= first + bits) << text << '/' << bits << " bit " << bit;
        EXPECT_FALSE(other == address);
      }
    }
  }
}

TEST(DpdkAddress, next_hops) {
  PortAddresses port;
  port.own = {prefix_parse("10.0.0.5/24").value(), prefix_parse("fd00::5/64").value()};
  port.gateway_v4 = ip("10.0.0.1");
  EXPECT_EQ(ip("10.0.0.9"), *port.next_hop(ip("10.0.0.9")));
  EXPECT_EQ(ip("10.0.0.1"), *port.next_hop(ip("192.168.1.1")));
  EXPECT_EQ(nullptr, port.next_hop(ip("2001:db8::1")));
  EXPECT_EQ(ip("10.0.0.5"), *port.source_for(ip("10.0.0.1")));
  EXPECT_TRUE(port.is_broadcast(ip("10.0.0.255")));
  EXPECT_FALSE(port.is_broadcast(ip("10.0.0.254")));
  EXPECT_TRUE(port.is_our_group(ip("ff02::1:ff00:5")));
  EXPECT_FALSE(port.is_our_group(ip("ff02::1:ff00:6")));
}

}  // namespace
}  // namespace ulnet::dpdk
