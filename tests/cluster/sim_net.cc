#include "tests/cluster/sim_net.h"

#include <errno.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "control/turn.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/stages/post.h"
#include "lnd/lo/lo.h"
#include "lnd/sim/sim_ctl.h"
#include "lnd/sim/sim_lnd.h"
#include "lnd/socklnd/socklnd.h"
#include "tests/cluster/core_between.h"
#include "tests/cluster/wakeups.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kPortal = 9;

/// Match bits of one operation of one node.
uint64_t own_bits(uint32_t node, uint64_t operation) {
  return 1ull << 63 | uint64_t{node} << 40 | operation;
}
bool is_own(uint64_t match_bits) {
  return match_bits >> 63 != 0;
}

Nid must_nid(const std::string& text) {
  const auto nid = nid_parse(text);
  ULNET_CHECK(nid.has_value());
  return *nid;
}

config::NetAdd net_add(const NodeSpec& spec, const std::string& text) {
  config::NetAdd add;
  const Nid nid = must_nid(text);
  add.net = nid.net();
  add.ni.nid = nid;
  add.ni.tunables.peer_credits = spec.peer_credits;
  add.ni.tunables.credits = spec.credits;
  add.ni.lnd_tunables["conns_per_peer"] = spec.conns_per_peer;
  add.ni.lnd_tunables["timeout"] = spec.lnd_timeout;
  return add;
}

}  // namespace

// --- SimNode ---------------------------------------------------------------------------------------------------------

namespace {

/// pattern() for the whole of a sink or source.
const std::vector<std::byte>& pattern_bytes() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(1u << 20);
    for (size_t i = 0; i < made.size(); ++i) made[i] = pattern(i);
    return made;
  }();
  return bytes;
}

bool has_pattern(const ZeroedMemory& sink, uint64_t offset, uint32_t length) {
  return length == 0 || std::memcmp(sink.data() + offset, pattern_bytes().data() + offset, length) == 0;
}

}  // namespace

SimNode::SimNode(SimNet& net, NodeSpec spec, uint32_t number)
    : net_(net),
      spec_(std::move(spec)),
      number_(number),
      source_(pattern_bytes().size()),
      sink_(source_.size()),
      get_sink_(source_.size()) {
  std::memcpy(source_.data(), pattern_bytes().data(), source_.size());
}

SimNode::~SimNode() {
  kill();
}

Nid SimNode::nid(size_t index) const {
  return must_nid(spec_.nis.at(index));
}

void SimNode::boot() {
  ++life_;
  NodeConfig config;
  config.workers = spec_.workers;
  config.worker_size = {
      .operations = spec_.operations, .incoming = 128, .parked_peers = spec_.parked_peers, .control_queue = 4096};
  config.ring_size = 64;
  config.peers_max = spec_.peers_max;
  NodeDeps deps;
  deps.seed = net_.rng_.next();
  deps.incarnation = (uint64_t(number_) << 32) | (life_ << 8) | 1;
  if (spec_.like_kernel) config.features_hidden = wire::kFeaturesOurs;
  if (spec_.downrev) config.features_hidden = wire::kFeatureMultiRail | wire::kFeatureDiscovery | wire::kFeaturesOurs;
  deps.log = [this](const std::string& line) { journal_.push_back(line); };
  helper_ = std::make_unique<DelayedHelper>();
  deps.helper = helper_.get();
  deps.lnds.push_back(lnd_loopback());
  if (net_.fabric_ != nullptr) add_fabric(deps);
  if (net_.tcp_ != nullptr) add_tcp(deps);
  if (net_.rc_ != nullptr || net_.roce_ != nullptr) add_ib(deps);
  auto node = Node::create(config, std::move(deps), net_.now_);
  ULNET_CHECK(node.has_value());
  node_ = std::move(*node);
  configure();
}

