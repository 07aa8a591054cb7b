// The ranks of choose_path() over routers: route, gateway NI, final destination (docs/wire/lnet.md §6.5). As in
// ranks_test.cc, the winner of a row is the worse one in all criteria behind the one that decides.
#include <gtest/gtest.h>

#include "tests/unit/select/rig.h"

namespace ulnet::test {
namespace {

/// A GET or PUT to a peer behind routers.
constexpr Ask kRequest{.dst = "21@gni"};

/// This node is on tcp; each gateway has one NI there, 91@tcp and 92@tcp.
Row two_gateways(const char* why, std::vector<Preferred> preferred, PeerSpec first, PeerSpec second, RouteSpec by_first,
                 RouteSpec by_second) {
  by_first.net = by_second.net = "gni";
  by_first.gateway = "91@tcp";
  by_second.gateway = "92@tcp";
  return {.why = why,
          .nis = {{.nid = "1@tcp"}},
          .peers = {multi_rail({{.nid = "21@gni", .preferred_gateways = std::move(preferred)}}), std::move(first),
                    std::move(second)},
          .routes = {by_first, by_second},
          .ask = kRequest,
          .expect = "1@tcp > 92@tcp > 21@gni"};
}

// Goal: the route is chosen by the criteria of docs/wire/lnet.md §6.5 (3), in order.
// Method: two routes to the destination's net; the one over 92@tcp wins in each row.
TEST(SelectRoutes, route) {
  const PeerSpec good = gateway({{.nid = "91@tcp", .credits = 9}});
  check({
      two_gateways("a gateway that the destination prefers goes before all else", {"192@kfi"}, good,
                   gateway({{.nid = "192@kfi"}, {.nid = "92@tcp", .health = 0, .queued_kib = 9, .credits = -9}}),
                   {.priority = 1, .hops = 1, .used = 1}, {.priority = 2, .hops = 2, .used = 9}),
      two_gateways("both preferred: the rank in the list, lower first", {{"91@tcp", 2}, {"92@tcp", 1}}, good,
                   gateway({{.nid = "92@tcp", .health = 0, .queued_kib = 9, .credits = -9}}),
                   {.priority = 1, .hops = 1, .used = 1}, {.priority = 2, .hops = 2, .used = 9}),
      two_gateways("both preferred alike: the priority of the route, lower first", {"91@tcp", "92@tcp"}, good,
                   gateway({{.nid = "92@tcp", .health = 0, .queued_kib = 9, .credits = -9}}),
                   {.priority = 2, .hops = 1, .used = 1}, {.priority = 1, .hops = 2, .used = 9}),
      two_gateways("priorities equal: fewer hops", {}, good,
                   gateway({{.nid = "92@tcp", .health = 0, .queued_kib = 9, .credits = -9}}),
                   {.priority = 5, .hops = 3, .used = 1}, {.priority = 5, .hops = 2, .used = 9}),
      two_gateways("hops that are not given are fewer than two", {}, good, gateway({{.nid = "92@tcp", .health = 0}}),
                   {.hops = 2}, {.hops = -1}),
      two_gateways("hops that are not given are as many as one: health of the gateway's NI, higher first", {},
                   gateway({{.nid = "91@tcp", .health = 800, .credits = 9}}),
                   gateway({{.nid = "92@tcp", .health = 801, .queued_kib = 9, .credits = -9}}), {.hops = -1, .used = 1},
                   {.hops = 1, .used = 9}),
      two_gateways("the same, the other way round", {}, gateway({{.nid = "91@tcp", .health = 800, .credits = 9}}),
                   gateway({{.nid = "92@tcp", .health = 801, .queued_kib = 9, .credits = -9}}), {.hops = 1, .used = 1},
                   {.hops = -1, .used = 9}),
      two_gateways("as many hops: health of the gateway's NI, higher first", {},
                   gateway({{.nid = "91@tcp", .health = 800, .credits = 9}}),
                   gateway({{.nid = "92@tcp", .health = 801, .queued_kib = 9, .credits = -9}}),
                   {.priority = 5, .hops = 2, .used = 1}, {.priority = 5, .hops = 2, .used = 9}),
      two_gateways("as healthy: fewer bytes on their way to it", {},
                   gateway({{.nid = "91@tcp", .health = 700, .queued_kib = 6, .credits = 9}}),
                   gateway({{.nid = "92@tcp", .health = 700, .queued_kib = 5, .credits = -9}}),
                   {.priority = 5, .hops = 2, .used = 1}, {.priority = 5, .hops = 2, .used = 9}),
      two_gateways("as many bytes: free credits, more first", {},
                   gateway({{.nid = "91@tcp", .health = 700, .queued_kib = 5, .credits = 4}}),
                   gateway({{.nid = "92@tcp", .health = 700, .queued_kib = 5, .credits = 5}}),
                   {.priority = 5, .hops = 2, .used = 1}, {.priority = 5, .hops = 2, .used = 9}),
      two_gateways("credits: one message that waits goes before two", {}, gateway({{.nid = "91@tcp", .credits = -2}}),
                   gateway({{.nid = "92@tcp", .credits = -1}}), {.used = 1}, {.used = 9}),
      two_gateways("credits: none goes before a message that waits", {}, gateway({{.nid = "91@tcp", .credits = -1}}),
                   gateway({{.nid = "92@tcp", .credits = 0}}), {.used = 1}, {.used = 9}),
      two_gateways("as many credits: the route that was used longer ago", {},
                   gateway({{.nid = "91@tcp", .health = 700, .queued_kib = 5, .credits = 4, .used = 1}}),
                   gateway({{.nid = "92@tcp", .health = 700, .queued_kib = 5, .credits = 4, .used = 9}}),
                   {.priority = 5, .hops = 2, .used = 9}, {.priority = 5, .hops = 2, .used = 8}),
      two_gateways("a dead route does not count", {}, good, gateway({{.nid = "92@tcp", .health = 0}}),
                   {.priority = 0, .dead = true}, {.priority = 9}),
      two_gateways("a gateway that is not known does not count", {}, gateway({{.nid = "99@tcp"}}),
                   gateway({{.nid = "92@tcp", .health = 0}}), {.priority = 0}, {.priority = 9}),
      two_gateways("a gateway of which all NIs here are down does not count", {},
                   gateway({{.nid = "91@tcp", .down = true}}), gateway({{.nid = "92@tcp", .health = 0}}),
                   {.priority = 0}, {.priority = 9}),
      two_gateways("a gateway without memory does not count", {}, gateway({{.nid = "91@tcp", .no_memory = true}}),
                   gateway({{.nid = "92@tcp", .health = 0}}), {.priority = 0}, {.priority = 9}),
  });
  Row equal = two_gateways("all equal: the first route", {}, gateway({{.nid = "91@tcp"}}), gateway({{.nid = "92@tcp"}}),
                           {.used = 5}, {.used = 5});
  equal.one_order = true;
  equal.expect = "1@tcp > 91@tcp > 21@gni";
  check({equal});
}

// Goal: without a route that leads on, the message fails, and health counts that against the peer.
TEST(SelectRoutes, none) {
  const PeerSpec far = multi_rail({{.nid = "21@gni"}});
  check({
      {.why = "no route to the net of the destination",
       .nis = {{.nid = "1@tcp"}},
       .peers = {far, gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "kfi", .gateway = "91@tcp"}},
       .ask = kRequest,
       .expect = "EHOSTUNREACH remote"},
      {.why = "the only route is dead",
       .nis = {{.nid = "1@tcp"}},
       .peers = {far, gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp", .dead = true}},
       .ask = kRequest,
       .expect = "EHOSTUNREACH remote"},
      {.why = "the gateway has no NI on a net of this node",
       .nis = {{.nid = "1@tcp"}},
       .peers = {far, gateway({{.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = kRequest,
       .expect = "EHOSTUNREACH remote"},
      {.why = "all NIs of this node on the gateway's net are being deleted",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "2@tcp", .closing = true}},
       .peers = {far, gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = kRequest,
       .expect = "EHOSTUNREACH remote"},
      {.why = "the source NI is on another net than the gateways",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}},
       .peers = {far, gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni", .src = "3@o2ib"},
       .expect = "EHOSTUNREACH remote"},
  });
}

/// A choice between two NIs of the one gateway, whose primary NID is on a net that this node is not on.
Row gateway_nis(const char* why, PeerNiSpec first, PeerNiSpec second) {
  first.nid = "91@tcp";
  second.nid = "92@tcp";
  return {.why = why,
          .nis = {{.nid = "1@tcp"}},
          .peers = {multi_rail({{.nid = "21@gni"}}), gateway({{.nid = "191@kfi"}, first, second})},
          .routes = {{.net = "gni", .gateway = "191@kfi"}},
          .ask = kRequest,
          .expect = "1@tcp > 92@tcp > 21@gni"};
}

// Goal: the gateway's NI is the best of those that this node can reach, ranked as peer NIs are
// (docs/wire/lnet.md §6.5 (3d), §6.3). Bytes under way decide between gateways only.
TEST(SelectRoutes, gateway_ni) {
  check({
      gateway_nis("health goes before all else", {.health = 800, .priority = 1, .credits = 9, .used = 1},
                  {.health = 801, .priority = 2, .queued_kib = 9, .credits = -9, .used = 9}),
      gateway_nis("as healthy: priority, lower first", {.health = 700, .priority = 2, .credits = 9, .used = 1},
                  {.health = 700, .priority = 1, .queued_kib = 9, .credits = -9, .used = 9}),
      gateway_nis("priorities equal: free credits, more first", {.health = 700, .priority = 3, .credits = 4, .used = 1},
                  {.health = 700, .priority = 3, .queued_kib = 9, .credits = 5, .used = 9}),
      gateway_nis("as many credits: the one that was chosen longer ago",
                  {.health = 700, .priority = 3, .credits = 5, .used = 9},
                  {.health = 700, .priority = 3, .queued_kib = 9, .credits = 5, .used = 8}),
      gateway_nis("an NI that is down does not count", {.down = true}, {.health = 0, .credits = -9}),
      gateway_nis("an NI without memory does not count", {.no_memory = true}, {.health = 0, .credits = -9}),
      {.why = "of NIs on several nets of this node the best",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib", .health = 0}},
       .peers = {multi_rail({{.nid = "21@gni"}}),
                 gateway({{.nid = "191@kfi"}, {.nid = "91@tcp", .health = 900}, {.nid = "93@o2ib", .health = 901}})},
       .routes = {{.net = "gni", .gateway = "191@kfi"}},
       .ask = kRequest,
       .expect = "3@o2ib > 93@o2ib > 21@gni"},
      {.why = "a net of which all NIs here are being deleted does not count",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib", .leaving = true}},
       .peers = {multi_rail({{.nid = "21@gni"}}), gateway({{.nid = "91@tcp", .health = 0}, {.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = kRequest,
       .expect = "1@tcp > 91@tcp > 21@gni"},
      {.why = "a source NI is given: only NIs on its net count",
       .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp"}, {.nid = "3@o2ib"}},
       .peers = {multi_rail({{.nid = "21@gni"}}), gateway({{.nid = "93@o2ib"}, {.nid = "91@tcp", .health = 0}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = {.dst = "21@gni", .src = "2@tcp"},
       .expect = "2@tcp > 91@tcp > 21@gni"},
      {.why = "a source NI is given: routes count that lead over its net",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}},
       .peers = {multi_rail({{.nid = "21@gni"}}), gateway({{.nid = "91@tcp"}}), gateway({{.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}, {.net = "gni", .gateway = "93@o2ib", .priority = 9}},
       .ask = {.dst = "21@gni", .src = "3@o2ib"},
       .expect = "3@o2ib > 93@o2ib > 21@gni"},
  });
  Row equal = gateway_nis("all equal: the first", {.used = 5}, {.used = 5});
  equal.one_order = true;
  equal.expect = "1@tcp > 91@tcp > 21@gni";
  check({equal});
}

// Goal: a net on which no NI of this node has a link leads nowhere (docs/decisions.md #119).
TEST(SelectRoutes, gateway_beyond_a_link_that_is_down) {
  check({
      {.why = "a net on which no NI here has a link comes last",
       .nis = {{.nid = "1@tcp", .health = 0}, {.nid = "3@o2ib", .fatal = true}, {.nid = "4@o2ib", .fatal = true}},
       .peers = {multi_rail({{.nid = "21@gni"}}),
                 gateway({{.nid = "91@tcp", .health = 0, .credits = -9}, {.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = kRequest,
       .expect = "1@tcp > 91@tcp > 21@gni"},
      {.why = "one link is enough",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib", .fatal = true}, {.nid = "4@o2ib"}},
       .peers = {multi_rail({{.nid = "21@gni"}}), gateway({{.nid = "91@tcp", .health = 0}, {.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = kRequest,
       .expect = "4@o2ib > 93@o2ib > 21@gni"},
      {.why = "no net has a link",
       .nis = {{.nid = "1@tcp", .fatal = true}, {.nid = "3@o2ib", .fatal = true}},
       .peers = {multi_rail({{.nid = "21@gni"}}), gateway({{.nid = "91@tcp", .health = 0}, {.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = kRequest,
       .expect = "3@o2ib > 93@o2ib > 21@gni"},
      {.why = "a route over a net without a link comes after all others",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib", .fatal = true}},
       .peers = {multi_rail({{.nid = "21@gni", .preferred_gateways = {"93@o2ib"}}}),
                 gateway({{.nid = "91@tcp", .health = 0}}), gateway({{.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp", .priority = 9, .hops = 9},
                  {.net = "gni", .gateway = "93@o2ib", .priority = 1, .hops = 1}},
       .ask = kRequest,
       .expect = "1@tcp > 91@tcp > 21@gni"},
  });
}

/// A peer on gni and kfi, of which both lie behind the one gateway.
Row two_far_nets(const char* why, std::vector<PeerNiSpec> nis, std::vector<NetPriority> nets) {
  return {.why = why,
          .nis = {{.nid = "1@tcp"}},
          .peers = {multi_rail(std::move(nis), std::move(nets)), gateway({{.nid = "91@tcp"}})},
          .routes = {{.net = "gni", .gateway = "91@tcp"}, {.net = "kfi", .gateway = "91@tcp"}},
          .ask = kRequest,
          .expect = "1@tcp > 91@tcp > 31@kfi"};
}

// Goal: a request to a multi-rail peer goes to the best NI of the peer's best net that a route leads to
// (docs/wire/lnet.md §6.5 (2)). With a source given, and for any other message, the destination is the NID that was
// named.
TEST(SelectRoutes, destination) {
  check({
      two_far_nets("health of the net is that of its best NI, and goes before all else",
                   {{.nid = "21@gni", .health = 800, .used = 1},
                    {.nid = "31@kfi", .health = 801, .used = 9},
                    {.nid = "32@kfi", .health = 100, .used = 9}},
                   {{"gni", 1}, {"kfi", 2}}),
      two_far_nets("as healthy: the priority of the net, lower first",
                   {{.nid = "21@gni", .health = 700, .used = 1}, {.nid = "31@kfi", .health = 700, .used = 9}},
                   {{"gni", 2}, {"kfi", 1}}),
      two_far_nets("priorities equal: the net that was chosen longer ago, by its NI that was chosen last",
                   {{.nid = "21@gni", .health = 700, .used = 9},
                    {.nid = "22@gni", .health = 700, .used = 1},
                    {.nid = "31@kfi", .health = 700, .used = 5},
                    {.nid = "32@kfi", .health = 700, .used = 6}},
                   {{"gni", 3}, {"kfi", 3}}),
      {.why = "a net that no route leads to does not count",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail({{.nid = "21@gni"}, {.nid = "31@kfi", .health = 0}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "kfi", .gateway = "91@tcp"}},
       .ask = {.dst = "31@kfi"},
       .expect = "1@tcp > 91@tcp > 31@kfi"},
      {.why = "a source NI is given: the NID that was named",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail({{.nid = "21@gni", .health = 0}, {.nid = "22@gni"}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni", .src = "1@tcp"},
       .expect = "1@tcp > 91@tcp > 21@gni"},
      {.why = "a response: the NID that was named",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail({{.nid = "21@gni", .health = 0}, {.nid = "22@gni"}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni", .response = true},
       .expect = "1@tcp > 91@tcp > 21@gni"},
      {.why = "a recovery ping: the NID that was named",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail({{.nid = "21@gni", .health = 0}, {.nid = "22@gni"}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni", .recovery = true},
       .expect = "1@tcp > 91@tcp > 21@gni"},
      {.why = "a message for another node: the NID that was named",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail({{.nid = "21@gni", .health = 0}, {.nid = "22@gni"}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni", .forward = true},
       .expect = "1@tcp > 91@tcp > 21@gni"},
      {.why = "a peer that is not multi-rail: the NID that was named",
       .nis = {{.nid = "1@tcp"}},
       .peers = {plain({{.nid = "21@gni", .health = 0}, {.nid = "22@gni"}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = kRequest,
       .expect = "1@tcp > 91@tcp > 21@gni"},
      {.why = "a response to a NID that no peer has, yet",
       .nis = {{.nid = "1@tcp"}},
       .peers = {gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni", .response = true},
       .expect = "1@tcp > 91@tcp > 21@gni"},
  });
  Row equal =
      two_far_nets("all equal: the peer's first net", {{.nid = "21@gni", .used = 5}, {.nid = "31@kfi", .used = 5}}, {});
  equal.one_order = true;
  equal.expect = "1@tcp > 91@tcp > 21@gni";
  check({equal});
}

// Goal: over gateways, too, a peer that is not multi-rail sees one source (docs/wire/lnet.md §6, SRC_ANY REMOTE NMR).
// Method: 2@tcp is recorded for the peer, and worse than 1@tcp.
TEST(SelectRoutes, recorded_source) {
  const std::vector<NiSpec> nis{{.nid = "1@tcp"}, {.nid = "2@tcp", .health = 0}};
  const PeerSpec far = plain({{.nid = "21@gni", .preferred = {"2@tcp"}}}), near = gateway({{.nid = "91@tcp"}});
  const std::vector<RouteSpec> route{{.net = "gni", .gateway = "91@tcp"}};
  const char *recorded = "2@tcp > 91@tcp > 21@gni", *best = "1@tcp > 91@tcp > 21@gni";
  check({
      {.why = "a request", .nis = nis, .peers = {far, near}, .routes = route, .ask = kRequest, .expect = recorded},
      {.why = "a response whose NI is gone",
       .nis = nis,
       .peers = {far, near},
       .routes = route,
       .ask = {.dst = "21@gni", .src = "9@tcp", .via = "91@tcp", .response = true},
       .expect = recorded},
      {.why = "pings and pushes are exempt",
       .nis = nis,
       .peers = {far, near},
       .routes = route,
       .ask = {.dst = "21@gni", .portal0 = true},
       .expect = best},
      {.why = "a message for another node has its source already",
       .nis = nis,
       .peers = {far, near},
       .routes = route,
       .ask = {.dst = "21@gni", .forward = true},
       .expect = best},
      {.why = "a multi-rail peer may see every source",
       .nis = nis,
       .peers = {multi_rail({{.nid = "21@gni", .preferred = {"2@tcp"}}}), near},
       .routes = route,
       .ask = kRequest,
       .expect = best},
      {.why = "the recorded NI is being deleted",
       .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp", .leaving = true}},
       .peers = {far, near},
       .routes = route,
       .ask = kRequest,
       .expect = best},
      {.why = "the recorded NI is on another net than the gateway",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}},
       .peers = {plain({{.nid = "21@gni", .preferred = {"3@o2ib"}}}), near},
       .routes = route,
       .ask = kRequest,
       .expect = best},
  });
}

/// A response to a message that came through 92@tcp. A route leads over 91@tcp.
class SelectBack : public testing::Test {
 protected:
  const Ask response{.dst = "21@gni", .src = "1@tcp", .via = "92@tcp", .response = true};
  const std::vector<NiSpec> nis{{.nid = "1@tcp"}, {.nid = "3@o2ib"}};
  const PeerSpec far = multi_rail({{.nid = "21@gni"}}), best = gateway({{.nid = "91@tcp"}});
  const std::vector<RouteSpec> route{{.net = "gni", .gateway = "91@tcp"}};
  const char *const back = "1@tcp > 92@tcp > 21@gni", *const over_route = "1@tcp > 91@tcp > 21@gni";
};

// Goal: a response that came through a router goes back through that router's NI, whatever the routes are
// (docs/wire/lnet.md §3.1, §6.5 (1)).
TEST_F(SelectBack, through_the_router) {
  check({
      {.why = "the NI that it came through, though it is ill, and down by its own word",
       .nis = nis,
       .peers = {far, best, gateway({{.nid = "93@tcp"}, {.nid = "92@tcp", .down = true, .health = 0, .credits = -9}})},
       .routes = route,
       .ask = response,
       .expect = back},
      {.why = "also when the route over it is dead",
       .nis = nis,
       .peers = {far, best, gateway({{.nid = "92@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}, {.net = "gni", .gateway = "92@tcp", .dead = true}},
       .ask = response,
       .expect = back},
      {.why = "also when no route leads to the net",
       .nis = nis,
       .peers = {far, gateway({{.nid = "92@tcp"}})},
       .ask = response,
       .expect = back},
      {.why = "the NI that was asked is being deleted: the best on the net of that router",
       .nis = {{.nid = "1@tcp", .closing = true}, {.nid = "2@tcp"}, {.nid = "3@o2ib"}},
       .peers = {far, gateway({{.nid = "93@o2ib"}}), gateway({{.nid = "92@tcp"}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = response,
       .expect = "2@tcp > 92@tcp > 21@gni"},
      {.why = "an NI that is leaving still answers",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "2@tcp"}},
       .peers = {far, gateway({{.nid = "92@tcp"}})},
       .ask = response,
       .expect = back},
      {.why = "a destination on a net of this node is reached without the router",
       .nis = nis,
       .peers = {plain({{.nid = "11@tcp"}}), gateway({{.nid = "92@tcp"}})},
       .ask = {.dst = "11@tcp", .src = "1@tcp", .via = "92@tcp", .response = true},
       .expect = "1@tcp > 11@tcp"},
  });
}

// Goal: a response that cannot go back through that router's NI goes over a route.
TEST_F(SelectBack, over_a_route_where_the_router_is_out_of_reach) {
  check({
      {.why = "no route names that node as gateway",
       .nis = nis,
       .peers = {far, best, multi_rail({{.nid = "92@tcp"}})},
       .routes = route,
       .ask = response,
       .expect = over_route},
      {.why = "that node is not known",
       .nis = nis,
       .peers = {far, best},
       .routes = route,
       .ask = response,
       .expect = over_route},
      {.why = "nothing can be sent to that NI",
       .nis = nis,
       .peers = {far, best, gateway({{.nid = "93@tcp"}, {.nid = "92@tcp", .no_memory = true}})},
       .routes = route,
       .ask = response,
       .expect = over_route},
      {.why = "that NI is on another net than the source",
       .nis = nis,
       .peers = {far, best, gateway({{.nid = "93@o2ib"}})},
       .routes = route,
       .ask = {.dst = "21@gni", .src = "1@tcp", .via = "93@o2ib", .response = true},
       .expect = over_route},
      {.why = "all NIs on the net of that router are being deleted: over a route",
       .nis = {{.nid = "1@tcp", .closing = true}, {.nid = "3@o2ib"}},
       .peers = {far, gateway({{.nid = "93@o2ib"}}), gateway({{.nid = "92@tcp"}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = response,
       .expect = "3@o2ib > 93@o2ib > 21@gni"},
  });
}

// Goal: without a checker, a gateway is discovered when a request is about to use it (docs/wire/lnet.md §5.2).
TEST(SelectRoutes, gateway_is_discovered_on_use) {
  const auto row = [](const char* why, Ask ask, const char* expect, bool discover = true) {
    ask.dst = "21@gni";
    return Row{
        .why = why,
        .nis = {{.nid = "1@tcp"}},
        .peers = {multi_rail({{.nid = "21@gni"}}), stale(gateway({{.nid = "91@tcp"}})), gateway({{.nid = "92@tcp"}})},
        .routes = {{.net = "gni", .gateway = "91@tcp"}, {.net = "gni", .gateway = "92@tcp", .priority = 1}},
        .discover_gateways = discover,
        .ask = ask,
        .expect = expect};
  };
  const char* sent = "1@tcp > 91@tcp > 21@gni";
  check({
      row("a request", {}, "discover 91@tcp"),
      row("a request, with a checker of gateways", {}, sent, false),
      row("a ping", {.portal0 = true}, sent),
      row("a response", {.response = true}, sent),
      row("a recovery ping", {.recovery = true}, sent),
      row("a message for another node", {.forward = true}, sent),
      row("a request for which discovery has failed", {.as_given = true}, sent),
  });
}

}  // namespace
}  // namespace ulnet::test
