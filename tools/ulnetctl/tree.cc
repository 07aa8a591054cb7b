// The command tree: which commands there are, their options and help.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tools/ulnetctl/builders.h"

namespace ulnet::ctl {
namespace {

using enum Takes;

constexpr OptionSpec kVerbose = {"verbose", kOptional, "more detail; a number of 1 to 4 shows more", 'v'};

constexpr OptionSpec kConfigure[] = {
    {"all", kNothing, "also load the networks of ulnetd's configuration file", 'a'},
    {"large", kNothing, "accepted, no effect: NIDs are as large as their addresses", 'l'}};
constexpr OptionSpec kNetAdd[] = {
    {"net", kValue, "name of the network (tcp, tcp1, o2ib)", 'n'},
    {"if", kValue, "interfaces, with their CPTs: eth0,eth1[0,2]", 'i'},
    {"nid", kValue, "bring NIs up on these addresses instead of interfaces: 10.0.0.1@tcp"},
    {"ip2net", kValue, "select networks by this node's addresses: \"tcp 192.168.0.*\""},
    {"peer-timeout", kValue, "seconds until a silent peer counts as down: no effect yet"},
    {"peer-credits", kValue, "messages in flight to one peer NI"},
    {"peer-buffer-credits", kValue, "router buffers that one peer NI may hold"},
    {"credits", kValue, "messages in flight from the NI"},
    {"cpt", kValue, "worker groups that serve the NI: [0,1]"},
    {"conns-per-peer", kValue, "connections to each peer NI, 0..127 (0 = automatic)"},
    {"skip-mr-route-setup", kNothing, "accepted, no effect: ulnet never changes the kernel's routes"},
    {"tos", kValue, "DS field of the packets, -1..255 (-1 = the system's default)"}};
constexpr OptionSpec kNetDel[] = {{"net", kValue, "name of the network", 'n'},
                                  {"if", kValue, "only these interfaces of the network", 'i'},
                                  {"nid", kValue, "the NIs with these addresses"},
                                  {"now", kNothing, "close at once and send the new NI list to the peers afterwards"}};
constexpr OptionSpec kNetShow[] = {{"net", kValue, "show this network only", 'n'}, kVerbose};
constexpr OptionSpec kStatsShow[] = {kVerbose};
constexpr OptionSpec kNetSet[] = {
    {"nid", kValue, "the NI to change"},
    {"all", kNothing, "change all NIs", 'a'},
    {"net", kValue, "with --lnd-timeout: set the timeout for the driver of this network", 'n'},
    {"health", kValue, "health value, 0..999: it stays so; 1000 or auto: failures and messages change it"},
    {"conns-per-peer", kValue, "connections to each peer NI, 0..127"},
    {"lnd-timeout", kValue, "seconds that a transmission may take"}};
constexpr OptionSpec kPortShow[] = {{"name", kValue, "show this port only", 'n'}, kVerbose};
constexpr OptionSpec kPortReset[] = {{"name", kValue, "the port", 'n'}};
constexpr OptionSpec kCapture[] = {
    {"if", kValue, "the port, as `port show` names it", 'i'},
    {"filter", kValue, "filter in libpcap's syntax: \"udp port 4791\"", 'f'},
    {"output", kValue, "pcapng file, or - for standard output", 'o'},
    {"snap", kValue, "bytes of each packet, 22..65536 (256)"},
    {"seconds", kValue, "end after this number of seconds"},
    {"size", kValue, "end at this number of MiB (64)"},
    {"rate", kValue, "packets per second and queue; packets above this rate are only counted (100000)"}};
constexpr OptionSpec kRouteAdd[] = {{"net", kValue, "the remote network, or a range: tcp[1-3]", 'n'},
                                    {"gateway", kValue, "NID of the router, or a range: 10.1.1.[1-5]@tcp", 'g'},
                                    {"hop", kValue, "routers on the way, 1..255", 'c'},
                                    {"hop-count", kValue, "same as --hop"},
                                    {"priority", kValue, "0 is the highest", 'p'},
                                    {"health-sensitivity", kValue, "accepted, no effect"}};
constexpr OptionSpec kRouteDel[] = {{"net", kValue, "the remote network, or a range", 'n'},
                                    {"gateway", kValue, "NID of the router, or a range", 'g'}};
constexpr OptionSpec kRouteShow[] = {{"net", kValue, "routes to this network only", 'n'},
                                     {"gateway", kValue, "routes through this router only", 'g'},
                                     {"hop", kValue, "routes with this many hops only", 'c'},
                                     {"hop-count", kValue, "same as --hop"},
                                     {"priority", kValue, "routes with this priority only", 'p'},
                                     kVerbose};
constexpr OptionSpec kPeerAdd[] = {{"prim_nid", kValue, "NID that identifies the peer; default: the first of --nid"},
                                   {"nid", kValue, "NIDs of the peer, with ranges: 10.1.1.[2-5]@tcp,10.2.1.2@tcp1"},
                                   {"ip2nets", kValue, "same as --nid"},
                                   {"non_mr", kNothing, "the peer is not Multi-Rail"},
                                   {"lock_prim", kNothing, "discovery keeps the primary NID of the peer"}};
constexpr OptionSpec kPeerDel[] = {{"prim_nid", kValue, "NID that identifies the peer"},
                                   {"nid", kValue, "NIDs to remove; without --nid the whole peer"},
                                   {"force", kNothing, "also delete a peer whose primary NID is locked", 'f'}};
constexpr OptionSpec kPeerShow[] = {{"nid", kValue, "show the peer with this NID only"}, kVerbose};
constexpr OptionSpec kPeerSet[] = {
    {"nid", kValue, "the peer NI to change"},
    {"all", kNothing, "change all peer NIs", 'a'},
    {"health", kValue, "health value, 0..999: it stays so; 1000 or auto: failures and messages change it"},
    {"state", kValue, "state bits, for tests"}};
constexpr OptionSpec kPing[] = {{"source", kValue, "ping from this NID"},
                                {"timeout", kValue, "seconds to wait for each answer (1)"}};
constexpr OptionSpec kDiscover[] = {{"force", kNothing, "also discover NIDs that are known and up to date", 'f'}};
constexpr OptionSpec kSrc = {"src", kValue, "local NIDs or network: tcp1, *@tcp, 10.1.1.[5-8]@o2ib"};
constexpr OptionSpec kDst = {"dst", kValue, "peer NIDs or network"};
constexpr OptionSpec kRte = {"rte", kValue, "router NIDs"};
constexpr OptionSpec kRuleIdx = {"idx", kValue, "number of the rule"};
constexpr OptionSpec kRuleAll = {"all", kNothing, "every rule", 'a'};
constexpr OptionSpec kPriority = {"priority", kValue, "0 is the highest, 255 the lowest"};
constexpr OptionSpec kRuleId = {"id", kValue, "number of the rule, as show prints it"};
constexpr OptionSpec kRuleNet = {"net", kValue, "local networks: o2ib1, o2ib* or o2ib[1,2]", 'n'};
constexpr OptionSpec kRuleNid = {"nid", kValue, "NIDs of this node and of peers: 10.1.1.[5-8]@o2ib"};
constexpr OptionSpec kLocal = {"local", kValue, "local NIDs or network"};
constexpr OptionSpec kRemote = {"remote", kValue, "peer NIDs or network"};
constexpr OptionSpec kDryRun = {"dry-run", kNothing, "list the objects that would change, and change nothing"};
constexpr OptionSpec kUdspAdd[] = {
    kSrc, kDst, kRte, kPriority, {"idx", kValue, "position in the list; default: the end"}, kDryRun};
constexpr OptionSpec kUdspDel[] = {kRuleIdx, kRuleAll, kDryRun};
constexpr OptionSpec kUdspShow[] = {kRuleIdx};
constexpr OptionSpec kPolicyDel[] = {kSrc, kDst, kRte, kRuleIdx, kRuleAll, kDryRun};
constexpr OptionSpec kPolicyShow[] = {kSrc, kDst, kRte, kRuleIdx};
constexpr OptionSpec kSelNetAdd[] = {kRuleNet, kPriority};
constexpr OptionSpec kSelNetDel[] = {kRuleNet, kRuleId};
constexpr OptionSpec kSelNetShow[] = {kRuleNet};
constexpr OptionSpec kSelNidAdd[] = {kRuleNid, kPriority};
constexpr OptionSpec kSelNidDel[] = {kRuleNid, kRuleId};
constexpr OptionSpec kSelNidShow[] = {kRuleNid};
constexpr OptionSpec kSelPeerAdd[] = {kLocal, kRemote, kPriority};
constexpr OptionSpec kSelPeerDel[] = {kLocal, kRemote, kRuleId};
constexpr OptionSpec kSelPeerShow[] = {kLocal, kRemote};
constexpr OptionSpec kExplain[] = {{"from", kValue, "NI to send from; with --forward the first sender"},
                                   {"size", kValue, "bytes of the payload"},
                                   {"numa", kValue, "NUMA node of the payload's memory"},
                                   {"accelerator", kValue, "number of the accelerator that holds the payload"},
                                   {"count", kValue, "show how as many messages would spread, 1..10000"},
                                   {"response", kNothing, "the message is an ACK or REPLY"},
                                   {"forward", kNothing, "the message comes from another node"},
                                   {"worker", kValue, "the worker that chooses (0)"}};
constexpr OptionSpec kFaultSource = {"source", kValue, "first sender: a NID, *@tcp for a network, or *", 's'};
constexpr OptionSpec kFaultDest = {"dest", kValue, "final destination, in the same forms", 'd'};
constexpr OptionSpec kFaultRate = {"rate", kValue, "one of this number of messages, for each worker", 'r'};
constexpr OptionSpec kFaultInterval = {"interval", kValue, "one message in this number of seconds, for each worker",
                                       'i'};
constexpr OptionSpec kFaultPortal = {"portal", kValue, "only PUTs and GETs for this portal, 0..63; may be repeated",
                                     'p'};
constexpr OptionSpec kFaultMessage = {"message", kValue, "only put, ack, get or reply; may be repeated", 'm'};
constexpr OptionSpec kFaultLocal = {"local_nid", kValue, "only messages over this NI of the node, or *@tcp", 'o'};
constexpr OptionSpec kFaultDropAdd[] = {
    kFaultSource,
    kFaultDest,
    kFaultRate,
    kFaultInterval,
    {"random", kNothing, "with --interval: the mean of a random time", 'n'},
    kFaultPortal,
    kFaultMessage,
    kFaultLocal,
    {"health_error", kValue,
     "sends fail with this status, for instance local_timeout or remote_error, or random; may be repeated. Without "
     "this option messages are lost on receive",
     'e'},
    {"drop_all", kNothing, "every message, instead of --rate or --interval", 'x'}};
constexpr OptionSpec kFaultDelayAdd[] = {
    kFaultSource, kFaultDest,    kFaultRate,  kFaultInterval,
    kFaultPortal, kFaultMessage, kFaultLocal, {"latency", kValue, "seconds that a message is delayed", 'l'}};
constexpr OptionSpec kFaultDel[] = {{"all", kNothing, "all rules of this kind", 'a'},
                                    {"source", kValue, "the rules with this source", 's'},
                                    {"dest", kValue, "the rules with this destination", 'd'}};
constexpr OptionSpec kRecovery[] = {{"local", kNothing, "local NIs", 'l'}, {"peer", kNothing, "peer NIs", 'p'}};
constexpr OptionSpec kDebugPeer[] = {{"nid", kValue, "a NID of the peer"}};
constexpr OptionSpec kConvert[] = {{"networks", kValue, "\"tcp(eth0),o2ib(ib0[2],ib1)[2,6]\""},
                                   {"ip2nets", kValue, "\"tcp(eth0) 192.168.0.*; o2ib 10.[1-3].*.*\""},
                                   {"routes", kValue, "\"tcp1 2 10.0.0.[1-2]@tcp:1\""}};
constexpr OptionSpec kImport[] = {{"add", kNothing, "add the configuration in the file (the default)", 'a'},
                                  {"del", kNothing, "delete the configuration in the file", 'd'},
                                  {"show", kNothing, "show the sections that the file has", 's'},
                                  {"exec", kNothing, "run the ping and discover sections of the file", 'e'},
                                  {"old-api", kNothing, "accepted, no effect"}};
constexpr OptionSpec kWatch[] = {{"kind", kValue, "only these: ni,peer_ni,route,gateway,routing", 'k'},
                                 {"nid", kValue, "only NIs, peer NIs and gateways with these NIDs, and their routes"}};
constexpr OptionSpec kExport[] = {{"backup", kNothing, "only the values that configure the node again", 'b'}};

constexpr CommandSpec kCommands[] = {
    {"lnet", "configure", "start LNet", kConfigure, lnet_configure},
    {"lnet", "unconfigure", "stop LNet", {}, lnet_unconfigure},
    {"route", "add", "add a route", kRouteAdd, route_add},
    {"route", "del", "delete a route", kRouteDel, route_del},
    {"route", "show", "show routes", kRouteShow, route_show},
    {"net", "add", "add a network", kNetAdd, net_add},
    {"net", "del", "delete a network or some of its interfaces", kNetDel, net_del},
    {"net", "show", "show networks", kNetShow, net_show},
    {"net", "set", "change running NIs", kNetSet, net_set},
    {"routing", "show", "show router buffers and whether routing is enabled", {}, routing_show},
    {"set", "", "change a setting of the node", {}, set_value, "NAME VALUE"},
    {"import", "", "read a configuration", kImport, import_file, "[FILE]", 0},
    {"export", "", "write the configuration", kExport, export_file, "[FILE]", 0},
    {"stats", "show", "show statistics; -v also drops with their reasons", kStatsShow, stats_show},
    {"stats", "reset", "set statistics to zero", {}, stats_reset},
    {"debug", "recovery", "show the NIs that are recovering", kRecovery, recovery},
    {"debug", "peer", "show all data about the peer with this NID", kDebugPeer, debug_peer},
    {"debug", "nidlist", "print the NIDs that a list stands for", {}, debug_nidlist, "LIST"},
    {"global", "show", "show the settings of the node", {}, global_show},
    {"peer", "add", "add a peer, or NIDs to it", kPeerAdd, peer_add},
    {"peer", "del", "delete a peer, or NIDs of it", kPeerDel, peer_del},
    {"peer", "show", "show peers", kPeerShow, peer_show},
    {"peer", "list", "show the primary NIDs of all peers", {}, peer_list},
    {"peer", "set", "change peer NIs", kPeerSet, peer_set},
    {"ping", "", "ping NIDs", kPing, ping, "NID[,NID...]", 0},
    {"discover", "", "discover the peers with these NIDs", kDiscover, discover, "NID[,NID...]", 0},
    {"service-id", "", "show the service ID of o2ib nodes", {}, service_id},
    {"udsp", "add", "add a selection policy", kUdspAdd, udsp_add},
    {"udsp", "del", "delete a selection policy", kUdspDel, udsp_del},
    {"udsp", "show", "show selection policies", kUdspShow, udsp_show},
    {"policy", "add", "add a selection policy", kUdspAdd, udsp_add},
    {"policy", "del", "delete a selection policy, by number or by its NIDs", kPolicyDel, policy_del},
    {"policy", "show", "show selection policies, all or those with these NIDs", kPolicyShow, policy_show},
    {"selection", "net add", "give local networks a priority", kSelNetAdd, selection_net_add},
    {"selection", "net del", "delete a rule, by its networks or number", kSelNetDel, selection_net_del},
    {"selection", "net show", "show rules for local networks", kSelNetShow, selection_net_show},
    {"selection", "nid add", "give NIDs a priority, both local and of peers", kSelNidAdd, selection_nid_add},
    {"selection", "nid del", "delete rules by their NIDs, or one rule by its number", kSelNidDel, selection_nid_del},
    {"selection", "nid show", "show rules for NIDs", kSelNidShow, selection_nid_show},
    {"selection", "peer add", "prefer local NIDs for NIDs of peers", kSelPeerAdd, selection_peer_add},
    {"selection", "peer del", "delete a rule, by both NIDs or number", kSelPeerDel, selection_peer_del},
    {"selection", "peer show", "show rules for pairs of NIDs", kSelPeerShow, selection_peer_show},
    {"explain", "", "show the path that a message would take, and why", kExplain, explain, "NID"},
    {"fault", "drop add", "add a rule that loses messages, or lets sends fail", kFaultDropAdd, fault_drop_add},
    {"fault", "drop del", "delete drop rules", kFaultDel, fault_drop_del},
    {"fault", "drop reset", "set the counts of all drop rules to zero", {}, fault_drop_reset},
    {"fault", "drop show", "show drop rules and the messages that they dropped", {}, fault_drop_show},
    {"fault", "delay add", "add a rule that delays messages", kFaultDelayAdd, fault_delay_add},
    {"fault", "delay del", "delete delay rules; the messages that they delay go on", kFaultDel, fault_delay_del},
    {"fault", "delay reset", "set the counts of all delay rules to zero", {}, fault_delay_reset},
    {"fault", "delay show", "show delay rules and the messages that they delayed", {}, fault_delay_show},
    {"setup-mrrouting", "", "set the kernel's routes up for several interfaces: not needed", {}, setup_mrrouting},
    {"setup-sysctl", "", "set the kernel up for several interfaces: not needed", {}, setup_sysctl},
    {"cpt-of-nid", "", "show which worker group serves peer NIs", {}, cpt_of_nid, "NID[,NID...]"},
    {"port", "show", "show packet ports and ports of RDMA devices: link, queues, drops, counters", kPortShow,
     port_show},
    {"port", "reset", "close a packet port and open it again", kPortReset, port_reset},
    {"convert", "", "print networks=, ip2nets= or routes= of Lustre as YAML", kConvert, convert},
    {"watch", "", "print changes of state as they happen, as lines of JSON", kWatch, watch},
    {"capture", "", "capture the packets that pass a packet port, and its drops", kCapture, capture},
};

constexpr std::array kOtherWords = {"quit",
                                    "exit",
                                    "help",
                                    "--help",
                                    "version",
                                    "--version",
                                    "list-commands",
                                    "--list-commands",
                                    "--ignore_errors",
                                    "ignore_errors"};

constexpr const char* kSettings =
    "\tnuma_range N                  distances up to N count as equally near\n"
    "\tmax_interfaces N              maximum number of NIDs of one peer; below 16 becomes 4096\n"
    "\tdiscovery 0|1|verify          discovery of peers: off, on, or compare only\n"
    "\tdrop_asym_route 0|1           drop a message from a route that the answer would not take\n"
    "\tretry_count N                 number of resends after a failure\n"
    "\ttransaction_timeout S         seconds until a message or its response has failed\n"
    "\thealth_sensitivity N          decrease of a NID's health value if its node reports it as down, 0..1000\n"
    "\trecovery_interval S           accepted, no effect\n"
    "\trouter_sensitivity P          accepted, no effect\n"
    "\tresponse_tracking 0|1|2|3     responses that are tracked: of pings, also GETs, also PUTs, all\n"
    "\trecovery_limit S              seconds to try to recover a peer NI (0 = forever)\n"
    "\tmax_recovery_ping_interval S  longest time between recovery pings\n"
    "\trouting 0|1                   forward messages for other nodes\n"
    "\ttiny_buffers N, small_buffers N, large_buffers N\n"
    "\t                              router buffers of the whole node\n";

const char* kUsage =
    "usage: ulnetctl [--socket PATH] [--json] [--layout classic] [COMMAND] [OPTIONS]... [ARGS]\n"
    "Without a command, ulnetctl reads commands from standard input.\n"
    "Try 'ulnetctl help COMMAND', or 'ulnetctl --list-commands' for a list of commands.\n";

std::string help_one(const CommandSpec& spec) {
  std::string title = spec.name[0] == 0 ? spec.group : fmt::format("{} {}", spec.group, spec.name);
  if (spec.arguments[0] != 0) title += fmt::format(" {}", spec.arguments);
  std::string out = fmt::format("{}: {}\n", title, spec.summary);
  for (const OptionSpec& option : spec.options) out += fmt::format("\t--{}: {}\n", option.name, option.help);
  if (std::string_view(spec.group) == "set") out += kSettings;
  return out;
}

bool group_known(std::string_view group) {
  for (const CommandSpec& spec : kCommands) {
    if (spec.group == group) return true;
  }
  return false;
}

Command text_command(std::string text, int exit_status = 0) {
  Command command;
  command.text = std::move(text);
  command.exit_status = exit_status;
  return command;
}

/// help, version and the like; nothing when `word` is a command of the tree.
std::optional<Command> other_word(std::span<const std::string> words, const Env& env) {
  const std::string& word = words[0];
  if (word == "help" || word == "--help" || word == "-h") {
    if (words.size() == 1) return text_command(kUsage);
    return text_command(help_text(words[1], fmt::format("{}", fmt::join(words.subspan(2), " "))));
  }
  if (word == "version" || word == "--version") return text_command("ulnetctl " + env.version + "\n");
  if (word == "list-commands" || word == "--list-commands") return text_command(command_list());
  return std::nullopt;
}

/// The words after the name of the command; nothing if `words` name another command.
std::optional<std::span<const std::string>> arguments_of(const CommandSpec& spec, std::span<const std::string> words) {
  std::string_view name = spec.name;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find(' '));
    if (words.empty() || words[0] != word) return std::nullopt;
    words = words.subspan(1);
    name.remove_prefix(std::min(name.size(), word.size() + 1));
  }
  return words;
}

