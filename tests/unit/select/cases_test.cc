// The cases of choose_path(). Kind of message and kind of peer fix the NI, the peer NI, both or neither
// (docs/wire/lnet.md §6). Some messages wait for control (§5.2). A router may divert a message to another NI (§8.2).
#include <gtest/gtest.h>

#include "tests/unit/select/rig.h"

namespace ulnet::test {
namespace {

/// 1@tcp is the best NI of this node on tcp, 2@tcp the worst.
const std::vector<NiSpec>& two_nis() {
  static const std::vector<NiSpec> nis{{.nid = "1@tcp"}, {.nid = "2@tcp", .health = 0}};
  return nis;
}
/// 11@tcp is named and is the worst NI of its peer, 12@tcp the best.
std::vector<PeerNiSpec> two_peer_nis() {
  return {{.nid = "11@tcp", .health = 0}, {.nid = "12@tcp"}};
}
Row to(const PeerSpec& peer, const char* why, const Ask& ask, const char* expect) {
  return {.why = why, .nis = two_nis(), .peers = {peer}, .ask = ask, .expect = expect};
}

// Goal: a message to this node never leaves it.
TEST(SelectCases, loopback) {
  const PeerSpec peer = multi_rail({{.nid = "11@tcp"}});
  check({
      to(peer, "0@lo, source and destination", {.dst = "0@lo"}, "loopback 0@lo > 0@lo"),
      to(peer, "0@lo, whatever the source", {.dst = "0@lo", .src = "1@tcp"}, "loopback 0@lo > 0@lo"),
      to(peer, "an own NID", {.dst = "2@tcp"}, "loopback 2@tcp > 2@tcp"),
      to(peer, "an own NID, from another", {.dst = "2@tcp", .src = "1@tcp"}, "loopback 1@tcp > 2@tcp"),
      to(peer, "a response to an own NID", {.dst = "2@tcp", .src = "1@tcp", .response = true},
         "loopback 1@tcp > 2@tcp"),
      to(peer, "a forwarded message is not for this node", {.dst = "2@tcp", .forward = true}, "look up 2@tcp"),
  });
}

TEST(SelectCases, no_destination) {
  check({to(multi_rail({{.nid = "11@tcp"}}), "ANY is no destination", {}, "EINVAL local")});
}

// Goal: exactly the source NI that is given, and exactly the NID that is named (SRC_SPEC LOCAL).
TEST(SelectCases, fixed_source) {
  const PeerSpec rails = multi_rail(two_peer_nis()), one = plain(two_peer_nis());
  const Ask ask{.dst = "11@tcp", .src = "2@tcp"};
  const char* exactly = "2@tcp > 11@tcp";
  const auto with_source = [&](const char* why, NiSpec source, const Ask& what, const char* expect) {
    source.nid = "2@tcp";
    return Row{.why = why, .nis = {{.nid = "1@tcp"}, source}, .peers = {rails}, .ask = what, .expect = expect};
  };
  check({
      to(rails, "multi-rail peer", ask, exactly),
      to(one, "peer that is not multi-rail", ask, exactly),
      to(plain({{.nid = "11@tcp", .preferred = {"1@tcp"}}}), "whatever is recorded for it", ask, exactly),
      to(rails, "a ping", {.dst = "11@tcp", .src = "2@tcp", .portal0 = true}, exactly),
      to(rails, "a response", {.dst = "11@tcp", .src = "2@tcp", .response = true}, exactly),
      to(rails, "a NID that is not mine", {.dst = "11@tcp", .src = "9@tcp"}, "EADDRNOTAVAIL local"),
      with_source("without link", {.fatal = true}, ask, exactly),
      with_source("leaving", {.leaving = true}, ask, exactly),
      with_source("closing", {.closing = true}, ask, "EADDRNOTAVAIL local"),
      to(multi_rail({{.nid = "11@tcp", .no_memory = true}, {.nid = "12@tcp"}}), "no memory for what is named", ask,
         "ENOMEM local"),
      {.why = "a response to a NID that no peer has, yet",
       .nis = two_nis(),
       .peers = {rails},
       .ask = {.dst = "13@tcp", .src = "2@tcp", .response = true},
       .expect = "look up 13@tcp"},
      {.why = "the peer has another NI on another net of this node",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}},
       .peers = {multi_rail({{.nid = "13@o2ib", .health = 0}, {.nid = "11@tcp"}})},
       .ask = {.dst = "13@o2ib", .src = "3@o2ib"},
       .expect = "3@o2ib > 13@o2ib"},
  });
}

