#include "tests/simulate/cluster.h"

#include <algorithm>
#include <cstring>

#include "control/discovery/runner.h"
#include "control/health/health.h"
#include "control/health/rail_probes.h"
#include "tests/simulate/oracle.h"

namespace ulnet::simulate {

using test::SimNode;

namespace {

constexpr int64_t kTransactionTimeout = 20;  // s; short, so that runs are
constexpr int64_t kLndTimeout = 5;
constexpr uint64_t kMessagesMost = 1'000'000;  ///< of one run: more messages mean a live-lock
constexpr size_t kAddresses = 6;               ///< of one node on one net, if they are its own for ever
constexpr int kRounds = 40;                    ///< of traffic, at most, until the tables are right
/// Time without traffic at the end, and the messages of the router checker that each pair of nodes may send in it.
constexpr Duration kQuiet = 120s;
constexpr uint64_t kQuietMessages = 60;
constexpr std::array<int64_t, 4> kRecoveryIntervals{1, 8, 30, 900};  ///< s; the last is the default
/// A health value rises by its tenth with each recovery ping. After the first answer, the next wait is at most 2 s.
constexpr Duration kRecovers = 60s;
constexpr int kRailRounds = 4;

}  // namespace

bool Member::on_net(Net net) const {
  return std::any_of(nids.begin(), nids.end(), [&](const Nid& nid) { return nid.net() == net; });
}

std::string Member::name() const {
  return fmt::format("node {}{}", number, router ? " (router)" : "");
}

namespace {

test::Transport transport_of(uint64_t seed) {
  if (seed % kIbOneIn == 2) return test::Transport::kO2ib;
  if (seed % kRoceOneIn == 1) return test::Transport::kRoce;
  if (seed % kTcpOneIn == 0) return test::Transport::kSockTcp;
  return seed % kRdmaOneIn == 0 ? test::Transport::kRdma : test::Transport::kFabric;
}

}  // namespace

Cluster::Cluster(uint64_t seed, Trace& trace)
    : trace_(trace),
      sim_({.seed = seed,
            .transport = transport_of(seed),
            .check_at_end = false,
            .fail =
                [this](const std::string& what) {
                  if (failure_.empty()) failure_ = what;
                },
            .after_turn =
                [this](SimNode& node, Worker& worker) {
                  std::string wrong = watch_.turned(node, worker);
                  if (failure_.empty()) failure_ = std::move(wrong);
                }}),
      rng_(seed * 6364136223846793005ull + 1442695040888963407ull) {
  const auto see = [this](const Nid& from, const Nid& to, const wire::Header& header) {
    trace_.message(sim_.now(), from, to, header);
  };
  if (ib() && !roce()) test::see_messages(sim_.rc(), see);
  if (real()) return;
  sim_.fabric().hook = [see](const Nid& from, const Nid& to, const wire::Header& header) {
    see(from, to, header);
    return sim::Fate::kPass;
  };
}

// --- build -----------------------------------------------------------------------------------------------------------

// Over the fabric a NID may go from one node to another. Else an address is its node's for ever.
std::optional<Nid> Cluster::free_nid(const Member& member, Net net) {
  const auto taken = [&](const Nid& nid) {
    return std::any_of(members_.begin(), members_.end(), [&](const Member& one) {
      if (std::find(one.nids.begin(), one.nids.end(), nid) != one.nids.end()) return true;
      return one.node != nullptr && one.running() && one.control().nis->find(nid) != nullptr;
    });
  };
  const std::vector<Nid> all = nids_on(member, net);
  const size_t first = rng_.below(all.size());
  for (size_t i = 0; i < all.size(); ++i)
    if (const Nid& nid = all[(first + i) % all.size()]; !taken(nid)) return nid;
  return {};
}

std::vector<Nid> Cluster::nids_on(const Member& member, Net net) const {
  std::vector<Nid> all;
  const size_t first = real() ? kAddresses * member.number : 0;
  for (size_t i = 0; i < (real() ? kAddresses : members_.size() * 2 + 2); ++i)
    all.push_back(Nid::v4(net, 0x0A000001u + (uint32_t(net.number()) << 16) + uint32_t(first + i)));
  return all;
}

void Cluster::draw_nids(Member& member) {
  member.nids.clear();
  std::vector<Net> nets;
  if (member.router) {
    nets = {nets_[0], nets_[1]};
  } else if (!routed_) {
    nets = nets_;
    if (nets.size() > 1 && rng_.one_in(2)) nets.erase(nets.begin() + std::ptrdiff_t(rng_.below(2)));
  } else {
    nets = {nets_[member.number % 2]};
    if (!member.downrev && rng_.one_in(3)) nets.push_back(nets_[2]);
  }
  if (nets.size() > 1 && rng_.one_in(2)) std::swap(nets[0], nets[1]);
  if (member.downrev && !member.router) nets.resize(1);
  for (const Net net : nets)
    for (uint64_t count = member.downrev ? 1 : railed_ ? 2 + rng_.below(2) : 1 + rng_.below(3); count > 0; --count)
      if (const auto nid = free_nid(member, net)) member.nids.push_back(*nid);
}

void Cluster::draw_version(Member& member) {
  member.downrev = rng_.one_in(railed_ ? 12 : 6);
  member.fast = rng_.one_in(2);
  member.insensitive = rng_.one_in(10);
  member.discovery = member.downrev   ? config::Discovery::kOff
                     : rng_.one_in(8) ? config::Discovery::kVerify
                     : rng_.one_in(8) ? config::Discovery::kOff
                                      : config::Discovery::kOn;
}

void Cluster::right_routes(Member& member) {
  member.routes.clear();
  if (!routed_ || member.router) return;
  for (const Member& router : members_) {
    if (!router.router) continue;
    for (const Nid& nid : router.nids)
      for (const Net net : nets_)
        if (member.on_net(nid.net()) && !member.on_net(net) && router.on_net(net) &&
            std::none_of(member.routes.begin(), member.routes.end(), [&](const auto& one) {
              return one.first == net &&
                     std::find(router.nids.begin(), router.nids.end(), one.second) != router.nids.end();
            }))
          member.routes.emplace(net, nid);
  }
}

test::NodeSpec Cluster::spec_of(const Member& member) const {
  test::NodeSpec spec;
  for (const Nid& nid : member.nids) spec.nis.push_back(nid_text(nid));
  if (real())
    for (const Net net : nets_)
      for (const Nid& nid : nids_on(member, net)) spec.addresses.push_back(nid_text(nid));
  spec.workers = 1 + unsigned(member.number % 2);
  spec.peer_credits = 2 + int(member.number * 3);
  spec.routing = member.router;
  for (const auto& [net, gateway] : member.routes) spec.routes.push_back({net_text(net), nid_text(gateway)});
  spec.transaction_timeout = kTransactionTimeout;
  spec.lnd_timeout = kLndTimeout;
  spec.discovery = member.discovery;
  spec.downrev = member.downrev;
  spec.fast_detection = member.fast;
  if (!ib()) return spec;
  spec.conns_per_peer = 1 + int(member.number % 2);
  spec.registration = member.registration;
  return spec;
}

void Cluster::join(Member& member) {
  if (ib()) member.registration = Duration(1us + rng_.below(50'000'000) * 1ns);
  const test::NodeSpec spec = spec_of(member);
  member.routing = member.router;
  say(fmt::format("{} starts: {}{}", member.name(), fmt::join(spec.nis, " "),
                  member.downrev                                   ? ", downrev"
                  : member.discovery == config::Discovery::kOff    ? ", discovery off"
                  : member.discovery == config::Discovery::kVerify ? ", verify"
                                                                   : ""));
  if (member.node == nullptr)
    member.node = &sim_.add_node(spec);
  else
    member.node->start_again_as(spec);
  std::vector<config::Change> changes{config::SetValue{"max_recovery_ping_interval", recovery_interval_}};
  if (member.insensitive) {
    changes.emplace_back(config::SetValue{"retry_count", int64_t{0}});
    changes.emplace_back(config::SetValue{"health_sensitivity", int64_t{0}});
  }
  member.node->apply(std::move(changes));
}

// Over RDMA devices, the first net is theirs.
void Cluster::draw_nets(uint64_t shape) {
  const auto tcp = [](uint16_t number) { return Net::of(NetType::kTcp, number); };
  const auto o2ib = [](uint16_t number) { return Net::of(NetType::kO2ib, number); };
  nets_ = {ib() ? o2ib(0) : tcp(0)};
  if (shape >= 1) nets_.push_back(ib() ? (shape == 1 ? o2ib(1) : tcp(1)) : shape == 2 && !real() ? o2ib(0) : tcp(1));
  if (routed_) nets_.push_back(ib() && rng_.one_in(2) ? o2ib(2) : tcp(2));
}

void Cluster::build() {
  const uint64_t shape = rng_.below(4);
  routed_ = shape == 3;
  draw_nets(shape);
  const size_t routers = routed_ ? 1 + rng_.below(2) : 0;
  const size_t count = routers + (routed_ ? 2 : 2) + rng_.below(3);
  railed_ = rng_.one_in(kRailedOneIn);
  restless_ = !railed_ && rng_.one_in(3);
  recovery_interval_ = kRecoveryIntervals[rng_.below(kRecoveryIntervals.size())];
  members_.resize(count);
  journals_said_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    members_[i].number = i;
    members_[i].router = i < routers;
    draw_version(members_[i]);
    draw_nids(members_[i]);
  }
  for (Member& member : members_) right_routes(member);
  for (Member& member : members_) join(member);
}

