// explain_path() gives the reasons of choose_path(), and SendOverlay plays what a worker would send.
#include <gtest/gtest.h>

#include <array>

#include "dataplane/base/rng.h"
#include "dataplane/select/criterion.h"
#include "tests/unit/select/rig.h"

namespace ulnet::test {
namespace {

struct Said {
  Row row;
  std::string trace;
};
void check_traces(const std::vector<Said>& all) {
  for (const Said& one : all) EXPECT_EQ(explained(one.row), one.trace) << one.row.why;
}

// Goal: the trace of a direct path names net, local NI and peer NI, with the criterion and both values for each loser.
TEST(SelectExplain, direct) {
  check_traces({
      {{.why = "nets by health and priority",
        .nis = {{.nid = "1@tcp"}, {.nid = "3@o2ib"}, {.nid = "5@o2ib1", .leaving = true}, {.nid = "7@tcp9"}},
        .nets = {{"tcp", 4}, {"o2ib", 5}},
        .peers = {multi_rail({{.nid = "11@tcp", .health = 800},
                              {.nid = "13@o2ib", .health = 900},
                              {.nid = "15@o2ib1"},
                              {.nid = "17@gni"},
                              {.nid = "19@tcp9", .health = 900}},
                             {{"o2ib", 7}, {"tcp9", 8}})},
        .ask = {.dst = "11@tcp"},
        .expect = "3@o2ib > 13@o2ib"},
       "net; tcp loses: peer net health 800 to 900 of o2ib; o2ib wins: peer net priority 7 to 8 of tcp9; "
       "o2ib1 not: leaving; gni not: not local; tcp9 loses: peer net priority 8 to 7 of o2ib\n"
       "local NI; 3@o2ib wins: only candidate\n"
       "peer NI; 13@o2ib wins: only candidate\n"},
      {{.why = "the local NI",
        .nis = {{.nid = "1@tcp", .fatal = true},
                {.nid = "2@tcp", .health = 700},
                {.nid = "3@tcp", .priority = 5},
                {.nid = "4@tcp", .priority = 4, .numa = 0, .credits = 7},
                {.nid = "5@tcp", .priority = 4, .numa = 1, .credits = 7},
                {.nid = "6@tcp", .priority = 4, .numa = 1, .credits = 8, .used = 6},
                {.nid = "7@tcp", .priority = 4, .numa = 1, .credits = 8, .used = 5},
                {.nid = "8@tcp", .leaving = true},
                {.nid = "9@tcp", .closing = true}},
        .peers = {multi_rail({{.nid = "11@tcp", .preferred = {"2@tcp"}}})},
        .ask = {.dst = "11@tcp", .response = true, .numa = 1},
        .expect = "7@tcp > 11@tcp"},
       "peer NI; 11@tcp wins: given\n"
       "local NI; 1@tcp loses: link 0 to 1 of 2@tcp; 2@tcp loses: health 700 to 1000 of 3@tcp; "
       "3@tcp loses: priority 5 to 4 of 4@tcp; 4@tcp loses: NUMA distance 20 to 10 of 5@tcp; "
       "5@tcp loses: credits 7 to 8 of 6@tcp; 6@tcp loses: sequence 6 to 5 of 7@tcp; "
       "7@tcp wins: sequence 5 to 6 of 6@tcp; 8@tcp not: leaving; 9@tcp not: closing\n"},
      {{.why = "the local NI that the destination prefers, and the one near the accelerator",
        .nis = {{.nid = "1@tcp"},
                {.nid = "2@tcp", .numa = 0, .device_priorities = {0, 2}},
                {.nid = "3@tcp", .numa = 1, .device_priorities = {0, 1}}},
        .peers = {multi_rail({{.nid = "11@tcp", .preferred = {{"2@tcp", 4}, {"3@tcp", 4}}}})},
        .ask = {.dst = "11@tcp", .response = true, .numa = 0, .accelerator = 1},
        .expect = "3@tcp > 11@tcp"},
       "peer NI; 11@tcp wins: given\n"
       "local NI; 1@tcp loses: preferred none to 4 of 2@tcp; 2@tcp loses: device priority 2 to 1 of 3@tcp; "
       "3@tcp wins: device priority 1 to 2 of 2@tcp\n"},
      {{.why = "the peer NI",
        .nis = {{.nid = "1@tcp"}},
        .peers = {multi_rail({{.nid = "11@tcp", .health = 999},
                              {.nid = "12@tcp", .priority = 3},
                              {.nid = "13@tcp", .priority = 2},
                              {.nid = "14@tcp", .priority = 2, .preferred = {{"1@tcp", 6}}},
                              {.nid = "15@tcp", .priority = 2, .preferred = {{"1@tcp", 5}}, .credits = -1},
                              {.nid = "16@tcp", .priority = 2, .preferred = {{"1@tcp", 5}}, .used = 3},
                              {.nid = "17@tcp", .priority = 2, .preferred = {{"1@tcp", 5}}, .used = 3}})},
        .ask = {.dst = "11@tcp"},
        .expect = "1@tcp > 16@tcp"},
       "net; tcp wins: only candidate\n"
       "local NI; 1@tcp wins: only candidate\n"
       "peer NI; 11@tcp loses: health 999 to 1000 of 12@tcp; 12@tcp loses: priority 3 to 2 of 13@tcp; "
       "13@tcp loses: preferred none to 6 of 14@tcp; 14@tcp loses: preferred 6 to 5 of 15@tcp; "
       "15@tcp loses: credits -1 to 8 of 16@tcp; 16@tcp wins: sequence 3 to 3 of 17@tcp; "
       "17@tcp loses: sequence 3 to 3 of 16@tcp\n"},
  });
}

// Goal: the four criteria of nets that need several nodes' numbers appear with the values of the net, not of one NI.
TEST(SelectExplain, nets) {
  const auto row = [](uint16_t health, uint32_t priority, uint32_t peer_used, uint32_t local_used) {
    return Row{
        .why = "nets",
        .nis = {{.nid = "1@tcp", .health = 700, .used = 2}, {.nid = "3@o2ib", .health = health, .used = local_used}},
        .nets = {{"tcp", 4}, {"o2ib", priority}},
        .peers = {multi_rail({{.nid = "11@tcp", .used = 5}, {.nid = "13@o2ib", .used = peer_used}})},
        .ask = {.dst = "11@tcp"},
        .expect = "3@o2ib > 13@o2ib"};
  };
  const std::string rest = "local NI; 3@o2ib wins: only candidate\npeer NI; 13@o2ib wins: only candidate\n";
  const auto said = [&](const std::string& by, const std::string& tcp, const std::string& o2ib) {
    return "net; tcp loses: " + by + " " + tcp + " to " + o2ib + " of o2ib; o2ib wins: " + by + " " + o2ib + " to " +
           tcp + " of tcp\n" + rest;
  };
  check_traces({{row(800, 9, 9, 9), said("local net health", "700", "800")},
                {row(700, 3, 9, 9), said("local net priority", "4", "3")},
                {row(700, 4, 4, 9), said("peer net sequence", "5", "4")},
                {row(700, 4, 5, 1), said("local net sequence", "2", "1")}});
}

// Goal: a path over a gateway names the destination's net and NI, each gateway NI, and the route with all its criteria.
TEST(SelectExplain, routed) {
  check_traces({
      {{.why = "routes",
        .nis = {{.nid = "1@tcp"}},
        .peers = {multi_rail(
                      {{.nid = "21@gni",
                        .preferred_gateways = {"92@tcp", "93@tcp", "94@tcp", "95@tcp", "96@tcp", "97@tcp", "98@tcp"}},
                       {.nid = "22@gni1", .health = 5},
                       {.nid = "23@gni2"}}),
                  gateway({{.nid = "91@tcp"}}), gateway({{.nid = "92@tcp"}}), gateway({{.nid = "93@tcp"}}),
                  gateway({{.nid = "94@tcp", .health = 900}, {.nid = "84@o2ib"}}),
                  gateway({{.nid = "95@tcp", .queued_kib = 7}}), gateway({{.nid = "96@tcp", .credits = 6}}),
                  gateway({{.nid = "97@tcp"}}), gateway({{.nid = "98@tcp"}}),
                  gateway({{.nid = "99@tcp", .down = true}}), gateway({{.nid = "90@tcp"}})},
        .routes = {{.net = "gni", .gateway = "91@tcp"},
                   {.net = "gni", .gateway = "92@tcp", .priority = 3},
                   {.net = "gni", .gateway = "93@tcp", .hops = 2},
                   {.net = "gni", .gateway = "94@tcp"},
                   {.net = "gni", .gateway = "95@tcp"},
                   {.net = "gni", .gateway = "96@tcp"},
                   {.net = "gni", .gateway = "97@tcp", .used = 9},
                   {.net = "gni", .gateway = "98@tcp", .used = 8},
                   {.net = "gni", .gateway = "99@tcp"},
                   {.net = "gni", .gateway = "90@tcp", .dead = true},
                   {.net = "gni", .gateway = "77@tcp"},
                   {.net = "gni1", .gateway = "98@tcp"}},
        .ask = {.dst = "21@gni"},
        .expect = "1@tcp > 98@tcp > 21@gni"},
       "net; gni not: not local; gni1 not: not local; gni2 not: not local\n"
       "final net; gni wins: peer net health 1000 to 5 of gni1; gni1 loses: peer net health 5 to 1000 of gni; "
       "gni2 not: no route\n"
       "final NI; 21@gni wins: only candidate\n"
       "route; 91@tcp loses: preferred gateway none to 0 of 92@tcp; "
       "92@tcp loses: route priority 3 to 0 of 93@tcp; 93@tcp loses: hops 2 to 1 of 94@tcp; "
       "94@tcp loses: health 900 to 1000 of 95@tcp; 95@tcp loses: queued bytes 7168 to 0 of 96@tcp; "
       "96@tcp loses: credits 6 to 8 of 97@tcp; 97@tcp loses: route sequence 9 to 8 of 98@tcp; "
       "98@tcp wins: route sequence 8 to 9 of 97@tcp; 99@tcp not: no gateway NI; 90@tcp not: route dead; "
       "77@tcp not: gateway unknown\n"
       "gateway NI of 91@tcp; 91@tcp wins: only candidate\n"
       "gateway NI of 92@tcp; 92@tcp wins: only candidate\n"
       "gateway NI of 93@tcp; 93@tcp wins: only candidate\n"
       "gateway NI of 94@tcp; 94@tcp wins: only candidate; 84@o2ib not: not local\n"
       "gateway NI of 95@tcp; 95@tcp wins: only candidate\n"
       "gateway NI of 96@tcp; 96@tcp wins: only candidate\n"
       "gateway NI of 97@tcp; 97@tcp wins: only candidate\n"
       "gateway NI of 98@tcp; 98@tcp wins: only candidate\n"
       "gateway NI of 99@tcp; 99@tcp not: down\n"
       "local NI; 1@tcp wins: only candidate\n"},
  });
}

// Goal: steps without a choice say why there is none.
TEST(SelectExplain, nothing_to_choose) {
  const std::vector<NiSpec> nis{
      {.nid = "1@tcp"}, {.nid = "2@tcp"}, {.nid = "3@o2ib"}, {.nid = "4@tcp", .closing = true}};
  const std::vector<RouteSpec> routes{{.net = "gni", .gateway = "91@tcp"}};
  const PeerSpec router = gateway({{.nid = "91@tcp"}, {.nid = "92@o2ib"}, {.nid = "93@tcp", .no_memory = true}});
  check_traces({
      {{.why = "the message names both ends",
        .nis = nis,
        .peers = {multi_rail({{.nid = "11@tcp"}, {.nid = "12@tcp"}})},
        .ask = {.dst = "12@tcp", .src = "2@tcp"},
        .expect = "2@tcp > 12@tcp"},
       "local NI; 2@tcp wins: given\npeer NI; 12@tcp wins: given\n"},
      {{.why = "a peer without multi-rail sees one source",
        .nis = nis,
        .peers = {plain({{.nid = "11@tcp", .preferred = {"2@tcp"}}})},
        .ask = {.dst = "11@tcp"},
        .expect = "2@tcp > 11@tcp"},
       "peer NI; 11@tcp wins: given\nlocal NI; 2@tcp wins: recorded source\n"},
      {{.why = "a response goes back over the router of its request",
        .nis = nis,
        .peers = {plain({{.nid = "21@gni"}}), router},
        .routes = routes,
        .ask = {.dst = "21@gni", .src = "3@o2ib", .via = "92@o2ib", .response = true},
        .expect = "3@o2ib > 92@o2ib > 21@gni"},
       "gateway NI; 92@o2ib wins: router of the request\nlocal NI; 3@o2ib wins: given\n"},
      {{.why = "a source NI allows gateway NIs of its net only",
        .nis = nis,
        .peers = {plain({{.nid = "21@gni"}}), router},
        .routes = routes,
        .ask = {.dst = "21@gni", .src = "1@tcp"},
        .expect = "1@tcp > 91@tcp > 21@gni"},
       "final NI; 21@gni wins: given\n"
       "route; 91@tcp wins: only candidate\n"
       "gateway NI of 91@tcp; 91@tcp wins: only candidate; 92@o2ib not: other net; 93@tcp not: no memory\n"
       "local NI; 1@tcp wins: given\n"},
      {{.why = "a source that is being deleted",
        .nis = nis,
        .peers = {plain({{.nid = "11@tcp"}})},
        .ask = {.dst = "11@tcp", .src = "4@tcp"},
        .expect = "EADDRNOTAVAIL local"},
       "local NI; 4@tcp not: closing\n"},
      {{.why = "a destination without memory",
        .nis = nis,
        .peers = {plain({{.nid = "11@tcp", .no_memory = true}})},
        .ask = {.dst = "11@tcp"},
        .expect = "ENOMEM local"},
       "peer NI; 11@tcp not: no memory\n"},
  });
}

/// Rows of all kinds: few values for each criterion, so that each of them is sometimes the one that decides.
class RandomRows {
 public:
  /// `sole`: each local net and each peer has at most one NI.
  explicit RandomRows(uint64_t seed, bool sole = false) : rng_(seed), sole_(sole) {}
  Row next() {
    Row row{.why = "random", .level = level_ = below(2) == 0};
    for (const char* ni : sole_ ? Nids{"1@tcp", "4@o2ib"} : Nids{"1@tcp", "2@tcp", "3@tcp", "4@o2ib", "5@o2ib"})
      if (below(4) != 0)
        row.nis.push_back({ni,
                           !level_ && below(8) == 0,
                           !level_ && below(8) == 0,
                           !level_ && below(9) == 0,
                           health(),
                           priority(),
                           numa(),
                           {below(2), below(2)},
                           int32_t(below(3)) - 1,
                           below(4)});
    if (row.nis.empty()) row.nis.push_back({.nid = "1@tcp"});
    row.peers.push_back(peer(sole_ ? Nids{one_of({"11@tcp", "14@o2ib", "21@gni"})}
                                   : Nids{"11@tcp", "12@tcp", "13@o2ib", "14@o2ib", "21@gni", "22@gni", "23@gni1"}));
    for (const Nids& nids : sole_ ? std::vector<Nids>{{"91@tcp"}, {"92@o2ib"}}
                                  : std::vector<Nids>{{"91@tcp", "92@o2ib"}, {"93@tcp", "94@tcp"}, {"95@gni"}})
      if (below(5) != 0) row.peers.push_back(router(nids));
    for (const char* net : {"gni", "gni1"})
      for (const char* gateway : {"91@tcp", "92@o2ib", "93@tcp", "95@gni"})
        if (below(3) != 0)
          row.routes.push_back({net, gateway, below(2), int32_t(below(3)) - 1, below(6) == 0, below(3)});
    row.numa_range = below(2) * 20;
    row.discover_gateways = below(4) == 0;
    row.ask.dst = one_of({"11@tcp", "14@o2ib", "21@gni", "23@gni1", "1@tcp", "88@tcp"});
    if (below(4) == 0) row.ask.src = one_of({"1@tcp", "4@o2ib"});
    if (below(4) == 0) row.ask.via = one_of({"91@tcp", "93@tcp"});
    row.ask.response = below(3) == 0;
    row.ask.forward = below(4) == 0;
    row.ask.portal0 = below(4) == 0;
    row.ask.recovery = below(6) == 0;
    row.ask.as_given = below(6) == 0;
    if (sole_ && below(2) == 0) fail_somewhere(row.ask);
    row.ask.origin = "11@tcp";
    row.ask.numa = level_ && below(2) == 0 ? UINT32_MAX : below(2);
    row.ask.accelerator = below(3) == 0 ? UINT32_MAX : below(3);
    return row;
  }

