// convert: the text forms of Lustre's module parameters (networks=, ip2nets=, routes=) as YAML. Source:
// docs/wire/lnetctl.md §2.
#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "config/emit.h"
#include "dataplane/base/nid_text.h"
#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

using config::Doc;

/// The part that is converted so far, or the reason for a failure.
struct Convert {
  Doc doc = Doc::map();
  std::string wrong;

  void fail(const std::string& what) {
    if (wrong.empty()) wrong = what;
  }
};

/// Splits at commas outside of brackets of both kinds.
std::vector<std::string> entries_of(const std::string& text) {
  std::vector<std::string> entries(1);
  int depth = 0;
  for (char c : text) {
    depth += c == '(' || c == '[' ? 1 : c == ')' || c == ']' ? -1 : 0;
    if (c == ',' && depth == 0)
      entries.emplace_back();
    else if (c != ' ' && c != '\n' && c != '\t')
      entries.back() += c;
  }
  return entries;
}

/// The lines of a text with ';' or line ends between them and comments behind '#'.
std::vector<std::string> lines_of(std::string text) {
  std::vector<std::string> lines;
  std::istringstream rows(text);
  for (std::string row; std::getline(rows, row);) {
    std::istringstream parts(row.substr(0, row.find('#')));
    for (std::string part; std::getline(parts, part, ';');)
      if (part.find_first_not_of(" \t\r") != std::string::npos) lines.push_back(part);
  }
  return lines;
}

/// `NET(IF,IF)[CPT]`: the net's name and the content of its brackets. An empty name: the text has a mistake.
struct NetText {
  std::string name;
  std::vector<config::InterfaceSpec> interfaces;
  std::string cpts;
};
NetText net_of(const std::string& entry, Convert& out) {
  NetText net;
  const size_t open = std::min(entry.find_first_of("(["), entry.size());
  const auto name = net_parse(entry.substr(0, open));
  if (!name || *name == kAnyNet) {
    out.fail(fmt::format("'{}' does not begin with a network such as tcp, tcp1 or o2ib3", entry));
    return net;
  }
  std::string rest = entry.substr(open);
  if (rest.starts_with('(')) {
    const size_t close = rest.find(')');
    auto interfaces = config::interfaces_parse(rest.substr(1, close == std::string::npos ? 0 : close - 1));
    if (close == std::string::npos)
      out.fail(fmt::format("'{}' has a bracket that is not closed", entry));
    else if (!interfaces)
      out.fail(interfaces.error());
    else
      net.interfaces = std::move(*interfaces);
    rest = close == std::string::npos ? "" : rest.substr(close + 1);
  }
  if (!rest.empty()) {
    const auto cpts = config::cpt_list_parse(rest);
    if (!rest.starts_with('[') || !cpts)
      out.fail(fmt::format("'{}' is not a list of CPTs such as [0,1]", rest));
    else
      net.cpts = config::cpt_list_text(*cpts);
  }
  net.name = net_text(*name);
  return net;
}

void networks(const std::string& text, Convert& out) {
  Doc list = Doc::list();
  for (const std::string& entry : entries_of(text)) {
    const NetText net = net_of(entry, out);
    if (net.name.empty() || net.name == "lo") continue;
    if (net.interfaces.empty())
      return out.fail(
          fmt::format("{} names no interface, and ulnet does not choose one: write {}(eth0)", net.name, net.name));
    Doc item = Doc::map();
    item.set("net type", net.name);
    Doc& nis = item.set("local NI(s)", Doc::list());
    for (const config::InterfaceSpec& interface : net.interfaces) {
      Doc& ni = nis.push(Doc::map());
      ni.set("interfaces", Doc::map()).set("0", interface.name);
      const std::string cpts = interface.cpts.empty() ? net.cpts : config::cpt_list_text(interface.cpts);
      if (!cpts.empty()) ni.set("CPT", cpts);
    }
    list.push(std::move(item));
  }
  if (list.size() > 0) out.doc.set("net", std::move(list));
}

void ip2nets(const std::string& text, Convert& out) {
  Doc list = Doc::list();
  for (const std::string& line : lines_of(text)) {
    std::istringstream words(line);
    std::string head;
    words >> head;
    const NetText net = net_of(head, out);
    Doc item = Doc::map();
    item.set("net-spec", net.name);
    Doc interfaces = Doc::map(), ranges = Doc::map();
    for (const auto& interface : net.interfaces)
      interfaces.set(std::to_string(interfaces.size()), config::interface_text(interface));
    for (std::string pattern; words >> pattern;) {
      if (!config::ip_pattern_valid(pattern))
        return out.fail(fmt::format("'{}' is not an address pattern such as 192.168.0.*", pattern));
      ranges.set(std::to_string(ranges.size()), pattern);
    }
    if (ranges.size() == 0) return out.fail(fmt::format("'{}' has no address pattern such as 192.168.0.*", line));
    if (interfaces.size() > 0) item.set("interfaces", std::move(interfaces));
    item.set("ip-range", std::move(ranges));
    if (!net.cpts.empty()) item.set("CPT", net.cpts);
    list.push(std::move(item));
  }
  if (list.size() > 0) out.doc.set("ip2nets", std::move(list));
}

void routes(const std::string& text, Convert& out) {
  Doc list = Doc::list();
  for (const std::string& line : lines_of(text)) {
    std::istringstream words(line);
    std::string net, word;
    int64_t hop = -1;
    words >> net;
    if (auto nets = config::nets_parse(net); !nets) return out.fail(nets.error());
    unsigned gateways = 0;
    while (words >> word) {
      const auto number = config::integer_parse(word);
      if (number && gateways == 0 && hop == -1) {
        if (*number < 1 || *number > 255)
          return out.fail(fmt::format("'{}' is not a hop count; allowed: 1..255", word));
        hop = *number;
        continue;
      }
      const size_t colon = word.find(':', std::min(word.find('@'), word.size()));  // an IPv6 address has colons, too
      const std::string gateway = word.substr(0, colon);
      const auto priority =
          colon == std::string::npos ? std::optional<int64_t>(0) : config::integer_parse(word.substr(colon + 1));
      if (auto nids = config::nids_parse(gateway); !nids) return out.fail(nids.error());
      if (!priority || *priority < 0) return out.fail(fmt::format("'{}' has no priority behind its colon", word));
      Doc& item = list.push(Doc::map());
      item.set("net", net);
      item.set("gateway", gateway);
      item.set("hop", hop);
      item.set("priority", *priority);
      ++gateways;
    }
    if (gateways == 0) return out.fail(fmt::format("'{}' names no gateway such as 10.0.0.1@tcp", line));
  }
  if (list.size() > 0) out.doc.set("route", std::move(list));
}

}  // namespace

Built convert(const Words& words, const Env&) {
  Convert out;
  if (auto text = words.value("networks")) networks(*text, out);
  if (auto text = words.value("ip2nets")) ip2nets(*text, out);
  if (auto text = words.value("routes")) routes(*text, out);
  if (words.has("networks") && words.has("ip2nets"))
    out.fail("give only one of --networks and --ip2nets, as in Lustre");
  if (!out.wrong.empty()) return refuse("parser", "convert", -EINVAL, out.wrong);
  if (out.doc.size() == 0)
    return refuse("parser", "convert", -EINVAL, "nothing to convert: give --networks, --ip2nets or --routes");
  Command command;
  command.text = config::emit(out.doc);
  return command;
}

}  // namespace ulnet::ctl
