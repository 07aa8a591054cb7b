// Interfaces of one subnet: the interface that an address is bound to, and the settings that prevent it. The tables are
// made up.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "lnd/net/kernel/subnet_ctl.h"
#include "tests/nid_of.h"

namespace ulnet::test {
namespace {

const std::vector<SubnetAddress> kMachine{{"eth0", tcp_nid("10.0.0.1"), 24},   {"eth1", tcp_nid("10.0.0.2"), 24},
                                          {"eth1", tcp_nid("10.0.0.3"), 24},   {"eth2", tcp_nid("10.0.1.1"), 25},
                                          {"eth3", tcp_nid("10.0.1.129"), 25}, {"eth4.7", tcp_nid("fd00::1"), 64},
                                          {"eth5", tcp_nid("fd00::2"), 64},    {"eth6", tcp_nid("192.168.0.9"), 32}};

TEST(Subnet, addresses_are_in_their_subnet) {
  EXPECT_TRUE(in_subnet(kMachine[0], tcp_nid("10.0.0.255")));
  EXPECT_FALSE(in_subnet(kMachine[0], tcp_nid("10.0.1.1")));
  EXPECT_TRUE(in_subnet(kMachine[3], tcp_nid("10.0.1.127")));
  EXPECT_FALSE(in_subnet(kMachine[3], tcp_nid("10.0.1.128"))) << "25 bits end within a byte";
  EXPECT_FALSE(in_subnet(kMachine[0], tcp_nid("fd00::1")));
  EXPECT_TRUE(in_subnet(kMachine[5], tcp_nid("fd00::ffff")));
  EXPECT_FALSE(in_subnet(kMachine[5], tcp_nid("fd00:0:0:1::1")));
  EXPECT_TRUE(in_subnet(kMachine[7], tcp_nid("192.168.0.9")));
}

TEST(Subnet, connections_are_held_where_others_share_the_subnet) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(subnet_sharers(kMachine, tcp_nid("10.0.0.2")), (Names{"eth1", "eth0"}));
  EXPECT_EQ(subnet_sharers(kMachine, tcp_nid("10.0.1.1")), Names{}) << "halves of a /24 are two subnets";
  EXPECT_EQ(subnet_sharers(kMachine, tcp_nid("10.9.9.9")), Names{}) << "not there";
  EXPECT_EQ(subnet_hold(kMachine, tcp_nid("10.0.0.2"), tcp_nid("10.0.0.77")), "eth1");
  EXPECT_EQ(subnet_hold(kMachine, tcp_nid("10.0.0.1"), tcp_nid("10.0.0.77")), "eth0");
  EXPECT_EQ(subnet_hold(kMachine, tcp_nid("10.0.0.1"), tcp_nid("10.7.0.1")), "") << "behind a gateway";
  EXPECT_EQ(subnet_hold(kMachine, tcp_nid("10.0.0.1"), tcp_nid("10.0.0.2")), "")
      << "this machine itself: over loopback";
  EXPECT_EQ(subnet_hold(kMachine, tcp_nid("10.0.1.1"), tcp_nid("10.0.1.2")), "");
  EXPECT_EQ(subnet_hold(kMachine, tcp_nid("fd00::2"), tcp_nid("fd00::77")), "eth5");
  EXPECT_EQ(subnet_hold(kMachine, tcp_nid("fd00::2"), tcp_nid("10.0.0.77")), "");
}

class Sysctls : public testing::Test {
 protected:
  std::map<std::string, long> values;  // KEY of an interface as "IF.KEY"; others 0
  std::vector<std::string> mends(const std::vector<std::string>& sharers) {
    std::vector<std::string> lines;
    for (const SubnetAdvice& one : subnet_advice(sharers, [&](const std::string&interface, const std::string&key) {
           const auto found = values.find(interface + "." + key);
           return std::optional<long>(found == values.end() ? 0 : found->second);
         }))
      lines.push_back(one.mend);
    return lines;
  }
};

TEST_F(Sysctls, each_interface_gets_the_commands_that_it_needs) {
  using Lines = std::vector<std::string>;
  EXPECT_EQ(mends({"eth0", "eth4.7"}),
            (Lines{"sysctl -w net.ipv4.conf.eth0.arp_ignore=1", "sysctl -w net.ipv4.conf.eth0.arp_announce=2",
                   "sysctl -w net/ipv4/conf/eth4.7/arp_ignore=1", "sysctl -w net/ipv4/conf/eth4.7/arp_announce=2"}));
  values = {{"all.arp_ignore", 1}, {"all.arp_announce", 2}};
  EXPECT_EQ(mends({"eth0", "eth1"}), Lines{}) << "the larger counts";
  values["eth0.rp_filter"] = 1;
  EXPECT_EQ(mends({"eth0", "eth1"}), Lines{"sysctl -w net.ipv4.conf.eth0.rp_filter=2"});
  values["eth0.rp_filter"] = 2;
  values["all.rp_filter"] = 1;
  EXPECT_EQ(mends({"eth0"}), Lines{}) << "loose";
  values["eth1.arp_filter"] = 1;
  EXPECT_EQ(mends({"eth1"}),
            (Lines{"sysctl -w net.ipv4.conf.eth1.arp_filter=0", "sysctl -w net.ipv4.conf.eth1.rp_filter=2"}));
  values = {{"all.arp_ignore", 1}, {"all.arp_announce", 2}, {"all.arp_filter", 1}};
  EXPECT_EQ(mends({"eth1"}), Lines{"sysctl -w net.ipv4.conf.all.arp_filter=0"}) << "no interface can take it back";
}

TEST(Subnet, the_machine_answers) {
  EXPECT_TRUE(sysctl_ipv4("all", "arp_ignore").has_value());
  EXPECT_FALSE(sysctl_ipv4("no-such-if", "arp_ignore").has_value());
  for (const SubnetAddress& one : subnet_addresses()) {
    EXPECT_FALSE(one.interface.empty());
    EXPECT_TRUE(in_subnet(one, one.address));
    EXPECT_GT(one.prefix_bits, 0u) << one.interface;
  }
}

}  // namespace
}  // namespace ulnet::test
