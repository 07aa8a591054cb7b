#include "tests/vm/perftest/roce_port.h"

#include <thread>

#include "dataplane/base/check.h"
#include "dataplane/host/clock.h"

namespace ulnet::test {
namespace {

constexpr unsigned kBudget = 64;  ///< of a turn
constexpr Duration kLinkMax = 10s;

tl::unexpected<Problem> failed(const Error& error) {
  Problem problem;
  problem.what = error.what;
  problem.code = error.code;
  return tl::unexpected(problem);
}

std::string json(const std::string& fields, const char* name, uint64_t value) {
  if (value == 0) return fields;
  return fields + (fields.empty() ? "" : ", ") + '"' + name + "\": " + std::to_string(value);
}

}  // namespace

Checked<std::unique_ptr<RocePort>> RocePort::open(const RocePortConfig& config) {
  std::unique_ptr<RocePort> self(new RocePort);
  EalConfig environment{{0}, {}, {}, {}, 128};
  environment.program = "perftest_server";
  auto eal = dpdk::Eal::start(environment);
  if (!eal) return failed(eal.error());
  self->eal_ = std::move(*eal);
  auto provider = rc::roce::open_provider({.seed = real_time_ns(), .threads = false});
  if (!provider) return failed(provider.error());
  self->provider_ = std::move(*provider);
  self->ports_ = std::make_unique<rc::roce::RocePorts>(*self->provider_);

  dpdk::PortConfig port;
  port.name = "rail0";
  port.device = "af_packet,iface=" + config.interface;
  port.addresses.own = {config.address};
  port.mtu = config.mtu;
  const PortAppMaker maker = self->ports_->opening(port);
  auto opened = dpdk::Port::open(port, 1, 0);
  if (!opened) return tl::unexpected(opened.error());
  self->port_ = std::move(*opened);
  auto worker = PortWorker::make(maker, *self->port_, 0, nullptr);
  if (!worker) return failed(worker.error());
  self->worker_ = std::move(*worker);
  const Instant until = clock_now() + kLinkMax;
  while (!self->port_->link().up) {
    if (clock_now() > until) return failed({-ENETDOWN, "the interface has no link"});
    std::this_thread::sleep_for(dpdk::Port::kLinkAwait);
  }
  self->port_->start();
  self->worker_->turn(clock_now());
  if (auto known = self->ports_->opened(*self->port_, self->port_->link()); !known) return failed(known.error());
  return self;
}

RocePort::~RocePort() {
  const Instant now = clock_now();
  if (worker_ != nullptr) worker_->finish(now);
  if (port_ == nullptr) return;
  port_->stop_begin();
  (void)port_->queue(0).receive({}, now);  // the queue stops at its user's next call
  worker_.reset();
  ULNET_CHECK(port_->stopped());
  port_->close();
  ULNET_CHECK(port_->packets_conserved());
}

unsigned RocePort::turn(Instant now) {
  unsigned work = worker_->turn(now);
  work += worker().poll(kBudget, now) + worker().timers(now);
  worker().flush(now);
  return work;
}

std::string RocePort::counts() {
  std::string roce, drops;
  for (const PortUser::Count& one : ports_->counts(port_->config().name)) roce = json(roce, one.text->name, one.value);
  const auto& counted = port_->queue(0).counters().drops;
  for (unsigned i = 0; i < unsigned(dpdk::FrameDrop::kCount); ++i) {
    const auto reason = dpdk::FrameDrop(i);
    drops = json(drops, dpdk::text_of(reason).name, counted[reason].get());
  }
  return "\"roce\": {" + roce + "}, \"drops\": {" + drops + "}";
}

}  // namespace ulnet::test
