#include "tests/vm/perftest/server.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/check.h"

namespace ulnet::test {
namespace {

constexpr uint32_t kReceives = 128;  ///< each is posted again when its message has come
constexpr uint32_t kSteps = 8;
constexpr auto kUntouched = std::byte{0xA5};
constexpr uint32_t kBlockBytes = 64;  ///< of random bytes: one of them differs from kUntouched
constexpr RegionId kRegion{1};

rc::QpNeeds exchange_needs() {
  return {.receives = kSteps, .sends = kSteps, .buffer_bytes = kStepBytesMax, .work = kSteps};
}

rc::QpNeeds transfer_needs(const ServerConfig& config) {
  if (config.writes) return {.work = 1, .keys = 1};
  return {.receives = kReceives, .buffer_bytes = config.message_bytes, .work = 1};
}

uint64_t touched(std::span<const std::byte> memory) {
  return uint64_t(std::count_if(memory.begin(), memory.end(), [](std::byte one) { return one != kUntouched; }));
}

}  // namespace

// --- Ends ------------------------------------------------------------------------------------------------------------

void End::adopt(rc::Qp& what) {
  qp = &what;
  worker.adopt(what, *this);
  for (uint32_t i = 0; i < what.receives; ++i) worker.receive(what, i);
}

void End::drained(rc::Qp&, Instant) {
  worker.release(*qp);
  qp = nullptr;
}

void TransferEnd::received(rc::Qp& at, uint32_t buffer, uint32_t bytes, Instant) {
  ++messages;
  bytes_received += bytes;
  worker.receive(at, buffer);
}

/// The client waits for each answer, so one send buffer for each receive buffer is enough.
void ExchangeEnd::received(rc::Qp& at, uint32_t buffer, uint32_t bytes, Instant) {
  const auto message = at.send_buffer(buffer).first(bytes);
  std::memcpy(message.data(), at.receive_buffer(buffer).data(), bytes);
  worker.receive(at, buffer);
  const bool all_came = config_.writes || transfers_.messages >= config_.messages;
  if (!exchange.answer(message, all_came)) return;  // Server::turn() has the problem
  ULNET_CHECK(worker.send(at, buffer, bytes, 0, rc::Wake::kYes) == rc::Posted::kYes);
}

// --- The server ------------------------------------------------------------------------------------------------------

Server::Server(rc::Provider& provider, const ServerConfig& config)
    : control_(provider.control()),
      config_(config),
      transfers_(provider.worker(WorkerId{})),
      exchange_(provider.worker(WorkerId{}), config_, transfers_) {
  if (!config.writes) return;
  memory_.assign(size_t{3} * config.message_bytes, kUntouched);
  window_ = {memory_.data() + config.message_bytes, config.message_bytes, kRegion};
}

Result<void> Server::listen() {
  if (config_.writes) {
    if (auto added = control_.region_add(kRegion, memory_); !added) return added;
  }
  const auto listener = control_.listen(config_.at);
  if (!listener) return tl::unexpected(listener.error());
  return {};
}

void Server::requested(rc::ConnId conn, Instant now) {
  if (requests_ == 2) return control_.reject(conn, {}, now);
  const bool first = requests_++ == 0;
  (first ? static_cast<End&>(exchange_) : transfers_).conn = conn;
  control_.prepare(conn, first ? exchange_needs() : transfer_needs(config_), now);
}

/// The client gets the key with the next destination, which it sends over the first connection.
bool Server::open_key() {
  if (transfers_.worker.key_open(*transfers_.qp, key_, {&window_, 1, 0, window_.bytes}) != rc::Posted::kYes)
    return false;
  exchange_.exchange.offer(key_.value, uint64_t(reinterpret_cast<uintptr_t>(window_.base)));
  return true;
}

void Server::ready(const rc::Event& event, Instant now) {
  const bool is_transfers = event.conn == transfers_.conn;
  (is_transfers ? static_cast<End&>(transfers_) : exchange_).adopt(*event.qp);
  if (is_transfers && config_.writes && !open_key()) give_up("no key for the window");
  control_.proceed(event.conn, {}, now);
}

void Server::on(const rc::Event& event, Instant now) {
  switch (event.kind) {
    case rc::EventKind::kRequest: return requested(event.conn, now);
    case rc::EventKind::kReady: return ready(event, now);
    case rc::EventKind::kClosed: return control_.disconnect(event.conn, now);
    case rc::EventKind::kFailed: return give_up(std::string("no connection: ") + rc::cause_text(event.cause));
    case rc::EventKind::kEstablished:
    case rc::EventKind::kDevice: break;
  }
}

/// Destroys a connection that has ended, when its queue pair has drained.
void Server::follow(End& end, Instant now) {
  if (end.conn == 0 || end.cause == rc::Cause::kNone) return;
  if (!exchange_.exchange.over() && problem_.empty())
    problem_ = std::string("a connection ended early: ") + rc::cause_text(end.cause);
  control_.disconnect(end.conn, now);
  if (end.qp == nullptr) control_.destroy(std::exchange(end.conn, 0), now);
}

/// As perftest's server, it ends the second connection after the last step. The client ends the first one.
unsigned Server::turn(Instant now) {
  unsigned work = 0;
  for (rc::Event event; control_.poll({&event, 1}, now) == 1; ++work) on(event, now);
  const Exchange& steps = exchange_.exchange;
  if (!steps.problem().empty()) give_up(steps.problem());
  if (steps.over() && transfers_.conn != 0) control_.disconnect(transfers_.conn, now);
  for (End* end : {static_cast<End*>(&transfers_), static_cast<End*>(&exchange_)}) follow(*end, now);
  if (requests_ > 0 && transfers_.conn == 0 && exchange_.conn == 0) is_done_ = true;
  return work;
}

std::string Server::report() const {
  const std::span<const std::byte> all(memory_), window = all.subspan(all.size() / 3, all.size() / 3);
  uint64_t untouched_blocks = 0;
  for (size_t at = 0; at + kBlockBytes <= window.size(); at += kBlockBytes)
    if (touched(window.subspan(at, kBlockBytes)) == 0) ++untouched_blocks;
  const auto field = [](const char* name, uint64_t value) {
    return '"' + std::string(name) + "\": " + std::to_string(value) + ", ";
  };
  const std::string text = field("messages", transfers_.messages) + field("bytes", transfers_.bytes_received) +
                           field("touched", touched(window)) + field("untouched_blocks", untouched_blocks) +
                           field("touched_outside", touched(all) - touched(window));
  return text.substr(0, text.size() - 2);
}

}  // namespace ulnet::test
