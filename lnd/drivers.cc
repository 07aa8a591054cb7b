// The drivers of driver_types(), opened one by one. No driver is named here.
#include "lnd/driver.h"
#include "lnd/registry.h"

namespace ulnet {

std::vector<DriverFields> driver_fields() {
  std::vector<DriverFields> all;
  for (const DriverType* type : driver_types()) all.push_back({type->net_type, type->settings, type->ni_tunables});
  return all;
}

bool driver_serves(NetType type) {
  for (const DriverType* one : driver_types())
    if (one->net_type == type) return true;
  return false;
}

Result<Drivers> Drivers::open(const DriverNumbers& settings, DriverContext context) {
  Drivers drivers;
  const auto types = driver_types();
  for (size_t i = 0; i < types.size(); ++i) {
    context.settings = i < settings.size() ? std::span(settings[i]) : std::span<const int64_t>();
    auto driver = types[i]->open(context);
    if (!driver) return tl::unexpected(driver.error());
    drivers.all_.push_back({types[i], std::move(*driver)});
  }
  return drivers;
}

std::vector<LndEntry> Drivers::entries() const {
  std::vector<LndEntry> entries;
  for (const Opened& one : all_) {
    Driver* driver = one.driver.get();
    entries.push_back({one.type, [driver](LndCore& core) { return driver->make_worker(core); },
                       [driver](LndControlHost& host) { return driver->make_control(host); }});
  }
  return entries;
}

void Drivers::retune(const DriverNumbers& settings, Instant now) const {
  for (size_t i = 0; i < all_.size() && i < settings.size(); ++i) all_[i].driver->retune(settings[i], now);
}

std::vector<PortUser*> Drivers::port_users() const {
  std::vector<PortUser*> users;
  for (const Opened& one : all_)
    if (PortUser* user = one.driver->port_user()) users.push_back(user);
  return users;
}

std::vector<Drivers::Note> Drivers::notes() const {
  std::vector<Note> notes;
  for (const Opened& one : all_)
    if (DriverNote note = one.driver->note(); !note.text.empty())
      notes.push_back({one.type->net_type, std::move(note)});
  return notes;
}

}  // namespace ulnet
