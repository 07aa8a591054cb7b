#include "tests/unit/rc/world.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ulnet::test {
namespace {

std::string name_of(rc::EventKind kind) {
  switch (kind) {
    case rc::EventKind::kRequest: return "request";
    case rc::EventKind::kReady: return "ready";
    case rc::EventKind::kEstablished: return "established";
    case rc::EventKind::kFailed: return "failed";
    case rc::EventKind::kClosed: return "closed";
    case rc::EventKind::kDevice: return "device";
  }
  return "?";
}

}  // namespace

std::vector<std::byte> data_of(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string text_of(std::span<const std::byte> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

void fill(std::span<std::byte> memory, uint8_t first) {
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = std::byte(first + i % 251);
}

void RcTest::TearDown() {
  start_again();
}

void RcTest::start_again() {
  for (const unsigned node : {0u, 1u}) finish(node);
  for (const auto& [node, region] : regions) control(node).region_remove({region});
  regions.clear();
  if (listener != 0) control(1).unlisten(std::exchange(listener, 0));
  for (const unsigned node : {0u, 1u}) {
    sides[node] = std::make_unique<Side>(worker(node));
    adopted[node] = nullptr;
  }
  seen.clear();
}

void RcTest::listen() {
  const auto opened = control(1).listen({world->address(1), kPort});
  ASSERT_TRUE(opened) << opened.error().what;
  listener = *opened;
}

void RcTest::dial(rc::DialSpec what) {
  const auto dialled = control(0).dial(what, world->now);
  ASSERT_TRUE(dialled) << dialled.error().what;
  conns[0] = *dialled;
}

void RcTest::step() {
  const Instant now = world->pass();
  for (unsigned node = 0; node < 2; ++node) {
    std::array<rc::Event, 4> events;
    const unsigned count = control(node).poll(events, now);
    for (const rc::Event& event : std::span(events).first(count)) {
      seen += std::to_string(node) + " " + name_of(event.kind);
      std::string data = text_of(event.private_data());
      data.erase(std::find_if_not(data.rbegin(), data.rend(), [](char c) { return c == 0; }).base(), data.end());
      if (!data.empty()) seen += " " + data;
      if (event.cause != rc::Cause::kNone) seen += " (" + std::string(rc::cause_text(event.cause)) + ")";
      seen += "; ";
      if (event.kind == rc::EventKind::kRequest) conns[1] = event.conn;
      if (event.kind != rc::EventKind::kReady) continue;
      adopted[node] = event.qp;
      sides[node]->adopt(*event.qp);
      if (node == 0 || !hold_answer) control(node).proceed(event.conn, data_of(node == 0 ? "hello" : "welcome"), now);
    }
    worker(node).poll(64, now);
    worker(node).timers(now);
    worker(node).flush(now);
  }
}

void RcTest::accept(const rc::QpNeeds& needs) {
  until([&] { return conns[1] != 0; });
  control(1).prepare(conns[1], needs, world->now);
}

void RcTest::connect(const rc::QpNeeds& needs) {
  listen();
  dial(spec(needs));
  accept(needs);
  until([&] { return seen.ends_with("established; ") || seen.find("1 established") != std::string::npos; });
  until([&] { return seen.find("0 established welcome; ") != std::string::npos; });
  EXPECT_EQ(passive().qp, adopted[1]);
}

void RcTest::register_memory(unsigned node, uint32_t region, std::span<std::byte> memory) {
  const auto added = control(node).region_add({region}, memory);
  ASSERT_TRUE(added) << added.error().what;
  regions.push_back({node, region});
}

void RcTest::finish(unsigned node) {
  if (conns[node] == 0) return;
  control(node).disconnect(conns[node], world->now);
  until([&] { return sides[node]->qp == nullptr; });
  EXPECT_EQ(sides[node]->is_drained, adopted[node] != nullptr);
  control(node).destroy(std::exchange(conns[node], 0), world->now);
}

}  // namespace ulnet::test