// --- what may be reached ---------------------------------------------------------------------------------------------

// A message to a router's far-side NID over that router is a protocol error (docs/wire/lnet.md §3, rule 3b). A sender
// that has both NIDs in one peer is the exception.
bool Cluster::reaches(const Member& from, const Nid& to) const {
  if (from.on_net(to.net())) return true;
  const auto is_it = [&](const Member& one) {
    return one.router && std::find(one.nids.begin(), one.nids.end(), to) != one.nids.end();
  };
  const bool routed = routed_ && to.net() != nets_[2] && (from.on_net(nets_[0]) || from.on_net(nets_[1]));
  return routed && !from.router && std::none_of(members_.begin(), members_.end(), is_it);
}

bool Cluster::reaches(const Member& from, const Member& to) const {
  return std::any_of(to.nids.begin(), to.nids.end(), [&](const Nid& nid) { return reaches(from, nid); });
}

// --- heal and check --------------------------------------------------------------------------------------------------

void Cluster::run_for(Duration time) {
  for (const Instant end = sim_.now() + time; sim_.now() < end && failure_.empty();) {
    sim_.run_for(std::min<Duration>(1s, end - sim_.now()));
    if (messages_sent() > kMessagesMost) failure_ = "messages without an end";
  }
  if (!trace_.prints()) return;
  for (Member& member : members_) {
    const auto& journal = member.node->journal();
    for (size_t& said = journals_said_[member.number]; said < journal.size(); ++said)
      say(fmt::format("  {}: {}", member.name(), journal[said]));
  }
}

