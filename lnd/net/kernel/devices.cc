#include "lnd/net/kernel/devices.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>

#include "lnd/net/kernel/link_events.h"
#include "lnd/net/kernel/link_speed_ctl.h"
#include "lnd/net/kernel/route_ctl.h"
#include "lnd/net/kernel/subnet_ctl.h"

namespace ulnet {
namespace {

constexpr Net kSomeNet = Net::of(NetType::kTcp, 0);

/// The number in a file of /sys; -1 when there is none.
long sys_number(const std::string& name, const char* file) {
  std::ifstream in("/sys/class/net/" + name + "/" + file);
  long value = -1;
  in >> value;
  return in ? value : -1;
}

std::optional<Nid> address_of(const sockaddr* address) {
  if (address == nullptr) return std::nullopt;
  if (address->sa_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, address, sizeof v4);
    return Nid::v4(kSomeNet, ntohl(v4.sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return std::nullopt;
  sockaddr_in6 v6;
  std::memcpy(&v6, address, sizeof v6);
  if (IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr)) return std::nullopt;  // means nothing to another node
  std::array<uint8_t, 16> bytes;
  std::memcpy(bytes.data(), &v6.sin6_addr, bytes.size());
  return Nid::v6(kSomeNet, bytes);
}

class SystemDevices final : public Devices {
 public:
  std::vector<Interface> list() override {
    std::vector<Interface> all;
    ifaddrs* head = nullptr;
    if (getifaddrs(&head) != 0) return all;
    for (const ifaddrs* one = head; one != nullptr; one = one->ifa_next) {
      // An alias (eth0:1) is an interface of its own to the operator, as to LNet.
      auto found =
          std::find_if(all.begin(), all.end(), [&](const Interface& known) { return known.name == one->ifa_name; });
      if (found == all.end()) {
        found = all.insert(all.end(), Interface{.name = one->ifa_name, .addresses = {}});
        found->link_up = (one->ifa_flags & IFF_RUNNING) != 0;
      }
      if (const auto address = address_of(one->ifa_addr)) found->addresses.push_back(*address);
    }
    freeifaddrs(head);
    for (Interface& one : all) {
      std::stable_sort(one.addresses.begin(), one.addresses.end(),
                       [](const Nid& a, const Nid& b) { return a.size < b.size; });
      const std::string device = one.name.substr(0, one.name.find(':'));
      one.speed = link_speed_of(device);
      const long numa = sys_number(device, "device/numa_node");
      if (numa >= 0) one.numa_node = uint32_t(numa);
    }
    return all;
  }

  Result<Interface> find(const std::string& name, NetType) override {
    for (Interface& one : list())
      if (one.name == name) return std::move(one);
    return fail(ENODEV, "no such interface");
  }

  Result<Interface> find_address(const Nid& nid) override {
    for (Interface& one : list())
      for (const Nid& address : one.addresses)
        if (address.size == nid.size && address.addr == nid.addr) return std::move(one);
    return fail(ENODEV, "no interface has this address");
  }

  bool changed() override { return events_.take(); }
  int wait_fd() override {
    if (events_.fd() < 0) (void)events_.open(LinkEvents::About::kLinksAndAddresses);
    return events_.fd();
  }

  bool reaches(const Nid& from, const Nid& to) override { return route_runs(from, to); }

  std::vector<std::string> advice(const Nid& nid) override {
    std::vector<std::string> all;
    if (nid.size != 0) return all;
    const auto problems = subnet_advice(subnet_sharers(subnet_addresses(), nid), sysctl_ipv4);
    for (const SubnetAdvice& one : problems) all.push_back(one.what + "; mend it with: " + one.mend);
    return all;
  }

 private:
  LinkEvents events_;
};

}  // namespace

std::unique_ptr<Devices> system_devices() {
  return std::make_unique<SystemDevices>();
}

}  // namespace ulnet