void SimNode::add_fabric(NodeDeps& deps) {
  sim::Fabric& fabric = *net_.fabric_;
  fabric_number_ = fabric.add_node();
  for (const NetType type : {NetType::kTcp, NetType::kO2ib})
    deps.lnds.push_back({&sim::sim_driver(type),
                         [this, &fabric](LndCore& core) {
                           return std::make_unique<sim::SimLnd>(fabric, core_for(core), fabric_number_);
                         },
                         [&fabric, n = fabric_number_, t = type](LndControlHost& host) {
                           return std::make_unique<sim::SimControl>(fabric, host, n, t);
                         }});
}

void SimNode::add_tcp(NodeDeps& deps) {
  std::vector<IpAddress> ips;
  for (const Nid& nid : addresses(NetType::kTcp)) ips.push_back(ip_of(nid));
  net_io_ = net_.tcp_->net_io(ips);
  engines_.clear();
  for (unsigned i = 0; i < spec_.workers; ++i) engines_.push_back(net_.tcp_->engine());
  socklnd::SockConfig sock;
  sock.incarnation = deps.incarnation;
  sock.zc_min_payload = spec_.zc_min_payload;
  deps.lnds.push_back(
      {&socklnd::kSockDriver,
       [this, sock](LndCore& core) {
         return socklnd::make_sock_lnd(core_for(core), *engines_[core.worker_id().value], sock);
       },
       [this, sock](LndControlHost& host) { return socklnd::make_sock_lnd_control(host, *net_io_, sock, nullptr); }});
}

void SimNode::add_ib(NodeDeps& deps) {
  std::vector<rc::IpAddress> adapters, ports;
  for (const Nid& nid : addresses(NetType::kO2ib)) (net_.on_adapter(nid) ? adapters : ports).push_back(rc_address(nid));
  std::unique_ptr<rc::Provider> provider;
  if (ports.empty()) {
    provider = net_.rc_->make_node(std::move(adapters), spec_.workers);
  } else if (adapters.empty()) {
    provider = net_.roce_->make_node(std::move(ports), spec_.workers);
  } else {
    provider = rc::join(net_.rc_->make_node(std::move(adapters), spec_.workers),
                        net_.roce_->make_node(std::move(ports), spec_.workers, true), spec_.workers);
  }
  ib_ = std::make_unique<IbRig>(std::move(provider), spec_.workers, o2iblnd::IbConfig{.incarnation = deps.incarnation});
  deps.lnds.push_back(ib_->entry([this](LndCore& core) -> LndCore& { return core_for(core); }));
}

std::vector<Nid> SimNode::addresses(NetType type) const {
  std::vector<Nid> all;
  for (const auto* nids : {&spec_.nis, &spec_.addresses})
    for (const std::string& text : *nids)
      if (const Nid nid = must_nid(text); nid.net().type() == type) all.push_back(nid);
  return all;
}

LndCore& SimNode::core_for(LndCore& core) {
  if (!spec_.replies_as.empty())
    return *cores_between_.emplace_back(std::make_unique<RenamedRepliesCore>(core, must_nid(spec_.replies_as)));
  if (!spec_.downrev) return core;
  std::vector<Nid> own;
  for (const std::string& text : spec_.nis) own.push_back(must_nid(text));
  return *cores_between_.emplace_back(std::make_unique<DownrevCore>(core, std::move(own), pushes_refused_));
}

void SimNode::configure() {
  std::vector<config::Change> changes;
  changes.push_back(config::LnetConfigure{});
  changes.push_back(config::SetValue{"transaction_timeout", spec_.transaction_timeout});
  const config::Discovery discovery = spec_.downrev ? config::Discovery::kOff : spec_.discovery;
  if (discovery != config::Discovery::kOn) changes.push_back(config::SetValue{"discovery", int64_t(discovery)});
  changes.push_back(config::UlnetSet{"alive_router_check_interval", config::Doc(spec_.router_check)});
  changes.push_back(config::UlnetSet{"fast_detection", config::Doc(spec_.fast_detection)});
  for (const std::string& text : spec_.nis) changes.push_back(net_add(spec_, text));
  for (const RouteSpec& route : spec_.routes)
    changes.push_back(config::RouteAdd{{.net = *net_parse(route.net), .gateway = must_nid(route.gateway)}});
  if (spec_.routing) {
    changes.push_back(config::SetBuffers{spec_.buffers[0], spec_.buffers[1], spec_.buffers[2]});
    changes.push_back(config::SetRouting{true});
  }
  node_->applier().set_start_up(true);
  apply(std::move(changes));
}