// Goal: a response goes from the NI to which the request came, to exactly the NID that sent the request. When that NI
// is gone, the response goes from another (docs/decisions.md, row 32).
TEST(SelectCases, response) {
  const PeerSpec rails = multi_rail(two_peer_nis()), one = plain(two_peer_nis());
  const Ask ask{.dst = "11@tcp", .response = true}, gone{.dst = "11@tcp", .src = "9@tcp", .response = true};
  check({
      to(rails, "no source: best NI, exact NID", ask, "1@tcp > 11@tcp"),
      to(one, "no source, not multi-rail: the same", ask, "1@tcp > 11@tcp"),
      to(rails, "the NI that was asked is gone: best NI, exact NID", gone, "1@tcp > 11@tcp"),
      to(plain({{.nid = "11@tcp", .preferred = {"2@tcp"}}}),
         "the NI that was asked is gone: the one that is recorded for the peer", gone, "2@tcp > 11@tcp"),
      to(stale(rails), "never waits for discovery", ask, "1@tcp > 11@tcp"),
      {.why = "the NI that was asked is closing: best NI, exact NID",
       .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp", .closing = true}},
       .peers = {rails},
       .ask = {.dst = "11@tcp", .src = "2@tcp", .response = true},
       .expect = "1@tcp > 11@tcp"},
      {.why = "all NIs of the net are being deleted",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "2@tcp", .closing = true}},
       .peers = {rails},
       .ask = ask,
       .expect = "ENETUNREACH local"},
      {.why = "to a remote NID over a router, though the peer has a NI here",
       .nis = two_nis(),
       .peers = {multi_rail({{.nid = "21@gni"}, {.nid = "11@tcp"}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni", .response = true},
       .expect = "1@tcp > 91@tcp > 21@gni"},
  });
}

// Goal: a request to a multi-rail peer takes any of its NIs over any shared net, directly whenever there is one.
TEST(SelectCases, multi_rail_peer) {
  const PeerSpec rails = multi_rail(two_peer_nis());
  check({
      to(rails, "a request: best NI, best peer NI", {.dst = "11@tcp"}, "1@tcp > 12@tcp"),
      to(rails, "a ping: the same", {.dst = "11@tcp", .portal0 = true}, "1@tcp > 12@tcp"),
      {.why = "a remote NID is named: directly, since the peer has a NI here",
       .nis = two_nis(),
       .peers = {multi_rail({{.nid = "21@gni"}, {.nid = "11@tcp", .health = 0}}), gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "21@gni"},
       .expect = "1@tcp > 11@tcp"},
      {.why = "a NID here is named, of which all NIs are being deleted: over a router",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "3@o2ib"}},
       .peers = {multi_rail({{.nid = "11@tcp"}, {.nid = "21@gni"}}), gateway({{.nid = "93@o2ib"}})},
       .routes = {{.net = "gni", .gateway = "93@o2ib"}},
       .ask = {.dst = "11@tcp"},
       .expect = "3@o2ib > 93@o2ib > 21@gni"},
      {.why = "the same without a router",
       .nis = {{.nid = "1@tcp", .leaving = true}},
       .peers = {rails},
       .ask = {.dst = "11@tcp"},
       .expect = "EHOSTUNREACH remote"},
      to(multi_rail({{.nid = "11@tcp", .no_memory = true}}), "no memory for any of its NIs", {.dst = "11@tcp"},
         "EHOSTUNREACH remote"),
  });
}

// Goal: a peer that is not multi-rail is reached at the NID that is named, from the NI that is recorded for it.
TEST(SelectCases, plain_peer) {
  const PeerSpec one = plain(two_peer_nis());
  const PeerSpec recorded = plain({{.nid = "11@tcp", .preferred = {"2@tcp"}}});
  check({
      to(one, "nothing recorded: best NI", {.dst = "11@tcp"}, "1@tcp > 11@tcp"),
      to(recorded, "recorded: that NI", {.dst = "11@tcp"}, "2@tcp > 11@tcp"),
      to(recorded, "pings and pushes are exempt", {.dst = "11@tcp", .portal0 = true}, "1@tcp > 11@tcp"),
      to(recorded, "a message for another node has its source already", {.dst = "11@tcp", .forward = true},
         "1@tcp > 11@tcp"),
      to(plain({{.nid = "11@tcp", .preferred = {"9@tcp"}}}), "the recorded NI is gone: best NI", {.dst = "11@tcp"},
         "1@tcp > 11@tcp"),
      to(plain({{.nid = "11@tcp", .no_memory = true}, {.nid = "12@tcp"}}), "no memory for what is named",
         {.dst = "11@tcp"}, "ENOMEM local"),
      {.why = "the recorded NI is leaving: best NI",
       .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp", .leaving = true}},
       .peers = {recorded},
       .ask = {.dst = "11@tcp"},
       .expect = "1@tcp > 11@tcp"},
      {.why = "the recorded NI is closing: best NI",
       .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp", .closing = true}},
       .peers = {recorded},
       .ask = {.dst = "11@tcp"},
       .expect = "1@tcp > 11@tcp"},
      {.why = "the recorded NI is on another net: best NI",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}},
       .peers = {plain({{.nid = "11@tcp", .preferred = {"3@o2ib"}}})},
       .ask = {.dst = "11@tcp"},
       .expect = "1@tcp > 11@tcp"},
      {.why = "all NIs of the net are being deleted",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "3@o2ib"}},
       .peers = {one},
       .ask = {.dst = "11@tcp"},
       .expect = "ENETUNREACH local"},
      {.why = "a NID on a net of this node is not reached over routers, though a route is there",
       .nis = two_nis(),
       .peers = {one, gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "tcp", .gateway = "91@tcp"}},
       .ask = {.dst = "11@tcp"},
       .expect = "1@tcp > 11@tcp"},
  });
}

