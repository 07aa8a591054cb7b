#include "control/faults/fault_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>

#include "config/ranges.h"
#include "config/schema.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/state/failures.h"

namespace ulnet {
namespace {

using config::Json;
using Wrong = tl::unexpected<std::string>;

constexpr std::array kTypeNames = {"ack", "put", "get", "reply"};  // by wire::MsgType
constexpr uint16_t kAnyFailure = ((1u << kLndStatuses) - 1) & ~1u;
constexpr const char* kNidsAllowed = "a NID such as 10.0.0.1@tcp, *@tcp for a network, or * for every NID";

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return char(std::tolower(c)); });
  return out;
}

std::string failure_name(LndStatus status) {
  return lower(failure_class(status).name);
}

std::string failure_names() {
  std::string all;
  for (unsigned i = 1; i < kLndStatuses; ++i) all += failure_name(LndStatus(i)) + ", ";
  return all + "random";
}

std::string text_of(const Json& args, const char* name) {
  return args.contains(name) ? args.at(name).get<std::string>() : std::string();
}

int64_t number_of(const Json& args, const char* name) {
  return args.contains(name) ? args.at(name).get<int64_t>() : 0;
}

bool flag_of(const Json& args, const char* name) {
  return args.contains(name) && args.at(name).get<bool>();
}

tl::expected<FaultNids, std::string> nids_of(const Json& args, const char* name) {
  auto nids = fault_nids_parse(text_of(args, name));
  if (!nids) return Wrong(fmt::format("{}: {}", name, nids.error()));
  return nids;
}

/// The parts of a list such as "put,get".
tl::expected<std::vector<std::string>, std::string> parts_of(const Json& args, const char* name) {
  const std::string text = text_of(args, name);
  if (!args.contains(name)) return std::vector<std::string>{};
  auto parts = config::list_split(text);
  if (!parts) return Wrong(fmt::format("{}: '{}': {}", name, text, parts.error()));
  return *parts;
}

tl::expected<uint64_t, std::string> portals_of(const Json& args) {
  const auto parts = parts_of(args, "portal");
  if (!parts) return Wrong(parts.error());
  uint64_t mask = 0;
  for (const std::string& part : *parts) {
    const auto portal = config::integer_parse(part);
    if (!portal || *portal < 0 || *portal >= int64_t(kPortalCount))
      return Wrong(fmt::format("portal: '{}' is not a portal; allowed: 0..{}", part, kPortalCount - 1));
    mask |= uint64_t{1} << *portal;
  }
  return mask;
}

tl::expected<uint8_t, std::string> types_of(const Json& args) {
  const auto parts = parts_of(args, "message");
  if (!parts) return Wrong(parts.error());
  uint8_t mask = 0;
  for (const std::string& part : *parts) {
    const auto found = std::find(kTypeNames.begin(), kTypeNames.end(), lower(part));
    if (found == kTypeNames.end())
      return Wrong(fmt::format("message: '{}' is not a type of messages; allowed: put, ack, get, reply", part));
    mask = uint8_t(mask | 1u << (found - kTypeNames.begin()));
  }
  return mask == 0 ? kFaultTypesAll : mask;
}

tl::expected<uint16_t, std::string> failures_of(const Json& args) {
  const auto parts = parts_of(args, "health_error");
  if (!parts) return Wrong(parts.error());
  uint16_t mask = 0;
  for (const std::string& part : *parts) {
    uint16_t bits = lower(part) == "random" ? kAnyFailure : 0;
    for (unsigned i = 1; i < kLndStatuses; ++i)
      if (failure_name(LndStatus(i)) == lower(part)) bits = uint16_t(1u << i);
    if (bits == 0) return Wrong(fmt::format("health_error: '{}' is not a failure; allowed: {}", part, failure_names()));
    mask = uint16_t(mask | bits);
  }
  return mask;
}

/// Takes the value of a list, or reports its mistake.
template <class Member>
bool take(Member& member, tl::expected<Member, std::string> value, std::string& wrong) {
  if (!value) return wrong = std::move(value.error()), false;
  member = std::move(*value);
  return true;
}

}  // namespace

tl::expected<FaultNids, std::string> fault_nids_parse(std::string_view text) {
  if (text == "*") return FaultNids{};
  const auto wrong = [&] { return Wrong(fmt::format("cannot parse '{}'; allowed: {}", text, kNidsAllowed)); };
  if (text.starts_with("*@")) {
    const auto net = net_parse(text.substr(2));
    if (!net) return wrong();
    return FaultNids{{}, *net};
  }
  const auto nid = nid_parse(text);
  if (!nid || nid->is_any()) return wrong();
  return FaultNids{*nid, kAnyNet};
}