void SimNode::apply(std::vector<config::Change> changes) {
  config::ChangeList list;
  for (config::Change& change : changes) list.push_back({std::move(change), {}});
  ++applying_;
  node_->apply(std::move(list), [this, life = life_](const config::Problems& errors) {
    if (life != life_) return;
    --applying_;
    for (const auto& error : errors) apply_errors_.push_back(error.what);
  });
}

/// Turns what registers memory, and the worker of the application, until the memory is registered. The clock stands
/// still, and all else goes on as without this.
void SimNode::turn_until(const std::function<bool()>& registered) {
  Control& c = node_->control();
  helper_->delay = Duration{0};
  for (int i = 0; !registered(); ++i) {
    ULNET_CHECK(i < 1000);
    (void)run_worker_messages(c);
    (void)c.regions->turn(net_.now_);
    (void)c.outbox->flush();
    (void)turn_watched(*node_, WorkerId{0}, net_.now_);
    (void)c.gate.disarm();
    sleep_watched(c.gate, sent_to_control(*node_));
  }
  helper_->delay =
      spec_.registration > Duration{0} ? spec_.registration : Duration(Duration(1us) * (1 + number_ * 37 % 200));
}

/// Each second node registers its memory once, the others leave that to their MDs. Waits for both, as a PUT that comes
/// before its MD is bound is dropped.
void SimNode::open_application() {
  unsigned waits = 0;
  if (number_ % 2 == 0)
    for (auto* memory : {&source_, &sink_, &get_sink_}) {
      ++waits;
      node_->region_add(memory->all(), [&waits](const auto& added) { waits -= added.has_value(); });
    }
  turn_until([&] { return waits == 0; });
  app_open_ = true;
  SubmitterSize size;
  size.ops = spec_.operations;
  size.mds = 16;
  size.eqs = 2;
  size.segment_blocks = 1;
  auto submitter = node_->submitter_open(WorkerId{0}, size);
  ULNET_CHECK(submitter.has_value());
  submitter_ = *submitter;
  ULNET_CHECK(node_->portal_open(PortalIndex{kPortal}, WorkerId{0}, PortalMode::kSingle, false).has_value());
  eq_ = *submitter_->eq_open(1024);
  const Segment sink{sink_.data(), uint32_t(sink_.size())};
  const Segment source{source_.data(), uint32_t(source_.size())};
  const Segment get_sink{get_sink_.data(), uint32_t(get_sink_.size())};
  source_md_ = *submitter_->md_bind({.segments = {&source, 1}, .eq = eq_});
  get_md_ = *submitter_->md_bind({.segments = {&get_sink, 1}, .eq = eq_});
  const MdHandle in =
      *submitter_->md_bind({.segments = {&sink, 1}, .options = kMdPut | kMdManageRemote | kMdTruncate, .eq = eq_});
  const MdHandle out =
      *submitter_->md_bind({.segments = {&source, 1}, .options = kMdGet | kMdManageRemote | kMdTruncate});
  ULNET_CHECK(submitter_->me_attach(PortalIndex{kPortal}, {}, 0, ~0ull, MePosition::kTail, in).has_value());
  ULNET_CHECK(submitter_->me_attach(PortalIndex{kPortal}, {}, 0, ~0ull, MePosition::kTail, out).has_value());
  const bool registers = node_->control().regions->needed();
  turn_until([&] { return !registers || submitter_->calls().empty(); });
}

