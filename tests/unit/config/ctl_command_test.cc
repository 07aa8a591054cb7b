// Command lines to requests, without a daemon: the request of each, and the full message of those that must fail.
#include <set>

#include "config/ranges.h"
#include "config/schema.h"
#include "control/api/error_yaml.h"
#include "dataplane/base/nid_text.h"
#include "tests/unit/config/golden.h"
#include "tools/ulnetctl/run.h"

namespace ulnet::ctl {
namespace {

Built build(const std::string& line, const Env& env = {}) {
  return command_build(*line_split(line), env);
}

/// The requests as JSON, one to a line, without ids.
std::string requests_of(const std::string& line, const Env& env = {}) {
  Built built = build(line, env);
  if (!built) return "refused: " + api::error_yaml_classic(built.error().errors) + built.error().usage;
  std::string out;
  for (const api::Request& request : built->requests) {
    config::Json json = request_to_json(request);
    json.erase("id");
    out += config::json_dump(json) + "\n";
  }
  return out;
}

/// "STATUS verb/entity ERRNO descr" of a command that must fail.
std::string refusal_of(const std::string& line, const Env& env = {}) {
  Built built = build(line, env);
  if (built) return "not refused";
  std::string out = std::to_string(built.error().exit_status);
  for (const api::ApiError& error : built.error().errors) {
    out += " " + error.verb + "/" + error.entity + " " + std::to_string(error.code) + " " + error.descr;
  }
  return out + (built.error().usage.empty()
                    ? ""
                    : " usage: " + built.error().usage.substr(0, built.error().usage.find('\n')));
}

std::string changes(const std::string& list) {
  return "{\"verb\":\"change\",\"changes\":[" + list + "]}\n";
}

std::string ni(const std::string& head,
               const std::string& tail =
                   "\"tunables\":{\"peer_timeout\":180,\"peer_credits\":8,\"peer_buffer_credits\":0,"
                   "\"credits\":256},\"lnd_tunables\":{},\"skip_mr_route_setup\":false") {
  return "\"ni\":{" + head + tail + "}}";
}

TEST(CtlCommand, lnet_and_net) {
  EXPECT_EQ(requests_of("lnet configure"), changes(R"({"change":"lnet_configure","all":false,"large":false})"));
  EXPECT_EQ(requests_of("lnet configure -a --large"),
            changes(R"({"change":"lnet_configure","all":true,"large":true})"));
  EXPECT_EQ(requests_of("lnet unconfigure"), changes(R"({"change":"lnet_unconfigure"})"));
  EXPECT_EQ(requests_of("net add --net tcp1 --if eth0[0,2],eth1 --cpt [1]"),
            changes(R"({"change":"net_add","net":"tcp1",)" + ni(R"("interface":"eth0","cpts":[0,2],)") +
                    R"(,{"change":"net_add","net":"tcp1",)" + ni(R"("interface":"eth1","cpts":[1],)")));
  EXPECT_EQ(requests_of("net add --nid 10.0.0.[1-2]@tcp"),
            changes(R"({"change":"net_add","net":"tcp",)" + ni(R"("nid":"10.0.0.1@tcp",)") +
                    R"(,{"change":"net_add","net":"tcp",)" + ni(R"("nid":"10.0.0.2@tcp",)")));
  EXPECT_EQ(
      requests_of(
          "net add --net=o2ib --if ib0 --peer-timeout 0x10 --peer_credits 32 --peer-buffer-credits 64 --credits 1024 "
          "--conns-per-peer 4 --tos -1 --skip-mr-route-setup"),
      changes(R"({"change":"net_add","net":"o2ib",)" +
              ni(R"("interface":"ib0",)",
                 R"("tunables":{"peer_timeout":16,"peer_credits":32,"peer_buffer_credits":64,"credits":1024},)"
                 R"("lnd_tunables":{"conns_per_peer":4,"tos":-1},"skip_mr_route_setup":true)")));
  EXPECT_EQ(requests_of("net add --ip2net 'tcp(eth0) 192.168.0.*; o2ib 10.[1-3].*.* 10.9.0.1'"),
            changes(R"({"change":"net_add_matching","rule":{"net":"tcp",)"
                    R"("interfaces":[{"name":"eth0"}],"patterns":["192.168.0.*"],)" +
                    ni("") + "}," +
                    R"({"change":"net_add_matching","rule":{"net":"o2ib",)"
                    R"("patterns":["10.[1-3].*.*","10.9.0.1"],)" +
                    ni("") + "}"));
  EXPECT_EQ(requests_of("net del --net tcp"), changes(R"({"change":"net_del","net":"tcp","now":false})"));
  EXPECT_EQ(requests_of("net del --net tcp --if eth0,eth1 --now"),
            changes(R"({"change":"net_del","net":"tcp","interface":"eth0","now":true},)"
                    R"({"change":"net_del","net":"tcp","interface":"eth1","now":true})"));
  EXPECT_EQ(requests_of("net del --nid 10.0.0.1@tcp1"),
            changes(R"({"change":"net_del","net":"tcp1","nid":"10.0.0.1@tcp1","now":false})"));
  EXPECT_EQ(requests_of("net show"), "{\"verb\":\"show\",\"object\":\"net\",\"args\":{\"verbose\":0}}\n");
  EXPECT_EQ(requests_of("net set --nid 10.0.0.1@tcp --health 500"),
            changes(R"({"change":"net_set","nid":"10.0.0.1@tcp","all":false,"health":500})"));
  EXPECT_EQ(requests_of("net set --net tcp --lnd-timeout 9"),
            changes(R"({"change":"net_set","net":"tcp","all":false,"lnd_timeout":9})"));
}

TEST(CtlCommand, verbosity_has_an_optional_value) {
  const std::vector<std::pair<const char*, int>> cases = {
      {"net show -v", 1},          {"net show -v 4", 4},     {"net show -v4", 4},         {"net show --verbose", 1},
      {"net show --verbose=2", 2}, {"net show --verb 3", 3}, {"net show -v --net tcp", 1}};
  for (const auto& [line, level] : cases)
    EXPECT_EQ(build(line)->requests.at(0).arg_integer("verbose", -1), level) << line;
  EXPECT_EQ(refusal_of("net show -v 5"), "234 show/net -22 --verbose: '5' is not a level; allowed: 0..4");
}

TEST(CtlCommand, routes) {
  EXPECT_EQ(requests_of("route add --net tcp[2-3] --gateway 10.1.1.[1-2]@tcp --hop 3 --priority 1"),
            changes(R"({"change":"route_add","route":{"net":"tcp2","gateway":"10.1.1.1@tcp","hop":3,"priority":1}},)"
                    R"({"change":"route_add","route":{"net":"tcp2","gateway":"10.1.1.2@tcp","hop":3,"priority":1}},)"
                    R"({"change":"route_add","route":{"net":"tcp3","gateway":"10.1.1.1@tcp","hop":3,"priority":1}},)"
                    R"({"change":"route_add","route":{"net":"tcp3","gateway":"10.1.1.2@tcp","hop":3,"priority":1}})"));
  EXPECT_EQ(requests_of("route add --net tcp2 --gateway 10.1.1.1@tcp --health_sensitivity 5"),
            changes(R"({"change":"route_add","route":{"net":"tcp2","gateway":"10.1.1.1@tcp","hop":-1,"priority":0}})"));
  EXPECT_EQ(requests_of("route del --net tcp2 --gateway 10.1.1.1@tcp"),
            changes(R"({"change":"route_del","net":"tcp2","gateway":"10.1.1.1@tcp"})"));
  EXPECT_EQ(requests_of("route show --net tcp2 --gateway 10.1.1.1@tcp --hop-count 2 --priority 0 -v"),
            "{\"verb\":\"show\",\"object\":\"route\",\"args\":{\"verbose\":1,\"net\":\"tcp2\",\"gateway\":\"10.1.1.1@"
            "tcp\",\"hop\":2,\"priority\":0}}\n");
  EXPECT_EQ(requests_of("routing show"), "{\"verb\":\"show\",\"object\":\"routing\"}\n");
}

TEST(CtlCommand, settings_and_shows) {
  EXPECT_EQ(requests_of("set routing 1"), changes(R"({"change":"set_routing","enable":true})"));
  EXPECT_EQ(requests_of("set tiny_buffers 512"), changes(R"({"change":"set_buffers","tiny":512})"));
  EXPECT_EQ(requests_of("set discovery verify"), changes(R"({"change":"set_value","name":"discovery","value":2})"));
  EXPECT_EQ(requests_of("set max_intf 8"), changes(R"({"change":"set_value","name":"max_interfaces","value":8})"));
  EXPECT_EQ(build("set max_intf 8")->warnings, "warning: max_interfaces below 16 becomes 4096\n");
  EXPECT_EQ(build("set use_tcp_bonding 1")->warnings,
            "warning: use_tcp_bonding has no effect; configure several NIs on the net instead of bonding\n");
  EXPECT_EQ(requests_of("global show") + requests_of("stats show") + requests_of("stats reset"),
            "{\"verb\":\"show\",\"object\":\"global\"}\n{\"verb\":\"show\",\"object\":\"stats\"}\n{\"verb\":\"reset\","
            "\"object\":\"stats\"}\n");
  EXPECT_EQ(requests_of("stats show -v2"), "{\"verb\":\"show\",\"object\":\"stats\",\"args\":{\"verbose\":2}}\n");
  EXPECT_EQ(requests_of("udsp add --src tcp1 --priority 3 --idx 0"),
            changes(R"({"change":"udsp_add","rule":{"idx":0,"src":"tcp1","priority":3}})"));
  EXPECT_EQ(requests_of("udsp add --dst 10.0.0.[1-2]@tcp"),
            changes(R"({"change":"udsp_add","rule":{"dst":"10.0.0.[1-2]@tcp","priority":0}})"));
  EXPECT_EQ(requests_of("udsp del --all"), changes(R"({"change":"udsp_del","all":true,"either_end":false})"));
  EXPECT_EQ(requests_of("udsp del --idx -1"),
            changes(R"({"change":"udsp_del","idx":-1,"all":false,"either_end":false})"));
  // Every setting that there is can be set, and help says so.
  for (const std::string& name : config::field_children("global")) {
    const config::Field* field = config::field_find("global." + name);
    if (field->at == nullptr) continue;
    EXPECT_TRUE(build("set " + name + " " + config::field_default(*field)).has_value()) << name;
    EXPECT_NE(help_text("set", "").find(name), std::string::npos) << name;
  }
}

// The commands of the documents (docs/wire/lnetctl.md §4), literally.
TEST(CtlCommand, policy_and_selection) {
  EXPECT_EQ(requests_of("policy add --src *@o2ib1 --priority 0"),
            changes(R"({"change":"udsp_add","rule":{"src":"*@o2ib1","priority":0}})"));
  EXPECT_EQ(requests_of("policy add --src 10.10.10.2@o2ib1 --priority 1"),
            changes(R"({"change":"udsp_add","rule":{"src":"10.10.10.2@o2ib1","priority":1}})"));
  EXPECT_EQ(
      requests_of("policy add --src 10.10.10.2@o2ib1 --dst 10.10.10.4@o2ib1 --priority 1"),
      changes(R"({"change":"udsp_add","rule":{"src":"10.10.10.2@o2ib1","dst":"10.10.10.4@o2ib1","priority":1}})"));
  EXPECT_EQ(
      requests_of("policy add --dst 10.10.10.2@o2ib3 --rte 10.10.10.[5-8]@o2ib --priority 0"),
      changes(R"({"change":"udsp_add","rule":{"dst":"10.10.10.2@o2ib3","rte":"10.10.10.[5-8]@o2ib","priority":0}})"));
  EXPECT_EQ(requests_of("policy add --src tcp --dst tcp --idx 4"),
            changes(R"({"change":"udsp_add","rule":{"idx":4,"src":"tcp","dst":"tcp"}})"));
  EXPECT_EQ(requests_of("policy add --rte 10.1.1.1@tcp"),
            changes(R"({"change":"udsp_add","rule":{"rte":"10.1.1.1@tcp"}})"));
  EXPECT_EQ(requests_of("policy show --idx 3"), "{\"verb\":\"show\",\"object\":\"udsp\",\"args\":{\"idx\":3}}\n");
  EXPECT_EQ(requests_of("policy del --idx 3"),
            changes(R"({"change":"udsp_del","idx":3,"all":false,"either_end":false})"));
  EXPECT_EQ(requests_of("policy del --all"), changes(R"({"change":"udsp_del","all":true,"either_end":false})"));
  EXPECT_EQ(requests_of("policy del --src tcp --dst o2ib"),
            changes(R"({"change":"udsp_del","all":false,"rule":{"src":"tcp","dst":"o2ib"},"either_end":false})"));
  EXPECT_EQ(requests_of("policy del --idx 0 --src tcp"),
            changes(R"({"change":"udsp_del","idx":0,"all":false,"rule":{"src":"tcp"},"either_end":false})"));

  EXPECT_EQ(requests_of("selection net add --net o2ib[1,2] --priority 3"),
            changes(R"({"change":"udsp_add","rule":{"src":"o2ib[1,2]","priority":3}})"));
  EXPECT_EQ(requests_of("selection nid add --nid 10.1.*.*@tcp --priority 3"),
            changes(R"({"change":"udsp_add","rule":{"src":"10.1.*.*@tcp","priority":3}},)"
                    R"({"change":"udsp_add","rule":{"dst":"10.1.*.*@tcp","priority":3}})"));
  EXPECT_EQ(requests_of("selection peer add --local 1.2.3.4@tcp --remote 1.2.3.5@tcp --priority 0"),
            changes(R"({"change":"udsp_add","rule":{"src":"1.2.3.4@tcp","dst":"1.2.3.5@tcp","priority":0}})"));
  EXPECT_EQ(requests_of("selection net del --net o2ib*"),
            changes(R"({"change":"udsp_del","all":false,"rule":{"src":"o2ib*"},"either_end":false})"));
  EXPECT_EQ(requests_of("selection net del --id 2"),
            changes(R"({"change":"udsp_del","idx":2,"all":false,"either_end":false})"));
  EXPECT_EQ(requests_of("selection nid del --nid 1.2.3.4@tcp --id 2"),
            changes(R"({"change":"udsp_del","idx":2,"all":false,"rule":{"src":"1.2.3.4@tcp"},"either_end":true})"));
  EXPECT_EQ(requests_of("selection peer del --local 1.2.3.4@tcp --remote 1.2.3.5@tcp"),
            changes(R"({"change":"udsp_del","all":false,"rule":{"src":"1.2.3.4@tcp","dst":"1.2.3.5@tcp"},)"
                    R"("either_end":false})"));
  Env env;
  env.load = [](const std::string& path, config::ImportMode mode) {
    return config::load_text("policy:\n  - src: tcp\nselection:\n  - type: net\n", path, mode);
  };
  EXPECT_EQ(requests_of("import --show f.yaml", env), "{\"verb\":\"show\",\"object\":\"udsp\"}\n");
  EXPECT_EQ(build("help selection nid add")->text, help_text("selection", "nid add"));
  EXPECT_EQ(build("selection nid -h")->text, help_text("selection", "nid"));
  EXPECT_EQ(
      help_text("selection", "nid add"),
      "selection nid add: give NIDs a priority, both local and of peers\n"
      "\t--nid: NIDs of this node and of peers: 10.1.1.[5-8]@o2ib\n\t--priority: 0 is the highest, 255 the lowest\n");
}

TEST(CtlCommand, peers_ping_and_discover) {
  EXPECT_EQ(requests_of("peer add --prim_nid 10.0.0.1@tcp --nid 10.0.0.1@tcp,10.0.1.[2-5/2]@tcp1 --non_mr --lock_prim"),
            changes(R"({"change":"peer_add","peer":{"primary":"10.0.0.1@tcp","nids":["10.0.1.2@tcp1","10.0.1.4@tcp1"],)"
                    R"("multi_rail":false,"lock_primary":true},"refresh":false,"primary_at":0})"));
  EXPECT_EQ(requests_of("peer add --nid 10.0.0.1@tcp,10.0.0.2@tcp"),
            changes(R"({"change":"peer_add","peer":{"primary":"10.0.0.1@tcp","nids":["10.0.0.2@tcp"],)"
                    R"("multi_rail":true,"lock_primary":false},"refresh":false,"primary_at":0})"));
  EXPECT_EQ(requests_of("peer del --prim_nid 10.0.0.1@tcp --force"),
            changes(R"({"change":"peer_del","primary":"10.0.0.1@tcp","force":true})"));
  EXPECT_EQ(requests_of("peer del --prim_nid 10.0.0.1@tcp --nid 10.0.0.2@tcp,10.0.0.1@tcp"),
            changes(R"({"change":"peer_del","primary":"10.0.0.1@tcp","force":false})"));
  EXPECT_EQ(requests_of("peer show --nid 10.0.0.1@tcp -v 2"),
            "{\"verb\":\"show\",\"object\":\"peer\",\"args\":{\"verbose\":2,\"nid\":\"10.0.0.1@tcp\"}}\n");
  EXPECT_EQ(requests_of("peer list"), "{\"verb\":\"show\",\"object\":\"peer_list\"}\n");
  EXPECT_EQ(requests_of("peer set --all --health 1000"), changes(R"({"change":"peer_set","all":true,"health":1000})"));
  EXPECT_EQ(requests_of("ping 10.0.0.1 10.0.0.[2-3]@tcp1,10.0.0.9@tcp --timeout 2 --source 10.0.0.8@tcp"),
            "{\"verb\":\"manage\",\"object\":\"ping\",\"args\":{\"nids\":[\"10.0.0.1@tcp\",\"10.0.0.2@tcp1\",\"10.0.0."
            "3@tcp1\",\"10.0.0.9@tcp\"],"
            "\"timeout_ms\":2000,\"source\":\"10.0.0.8@tcp\"}}\n");
  EXPECT_EQ(build("ping 10.0.0.[1-4] --timeout 2")->timeout, std::chrono::seconds(38));
  EXPECT_EQ(requests_of("discover -f 10.0.0.1@tcp"),
            "{\"verb\":\"manage\",\"object\":\"discover\",\"args\":{\"nids\":[\"10.0.0.1@tcp\"],\"force\":true}}\n");
}

TEST(CtlCommand, ports_and_captures) {
  EXPECT_EQ(requests_of("port show -n rail0 -v 2"),
            "{\"verb\":\"show\",\"object\":\"port\",\"args\":{\"verbose\":2,\"name\":\"rail0\"}}\n");
  EXPECT_EQ(requests_of("port reset --name rail0"),
            "{\"verb\":\"manage\",\"object\":\"port_reset\",\"args\":{\"name\":\"rail0\"}}\n");
  EXPECT_EQ(requests_of("capture --if rail0 -f 'udp port 4791' -o - --size 2 --seconds 5"),
            "{\"verb\":\"manage\",\"object\":\"capture\",\"args\":{\"if\":\"rail0\",\"filter\":\"udp port 4791\","
            "\"seconds\":5,\"size\":2097152}}\n");
  const Built built = build("capture --if rail0 --output a.pcapng");
  EXPECT_TRUE(built->pcapng);
  EXPECT_EQ(built->output_file, "a.pcapng");
  EXPECT_EQ(build("capture --if rail0 --output -")->output_file, "");
  EXPECT_EQ(refusal_of("capture --output -"), "255 manage/capture -22 missing --if: the port as `port show` names it");
  EXPECT_EQ(refusal_of("capture --if rail0"),
            "255 manage/capture -22 missing --output: a file, or - for standard output");
  EXPECT_EQ(refusal_of("capture --if rail0 -o - --snap 9"), "255 manage/capture -22 --snap: '9'; allowed: 22 to 65536");
  EXPECT_EQ(refusal_of("port reset"), "255 manage/port_reset -22 missing --name: the port as `port show` names it");
}

TEST(CtlCommand, a_watch_has_no_end_by_itself) {
  EXPECT_EQ(requests_of("watch --kind ni,route --nid 10.0.0.[1-2]@tcp"),
            "{\"verb\":\"manage\",\"object\":\"watch\",\"args\":{\"kinds\":\"ni,route\",\"nids\":[\"10.0.0.1@tcp\","
            "\"10.0.0.2@tcp\"]}}\n");
  const Built built = build("watch");
  EXPECT_TRUE(built->lines);
  EXPECT_EQ(built->timeout, std::chrono::milliseconds(0));
  EXPECT_TRUE(refusal_of("watch --nid nonsense").starts_with("255 manage/watch -22 --nid: "));
}

// Goal: each command of lnetctl is there: it works, says why it is not needed, or is refused above.
TEST(CtlCommand, the_rest_of_lnetctl) {
  EXPECT_EQ(build("service-id")->text, "service_id:\n    value: 0xdb03060100000000\n");
  EXPECT_EQ(build("debug nidlist 10.0.0.[1-2]@tcp,10.0.0.9@tcp1")->text, "10.0.0.1@tcp\n10.0.0.2@tcp\n10.0.0.9@tcp1\n");
  EXPECT_EQ(requests_of("debug peer --nid 10.0.0.1@tcp"), requests_of("peer show --nid 10.0.0.1@tcp -v 4"));
  EXPECT_EQ(requests_of("explain 10.0.0.2@tcp"),
            "{\"verb\":\"show\",\"object\":\"explain\",\"args\":{\"nid\":\"10.0.0.2@tcp\"}}\n");
  EXPECT_EQ(
      requests_of("explain 10.0.0.2@tcp --from 10.0.0.1@tcp --size 4096 --numa 1 --count 10 --forward --worker 3"),
      "{\"verb\":\"show\",\"object\":\"explain\",\"args\":{\"nid\":\"10.0.0.2@tcp\",\"from\":\"10.0.0.1@tcp\","
      "\"size\":4096,\"numa\":1,\"count\":10,\"worker\":3,\"forward\":true}}\n");
  EXPECT_EQ(requests_of("udsp add --src tcp1 --dry-run"),
            "{\"verb\":\"change\",\"changes\":[{\"change\":\"udsp_add\",\"rule\":{\"src\":\"tcp1\",\"priority\":0}}],"
            "\"args\":{\"dry_run\":true}}\n");
  EXPECT_EQ(requests_of("policy del --idx 2 --dry-run"),
            "{\"verb\":\"change\",\"changes\":[{\"change\":\"udsp_del\",\"idx\":2,\"all\":false,\"either_end\":false}],"
            "\"args\":{\"dry_run\":true}}\n");
  EXPECT_EQ(requests_of("cpt-of-nid 10.0.0.[1-2]@tcp"),
            "{\"verb\":\"show\",\"object\":\"cpt_of_nid\",\"args\":{\"nids\":[\"10.0.0.1@tcp\",\"10.0.0.2@tcp\"]}}\n");
  EXPECT_EQ(requests_of("peer add --prim_nid 10.0.0.1@tcp --ip2nets 10.0.1.[2-3]@tcp"),
            requests_of("peer add --prim_nid 10.0.0.1@tcp --nid 10.0.1.[2-3]@tcp"));
  for (const char* line : {"setup-mrrouting", "setup-sysctl"}) {
    EXPECT_TRUE(build(line)->warnings.starts_with("warning: nothing to do: ")) << line;
    EXPECT_EQ(build(line)->exit_status, 0) << line;
  }
  EXPECT_EQ(build("route add --net tcp2 --gateway 10.1.1.1@tcp --health_sensitivity 5")->warnings,
            "warning: --health-sensitivity has no effect: `set router_sensitivity` is for all gateways\n");
}

// Goal: the text forms of module parameters become YAML that imports as what they say.
TEST(CtlCommand, module_parameters_are_converted) {
  const std::string yaml =
      build(
          "convert --networks 'o2ib(ib0[2],ib1)[4,6],tcp(eth0),lo' --routes 'tcp1 2 10.0.0.[1-2]@tcp:1 "
          "fd00::1@tcp # far; o2ib7 10.0.0.9@tcp'")
          ->text;
  const config::Imported imported = config::load_text(yaml, "f");
  EXPECT_EQ(config::texts_of(imported.errors), "") << yaml;
  std::string text;
  for (const config::PlacedChange& one : imported.changes) {
    if (const auto* add = std::get_if<config::NetAdd>(&one.change))
      text += net_text(add->net) + " " + config::interface_text({add->ni.interface, add->ni.cpts}) + "\n";
    if (const auto* add = std::get_if<config::RouteAdd>(&one.change))
      text += net_text(add->route.net) + " " + nid_text(add->route.gateway) + " " + std::to_string(add->route.hop) +
              " " + std::to_string(add->route.priority) + "\n";
  }
  EXPECT_EQ(text,
            "o2ib ib0[2]\no2ib ib1[4,6]\ntcp eth0\ntcp1 10.0.0.1@tcp 2 1\ntcp1 10.0.0.2@tcp 2 1\n"
            "tcp1 fd00::1@tcp 2 0\n");
  EXPECT_EQ(build("convert --ip2nets 'tcp(eth0,eth1) 192.168.0.[2-8/2]; o2ib 10.[1-3].*.* 10.9.0.1'")->text,
            "ip2nets:\n    - net-spec: tcp\n      interfaces:\n          0: eth0\n          1: eth1\n"
            "      ip-range:\n          0: 192.168.0.[2-8/2]\n    - net-spec: o2ib\n      ip-range:\n"
            "          0: 10.[1-3].*.*\n          1: 10.9.0.1\n");
}

TEST(CtlCommand, import_and_export) {
  std::string asked;
  Env env;
  env.load = [&](const std::string& path, config::ImportMode mode) {
    asked = path;
    return config::load_text(
        "net:\n  - net type: tcp\n    local NI(s):\n      - interfaces: {0: eth0}\n    seq_no: 3\nglobal: "
        "{retry_count: 1}\n"
        "routing: {enable: 1}\nbuffers: {tiny: 1}\nping: {nids: [10.0.0.1@tcp]}\n",
        path, mode);
  };
  std::string net = R"({"change":"net_add","net":"tcp",)" + ni("\"interface\":\"eth0\",");
  net.pop_back();  // the place follows
  EXPECT_EQ(
      requests_of("import f.yaml", env),
      changes(net + R"(,"file":"f.yaml","line":4,"column":9,"seq_no":3},)"
                    R"({"change":"set_value","name":"retry_count","value":1,"file":"f.yaml","line":6,"column":23},)"
                    R"({"change":"set_routing","enable":true,"file":"f.yaml","line":7,"column":19},)"
                    R"({"change":"set_buffers","tiny":1,"file":"f.yaml","line":8,"column":10})"));
  EXPECT_EQ(requests_of("import --show f.yaml", env),
            "{\"verb\":\"show\",\"object\":\"net\"}\n"
            "{\"verb\":\"show\",\"object\":\"global\"}\n{\"verb\":\"show\",\"object\":\"routing\"}\n");
  EXPECT_EQ(requests_of("import --exec", env),
            "{\"verb\":\"manage\",\"object\":\"ping\",\"args\":{\"nids\":[\"10.0.0.1@tcp\"],\"timeout_ms\":1000}}\n");
  EXPECT_EQ(asked, "-");
  EXPECT_EQ(requests_of("export"), "{\"verb\":\"show\",\"object\":\"export\",\"args\":{\"backup\":false}}\n");
  EXPECT_EQ(build("export --backup /tmp/x")->output_file, "/tmp/x");
  env.load = [](const std::string& path, config::ImportMode mode) {
    return config::load_text("net:\n  - net type: tpc\n    seq_no: 4\nroute: 7\n", path, mode);
  };
  EXPECT_EQ(api::error_yaml(build("import f.yaml", env).error().errors),
            "---\n"
            "add:\n"
            "-     net:\n"
            "      seq_no: 4\n"
            "      errno: -2\n"
            "      descr: ! \"f.yaml:2:15: net[0].net type: 'tpc' cannot parse net; allowed: a network such as tcp, "
            "tcp1 or o2ib3\"\n"
            "-     route:\n"
            "      errno: -22\n"
            "      descr: ! \"f.yaml:4:8: route: '7' is a number; allowed: a list\"\n"
            "...\n");
}

// Command lines that must fail, with their messages.
const std::vector<std::pair<const char*, const char*>> kRefusals = {
    {"net add",
     "234 add/net -22 missing mandatory parameter: network: give one of --net with --if, --nid, or --ip2net"},
    {"net add --net tcp --nid 1.2.3.4@tcp",
     "234 add/net -22 missing mandatory parameter: network: give one of --net with --if, --nid, or --ip2net"},
    {"net add --net tcp",
     "234 add/net -22 interface / NID is missing: creating a local NI needs at least one interface; give --if eth0"},
    {"net add --net tpc --if eth0",
     "234 add/net -2 cannot parse net: 'tpc'; allowed: a network such as tcp, tcp1 or o2ib3"},
    {"net add --net lo --if eth0", "234 add/net -19 setting @lo not allowed: lo always exists"},
    {"net add --net tcp --if eth0 --credits many",
     "234 add/net -22 --credits: 'many' is not a number; allowed: 1..1048576 messages"},
    {"net add --net tcp --if eth0 --conns-per-peer 128",
     "234 add/net -34 --conns-per-peer: '128' is out of range; allowed: 0..127 connections"},
    {"net add --net tcp --if eth0 --cpt x", "234 add/net -34 invalid CPT set: 'x' is not a list of CPTs such as [0,1]"},
    {"net add --net tcp --if eth0,,eth1", "234 add/net -22 --if: 'eth0,,eth1' has an empty element"},
    {"net add --ip2net tcp", "234 add/net -22 --ip2net: 'tcp' has no address pattern such as 192.168.0.*"},
    {"net add --ip2net 'tcp 1.2.3.999'", "234 add/net -22 '1.2.3.999' is not an address pattern such as 192.168.0.*"},
    {"net del --if eth0",
     "234 del/net -22 missing mandatory parameter: network: give --net, with --if for some of its interfaces, or "
     "--nid"},
    {"net set --health 5", "234 set/net -22 no NI is given: use --nid or --all"},
    {"net set --all --health 1001",
     "234 set/net -22 health value is out of range; allowed: 0..1000, or -1 for automatic"},
    {"net set --all", "234 set/net -22 nothing to set: give --health, --conns-per-peer or --lnd-timeout"},
    {"route add --net tcp1", "234 add/route -19 missing mandatory parameter: gateway: give --gateway"},
    {"route add --gateway 1.2.3.4@tcp", "234 add/route -19 missing mandatory parameter: network: give --net"},
    {"route add --net tpc --gateway 1.2.3.4@tcp",
     "234 add/route -19 cannot parse remote net: 'tpc' is not a network such as tcp, tcp1 or o2ib3"},
    {"route add --net lo --gateway 1.2.3.4@tcp", "234 add/route -13 setting @lo not allowed"},
    {"route add --net tcp1 --gateway 1.2.3.4@tcp --hop 256",
     "234 add/route -22 invalid hop count must be between 1 and 255: --hop 256"},
    {"route add --net tcp1 --gateway 1.2.3.4@tcp --hop abc",
     "234 add/route -22 invalid hop count: --hop 'abc' is not a number; allowed: 1..255"},
    {"route add --net tcp1 --gateway 1.2.3.4@tcp --priority abc",
     "234 add/route -22 invalid priority: --priority 'abc' is not a number; allowed: 0 or more"},
    {"route add --net tcp1 --gateway 1.2.3.4@tcp --priority -1",
     "234 add/route -22 invalid priority, must not be negative: --priority -1"},
    {"route add --net tcp[1-65] --gateway 1.2.3.[1-64]@tcp",
     "234 add/route -22 more than 4096 routes; give smaller ranges"},
    {"set routing 2", "234 parser/set -1 cannot parse routing value '2'.\nmust be 0 for disable or 1 for enable"},
    {"set tiny_buffers 0",
     "234 set/buffers -22 cannot configure tiny_buffers: '0': "
     "tiny, small and large must be > 0 (-1 keeps the number that is set)"},
    {"set large_buffers 99999999",
     "234 set/buffers -34 cannot configure large_buffers: '99999999' is too many; allowed: 1..1048576 buffers"},
    {"set response_tracking 4",
     "234 set/global -34 cannot configure response_tracking: '4': Valid values are: 0, 1, 2, or 3"},
    {"set numa_range -1", "234 set/global -34 cannot configure numa_range: '-1': allowed: 0 or more"},
    {"set retry 1",
     "234 set/global -22 cannot configure retry: there is no such setting; "
     "known: numa_range, max_interfaces, discovery, drop_asym_route, retry_count, transaction_timeout, "
     "health_sensitivity, recovery_interval, router_sensitivity, "
     "response_tracking, recovery_limit, max_recovery_ping_interval, routing, tiny_buffers, small_buffers, "
     "large_buffers"},
    {"set lnd_timeout 1",
     "234 set/global -22 cannot configure lnd_timeout: "
     "ulnet computes this value from transaction_timeout and retry_count; set one of these instead"},
    {"peer add --nid 1.2.3.4@nowhere",
     "234 add/peer -22 cannot parse NID: '1.2.3.4@nowhere' is not a NID such as 10.0.0.1@tcp"},
    {"peer add", "234 add/peer -14 missing primary NID: give --prim_nid"},
    {"peer add --prim_nid 1.2.3.4@tcp --nid 1.2.3.5@tcp,1.2.3.4@tcp,1.2.3.4@tcp",
     "234 add/peer -17 failed to add peer: 1.2.3.4@tcp is listed twice (index 1 and 2 of the NIDs)"},
    {"peer del --nid 1.2.3.4@tcp", "234 del/peer -14 missing primary NID: give --prim_nid"},
    {"ping", "255 manage/ping -22 missing NID: name at least one, such as 10.0.0.1@tcp"},
    {"ping x@y", "255 manage/ping -22 cannot parse NID: 'x@y' is not a NID such as 10.0.0.1@tcp"},
    {"ping x@y,1.2.3.[1-4 9@z",
     "255 manage/ping -22 cannot parse NID: 'x@y,1.2.3.[1-4' has a bracket that is not closed "
     "manage/ping -22 cannot parse NID: '9@z' is not a NID such as 10.0.0.1@tcp"},
    {"discover x@y", "255 manage/discover -22 cannot parse NID: 'x@y' is not a NID such as 10.0.0.1@tcp"},
    {"ping 1.2.3.4@tcp --timeout 0", "255 manage/ping -22 --timeout: '0' is not a time; allowed: 1..86400 s"},
    {"udsp add", "234 add/udsp -22 at least one of src, dst and rte is needed"},
    {"udsp add --src tcp --rte 1.2.3.4@tcp", "234 add/udsp -22 src and rte cannot be combined"},
    {"udsp add --src tcp --priority 256", "234 add/udsp -34 --priority: '256' is out of range; allowed: 0..255"},
    {"udsp add --src tcp --priority -1", "234 add/udsp -34 --priority: '-1' is out of range; allowed: 0..255"},
    {"udsp add --src 'garbage!!'",
     "234 add/udsp -22 src 'garbage!!', at character 1: 'garbage!!' is not a network such as tcp, tcp1 or o2ib3; "
     "allowed: a network such as tcp1, tcp[1-3] or o2ib*, or addresses on one such as *@tcp, 10.1.1.[5-8]@o2ib, "
     "10.1.0.0/16@tcp or fd00::/64@tcp"},
    {"fault drop add -d 10.0.0.1@tcp -r 1",
     "234 add/fault -22 missing mandatory parameter: --source, a NID such as 10.0.0.1@tcp, *@tcp for a network, or * "
     "for every NID"},
    {"fault delay add -s 10.0.0.1@tcp -r 1",
     "234 add/fault -22 missing mandatory parameter: --dest, a NID such as 10.0.0.1@tcp, *@tcp for a network, or * for "
     "every NID"},
    {"fault drop add -s x@y -d * -r 1",
     "234 add/fault -22 source: cannot parse 'x@y'; allowed: a NID such as 10.0.0.1@tcp, *@tcp for a network, or * for "
     "every NID"},
    {"fault drop add -s * -d *@y -r 1",
     "234 add/fault -22 dest: cannot parse '*@y'; allowed: a NID such as 10.0.0.1@tcp, *@tcp for a network, or * for "
     "every NID"},
    {"fault drop add -s * -d * -r 1 -o 10.0.0.[1-2]@tcp",
     "234 add/fault -22 local_nid: cannot parse '10.0.0.[1-2]@tcp'; allowed: a NID such as 10.0.0.1@tcp, *@tcp for a "
     "network, or * for every NID"},
    {"fault drop add -s * -d *", "234 add/fault -22 exactly one of 'rate', 'interval' and 'drop_all' is needed"},
    {"fault drop add -s * -d * -r 1 -i 1",
     "234 add/fault -22 exactly one of 'rate', 'interval' and 'drop_all' is needed"},
    {"fault drop add -s * -d * -r 1 -x",
     "234 add/fault -22 exactly one of 'rate', 'interval' and 'drop_all' is needed"},
    {"fault drop add -s * -d * -r 0", "234 add/fault -22 --rate: '0' is not a number that is allowed: 1..4294967295"},
    {"fault drop add -s * -d * -i 1s",
     "234 add/fault -22 --interval: '1s' is not a number that is allowed: 1..1000000 s"},
    {"fault drop add -s * -d * -r 2 -n",
     "234 add/fault -22 'random' needs 'interval', the mean of the random time in seconds"},
    {"fault drop add -s * -d * -r 1 -p 64", "234 add/fault -22 portal: '64' is not a portal; allowed: 0..63"},
    {"fault drop add -s * -d * -r 1 -p 1 -p x", "234 add/fault -22 portal: 'x' is not a portal; allowed: 0..63"},
    {"fault drop add -s * -d * -r 1 -p 1 -m ack",
     "234 add/fault -22 portal: only PUTs and GETs have a portal; leave 'portal' out, or add put or get to 'message'"},
    {"fault drop add -s * -d * -r 1 -m hello",
     "234 add/fault -22 message: 'hello' is not a type of messages; allowed: put, ack, get, reply"},
    {"fault drop add -s * -d * -r 1 -e lost",
     "234 add/fault -22 health_error: 'lost' is not a failure; allowed: local_interrupt, local_dropped, local_aborted, "
     "local_no_route, local_error, local_timeout, remote_error, remote_dropped, remote_timeout, network_timeout, "
     "random"},
    {"fault delay add -s * -d * -l 1", "234 add/fault -22 exactly one of 'rate' and 'interval' is needed"},
    {"fault delay add -s * -d * -r 1", "234 add/fault -22 'latency' is needed: the seconds that a message is delayed"},
    {"fault delay add -s * -d * -r 1 -l 0",
     "234 add/fault -22 --latency: '0' is not a number that is allowed: 1..1000000 s"},
    {"fault delay add -s * -d * -r 1 -l 1 -x", "1 usage: ulnetctl: unknown option '-x'"},
    {"fault drop add -s * -d * -r 1 -l 1", "1 usage: ulnetctl: unknown option '-l'"},
    {"fault drop del", "234 del/fault -22 either 'all' is needed, or 'source' and 'dest', or one of these two"},
    {"fault drop del -a -s *", "234 del/fault -22 either 'all' is needed, or 'source' and 'dest', or one of these two"},
    {"fault delay del -s garbage@",
     "234 del/fault -22 source: cannot parse 'garbage@'; allowed: a NID such as 10.0.0.1@tcp, *@tcp for a network, or "
     "* for every NID"},
    {"fault", "1 usage: fault drop add: add a rule that loses messages, or lets sends fail"},
    {"fault delay", "1 usage: fault delay add: add a rule that delays messages"},
    {"fault drop list", "1 usage: ulnetctl: unknown command 'fault list'"},
    {"policy add --src tcp --dst tcp --rte tcp",
     "234 add/udsp -22 The combination of src, dst and rte is not supported"},
    {"policy del", "234 del/udsp -22 one of 'idx', 'all' and the descriptors of a rule is needed"},
    {"policy del --src tcp --idx -1", "234 del/udsp -34 --idx: '-1' is out of range; allowed: 0 or more"},
    {"policy del --src tcp --all", "234 del/udsp -22 'all' does not go with 'idx' or with descriptors"},
    {"policy del --src tcp --rte tcp", "234 del/udsp -22 src and rte cannot be combined"},
    {"selection net add --net tcp", "234 add/selection -22 missing mandatory parameter: --priority, 0..255"},
    {"selection net add --priority 1", "234 add/selection -22 missing mandatory parameter: --net"},
    {"selection net add --net tcp --priority -1",
     "234 add/selection -34 --priority: '-1' is out of range; allowed: 0..255"},
    {"selection net add --net tcp --priority high",
     "234 add/selection -22 --priority: 'high' is not a number; allowed: 0..255"},
    {"selection net add --net 1.2.3.4@tcp --priority 1",
     "234 add/selection -22 --net: '1.2.3.4@tcp' is not a network; use 'selection nid' for NIDs"},
    {"selection nid add --nid *@tcp --priority 1",
     "234 add/selection -22 --nid: '*@tcp' is a network; use 'selection net', or *.*.*.*@tcp for all its NIDs"},
    {"selection nid del", "234 del/selection -22 missing mandatory parameter: --nid or --id"},
    {"selection nid del --id -1", "234 del/selection -34 --id: '-1' is out of range; allowed: 0 or more"},
    {"selection peer add --local 1.2.3.4@tcp --priority 1",
     "234 add/selection -22 missing mandatory parameter: --remote"},
    {"selection peer del --local 1.2.3.4@tcp --id 1",
     "234 del/selection -22 missing mandatory parameter: --local with --remote, or --id"},
    {"selection peer show --local lo",
     "234 show/selection -22 local 'lo', at character 1: 0@lo has no policies: it is the only way to the node itself; "
     "allowed: a network such as tcp1, tcp[1-3] or o2ib*, or addresses on one such as *@tcp, 10.1.1.[5-8]@o2ib, "
     "10.1.0.0/16@tcp or fd00::/64@tcp"},
    {"selection", "1 usage: selection net add: give local networks a priority"},
    {"selection peer", "1 usage: selection peer add: prefer local NIDs for NIDs of peers"},
    {"selection nid ad", "1 usage: ulnetctl: unknown command 'selection ad'"},
    {"selection nets add", "1 usage: ulnetctl: unknown command 'selection nets'"},
    {"debug nidlist 10.0.0.1@tcp,x@y",
     "234 parser/nidlist -22 Unable to parse nidlist from: 10.0.0.1@tcp,x@y: 'x@y' is not a NID such as 10.0.0.1@tcp"},
    {"debug peer", "234 show/peer -22 cannot parse NID: ''; example: --nid 10.0.0.1@tcp"},
    {"explain", "234 show/explain -22 name one destination, such as 'explain 10.0.0.2@tcp'"},
    {"explain x@y", "234 show/explain -22 cannot parse NID: 'x@y'; the destination is a NID such as 10.0.0.2@tcp"},
    {"explain 10.0.0.2@tcp --from x", "234 show/explain -22 --from: 'x' is not a NID such as 10.0.0.1@tcp"},
    {"explain 10.0.0.2@tcp --size 1048577",
     "234 show/explain -22 --size: '1048577' is not a number that is allowed: 0..1048576 B"},
    {"explain 10.0.0.2@tcp --count 0", "234 show/explain -22 --count: '0' is not a number that is allowed: 1..10000"},
    {"explain 10.0.0.2@tcp --worker x", "234 show/explain -22 --worker: 'x' is not a number that is allowed: 0..63"},
    {"cpt-of-nid x@y", "234 show/cpt-of-nid -22 cannot parse NID: 'x@y' is not a NID such as 10.0.0.1@tcp"},
    {"convert", "234 parser/convert -22 nothing to convert: give --networks, --ip2nets or --routes"},
    {"convert --networks tcp",
     "234 parser/convert -22 tcp names no interface, and ulnet does not choose one: write tcp(eth0)"},
    {"convert --networks tpc(eth0)",
     "234 parser/convert -22 'tpc(eth0)' does not begin with a network such as tcp, tcp1 or o2ib3"},
    {"convert --routes 'tcp1 0 10.0.0.1@tcp'", "234 parser/convert -22 '0' is not a hop count; allowed: 1..255"},
    {"convert --routes tcp1", "234 parser/convert -22 'tcp1' names no gateway such as 10.0.0.1@tcp"},
    {"convert --ip2nets 'tcp 1.2.3.999'",
     "234 parser/convert -22 '1.2.3.999' is not an address pattern such as 192.168.0.*"},
    {"udsp del", "234 del/udsp -22 either 'idx' or 'all' is needed"},
    {"import --add --del", "234 add/import -22 give only one of --add, --del, --show and --exec"},
    {"net show --bogus", "1 usage: ulnetctl: unknown option '--bogus'"},
    {"net add --peer 5", "1 usage: ulnetctl: option '--peer' may mean --peer-timeout or --peer-credits"},
    {"net add --net", "1 usage: ulnetctl: option --net needs a value"},
    {"lnet configure --all=1", "1 usage: ulnetctl: option --all takes no value"},
    {"net show tcp", "1 usage: ulnetctl: unexpected word 'tcp'"},
    {"net sho", "1 usage: ulnetctl: unknown command 'net sho'"},
    {"nett show", "1 usage: ulnetctl: unknown command 'nett'"},
    {"set routing", "1 usage: ulnetctl: set needs a name and a value"},
};

TEST(CtlCommand, faults) {
  EXPECT_EQ(requests_of("fault drop add -s *@tcp -d 10.0.0.1@tcp -r 1 -e remote_error"),
            "{\"verb\":\"manage\",\"object\":\"fault_add\",\"args\":{\"rule\":\"drop\",\"source\":\"*@tcp\","
            "\"dest\":\"10.0.0.1@tcp\",\"rate\":1,\"health_error\":\"remote_error\"}}\n");
  EXPECT_EQ(requests_of("fault drop add --source * --dest * --drop-all --portal 4 --portal 0x0a --message put -m get "
                        "--local-nid *@o2ib"),
            "{\"verb\":\"manage\",\"object\":\"fault_add\",\"args\":{\"rule\":\"drop\",\"source\":\"*\",\"dest\":"
            "\"*\",\"local_nid\":\"*@o2ib\",\"portal\":\"4,0x0a\",\"message\":\"put,get\",\"drop_all\":true}}\n");
  EXPECT_EQ(requests_of("fault delay add -s * -d * -i 2 -l 0x10"),
            "{\"verb\":\"manage\",\"object\":\"fault_add\",\"args\":{\"rule\":\"delay\",\"source\":\"*\",\"dest\":"
            "\"*\",\"interval\":2,\"latency\":16}}\n");
  EXPECT_EQ(requests_of("fault drop del -a") + requests_of("fault delay del -s * -d *@tcp"),
            "{\"verb\":\"manage\",\"object\":\"fault_del\",\"args\":{\"rule\":\"drop\",\"all\":true}}\n"
            "{\"verb\":\"manage\",\"object\":\"fault_del\",\"args\":{\"rule\":\"delay\",\"source\":\"*\",\"dest\":"
            "\"*@tcp\"}}\n");
  EXPECT_EQ(requests_of("fault drop reset") + requests_of("fault delay show"),
            "{\"verb\":\"reset\",\"object\":\"fault\",\"args\":{\"rule\":\"drop\"}}\n"
            "{\"verb\":\"show\",\"object\":\"fault\",\"args\":{\"rule\":\"delay\"}}\n");
}

TEST(CtlCommand, commands_that_must_fail_give_the_reason) {
  for (const auto& [line, refusal] : kRefusals) EXPECT_EQ(refusal_of(line), refusal) << line;
}

TEST(CtlCommand, help_as_lnetctl_has_it) {
  for (const CommandSpec& spec : commands()) {
    std::string line = std::string(spec.group) + " " + spec.name;
    Built built = build(line + " --help");
    ASSERT_TRUE(built.has_value()) << line;
    bool free = line == "import " || line == "export " || line == "ping " || line == "discover ";
    EXPECT_EQ(built->exit_status, free ? 0 : 1) << line;
    EXPECT_TRUE(built->text.starts_with(spec.name[0] == 0 ? spec.group : line)) << built->text;
    for (const OptionSpec& option : spec.options)
      EXPECT_NE(built->text.find(std::string("\t--") + option.name + ": "), std::string::npos) << option.name;
  }
  EXPECT_EQ(build("net --help")->text, help_text("net", ""));
  EXPECT_EQ(build("net").error().usage, help_text("net", ""));
}

TEST(CtlCommand, other_words) {
  Env env;
  env.version = "1.2";
  EXPECT_EQ(build("version", env)->text, "ulnetctl 1.2\n");
  EXPECT_EQ(build("--list-commands")->text,
            "quit                exit                help                --help              \n"
            "version             --version           list-commands       --list-commands     \n"
            "--ignore_errors     ignore_errors       lnet                route               \n"
            "net                 routing             set                 import              \n"
            "export              stats               debug               global              \n"
            "peer                ping                discover            service-id          \n"
            "udsp                policy              selection           explain             \n"
            "fault               setup-mrrouting     setup-sysctl        cpt-of-nid          \n"
            "port                convert             watch               capture             \n");
  EXPECT_EQ(build("help route add")->text, help_text("route", "add"));
}
}  // namespace
}  // namespace ulnet::ctl
