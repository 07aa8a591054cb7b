#include "lnd/net/packet/drops.h"

namespace ulnet::dpdk {
namespace {

constexpr std::array<CounterText, size_t(FrameDrop::kCount)> kDropTexts{{
    {"truncated", "frames", "shorter than its headers say"},
    {"eth_type", "frames", "carries neither IPv4 nor IPv6 nor ARP"},
    {"vlan_other", "frames", "belongs to another VLAN than the port, or has no tag where the port has one"},
    {"vlan_stacked", "frames", "more than two VLAN tags, or two where the port has at most one"},
    {"mac_other", "frames", "addressed to another MAC address"},
    {"mac_source", "frames", "source MAC address is a group, or our own: a loop in the network"},
    {"ip_header", "frames", "IP version or header length is wrong"},
    {"ip_length", "frames", "IP length is more than the frame holds, or less than the header"},
    {"ip_checksum", "frames", "IPv4 header checksum is wrong"},
    {"ip_fragment", "frames", "a fragment: ulnet neither sends nor reassembles fragments"},
    {"ip_extension", "frames", "IPv6 extension header (hop by hop, routing, destination options)"},
    {"ip_source", "frames", "source address is a group, a broadcast or our own"},
    {"ip_other", "frames", "addressed to another IP address"},
    {"ip_protocol", "frames", "neither UDP nor ICMP"},
    {"udp_length", "frames", "UDP length does not fit the IP length"},
    {"udp_checksum", "frames", "UDP checksum is wrong"},
    {"udp_port", "frames", "nothing here listens on this UDP port"},
    {"arp_format", "frames", "not ARP for IPv4 over Ethernet, or a nonsense address in it"},
    {"nd_format", "frames", "neighbour discovery message against RFC 4861: hop limit, length, options or target"},
    {"icmp_format", "frames", "ICMP message that is too short, or an echo to a group"},
    {"icmp_checksum", "frames", "ICMP checksum is wrong"},
    {"icmp_type", "frames", "ICMP message that ulnet does not use"},
    {"roce_length", "frames", "RoCE packet that is shorter than its headers, or an acknowledgement with a payload"},
    {"roce_header", "frames", "RoCE packet of another version or P_Key, or with IP options"},
    {"roce_opcode", "frames", "RoCE opcode that is neither a request nor an answer to one of ours"},
    {"roce_mad", "frames", "RoCE datagram that is no message of the connection manager"},
    {"roce_icrc", "frames", "invariant CRC of a RoCE packet is wrong"},
    {"roce_qp", "frames", "no RoCE queue pair has this number and this peer"},
    {"roce_busy", "frames",
     "another worker did not take RoCE packets as fast as they came, or too many were for the connection manager"},
    {"neighbour_table_full", "frames", "no room for one more neighbour"},
    {"neighbour_queue_full", "frames", "too many frames wait for this neighbour's MAC address"},
    {"neighbour_silent", "frames", "the neighbour did not answer ARP or neighbour discovery"},
    {"no_route", "frames", "no address of the port is on the destination's link, and there is no gateway"},
    {"tx_queue_full", "frames", "the port did not take frames as fast as they came"},
    {"tx_too_long", "frames", "longer than the MTU: ulnet does not fragment"},
    {"tx_refused", "frames", "the driver took nothing for a tenth of a second: no link, or a frame that it refuses"},
    {"no_buffer", "frames", "the packet pool was empty"},
    {"stopped", "frames", "waited for a neighbour or in a queue when the port was stopped"},
}};

}  // namespace

const CounterText& text_of(FrameDrop reason) {
  return kDropTexts[size_t(reason)];
}

}  // namespace ulnet::dpdk