std::optional<uint64_t> SimNode::start(const Nid& target, const Operation& op, bool get) {
  const uint64_t number = next_operation_;
  PutSpec spec{.md = get ? get_md_ : source_md_,
               .self = kAnyNid,
               .target = {target, kLnetPid},
               .portal = kPortal,
               .match_bits = op.match_bits != 0 ? op.match_bits : own_bits(number_, number),
               .offset = op.offset,
               .hdr_data = number,
               .ack = op.ack,
               .md_offset = op.offset,
               .length = op.length,
               .user_data = number};
  const auto sent = get ? submitter_->get(spec) : submitter_->put(spec);
  if (!sent) {
    if (sent.error().code != -EAGAIN) net_.fail(std::string("an operation is refused: ") + sent.error().what);
    return std::nullopt;
  }
  ++next_operation_;
  ++open_;
  outcomes_[number] = {get, false, 0, net_.now_, {}};
  return number;
}

void SimNode::take_events() {
  if (node_ == nullptr || !app_open_) return;
  for (;;) {
    const unsigned count = submitter_->eq_poll(eq_, events_);
    for (unsigned i = 0; i < count; ++i) {
      const Event& e = events_[i];
      if (e.kind == EventKind::kPut && e.status == 0) {
        arrived_.push_back(e.match_bits);
        if (is_own(e.match_bits) && ++numbered_[e.match_bits] > 1 && net_.transport() != Transport::kFabric)
          tell("a put arrived twice: " + std::to_string(e.match_bits));
        bad_payloads_ += !has_pattern(sink_, e.offset, e.mlength);
      }
      if (!e.final) continue;
      Outcome& outcome = outcomes_.at(e.user_data);
      twice_ += outcome.ended;
      outcome.ended = true;
      outcome.status = e.status;
      outcome.finished = net_.now_;
      --open_;
      ++(e.status == 0 ? ended_well_ : ended_badly_);
      if (outcome.get && e.status == 0) bad_payloads_ += !has_pattern(get_sink_, e.offset, e.mlength);
    }
    if (count < events_.size()) return;
  }
}

void SimNode::ping(const std::string& nid, Duration timeout) {
  ping_answer_.reset();
  PingRequest request;
  request.nids = {must_nid(nid)};
  request.timeout = timeout;
  node_->ping(request, [this, life = life_](std::vector<PingAnswer> answers) {
    if (life == life_) ping_answer_ = answers.at(0);
  });
}

void SimNode::tell(const std::string& wrong) {
  if (!wrong.empty()) net_.fail(spec_.nis[0] + ": " + wrong);
}

void SimNode::kill() {
  if (node_ == nullptr) return;
  ++life_;  // callbacks of this life are not wanted any more
  tell(watch_.not_accounted());
  watch_.forget();
  if (net_.tcp_ != nullptr)
    for (const Nid& nid : addresses(NetType::kTcp)) net_.tcp_->forget_sockets(ip_of(nid));
  node_.reset();
  cores_between_.clear();
  engines_.clear();
  net_io_.reset();
  ib_.reset();
  app_open_ = false;
  hangs_ = false;
  submitter_ = nullptr;
  applying_ = 0;
  for (auto& [number, outcome] : outcomes_)
    if (!outcome.ended) {
      outcome.ended = true;
      outcome.status = -ESHUTDOWN;
    }
  open_ = 0;
}

void SimNode::hang(bool on) {
  hangs_ = on && node_ != nullptr;
  if (net_.fabric_ == nullptr) return;
  if (hangs_)
    net_.fabric_->freeze(fabric_number_);
  else
    net_.fabric_->thaw(fabric_number_);
}

std::string SimNode::stop_cleanly() {
  std::string left = close(net_.now_ + 60s);
  kill();
  return left;
}

void SimNode::start_again() {
  boot();
  ULNET_CHECK(net_.run_until([&] { return !applying(); }, 30s));
  open_application();
}