bool Cluster::wait_ended(Duration limit) {
  const Instant end = sim_.now() + limit;
  const auto busy = [](const Member& one) { return one.node->open_operations() > 0 || one.node->applying(); };
  while (std::any_of(members_.begin(), members_.end(), busy)) {
    if (sim_.now() >= end || !failure_.empty()) return false;
    run_for(100ms);
  }
  return true;
}

void Cluster::heal() {
  say("all is healed");
  heal_network();
  for (Member& member : members_)
    if (!member.running()) come_back(member);
  for (Member& member : members_) {
    if (member.router && !member.routing) apply(member, config::SetRouting{true}, "routing on");
    member.routing = member.router;
    for (const auto& [net, gateway] : std::exchange(member.routes, {}))
      apply(member, config::RouteDel{net, gateway}, "route del");
    right_routes(member);
    for (const auto& [net, gateway] : member.routes)
      apply(member, config::RouteAdd{{.net = net, .gateway = gateway}}, "route add");
  }
}

void Cluster::traffic() {
  for (Member& from : members_)
    for (Member& to : members_)
      if (&from != &to)
        for (const Nid& nid : to.nids)
          if (reaches(from, nid)) (void)from.node->start(nid, {.length = 100}, false);
}

void Cluster::ask_all() {
  for (Member& from : members_) {
    std::vector<Nid> nids;
    for (Member& to : members_)
      if (&from != &to)
        for (const Nid& nid : to.nids)
          if (reaches(from, nid)) nids.push_back(nid);
    from.control().discovery->discover(nids, true, [](const auto&) {});
  }
}