Exit usage_error(std::string what, const std::string& usage) {
  return {{}, fmt::format("ulnetctl: {}\n{}", what, usage), 1};
}

}  // namespace

std::span<const CommandSpec> commands() {
  return kCommands;
}

std::string command_list() {
  std::vector<std::string> words(kOtherWords.begin(), kOtherWords.end());
  for (const CommandSpec& spec : kCommands) {
    if (words.back() != spec.group) words.emplace_back(spec.group);
  }
  std::string out;
  for (size_t i = 0; i < words.size(); ++i)
    out += fmt::format("{:<20}{}", words[i], i % 4 == 3 || i + 1 == words.size() ? "\n" : "");
  return out;
}

std::string help_text(std::string_view group, std::string_view name) {
  std::string out;
  for (const CommandSpec& spec : kCommands) {
    const std::string_view own = spec.name;
    const bool wanted = name.empty() || own.empty() || own == name || own.starts_with(fmt::format("{} ", name));
    if (spec.group != group || !wanted) continue;
    out += out.empty() ? "" : "\n";
    out += help_one(spec);
  }
  return out.empty() ? fmt::format("no command '{}'\n{}", group, kUsage) : out;
}

Built command_build(std::span<const std::string> words, const Env& env) {
  if (words.empty()) return text_command(kUsage);
  if (auto other = other_word(words, env)) return std::move(*other);
  const std::string& group = words[0];
  if (!group_known(group)) return tl::unexpected(usage_error(fmt::format("unknown command '{}'", group), kUsage));
  auto rest = words.subspan(1);
  for (const CommandSpec& spec : kCommands) {
    if (spec.group != group) continue;
    const auto arguments = arguments_of(spec, rest);
    if (!arguments) continue;
    for (const std::string& word : *arguments) {
      if (word == "--help" || word == "-h") return text_command(help_one(spec), spec.help_status);
    }
    auto parsed = words_parse(*arguments, spec.options);
    if (!parsed) return tl::unexpected(usage_error(parsed.error(), help_one(spec)));
    if (spec.arguments[0] == 0 && !parsed->plain.empty()) {
      return tl::unexpected(usage_error(fmt::format("unexpected word '{}'", parsed->plain[0]), help_one(spec)));
    }
    return spec.build(*parsed, env);
  }
  std::string help = help_text(group, "");
  const auto within = [&](const CommandSpec& spec) {  // "selection net", with the rest of the name missing
    return spec.group == group && !rest.empty() && std::string_view(spec.name).starts_with(rest[0] + " ");
  };
  if (std::any_of(std::begin(kCommands), std::end(kCommands), within)) {
    help = help_text(group, rest[0]);
    rest = rest.subspan(1);
  }
  if (rest.empty()) return tl::unexpected(Exit{{}, help, 1});
  if (rest[0] == "--help" || rest[0] == "-h") return text_command(help, 1);
  return tl::unexpected(usage_error(fmt::format("unknown command '{} {}'", group, rest[0]), help));
}

}  // namespace ulnet::ctl
