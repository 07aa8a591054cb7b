// The server's part in perftest's exchange of parameters (version 4.5, option -R), over the first of the two
// connections of a client. Pure.
//
// In each step, the client sends a message, and waits for an answer of the same length. Where the client compares the
// two, equality is agreement. So the answer is a copy of the message. A destination describes a queue pair: its answer
// has our key and address in place of the client's. The steps, in order:
//   parameters    version, two sizes, MTU
//   destinations  before and after the second connection is made, and until the transfers begin
//   reports       ib_write_bw only: five numbers, after a destination
//   destination   the client has finished
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ulnet::test {

inline constexpr uint32_t kStepBytesMax = 64;  ///< of a message

class Exchange {
 public:
  /// `with_reports`: the client is ib_write_bw.
  explicit Exchange(bool with_reports) : with_reports_(with_reports) {}
  /// From now on, destinations name this key.
  void offer(uint32_t key, uint64_t address) {
    key_ = key;
    address_ = address;
  }
  /// Turns a message of the client into its answer. `all_came`: the client has nothing more to transfer; without
  /// reports, no message shows that. False: the message is none of the next step, see problem().
  [[nodiscard]] bool answer(std::span<std::byte> message, bool all_came);
  /// The last step has been answered.
  [[nodiscard]] bool over() const { return over_; }
  [[nodiscard]] const std::string& problem() const { return problem_; }

 private:
  [[nodiscard]] bool is_next(size_t bytes) const;
  const bool with_reports_;
  uint32_t key_ = 0;
  uint64_t address_ = 0;
  unsigned parameters_ = 0, destinations_ = 0, reports_ = 0;  ///< messages so far
  bool over_ = false;
  std::string problem_;
};

}  // namespace ulnet::test
