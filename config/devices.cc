#include "config/devices.h"

#include <fmt/format.h>

#include "config/schema.h"

namespace ulnet::config {
namespace {

constexpr std::string_view kSchema = "ulnet.devices.";

/// The texts of a list, of a map `0: text`, or one text.
std::vector<std::string> texts_of(const Doc& value) {
  std::vector<std::string> out;
  if (value.is_scalar()) out.push_back(value.text());
  for (const Doc::Entry& entry : value.entries()) out.push_back(entry.value.text());
  return out;
}

int64_t* number_of(DeviceConfig& device, std::string_view key) {
  if (key == "mtu") return &device.mtu;
  if (key == "vlan") return &device.vlan;
  if (key == "pcp") return &device.pcp;
  if (key == "queues") return &device.queues;
  if (key == "rx_depth") return &device.rx_depth;
  return key == "tx_depth" ? &device.tx_depth : nullptr;
}

/// The error in one key, or "".
std::string key_read(const std::string& key, const Doc& value, DeviceConfig& out) {
  const Field* field = field_find(std::string(kSchema) + key);
  if (field == nullptr) return "unknown key";
  if (key == "addresses" || key == "gateways") {
    (key == "addresses" ? out.addresses : out.gateways) = texts_of(value);
    return {};
  }
  if (key == "neighbours") {
    for (const Doc::Entry& entry : value.entries()) {
      const Doc* address = entry.value.find("address");
      const Doc* mac = entry.value.find("mac");
      if (address == nullptr || mac == nullptr) return "each neighbour needs an address and a mac";
      out.neighbours.push_back({address->text(), mac->text()});
    }
    return {};
  }
  Slots none;
  if (std::string wrong = field_assign(*field, value, none); !wrong.empty())
    return fmt::format("'{}' {}; allowed: {}", value.text(), wrong, field_allowed(*field));
  if (key == "in_flight") {
    out.in_flight = value.integer();
  } else if (int64_t* number = number_of(out, key)) {
    *number = value.integer().value_or(*number);
  } else {
    (key == "name" ? out.name : key == "device" ? out.device : out.mac) = value.text();
  }
  return {};
}

}  // namespace

tl::expected<std::vector<DeviceConfig>, std::string> devices_of(const Doc& list) {
  std::vector<DeviceConfig> out;
  if (list.is_scalar() || list.is_map()) return tl::unexpected(std::string("devices: is not a list"));
  for (size_t i = 0; i < list.size(); ++i) {
    DeviceConfig device;
    const Doc& item = list.at(i);
    if (!item.is_map()) return tl::unexpected(fmt::format("devices[{}]: is not a map", i));
    for (const Doc::Entry& entry : item.entries()) {
      const std::string wrong = key_read(entry.key, entry.value, device);
      if (!wrong.empty()) return tl::unexpected(fmt::format("devices[{}].{}: {}", i, entry.key, wrong));
    }
    if (device.name.empty() || device.device.empty())
      return tl::unexpected(fmt::format("devices[{}]: 'name' and 'device' are needed", i));
    out.push_back(std::move(device));
  }
  return out;
}

}  // namespace ulnet::config