// Goal: a recovery ping goes to exactly the NID that is named, however ill, and waits for nothing.
TEST(SelectCases, recovery_ping) {
  const Ask ask{.dst = "11@tcp", .recovery = true};
  check({
      to(multi_rail(two_peer_nis()), "multi-rail peer", ask, "1@tcp > 11@tcp"),
      to(plain(two_peer_nis()), "peer that is not multi-rail", ask, "1@tcp > 11@tcp"),
      to(plain({{.nid = "11@tcp", .preferred = {"2@tcp"}}}), "the NI that is recorded for it", ask, "2@tcp > 11@tcp"),
      to(stale(multi_rail(two_peer_nis())), "a peer that is not up to date", ask, "1@tcp > 11@tcp"),
      to(multi_rail(two_peer_nis()), "from a source that is given", {.dst = "11@tcp", .src = "2@tcp", .recovery = true},
         "2@tcp > 11@tcp"),
  });
}

// Goal: a request waits until its peer is discovered; other kinds of messages do not. Without any way to the
// destination, a message fails at once.
TEST(SelectCases, discovery) {
  const PeerSpec peer = stale(multi_rail(two_peer_nis()));
  const auto far = [](const char* why, const Ask& ask, const char* expect) {
    return Row{.why = why,
               .nis = two_nis(),
               .peers = {gateway({{.nid = "91@tcp"}})},
               .routes = {{.net = "gni", .gateway = "91@tcp"}},
               .ask = ask,
               .expect = expect};
  };
  check({
      to(peer, "a request to a peer that is not up to date", {.dst = "11@tcp"}, "discover 11@tcp"),
      to(peer, "its source makes no difference", {.dst = "11@tcp", .src = "2@tcp"}, "discover 11@tcp"),
      to(peer, "pings and pushes never wait", {.dst = "11@tcp", .portal0 = true}, "1@tcp > 12@tcp"),
      to(peer, "messages for other nodes never wait", {.dst = "11@tcp", .forward = true}, "1@tcp > 11@tcp"),
      to(peer, "discovery has failed: as the peer is known", {.dst = "11@tcp", .as_given = true}, "1@tcp > 12@tcp"),
      to(peer, "a NID that no peer has", {.dst = "13@tcp"}, "look up 13@tcp"),
      to(peer, "a ping to it", {.dst = "13@tcp", .portal0 = true}, "look up 13@tcp"),
      {.why = "a NID here that no peer has, from a source on another net",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}},
       .peers = {peer},
       .ask = {.dst = "13@tcp", .src = "3@o2ib"},
       .expect = "look up 13@tcp"},
      to(peer, "a response to it", {.dst = "13@tcp", .response = true}, "look up 13@tcp"),
      to(peer, "a message for another node to it", {.dst = "13@tcp", .forward = true}, "look up 13@tcp"),
      to(peer, "a net that no route leads to", {.dst = "21@gni"}, "EHOSTUNREACH remote"),
      to(stale(multi_rail({{.nid = "21@gni"}})), "a peer that is known, on such a net", {.dst = "21@gni"},
         "discover 21@gni"),
      far("a NID behind a router that no peer has", {.dst = "21@gni"}, "look up 21@gni"),
      far("a ping to it", {.dst = "21@gni", .portal0 = true}, "1@tcp > 91@tcp > 21@gni"),
  });
}