// On a network without losses, one round would be enough. Messages under way to NIDs that are gone delay the end, and
// so do routers that a node treats as dead.
std::string Cluster::settle(bool asked) {
  say(asked ? "each asks each" : "each sends to each");
  std::string wrong;
  for (int round = 0; round < kRounds; ++round) {
    if (asked) ask_all();
    traffic();
    if (!wait_ended(400s)) return "operations without an end";
    run_for(asked ? 10s : 5s);
    wrong.clear();
    for (const Member& member : members_)
      if (wrong.empty()) wrong = table_wrong(*this, member, asked);
    if (wrong.empty()) return "";
  }
  return std::string(asked ? "each has asked each, but " : "each has sent to each, but ") + wrong;
}

std::string Cluster::unreached(Member& from, Member& to) {
  for (const Nid& nid : to.nids) {
    if (!reaches(from, nid)) continue;
    for (const bool get : {false, true}) {
      bool well = false;
      int32_t error = 0;
      for (int attempt = 0; attempt < 3 && !well; ++attempt) {
        const auto number = from.node->start(nid, {.length = 5000}, get);
        if (!number || !wait_ended(100s)) return from.name() + " has an operation without an end";
        error = from.node->outcome(*number).status;
        well = error == 0;
        if (!well) run_for(10s);
      }
      if (!well)
        return fmt::format("{} does not get a {} through to {}: {}", from.name(), get ? "get" : "put", nid_text(nid),
                           std::strerror(-error));
    }
  }
  return "";
}

std::string Cluster::final_traffic() {
  say("everything must arrive");
  for (Member& from : members_)
    for (Member& to : members_)
      if (&from != &to && must_arrive(*this, from, to))
        if (std::string wrong = unreached(from, to); !wrong.empty()) return wrong;
  return "";
}

// The first answer may be as far away as the longest wait between two recovery pings.
std::string Cluster::recovered() {
  const Instant end = sim_.now() + Duration(1s) * recovery_interval_ + kRecovers;
  for (;;) {
    count_health();
    std::string wrong;
    for (const Member& member : members_)
      if (wrong.empty()) wrong = health_wrong(*this, member);
    if (wrong.empty() || !failure_.empty()) return "";
    if (sim_.now() >= end) return wrong;
    run_for(1s);
  }
}

// Each NI of a node that has another one of the same peer on its net carries messages to that peer's node.
std::string Cluster::rails_used() {
  say("every rail must carry messages");
  for (Member& from : members_)
    for (Member& to : members_) {
      if (&from == &to || !must_use_rails(*this, from, to)) continue;
      std::map<Nid, uint64_t> before = rails_sent(from, to);
      const size_t rails = before.size();
      const size_t credits = credits_apart(from, to);
      std::map<Nid, uint64_t> now;
      const auto idle = [&] {
        return std::find_if(before.begin(), before.end(),
                            [&](const auto& one) { return now[one.first] == one.second; });
      };
      for (int round = 0; round < kRailRounds; ++round) {
        for (size_t i = 0; i < rails * (2 + credits); ++i)
          (void)from.node->start(to.nids.front(), {.length = 100}, false);
        if (!wait_ended(100s)) return from.name() + " has an operation without an end";
        now = rails_sent(from, to);
        if (idle() == before.end()) break;
        run_for(3s);  // a rail that was slow is tried again after 2 s
      }
      if (const auto at = idle(); at != before.end())
        return fmt::format("{} sends to {}, but nothing over {}; {}", from.name(), to.name(), nid_text(at->first),
                           rail_text(from, at->first));
      counts_[Count::kRailsUsed] += rails;
    }
  return "";
}

