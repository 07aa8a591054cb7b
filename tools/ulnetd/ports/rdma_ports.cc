#include "tools/ulnetd/ports/rdma_ports.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>

#include "lnd/net/packet/net_address_text.h"

namespace ulnet {
namespace {

namespace fs = std::filesystem;
using config::Doc;

/// The first line of a file; "" if it cannot be read.
std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Names in a folder, in order.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    names.push_back(at->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<uint64_t> count_of(const std::string& text) {
  uint64_t count = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), count);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size() ? std::optional(count) : std::nullopt;
}

/// "4: ACTIVE" is "ACTIVE".
std::string word_of(const std::string& numbered) {
  const size_t colon = numbered.find(": ");
  return colon == std::string::npos ? numbered : numbered.substr(colon + 2);
}

/// "2.5 Gb/sec (1X SDR)" is 2500.
std::optional<uint64_t> mbps_of(const std::string& rate) {
  const size_t space = rate.find(" Gb/sec");
  double gbps = 0;
  if (space == std::string::npos) return {};
  const auto parsed = std::from_chars(rate.data(), rate.data() + space, gbps);
  if (parsed.ec != std::errc() || gbps < 0 || gbps > 1e6) return {};
  return uint64_t(gbps * 1000 + 0.5);
}

void add_text(Doc& doc, const char* key, const std::string& text) {
  if (!text.empty()) doc.set(key, text);
}

/// The addresses of its GIDs, each once: a device has one GID for each version of RoCE.
Doc addresses_of(const fs::path& gids) {
  std::vector<std::string> seen;
  for (const std::string& name : names_in(gids)) {
    const auto address = dpdk::ip_parse(line_of(gids / name));
    if (!address || address->is_unspecified()) continue;
    std::string text = dpdk::ip_text(*address);
    if (std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(std::move(text));
  }
  Doc doc = Doc::list();
  for (const std::string& text : seen) doc.push(Doc(text));
  return doc;
}

/// The interfaces of its GIDs, each once. A GID without one cannot be read.
std::vector<std::string> interfaces_of(const fs::path& ndevs) {
  std::vector<std::string> seen;
  for (const std::string& name : names_in(ndevs)) {
    std::string text = line_of(ndevs / name);
    if (!text.empty() && std::find(seen.begin(), seen.end(), text) == seen.end()) seen.push_back(std::move(text));
  }
  return seen;
}

Doc counts_of(const fs::path& port) {
  std::map<std::string, uint64_t> counts;
  for (const char* folder : {"counters", "hw_counters"}) {
    for (const std::string& name : names_in(port / folder)) {
      if (name == "lifespan") continue;  // a setting: how long the kernel keeps its copy
      if (const auto count = count_of(line_of(port / folder / name))) counts[name] = *count;
    }
  }
  Doc doc = Doc::map();
  for (const auto& [name, count] : counts) doc.set(name, count);
  return doc;
}

/// The last part of what a link names; "" if there is none.
std::string target_of(const fs::path& link) {
  std::error_code error;
  return fs::read_symlink(link, error).filename().string();
}

}  // namespace

std::vector<RdmaPort> rdma_ports(const fs::path& devices) {
  std::vector<RdmaPort> ports;
  for (const std::string& device : names_in(devices)) {
    const std::vector<std::string> numbers = names_in(devices / device / "ports");
    for (const std::string& number : numbers)
      ports.push_back({devices / device, number, numbers.size() == 1 ? device : device + "/" + number});
  }
  return ports;
}

Doc rdma_port_doc(const RdmaPort& port, int verbosity) {
  const fs::path here = port.device / "ports" / port.number;
  Doc doc = Doc::map();
  doc.set("name", port.name);
  const std::string bus = target_of(port.device / "device");
  doc.set("device", bus.empty() ? port.device.filename().string() : bus);
  const std::string driver = target_of(port.device / "device/driver");
  doc.set("driver", driver.empty() ? "rdma" : driver);
  const std::string state = word_of(line_of(here / "state"));
  doc.set("status", state == "ACTIVE" ? "up" : "down");
  add_text(doc, "port state", state);
  add_text(doc, "physical state", word_of(line_of(here / "phys_state")));
  add_text(doc, "link layer", line_of(here / "link_layer"));
  if (const auto speed = mbps_of(line_of(here / "rate"))) doc.set("speed", *speed);
  if (const auto interfaces = interfaces_of(here / "gid_attrs/ndevs"); !interfaces.empty()) {
    Doc& list = doc.set("interfaces", Doc::list());
    for (const std::string& name : interfaces) list.push(Doc(name));
  }
  doc.set("addresses", addresses_of(here / "gids"));
  if (verbosity > 0) doc.set("device counts", counts_of(here));
  return doc;
}

}  // namespace ulnet