// Goal: at the last router, the NID in the header is meant, unless that NI is ill and both ends are multi-rail.
// Method: 11@tcp is named; 12@tcp is the other NI of the destination.
TEST(SelectCases, last_router) {
  const auto row = [](const char* why, const PeerSpec& dst, const PeerSpec& origin, const char* expect,
                      Ask ask = {.origin = "21@gni", .forward = true}) {
    ask.dst = "11@tcp";
    return Row{.why = why, .nis = two_nis(), .peers = {dst, origin}, .ask = ask, .expect = expect};
  };
  const PeerSpec rails = multi_rail({{.nid = "21@gni"}}), one = plain({{.nid = "21@gni"}});
  const auto named = [](PeerNiSpec spec, PeerNiSpec other = {}) {
    spec.nid = "11@tcp";
    other.nid = "12@tcp";
    return multi_rail({spec, other});
  };
  const char *meant = "1@tcp > 11@tcp", *another = "1@tcp > 12@tcp";
  check({
      row("healthy, though the other one is better", named({.priority = 2}, {.priority = 1}), rails, meant),
      row("ill: the best one", named({.health = 999}), rails, another),
      row("down: the best one", named({.down = true}), rails, another),
      row("ill, and still the best one", named({.health = 999}, {.health = 998}), rails, meant),
      row("an NI that is down ranks last", named({.health = 1}, {.down = true}), rails, meant),
      row("a ping or push means the NI that it names", named({.health = 0}), rails, meant,
          {.origin = "21@gni", .portal0 = true, .forward = true}),
      row("the sender is not multi-rail", named({.health = 0}), one, meant),
      row("the sender is not known", named({.health = 0}), rails, meant, {.origin = "29@gni", .forward = true}),
      row("the destination is not multi-rail", plain(two_peer_nis()), rails, meant),
      row("a message of this node goes to an NI that is down by its own word, as healthy as it is",
          named({.health = 999}, {.down = true}), rails, another, {}),
      {.why = "the rail leads over another net",
       .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}},
       .peers = {multi_rail({{.nid = "11@tcp", .down = true}, {.nid = "13@o2ib", .health = 1}}), rails},
       .ask = {.dst = "11@tcp", .origin = "21@gni", .forward = true},
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "a remote NID, ill: not the last router, and the NID is meant",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail({{.nid = "11@gni", .health = 0}, {.nid = "12@tcp"}}), rails, gateway({{.nid = "91@tcp"}})},
       .routes = {{.net = "gni", .gateway = "91@tcp"}},
       .ask = {.dst = "11@gni", .origin = "21@gni", .forward = true},
       .expect = "1@tcp > 91@tcp > 11@gni"},
  });
}

// Goal: the hop that was chosen before the payload came is kept while it still leads on; else there is no path.
TEST(SelectCases, hop_chosen_before) {
  const Ask near{.dst = "11@tcp", .forward = true}, far{.dst = "21@gni", .forward = true};
  const auto with = [](const PeerSpec& peer, const Ask& ask) {
    return Row{.nis = two_nis(), .peers = {peer, multi_rail({{.nid = "31@tcp"}})}, .ask = ask};
  };
  const PeerSpec rails = multi_rail(two_peer_nis());
  EXPECT_EQ(over(with(rails, near), "11@tcp"), "1@tcp > 11@tcp");
  EXPECT_EQ(over(with(rails, near), "12@tcp"), "1@tcp > 12@tcp") << "another rail of the destination";
  EXPECT_EQ(over(with(rails, near), "31@tcp"), "EHOSTUNREACH remote") << "another peer";
  EXPECT_EQ(over(with(rails, near), "13@tcp"), "EHOSTUNREACH remote") << "not known any more";
  EXPECT_EQ(over(with(multi_rail({{.nid = "11@tcp", .down = true}}), near), "11@tcp"), "EHOSTUNREACH remote");
  EXPECT_EQ(over(with(multi_rail({{.nid = "11@tcp", .no_memory = true}}), near), "11@tcp"), "EHOSTUNREACH remote");
  EXPECT_EQ(over(with(gateway({{.nid = "91@tcp"}}), far), "91@tcp"), "1@tcp > 91@tcp > 21@gni");
  EXPECT_EQ(over(with(multi_rail({{.nid = "91@tcp"}}), far), "91@tcp"), "EHOSTUNREACH remote") << "no gateway any more";
  EXPECT_EQ(over(with(gateway({{.nid = "93@o2ib"}}), far), "93@o2ib"), "EHOSTUNREACH remote") << "its net is gone";
  Row going = with(rails, near);
  for (NiSpec& ni : going.nis) ni.leaving = true;
  EXPECT_EQ(over(going, "11@tcp"), "ENETUNREACH local");
}

}  // namespace
}  // namespace ulnet::test