std::string fault_nids_text(const FaultNids& nids) {
  if (nids.has_all()) return "*";
  return nids.nid.is_any() ? "*@" + net_text(nids.net) : nid_text(nids.nid);
}

const char* fault_kind_text(FaultKind kind) {
  return kind == FaultKind::kDrop ? "drop" : "delay";
}

tl::expected<FaultKind, std::string> fault_kind_parse(std::string_view text) {
  for (const FaultKind kind : {FaultKind::kDrop, FaultKind::kDelay})
    if (text == fault_kind_text(kind)) return kind;
  return Wrong(fmt::format("rule: '{}' is not a kind of fault rules; allowed: drop, delay", text));
}

tl::expected<FaultSpec, std::string> fault_spec_read(const Json& args) {
  FaultSpec spec;
  std::string wrong;
  if (!take(spec.kind, fault_kind_parse(text_of(args, "rule")), wrong)) return Wrong(wrong);
  if (!take(spec.source, nids_of(args, "source"), wrong)) return Wrong(wrong);
  if (!take(spec.dest, nids_of(args, "dest"), wrong)) return Wrong(wrong);
  if (args.contains("local_nid") && !take(spec.local, nids_of(args, "local_nid"), wrong)) return Wrong(wrong);
  if (!take(spec.portals, portals_of(args), wrong)) return Wrong(wrong);
  if (!take(spec.types, types_of(args), wrong)) return Wrong(wrong);
  if (!take(spec.failures, failures_of(args), wrong)) return Wrong(wrong);
  if (spec.portals != 0 && (spec.types & kFaultTypesWithPortal) == 0)
    return Wrong("portal: only PUTs and GETs have a portal; leave 'portal' out, or add put or get to 'message'");
  if (spec.portals != 0) spec.types &= kFaultTypesWithPortal;
  spec.rate = uint32_t(number_of(args, "rate"));
  spec.interval = std::chrono::seconds(number_of(args, "interval"));
  spec.latency = std::chrono::seconds(number_of(args, "latency"));
  spec.all = flag_of(args, "drop_all");
  spec.random = flag_of(args, "random");
  wrong = fault_spec_wrong(spec);
  if (!wrong.empty()) return Wrong(wrong);
  return spec;
}

std::string fault_spec_wrong(const FaultSpec& spec) {
  const bool drop = spec.kind == FaultKind::kDrop;
  const bool by_time = spec.interval != Duration{};
  if (int(spec.rate != 0) + int(by_time) + int(spec.all) != 1)
    return drop ? "exactly one of 'rate', 'interval' and 'drop_all' is needed"
                : "exactly one of 'rate' and 'interval' is needed";
  if (!drop && (spec.all || spec.random || spec.failures != 0))
    return "'drop_all', 'random' and 'health_error' are for drop rules only";
  if (spec.random && !by_time) return "'random' needs 'interval', the mean of the random time in seconds";
  if (spec.interval < Duration{} || spec.latency < Duration{}) return "'interval' and 'latency' are 1 second or more";
  if (drop && spec.latency != Duration{}) return "'latency' is for delay rules only";
  if (!drop && spec.latency == Duration{}) return "'latency' is needed: the seconds that a message is delayed";
  if (spec.types == 0 || (spec.types & ~kFaultTypesAll) != 0) return "'message' has no type that there is";
  if ((spec.failures & ~kAnyFailure) != 0) return "'health_error' has a failure that there is not";
  return {};
}

tl::expected<FaultFilter, std::string> fault_filter_read(const Json& args) {
  FaultFilter filter;
  std::string wrong;
  if (!take(filter.kind, fault_kind_parse(text_of(args, "rule")), wrong)) return Wrong(wrong);
  filter.all = flag_of(args, "all");
  filter.has_source = args.contains("source");
  filter.has_dest = args.contains("dest");
  if (filter.has_source && !take(filter.source, nids_of(args, "source"), wrong)) return Wrong(wrong);
  if (filter.has_dest && !take(filter.dest, nids_of(args, "dest"), wrong)) return Wrong(wrong);
  if (filter.all == (filter.has_source || filter.has_dest))
    return Wrong("either 'all' is needed, or 'source' and 'dest', or one of these two");
  return filter;
}

std::string fault_failures_text(uint16_t failures) {
  if (failures == kAnyFailure) return "random";
  std::string all;
  for (unsigned i = 1; i < kLndStatuses; ++i)
    if ((failures >> i & 1) != 0) all += (all.empty() ? "" : ",") + failure_name(LndStatus(i));
  return all;
}

}  // namespace ulnet