 private:
  using Nids = std::vector<const char*>;
  uint32_t below(uint32_t limit) { return uint32_t(rng_.below(limit)); }
  uint16_t health() { return !level_ && below(3) == 0 ? uint16_t(900) : kHealthMax; }
  uint32_t priority() { return !level_ && below(3) == 0 ? below(2) : kNoPriority; }
  uint32_t numa() { return below(3) == 0 ? UINT32_MAX : below(2); }
  /// Only for rows with one path: explanations leave failed attempts out.
  void fail_somewhere(Ask& ask) {
    ask.tried_any = below(2) == 0;
    ask.tried.emplace();
    for (uint32_t left = 1 + below(3); left > 0; --left)
      ask.tried->add(uint16_t(below(5)), below(8), below(2) == 0, below(2) == 0);
  }
  const char* one_of(std::vector<const char*> all) { return all[below(uint32_t(all.size()))]; }
  PeerNiSpec ni(const char* nid) {
    PeerNiSpec out{.nid = nid, .down = below(9) == 0, .no_memory = below(12) == 0, .health = health()};
    out.priority = priority();
    if (below(3) == 0) out.preferred = {{one_of({"1@tcp", "2@tcp", "4@o2ib"}), below(2)}};
    out.queued_kib = below(2);
    out.credits = int32_t(below(3));
    out.used = below(4);
    return out;
  }
  PeerSpec peer(const std::vector<const char*>& nids) {
    PeerSpec out;
    for (const char* nid : nids)
      if (below(3) != 0 || out.nis.empty()) out.nis.push_back(ni(nid));
    out.multi_rail = below(3) != 0;
    out.stale = below(8) == 0;
    return out;
  }
  PeerSpec router(const std::vector<const char*>& nids) {
    PeerSpec out{.multi_rail = true, .router = true, .stale = below(5) == 0};
    for (const char* nid : nids) out.nis.push_back(ni(nid));
    return out;
  }
  Rng rng_;
  const bool sole_;
  bool level_ = false;  // half of the rows: only tallies and lists differ
};

// Goal: whatever the views and the message, the explanation comes to the choice that sends, and changes nothing.
TEST(SelectExplain, agrees_with_what_sends) {
  RandomRows rows(20261123);
  for (int i = 0; i < 3000 && !HasFailure(); ++i) check_explained(rows.next(), "random row " + std::to_string(i));
}

// Goal: as above, where there is only one path to a peer.
TEST(SelectExplain, agrees_where_one_path_is_left) {
  RandomRows rows(20261129, true);
  for (int i = 0; i < 3000 && !HasFailure(); ++i) check_explained(rows.next(), "random row " + std::to_string(i));
}

// Goal: messages played one after the other take the paths that a worker takes that sends them.
TEST(SelectExplain, plays_what_a_worker_sends) {
  RandomRows rows(41);
  for (int i = 0; i < 1000 && !HasFailure(); ++i)
    (void)check_play(rows.next(), 12, uint32_t(i % 3) * 100, "random row " + std::to_string(i));
}

// Goal: played messages take turns, and follow credits and queued bytes, as the rule of what a sender notes has it.
TEST(SelectExplain, plays_turns_and_credits) {
  const Row row{.why = "two rails",
                .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp"}},
                .peers = {multi_rail({{.nid = "11@tcp", .credits = 8}, {.nid = "12@tcp", .credits = 6}})},
                .ask = {.dst = "11@tcp"}};
  EXPECT_EQ(check_play(row, 5, 0, "two rails"),
            (std::vector<std::string>{"1@tcp > 11@tcp", "2@tcp > 11@tcp", "1@tcp > 12@tcp", "2@tcp > 11@tcp",
                                      "1@tcp > 12@tcp"}));
  const Row routed{.why = "two gateways, one with less on its way",
                   .nis = {{.nid = "1@tcp"}},
                   .peers = {multi_rail({{.nid = "21@gni"}, {.nid = "22@gni"}}),
                             gateway({{.nid = "91@tcp", .queued_kib = 250}}), gateway({{.nid = "92@tcp"}})},
                   .routes = {{.net = "gni", .gateway = "91@tcp"}, {.net = "gni", .gateway = "92@tcp"}},
                   .ask = {.dst = "21@gni"}};
  EXPECT_EQ(check_play(routed, 4, 100 << 10, "two gateways"),
            (std::vector<std::string>{"1@tcp > 92@tcp > 21@gni", "1@tcp > 92@tcp > 22@gni", "1@tcp > 92@tcp > 21@gni",
                                      "1@tcp > 91@tcp > 22@gni"}));
}

// Goal: each criterion, exclusion and step has a name of its own.
TEST(SelectExplain, names) {
  const auto check_names = [](const auto& names, size_t empty) {
    for (size_t i = 0; i < names.size(); ++i) {
      EXPECT_EQ(names[i].empty(), i == empty) << i;
      for (size_t j = 0; j < i; ++j) EXPECT_NE(names[i], names[j]);
    }
  };
  check_names(kCriterionNames, SIZE_MAX);
  check_names(kExclusionNames, size_t(Exclusion::kNone));
  check_names(kStepNames, SIZE_MAX);
  EXPECT_EQ(name(Criterion::kRouteSequence), "route sequence");
  EXPECT_EQ(name(Exclusion::kNoGatewayNi), "no gateway NI");
  EXPECT_EQ(name(StepKind::kGatewayNi), "gateway NI");
}

}  // namespace
}  // namespace ulnet::test
