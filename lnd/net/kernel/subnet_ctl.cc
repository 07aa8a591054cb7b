#include "lnd/net/kernel/subnet_ctl.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>

namespace ulnet {
namespace {

constexpr Net kAnyTcp = Net::of(NetType::kTcp, 0);

size_t address_bytes(const Nid& nid) {
  return nid.size == 0 ? 4 : 16;
}

std::optional<Nid> nid_of(const sockaddr* address) {
  if (address == nullptr) return {};
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return Nid::v4(kAnyTcp, ntohl(v4.sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return {};
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return {};
  std::array<uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return Nid::v6(kAnyTcp, bytes);
}

/// The entry whose address is `nid`; null if there is none.
const SubnetAddress* entry_of(const std::vector<SubnetAddress>& all, const Nid& nid) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const SubnetAddress& one) {
    return one.address.size == nid.size && one.address.addr == nid.addr;
  });
  return found == all.end() ? nullptr : &*found;
}

/// A setting that each interface of a shared subnet needs. The kernel takes the larger of the interface's and that of
/// `all`.
struct Rule {
  const char* key;
  long wanted;
  bool (*good)(long effective);
  const char* consequence;
};
constexpr Rule kRules[] = {
    {"arp_ignore", 1, [](long value) { return value >= 1; },
     "the interface answers ARP for addresses of the others, and takes their packets"},
    {"arp_announce", 2, [](long value) { return value >= 2; },
     "the interface sends ARP requests with addresses of the others, and draws their packets"},
    {"arp_filter", 0, [](long value) { return value == 0; },
     "in a shared subnet, only the interface with the route back answers ARP"},
    {"rp_filter", 2, [](long value) { return value != 1; },
     "the interface drops packets from a node if the first route to that node leads over another interface"},
};

// A point in an interface's name (eth0.5) would end the name. sysctl also takes slashes.
std::string mend_line(const std::string& interface, const char* key, long value) {
  const char* between = interface.find('.') == std::string::npos ? "." : "/";
  std::string line = "sysctl -w net";
  for (const std::string& part : {std::string("ipv4"), std::string("conf"), interface, std::string(key)})
    line += between + part;
  return line + "=" + std::to_string(value);
}

}  // namespace

std::vector<SubnetAddress> subnet_addresses() {
  std::vector<SubnetAddress> all;
  ifaddrs* head = nullptr;
  if (getifaddrs(&head) != 0) return all;
  for (const ifaddrs* one = head; one != nullptr; one = one->ifa_next) {
    if ((one->ifa_flags & IFF_UP) == 0 || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    const std::optional<Nid> address = nid_of(one->ifa_addr);
    const std::optional<Nid> mask = nid_of(one->ifa_netmask);
    if (!address || !mask || mask->size != address->size) continue;
    unsigned bits = 0;
    for (size_t i = 0; i < address_bytes(*mask); ++i) bits += unsigned(std::popcount(mask->addr[i]));
    const std::string name = one->ifa_name;
    all.push_back({name.substr(0, name.find(':')), *address, bits});
  }
  freeifaddrs(head);
  return all;
}

bool in_subnet(const SubnetAddress& at, const Nid& nid) {
  if (at.address.size != nid.size) return false;
  for (unsigned bit = 0; bit < at.prefix_bits; bit += 8) {
    const unsigned left = std::min(at.prefix_bits - bit, 8u);
    const auto mask = uint8_t(0xFF00u >> left);
    if (((at.address.addr[bit / 8] ^ nid.addr[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

std::vector<std::string> subnet_sharers(const std::vector<SubnetAddress>& all, const Nid& nid) {
  const SubnetAddress* own = entry_of(all, nid);
  if (own == nullptr) return {};
  std::vector<std::string> sharers{own->interface};
  for (const SubnetAddress& one : all) {
    if (!in_subnet(*own, one.address) && !in_subnet(one, own->address)) continue;
    if (std::find(sharers.begin(), sharers.end(), one.interface) == sharers.end()) sharers.push_back(one.interface);
  }
  return sharers.size() > 1 ? sharers : std::vector<std::string>{};
}

std::string subnet_hold(const std::vector<SubnetAddress>& all, const Nid& local, const Nid& remote) {
  const SubnetAddress* own = entry_of(all, local);
  if (own == nullptr || !in_subnet(*own, remote) || entry_of(all, remote) != nullptr) return {};
  return subnet_sharers(all, local).empty() ? std::string() : own->interface;
}

std::vector<SubnetAdvice> subnet_advice(const std::vector<std::string>& sharers, const SysctlRead& read) {
  std::vector<SubnetAdvice> problems;
  for (const std::string& interface : sharers) {
    for (const Rule& rule : kRules) {
      const std::optional<long> all = read("all", rule.key), own = read(interface, rule.key);
      if (!all || !own || rule.good(std::max(*all, *own))) continue;
      // A switch that `all` has on cannot be taken back by one interface.
      const std::string& where = rule.wanted == 0 && *all != 0 ? std::string("all") : interface;
      problems.push_back({interface + " shares its subnet with other interfaces, and " + rule.key + " is " +
                              std::to_string(std::max(*all, *own)) + ": " + rule.consequence,
                          mend_line(where, rule.key, rule.wanted)});
    }
  }
  return problems;
}

std::optional<long> sysctl_ipv4(const std::string& interface, const std::string& key) {
  std::ifstream in("/proc/sys/net/ipv4/conf/" + interface + "/" + key);
  long value = 0;
  if (!(in >> value)) return {};
  return value;
}

}  // namespace ulnet