void SimNode::start_again_as(const NodeSpec& spec) {
  spec_ = spec;
  start_again();
}

void SimNode::restart() {
  kill();
  start_again();
}

uint64_t SimNode::stat(Stat stat) const {
  uint64_t sum = 0;
  for (unsigned i = 0; i < spec_.workers; ++i) sum += node_->worker(WorkerId{uint16_t(i)}).counters[stat].get();
  return sum;
}
uint64_t SimNode::drops(Drop reason) const {
  uint64_t sum = 0;
  for (unsigned i = 0; i < spec_.workers; ++i) sum += node_->worker(WorkerId{uint16_t(i)}).counters[reason].get();
  return sum;
}

std::string SimNode::not_at_rest() const {
  std::string text;
  auto expect = [&](bool ok, const char* what) {
    if (!ok) text += spec_.nis[0] + ": " + what + "; ";
  };
  for (unsigned i = 0; i < spec_.workers; ++i) {
    Worker& w = node_->worker(WorkerId{uint16_t(i)});
    expect(w.operations.out() == 0, "operations out");
    expect(w.incoming.out() == 0, "incoming messages out");
    expect(w.deadlines.armed() == 0 && w.tx_deadlines.armed() == 0, "deadlines armed");
    expect(w.receiving.empty() && w.held_router.empty() && w.shares_waiting.empty(), "receives under way");
    for (RouterPool& pool : w.pools) expect(pool.out == 0 && pool.waiting.empty(), "router buffers out");
    expect(w.delayed_receives.empty() && w.delayed_sends.empty(), "messages delayed");
    expect(!has_waiters(w), "something waits for a ring");
    expect(w.parked.empty(), "messages parked");
  }
  expect(open_ == 0, "operations without their event");
  expect(twice_ == 0, "an operation ended twice");
  expect(bad_payloads_ == 0, "payload bytes wrong");
  return text;
}

std::string SimNode::close(Instant limit) {
  if (node_ == nullptr) return "";
  if (app_open_) node_->submitter_close(*submitter_);
  app_open_ = false;
  node_->stop(net_.now_);
  const bool stopped = net_.run_until([&] { return node_->stopped(); }, limit - net_.now_);
  std::string text = stopped ? "" : spec_.nis[0] + ": does not stop; ";
  if (!node_->stop_leftovers().empty()) text += spec_.nis[0] + ": left over: " + node_->stop_leftovers() + "; ";
  if (const std::string away = watch_.end(); !away.empty()) text += spec_.nis[0] + ": " + away;
  for (const auto& tallies : node_->control().mesh->tallies)
    for (uint32_t slot = 0; slot < kNisMax; ++slot)
      if (const TallyNow now = tallies->ni_now(slot, PaceKind::kSmall); now.under_way != 0 || now.bytes != 0)
        text += spec_.nis[0] + ": an NI's tally counts messages; ";
  return text + not_at_rest();
}

// --- SimNet ----------------------------------------------------------------------------------------------------------

std::string replay_command() {
  const testing::TestInfo* test = testing::UnitTest::GetInstance()->current_test_info();
  if (test == nullptr) return program_invocation_name;
  return fmt::format("{} --gtest_filter={}.{}", program_invocation_name, test->test_suite_name(), test->name());
}

std::string SimNet::replay_hint() const {
  return fmt::format("seed {}, to run it again: {}", options_.seed, replay_command());
}

SimNet::SimNet(const SimOptions& options) : options_(options), rng_(options.seed) {
  if (options.transport == Transport::kFabric || options.transport == Transport::kRdma) {
    sim::FabricOptions fabric;
    fabric.seed = rng_.next();
    if (options.transport == Transport::kRdma) fabric.rdma_above = kRdmaAbove;
    fabric.regions = options.transport == Transport::kRdma;
    fabric_ = std::make_unique<sim::Fabric>(fabric);
  } else {
    SimTcpOptions tcp;
    tcp.seed = rng_.next();
    tcp.backs_off = options.tcp_backs_off;
    tcp_ = std::make_unique<SimTcp>(tcp);
  }
  if (options.transport == Transport::kO2ib) rc_ = std::make_unique<rc::sim::Net>(rng_.next());
  if (options.transport == Transport::kRoce) {
    roce_ = std::make_unique<RoceNet>(rng_.next());
    rc_ = std::make_unique<rc::sim::Net>(options.seed);
  }
}