void Cluster::count_life(const Member& member) {
  counts_[Count::kResends] += member.node->stat(Stat::kResendCount);
  counts_[Count::kGoodResends] += member.node->stat(Stat::kSuccessfulResends);
  counts_[Count::kProbes] += member.control().rail_probes->sent();
}

void Cluster::count_health() {
  const auto see = [&](const Member& member, const Nid& nid, uint16_t value) {
    const uint16_t before = std::exchange(health_.try_emplace({member.number, nid}, kHealthMax).first->second, value);
    counts_[Count::kFalls] += value == 0 && before != 0;
    counts_[Count::kRecoveries] += value == kHealthMax && before != kHealthMax;
  };
  for (const Member& member : members_) {
    if (!member.running()) continue;
    for (const LocalNi* ni : member.control().nis->all()) see(member, ni->nid, ni->health.value());
    for (const Member& other : members_)
      for (const Nid& nid : other.nids)
        if (const PeerNi* ni = member.control().peers->find(nid); ni != nullptr) see(member, nid, ni->health.value());
  }
}

std::string Cluster::quiet() {
  say("nothing is asked for any more");
  run_for(30s);
  const uint64_t before = messages_sent();
  run_for(kQuiet);
  const uint64_t sent = messages_sent() - before;
  const uint64_t most = kQuietMessages * members_.size() * members_.size();
  if (sent > most) return fmt::format("{} messages in {} s in which nobody asked for anything", sent, kQuiet / 1s);
  for (int look = 0; look < 60; ++look) {
    if (unfinished(*this).empty()) return "";
    run_for(1s);
  }
  return unfinished(*this);
}

// For the analysis of a failure: the drops of each node, and the work that still waits in it.
void Cluster::report() {
  for (const Member& member : members_) {
    if (!member.running()) continue;
    std::string line = member.name() + ":";
    for (size_t i = 0; i < size_t(Drop::kCount); ++i)
      if (const uint64_t count = member.node->drops(Drop(i)); count > 0)
        line += fmt::format(" {} {}", text_of(Drop(i)).name, count);
    for (unsigned w = 0; w < member.node->spec().workers; ++w) {
      const Worker& worker = member.node->node().worker(WorkerId{uint16_t(w)});
      line += fmt::format("; worker {}: {} operations, {} incoming, {} held for a router buffer, buffers out", w,
                          worker.operations.out(), worker.incoming.out(), worker.held_router.size());
      for (const RouterPool& pool : worker.pools) line += fmt::format(" {}/{}", pool.out, pool.total);
    }
    say(line);
  }
}

std::string Cluster::run() {
  build();
  stir();
  heal();
  std::string wrong;
  if (!wait_ended(400s)) wrong = "operations or changes without an end";
  run_for(70s);  // unreached peers are tried again (control/peers/peer_db.h)
  if (wrong.empty()) wrong = settle(false);
  if (wrong.empty()) wrong = quiet();
  if (wrong.empty()) wrong = settle(true);
  if (wrong.empty()) wrong = recovered();
  if (wrong.empty()) wrong = rails_used();
  if (wrong.empty()) wrong = final_traffic();
  if (wrong.empty()) wrong = quiet();
  for (const Member& member : members_)
    if (member.running()) count_life(member);
  if (!failure_.empty()) wrong = failure_;
  if (wrong.empty()) wrong = sim_.finish();
  if (roce()) counts_[Count::kPacketsResent] += sim_.roce().count(rc::roce::Count::kPacketsResent);
  if (ib() && !roce()) {
    counts_[Count::kDeviceWrites] += sim_.rc().counts.writes;
    counts_[Count::kDeviceLosses] += sim_.rc().counts.dropped;
  }
  if (wrong.empty() && !real()) wrong = sim_.fabric().check_quiescent();
  say(wrong.empty() ? "passed" : wrong);
  if (trace_.prints() && !wrong.empty()) report();
  return wrong;
}

}  // namespace ulnet::simulate
