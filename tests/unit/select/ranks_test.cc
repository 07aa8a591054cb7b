// The ranks of choose_path() without routers: net, local NI, peer NI. In each row one criterion decides. The candidates
// are equal in all criteria before it, and the winner is the worse candidate in all criteria behind it.
#include <gtest/gtest.h>

#include "tests/unit/select/rig.h"

namespace ulnet::test {
namespace {

/// A GET or PUT to the first NI of a multi-rail peer.
constexpr Ask kRequest{.dst = "11@tcp"};

// Goal: the net of a request to a multi-rail peer is chosen by the six criteria of docs/wire/lnet.md §6.1, in order.
// Method: this node and the peer share tcp and o2ib; o2ib wins in each row, though tcp is better further on.
TEST(SelectRanks, net_by_health_and_priority) {
  check({
      {.why = "health of the peer net is that of its best NI, and goes before all else",
       .nis = {{.nid = "1@tcp", .used = 1}, {.nid = "3@o2ib", .health = 900, .used = 9}},
       .nets = {{"tcp", 1}, {"o2ib", 2}},
       .peers = {multi_rail({{.nid = "11@tcp", .health = 800, .used = 1},
                             {.nid = "13@o2ib", .health = 100, .used = 9},
                             {.nid = "14@o2ib", .health = 801, .used = 9}},
                            {{"tcp", 1}, {"o2ib", 2}})},
       .ask = kRequest,
       .expect = "3@o2ib > 14@o2ib"},
      {.why = "health of the peer net: an NI that is known to be down does not count",
       .nis = {{.nid = "1@tcp", .used = 1}, {.nid = "3@o2ib", .health = 900, .used = 9}},
       .nets = {{"tcp", 1}, {"o2ib", 2}},
       .peers = {multi_rail(
           {{.nid = "11@tcp", .known_down = true, .used = 1}, {.nid = "13@o2ib", .health = 1, .used = 9}},
           {{"tcp", 1}, {"o2ib", 2}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "peer nets as healthy: the priority of the peer net, lower first",
       .nis = {{.nid = "1@tcp", .used = 1}, {.nid = "3@o2ib", .health = 900, .used = 9}},
       .nets = {{"tcp", 1}, {"o2ib", 2}},
       .peers = {multi_rail({{.nid = "11@tcp", .health = 700, .used = 1}, {.nid = "13@o2ib", .health = 700, .used = 9}},
                            {{"tcp", 2}, {"o2ib", 1}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "a priority goes before none",
       .nis = {{.nid = "1@tcp", .used = 1}, {.nid = "3@o2ib", .health = 900, .used = 9}},
       .peers = {multi_rail({{.nid = "11@tcp"}, {.nid = "13@o2ib", .used = 9}}, {{"o2ib", 0xFFFFFFFE}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "peer nets equal: health of the local net is that of its best NI",
       .nis = {{.nid = "1@tcp", .health = 800, .used = 1},
               {.nid = "3@o2ib", .health = 100, .used = 9},
               {.nid = "4@o2ib", .health = 801, .used = 9}},
       .nets = {{"tcp", 1}, {"o2ib", 2}},
       .peers = {multi_rail({{.nid = "11@tcp", .health = 700, .used = 1}, {.nid = "13@o2ib", .health = 700, .used = 9}},
                            {{"tcp", 3}, {"o2ib", 3}})},
       .ask = kRequest,
       .expect = "4@o2ib > 13@o2ib"},
      {.why = "health of the local net: an NI without link does not count",
       .nis = {{.nid = "1@tcp", .health = 800, .used = 1},
               {.nid = "2@tcp", .fatal = true, .health = 1000, .used = 1},
               {.nid = "3@o2ib", .health = 801, .used = 9}},
       .nets = {{"tcp", 1}, {"o2ib", 2}},
       .peers = {multi_rail({{.nid = "11@tcp", .used = 1}, {.nid = "13@o2ib", .used = 9}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "health of the local net: NIs that are being deleted do not count",
       .nis = {{.nid = "1@tcp", .health = 800, .used = 1},
               {.nid = "2@tcp", .leaving = true, .health = 1000, .used = 1},
               {.nid = "5@tcp", .closing = true, .health = 1000, .used = 1},
               {.nid = "3@o2ib", .health = 801, .used = 9}},
       .nets = {{"tcp", 1}, {"o2ib", 2}},
       .peers = {multi_rail({{.nid = "11@tcp", .used = 1}, {.nid = "13@o2ib", .used = 9}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "local nets as healthy: the priority of the local net, lower first",
       .nis = {{.nid = "1@tcp", .health = 600, .used = 1}, {.nid = "3@o2ib", .health = 600, .used = 9}},
       .nets = {{"tcp", 2}, {"o2ib", 1}},
       .peers = {multi_rail({{.nid = "11@tcp", .health = 700, .used = 1}, {.nid = "13@o2ib", .health = 700, .used = 9}},
                            {{"tcp", 3}, {"o2ib", 3}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
  });
}

// Goal, method: as above, for nets that are as healthy and have the same priority.
TEST(SelectRanks, net_by_turns) {
  check({
      {.why = "priorities equal: the peer net that was chosen longer ago, by its NI that was chosen last",
       .nis = {{.nid = "1@tcp", .health = 600, .used = 1}, {.nid = "3@o2ib", .health = 600, .used = 9}},
       .nets = {{"tcp", 4}, {"o2ib", 4}},
       .peers = {multi_rail({{.nid = "11@tcp", .health = 700, .used = 9},
                             {.nid = "12@tcp", .health = 700, .used = 1},
                             {.nid = "13@o2ib", .health = 700, .used = 5},
                             {.nid = "14@o2ib", .health = 700, .used = 6}},
                            {{"tcp", 3}, {"o2ib", 3}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "peer nets as long ago: the local net that was chosen longer ago, by its NI that was chosen last",
       .nis = {{.nid = "1@tcp", .health = 600, .used = 9},
               {.nid = "2@tcp", .health = 600, .used = 1},
               {.nid = "3@o2ib", .health = 600, .used = 5},
               {.nid = "4@o2ib", .health = 600, .used = 6}},
       .nets = {{"tcp", 4}, {"o2ib", 4}},
       .peers = {multi_rail({{.nid = "11@tcp", .health = 700, .used = 7}, {.nid = "13@o2ib", .health = 700, .used = 7}},
                            {{"tcp", 3}, {"o2ib", 3}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "all equal: the peer's first net",
       .nis = {{.nid = "1@tcp", .used = 5}, {.nid = "3@o2ib", .used = 5}},
       .peers = {multi_rail({{.nid = "11@tcp", .used = 7}, {.nid = "13@o2ib", .used = 7}})},
       .one_order = true,
       .ask = kRequest,
       .expect = "1@tcp > 11@tcp"},
      {.why = "all equal: the peer's first net, whatever the order here",
       .nis = {{.nid = "1@tcp", .used = 5}, {.nid = "3@o2ib", .used = 5}},
       .peers = {multi_rail({{.nid = "13@o2ib", .used = 7}, {.nid = "11@tcp", .used = 7}})},
       .one_order = true,
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
  });
}

// Goal: a net counts when both nodes are on it and an NI of this node stays there.
TEST(SelectRanks, net_that_counts) {
  check({
      {.why = "a net that this node is not on does not count, however good",
       .nis = {{.nid = "3@o2ib", .fatal = true, .health = 0, .used = 9}},
       .peers = {multi_rail({{.nid = "11@tcp"}, {.nid = "13@o2ib", .health = 0, .used = 9}}, {{"tcp", 0}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "a net of which all NIs are being deleted does not count",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "2@tcp", .closing = true}, {.nid = "3@o2ib", .health = 0}},
       .peers = {multi_rail({{.nid = "11@tcp"}, {.nid = "13@o2ib", .health = 0}})},
       .ask = kRequest,
       .expect = "3@o2ib > 13@o2ib"},
      {.why = "a net is there as long as one NI stays",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "2@tcp"}, {.nid = "5@tcp", .closing = true}},
       .peers = {multi_rail({{.nid = "11@tcp"}})},
       .ask = kRequest,
       .expect = "2@tcp > 11@tcp"},
  });
}

/// A choice between NIs of one net: which one, whatever the message and its way.
struct NiRow {
  const char* why = "";
  std::vector<NiSpec> nis;
  uint32_t memory_numa = UINT32_MAX;  ///< node of the payload's memory
  uint32_t numa_range = 0;
  bool one_order = false;
  uint32_t accelerator = UINT32_MAX;  ///< that holds the payload
  std::string expect;
};
/// Checks each row for each kind of message that leaves the NI free, to each kind of peer, and to a gateway.
void check_nis(const std::vector<NiRow>& rows) {
  for (const NiRow& row : rows) {
    const std::string direct = row.expect + " > 11@tcp", routed = row.expect + " > 91@tcp > 21@gni";
    const PeerSpec rails = multi_rail({{.nid = "11@tcp"}}), one_rail = plain({{.nid = "11@tcp"}});
    Row full{.why = row.why, .nis = row.nis, .numa_range = row.numa_range, .one_order = row.one_order};
    const auto check_as = [&](const PeerSpec& peer, Ask ask, const std::string& expect) {
      ask.numa = row.memory_numa;
      ask.accelerator = row.accelerator;
      full.peers = {peer, gateway({{.nid = "91@tcp"}})};
      full.routes = {{.net = "gni", .gateway = "91@tcp"}};
      full.ask = ask;
      full.expect = expect.c_str();
      check({full});
    };
    check_as(rails, {.dst = "11@tcp"}, direct);
    check_as(rails, {.dst = "11@tcp", .response = true}, direct);
    check_as(rails, {.dst = "11@tcp", .recovery = true}, direct);
    check_as(rails, {.dst = "11@tcp", .forward = true}, direct);
    check_as(one_rail, {.dst = "11@tcp"}, direct);
    check_as(multi_rail({{.nid = "21@gni"}}), {.dst = "21@gni"}, routed);
    check_as(plain({{.nid = "21@gni"}}), {.dst = "21@gni", .forward = true}, routed);
  }
}

// Goal: the local NI is chosen by the criteria of docs/wire/lnet.md §6.2, in order.
// Method: two NIs; 2@tcp wins in each row, though 1@tcp is better further on. Each row holds for each kind of message.
TEST(SelectRanks, local_ni_by_health_priority_and_distance) {
  check_nis({
      {.why = "a link that is up goes before all else",
       .nis = {{.nid = "1@tcp", .fatal = true, .priority = 1, .credits = 9, .used = 1},
               {.nid = "2@tcp", .health = 0, .priority = 2, .numa = 1, .credits = -9, .used = 9}},
       .memory_numa = 0,
       .expect = "2@tcp"},
      {.why = "both links up: health, higher first",
       .nis = {{.nid = "1@tcp", .health = 800, .priority = 1, .credits = 9, .used = 1},
               {.nid = "2@tcp", .health = 801, .priority = 2, .numa = 1, .credits = -9, .used = 9}},
       .memory_numa = 0,
       .expect = "2@tcp"},
      {.why = "both links down: health, higher first",
       .nis = {{.nid = "1@tcp", .fatal = true, .health = 800}, {.nid = "2@tcp", .fatal = true, .health = 801}},
       .expect = "2@tcp"},
      {.why = "as healthy: priority, lower first",
       .nis = {{.nid = "1@tcp", .health = 700, .priority = 2, .credits = 9, .used = 1},
               {.nid = "2@tcp", .health = 700, .priority = 1, .numa = 1, .credits = -9, .used = 9}},
       .memory_numa = 0,
       .expect = "2@tcp"},
      {.why = "a priority goes before none",
       .nis = {{.nid = "1@tcp", .credits = 9}, {.nid = "2@tcp", .priority = 0xFFFFFFFE, .credits = 8}},
       .expect = "2@tcp"},
      {.why = "priorities equal: the device that is nearer to the payload's memory",
       .nis = {{.nid = "1@tcp", .health = 700, .priority = 3, .numa = 0, .credits = 9, .used = 1},
               {.nid = "2@tcp", .health = 700, .priority = 3, .numa = 1, .credits = -9, .used = 9}},
       .memory_numa = 1,
       .expect = "2@tcp"},
      {.why = "a distance over numa_range counts",
       .nis = {{.nid = "1@tcp", .numa = 0, .credits = 9}, {.nid = "2@tcp", .numa = 1, .credits = -9}},
       .memory_numa = 1,
       .numa_range = 19,
       .expect = "2@tcp"},
      {.why = "distances up to numa_range are equal: free credits, more first, at the worker that will send",
       .nis = {{.nid = "1@tcp", .numa = 0, .credits = 4, .used = 1},
               {.nid = "2@tcp", .numa = 1, .credits = 5, .used = 9}},
       .memory_numa = 0,
       .numa_range = 20,
       .expect = "2@tcp"},
      {.why = "a device of no known node is as near as any",
       .nis = {{.nid = "1@tcp", .numa = 0, .credits = 4, .used = 1}, {.nid = "2@tcp", .credits = 5, .used = 9}},
       .memory_numa = 0,
       .expect = "2@tcp"},
      {.why = "to memory of no known node a device of a node is as near as one of none",
       .nis = {{.nid = "1@tcp", .credits = 4, .used = 1}, {.nid = "2@tcp", .numa = 0, .credits = 5, .used = 9}},
       .expect = "2@tcp"},
      {.why = "to memory of no known node all devices are as near",
       .nis = {{.nid = "1@tcp", .numa = 0, .credits = 4, .used = 1},
               {.nid = "2@tcp", .numa = 1, .credits = 5, .used = 9}},
       .expect = "2@tcp"},
  });
}

// Goal: payload in an accelerator goes over the device that is near to it, before NUMA distance, and only then.
TEST(SelectRanks, local_ni_by_accelerator) {
  check_nis({
      {.why = "priorities equal: the device that is nearer to the accelerator goes before NUMA distance",
       .nis = {{.nid = "1@tcp", .priority = 3, .numa = 0, .device_priorities = {0, 2}, .credits = 9, .used = 1},
               {.nid = "2@tcp", .priority = 3, .numa = 1, .device_priorities = {2, 1}, .credits = -9, .used = 9}},
       .memory_numa = 0,
       .accelerator = 1,
       .expect = "2@tcp"},
      {.why = "priority goes before the accelerator",
       .nis = {{.nid = "1@tcp", .priority = 3, .device_priorities = {0}},
               {.nid = "2@tcp", .priority = 2, .device_priorities = {2}}},
       .accelerator = 0,
       .expect = "2@tcp"},
      {.why = "a device of a known place goes before one of none",
       .nis = {{.nid = "1@tcp", .credits = 9}, {.nid = "2@tcp", .device_priorities = {2}}},
       .accelerator = 0,
       .expect = "2@tcp"},
      {.why = "as near to the accelerator: NUMA distance",
       .nis = {{.nid = "1@tcp", .numa = 0, .device_priorities = {1}, .credits = 9},
               {.nid = "2@tcp", .numa = 1, .device_priorities = {1}}},
       .memory_numa = 1,
       .accelerator = 0,
       .expect = "2@tcp"},
      {.why = "payload in no accelerator: the place of devices does not count",
       .nis = {{.nid = "1@tcp", .device_priorities = {0}, .credits = 7},
               {.nid = "2@tcp", .device_priorities = {2}, .credits = 8}},
       .expect = "2@tcp"},
      {.why = "an accelerator of no number that control knows: the place of devices does not count",
       .nis = {{.nid = "1@tcp", .device_priorities = {0}, .credits = 7},
               {.nid = "2@tcp", .device_priorities = {2}, .credits = 8}},
       .accelerator = 5,
       .expect = "2@tcp"},
  });
}

// Goal: where the destination's NI is fixed, a local NI in its list goes before others, but not before priority.
// Method: exact destination, response, forwarded message, and destinations behind a gateway; 2@tcp wins in each row.
TEST(SelectRanks, local_ni_that_the_destination_prefers) {
  struct Listed {
    const char* why;
    std::vector<NiSpec> nis;
    std::vector<Preferred> preferred;
  };
  const std::vector<Listed> rows{
      {"priorities equal: the listed NI goes before accelerator, NUMA distance and credits",
       {{.nid = "1@tcp", .priority = 3, .numa = 0, .device_priorities = {0}, .credits = 9, .used = 1},
        {.nid = "2@tcp", .priority = 3, .numa = 1, .device_priorities = {2}, .credits = -9, .used = 9}},
       {"7@tcp", "2@tcp"}},
      {"priority goes before the list", {{.nid = "1@tcp", .priority = 3}, {.nid = "2@tcp", .priority = 2}}, {"1@tcp"}},
      {"health goes before the list", {{.nid = "1@tcp", .health = 999}, {.nid = "2@tcp"}}, {"1@tcp"}},
      {"both listed: the lower rank",
       {{.nid = "1@tcp", .credits = 9}, {.nid = "2@tcp", .credits = 1}},
       {{"1@tcp", 2}, {"2@tcp", 1}}},
      {"both listed with one rank: credits",
       {{.nid = "1@tcp", .credits = 7}, {.nid = "2@tcp", .credits = 8}},
       {{"1@tcp", 2}, {"2@tcp", 2}}},
      {"neither listed: credits", {{.nid = "1@tcp", .credits = 7}, {.nid = "2@tcp", .credits = 8}}, {"7@tcp"}},
  };
  for (const Listed& one : rows) {
    const auto check_as = [&](PeerSpec peer, Ask ask, const std::string& expect) {
      ask.numa = 0;
      ask.accelerator = 0;
      check({Row{.why = one.why,
                 .nis = one.nis,
                 .peers = {std::move(peer), multi_rail({{.nid = "31@gni"}}), gateway({{.nid = "91@tcp"}})},
                 .routes = {{.net = "gni", .gateway = "91@tcp"}},
                 .ask = ask,
                 .expect = expect.c_str()}});
    };
    const PeerSpec direct = multi_rail({{.nid = "11@tcp", .preferred = one.preferred}});
    const PeerSpec routed = multi_rail({{.nid = "21@gni", .preferred = one.preferred}});
    check_as(direct, {.dst = "11@tcp", .response = true}, "2@tcp > 11@tcp");
    check_as(direct, {.dst = "11@tcp", .recovery = true}, "2@tcp > 11@tcp");
    check_as(direct, {.dst = "11@tcp", .forward = true}, "2@tcp > 11@tcp");
    check_as(routed, {.dst = "21@gni"}, "2@tcp > 91@tcp > 21@gni");
    check_as(routed, {.dst = "21@gni", .forward = true}, "2@tcp > 91@tcp > 21@gni");
    check_as(routed, {.dst = "21@gni", .response = true}, "2@tcp > 91@tcp > 21@gni");
    check_as(routed, {.dst = "21@gni", .via = "91@tcp", .response = true}, "2@tcp > 91@tcp > 21@gni");
    Row forwarded{.nis = one.nis,
                  .peers = {routed, gateway({{.nid = "91@tcp"}})},
                  .ask = {.dst = "21@gni", .forward = true, .numa = 0, .accelerator = 0}};
    EXPECT_EQ(over(forwarded, "91@tcp"), "2@tcp > 91@tcp > 21@gni") << one.why;
    forwarded.peers = {direct};
    forwarded.ask.dst = "11@tcp";
    EXPECT_EQ(over(forwarded, "11@tcp"), "2@tcp > 11@tcp") << one.why;
  }
}

// Goal, method: as above, for NIs that are as healthy and as near, and have the same priority.
TEST(SelectRanks, local_ni_by_credits_and_turns) {
  check_nis({
      {.why = "credits: one message that waits goes before two",
       .nis = {{.nid = "1@tcp", .credits = -2, .used = 1}, {.nid = "2@tcp", .credits = -1, .used = 9}},
       .expect = "2@tcp"},
      {.why = "credits: none goes before a message that waits",
       .nis = {{.nid = "1@tcp", .credits = -1, .used = 1}, {.nid = "2@tcp", .credits = 0, .used = 9}},
       .expect = "2@tcp"},
      {.why = "as many credits: the one that was chosen longer ago, by this worker",
       .nis = {{.nid = "1@tcp", .health = 700, .priority = 3, .numa = 0, .credits = 5, .used = 9},
               {.nid = "2@tcp", .health = 700, .priority = 3, .numa = 0, .credits = 5, .used = 8}},
       .memory_numa = 1,
       .expect = "2@tcp"},
      {.why = "all equal: the first",
       .nis = {{.nid = "2@tcp", .used = 5}, {.nid = "1@tcp", .used = 5}},
       .one_order = true,
       .expect = "2@tcp"},
      {.why = "the best of three, in the middle",
       .nis = {{.nid = "1@tcp", .health = 800}, {.nid = "2@tcp", .health = 900}, {.nid = "5@tcp", .health = 850}},
       .expect = "2@tcp"},
  });
}

// Goal: an NI counts unless it is being deleted.
TEST(SelectRanks, local_ni_that_counts) {
  check_nis({
      {.why = "an NI that is leaving is not chosen",
       .nis = {{.nid = "1@tcp", .leaving = true}, {.nid = "2@tcp", .fatal = true, .health = 0}},
       .expect = "2@tcp"},
      {.why = "an NI that is closing is not chosen",
       .nis = {{.nid = "1@tcp", .closing = true}, {.nid = "2@tcp", .fatal = true, .health = 0}},
       .expect = "2@tcp"},
      {.why = "an ill NI without link ranks last and is not excluded",
       .nis = {{.nid = "2@tcp", .fatal = true, .health = 0, .credits = -9}},
       .expect = "2@tcp"},
  });
}

/// A choice between peer NIs of one net.
struct PeerNiRow {
  const char* why = "";
  std::vector<PeerNiSpec> nis;
  bool one_order = false;
  std::string expect;
};
/// Checks each row as the choice of the destination behind a gateway, too. There, no NI is chosen yet that a peer NI
/// could prefer.
void check_peer_nis(const std::vector<PeerNiRow>& rows) {
  for (const PeerNiRow& row : rows) {
    const std::string direct = "1@gni > " + row.expect, routed = "1@tcp > 91@tcp > " + row.expect;
    const std::string dst = row.nis.front().nid;
    Row full{.why = row.why,
             .nis = {{.nid = "1@gni"}},
             .peers = {multi_rail(row.nis), gateway({{.nid = "91@tcp"}})},
             .routes = {{.net = "gni", .gateway = "91@tcp"}},
             .one_order = row.one_order,
             .ask = {.dst = dst.c_str()},
             .expect = direct.c_str()};
    check({full});
    full.nis = {{.nid = "1@tcp"}};
    full.expect = routed.c_str();
    check({full});
  }
}

// Goal: the peer NI is chosen by the criteria of docs/wire/lnet.md §6.3, in order.
// Method: two NIs of a peer; 12@gni wins in each row, though 11@gni is better further on.
TEST(SelectRanks, peer_ni) {
  check_peer_nis({
      {.why = "health goes before all else",
       .nis = {{.nid = "11@gni", .health = 800, .priority = 1, .credits = 9, .used = 1},
               {.nid = "12@gni", .health = 801, .priority = 2, .credits = -9, .used = 9}},
       .expect = "12@gni"},
      {.why = "as healthy: priority, lower first",
       .nis = {{.nid = "11@gni", .health = 700, .priority = 2, .credits = 9, .used = 1},
               {.nid = "12@gni", .health = 700, .priority = 1, .credits = -9, .used = 9}},
       .expect = "12@gni"},
      {.why = "a priority goes before none",
       .nis = {{.nid = "11@gni", .credits = 9}, {.nid = "12@gni", .priority = 0xFFFFFFFE, .credits = -9}},
       .expect = "12@gni"},
      {.why = "priorities equal, and neither prefers the NI: free credits, more first",
       .nis = {{.nid = "11@gni", .health = 700, .priority = 3, .preferred = {"2@gni"}, .credits = 4, .used = 1},
               {.nid = "12@gni", .health = 700, .priority = 3, .credits = 5, .used = 9}},
       .expect = "12@gni"},
      {.why = "credits: one message that waits goes before two",
       .nis = {{.nid = "11@gni", .credits = -2, .used = 1}, {.nid = "12@gni", .credits = -1, .used = 9}},
       .expect = "12@gni"},
      {.why = "credits: none goes before a message that waits",
       .nis = {{.nid = "11@gni", .credits = -1, .used = 1}, {.nid = "12@gni", .credits = 0, .used = 9}},
       .expect = "12@gni"},
      {.why = "as many credits: the one that was chosen longer ago, by this worker",
       .nis = {{.nid = "11@gni", .health = 700, .priority = 3, .credits = 5, .used = 9},
               {.nid = "12@gni", .health = 700, .priority = 3, .queued_kib = 9999, .credits = 5, .used = 8}},
       .expect = "12@gni"},
      {.why = "all equal: the first",
       .nis = {{.nid = "12@gni", .used = 5}, {.nid = "11@gni", .used = 5}},
       .one_order = true,
       .expect = "12@gni"},
      {.why = "the best of three, in the middle",
       .nis = {{.nid = "11@gni", .health = 800}, {.nid = "12@gni", .health = 900}, {.nid = "15@gni", .health = 850}},
       .expect = "12@gni"},
      {.why = "nothing can be sent to an NI without memory",
       .nis = {{.nid = "11@gni", .no_memory = true}, {.nid = "12@gni", .health = 0, .credits = -9}},
       .expect = "12@gni"},
      {.why = "an NI that its node reports as down, or to which no way leads, comes last",
       .nis = {{.nid = "11@gni", .known_down = true, .priority = 1, .credits = 9, .used = 1},
               {.nid = "12@gni", .health = 0, .priority = 2, .credits = -9, .used = 9}},
       .expect = "12@gni"},
      {.why = "all are known to be down: health",
       .nis = {{.nid = "11@gni", .known_down = true, .health = 800, .priority = 1},
               {.nid = "12@gni", .known_down = true, .health = 801, .priority = 2}},
       .expect = "12@gni"},
      {.why = "that a router believes an NI dead counts for messages that it forwards",
       .nis = {{.nid = "11@gni", .health = 900}, {.nid = "12@gni", .down = true, .health = 901}},
       .expect = "12@gni"},
  });
}

// Goal: a peer NI that prefers the NI which was chosen goes before others, but not before health and priority.
// Method: as above, with peer NIs that name local NIDs.
TEST(SelectRanks, peer_ni_that_prefers_the_local_ni) {
  check({
      {.why = "priorities equal: the one that prefers the chosen NI goes before credits",
       .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp", .health = 0}},
       .peers = {multi_rail(
           {{.nid = "11@tcp", .priority = 3, .preferred = {"2@tcp"}, .credits = 9, .used = 1},
            {.nid = "12@tcp", .priority = 3, .preferred = {"7@tcp", "1@tcp"}, .credits = -9, .used = 9}})},
       .ask = kRequest,
       .expect = "1@tcp > 12@tcp"},
      {.why = "both prefer the chosen NI: credits",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail({{.nid = "11@tcp", .preferred = {"1@tcp"}, .credits = 4, .used = 1},
                             {.nid = "12@tcp", .preferred = {"1@tcp"}, .credits = 5, .used = 9}})},
       .ask = kRequest,
       .expect = "1@tcp > 12@tcp"},
      {.why = "priority goes before preference",
       .nis = {{.nid = "1@tcp"}},
       .peers = {multi_rail(
           {{.nid = "11@tcp", .priority = 2, .preferred = {"1@tcp"}}, {.nid = "12@tcp", .priority = 1}})},
       .ask = kRequest,
       .expect = "1@tcp > 12@tcp"},
      {.why = "no NI is chosen for the preference of a peer NI that is chosen after it",
       .nis = {{.nid = "1@tcp"}, {.nid = "2@tcp", .health = 999}},
       .peers = {multi_rail({{.nid = "11@tcp", .preferred = {"2@tcp"}}})},
       .ask = kRequest,
       .expect = "1@tcp > 11@tcp"},
  });
}

}  // namespace
}  // namespace ulnet::test