SimNet::~SimNet() {
  if (options_.check_at_end && !finished_)
    if (const std::string left = finish(); !left.empty()) fail(left);
  nodes_.clear();
}

SimNode& SimNet::add_node(const NodeSpec& spec) {
  nodes_.push_back(std::make_unique<SimNode>(*this, spec, uint32_t(nodes_.size() + 1)));
  SimNode& node = *nodes_.back();
  node.start_again();
  if (!node.apply_errors_.empty()) fail("a node is not configured: " + node.apply_errors_[0]);
  return node;
}

void SimNet::fail(const std::string& what) const {
  if (options_.fail)
    options_.fail(what);
  else
    ADD_FAILURE() << what << "; " << replay_hint();
}

Instant SimNet::next_event() {
  Instant next = fabric_ != nullptr ? fabric_->next_event() : tcp_->next_event();
  if (rc_ != nullptr) next = std::min(next, rc_->next());
  if (roce_ != nullptr) next = std::min(next, roce_->next());
  for (auto& node : nodes_) {
    if (node->node_ == nullptr || node->hangs_) continue;
    next = std::min(next, node->node_->next_deadline());
    for (unsigned w = 0; w < node->spec_.workers; ++w)
      next = std::min(next, node->node_->worker(WorkerId{uint16_t(w)}).next_deadline());
  }
  return next;
}

void SimNet::step(Instant limit) {
  if (tcp_ != nullptr) tcp_->advance(now_);
  if (rc_ != nullptr) rc_->run(now_);
  if (roce_ != nullptr) roce_->run(now_);
  struct Turn {
    SimNode* node;
    int worker;  // -1 = control
  };
  std::vector<Turn> turns;
  turns.reserve(4 * nodes_.size());
  for (auto& node : nodes_) {
    if (node->node_ == nullptr || node->hangs_) continue;
    for (int w = -1; w < int(node->spec_.workers); ++w) turns.push_back({node.get(), w});
  }
  for (size_t i = turns.size(); i > 1; --i) std::swap(turns[i - 1], turns[rng_.below(i)]);
  unsigned done = 0;
  for (const Turn& turn : turns) {
    if (turn.node->node_ == nullptr) continue;  // killed by what another's turn called
    if (turn.worker < 0) {
      done += turn_control_watched(*turn.node->node_, now_, tcp_ != nullptr);
      turn.node->tell(turn.node->watch_.look(turn.node->node_->control()));
    } else {
      const WorkerId worker{uint16_t(turn.worker)};
      done += turn_watched(*turn.node->node_, worker, now_);
      if (options_.after_turn) options_.after_turn(*turn.node, turn.node->node_->worker(worker));
    }
  }
  for (auto& node : nodes_) node->take_events();
  if (done > 0) {
    now_ += 1us;
    return;
  }
  now_ = std::min(limit, std::max(next_event(), now_ + 1us));
}

void SimNet::run_for(Duration time) {
  const Instant end = now_ + time;
  while (now_ < end) step(end);
}

std::string SimNet::finish() {
  finished_ = true;
  heal_all();
  std::string text;
  // What is under way may end by its own deadline.
  run_until(
      [&] { return std::all_of(nodes_.begin(), nodes_.end(), [](auto& n) { return n->open_operations() == 0; }); },
      400s);
  for (auto& node : nodes_) text += node->close(now_ + 60s);
  if (rc_ != nullptr || roce_ != nullptr) run_for(1s);  // so that messages of the CM arrive
  return text + networks_wrong();
}

}  // namespace ulnet::test
