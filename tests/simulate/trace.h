// The events of a run, line by line. A replay prints them. A hash sums them up, so that two runs can be compared: the
// same seed gives the same lines.
#pragma once
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "dataplane/base/nid_text.h"
#include "dataplane/base/time.h"
#include "dataplane/wire/header.h"

namespace ulnet::simulate {

class Trace {
 public:
  explicit Trace(bool print) : print_(print) {}

  void say(Instant at, std::string_view line) {
    add(uint64_t(at.time_since_epoch().count()));
    for (const char c : line) add(uint8_t(c));
    if (print_) write(at, line);
  }
  /// A message that is put on the wire.
  void message(Instant at, const Nid& from, const Nid& to, const wire::Header& header) {
    add(uint64_t(at.time_since_epoch().count()));
    add(from.hash());
    add(to.hash());
    add(header.src_nid.hash() ^ header.dest_nid.hash() << 1);
    add(uint64_t(header.type) << 32 | header.payload_length);
    if (print_) write(at, text_of(from, to, header));
  }
  [[nodiscard]] bool prints() const { return print_; }
  [[nodiscard]] uint64_t hash() const { return hash_; }

 private:
  void add(uint64_t value) { hash_ = (hash_ ^ value) * 0x100000001B3ull; }
  static void write(Instant at, std::string_view line) {
    const int64_t ns = at.time_since_epoch().count();
    fmt::print("{:6}.{:06} {}\n", ns / 1'000'000'000, ns / 1000 % 1'000'000, line);
  }
  static std::string text_of(const Nid& from, const Nid& to, const wire::Header& header) {
    static constexpr const char* kNames[] = {"ACK", "PUT", "GET", "REPLY", "HELLO"};
    std::string text = fmt::format("  {} > {} {}", nid_text(from), nid_text(to), kNames[size_t(header.type) % 5]);
    if (header.type == wire::MsgType::kPut && header.put().portal == 0) text += " push";
    if (header.type == wire::MsgType::kGet && header.get().portal == 0) text += " ping";
    if (header.dest_nid != to || header.src_nid != from)
      text += fmt::format(" ({} > {})", nid_text(header.src_nid), nid_text(header.dest_nid));
    return text + fmt::format(" {}", header.payload_length);
  }

  const bool print_;
  uint64_t hash_ = 0xCBF29CE484222325ull;
};

}  // namespace ulnet::simulate
