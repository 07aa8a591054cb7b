// The kernel in a capture and our node in its place: which values of the one are which of the other. Compares their
// messages byte for byte, and changes what the partner sends so that it fits our node.
//
// Fields that vary, and their treatment. All other bytes of all messages are equal.
//   field                        varies because                    instead of equality
//   stamps of our NIs            time when an NI started           one value for each NI, in each message
//   cookies of our node          counter of a node's requests      one to one on each connection
//   key, address of our memory   chosen by device and allocator    the partner's writes go there
//   handles in our GET and PUT   counter of a node's operations    one to one; the partner's answers echo ours
//   ping info sequence number    history of a node                 none
//   credits                      timing of reposts (o2iblnd.md §5) never more than is owed
// Padding of the CM behind private data is left out.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "lnd/rc/rc.h"
#include "tests/replay/o2ib_script.h"
#include "tests/replay/scripted_rc.h"

namespace ulnet::test {

class O2ibTwin {
 public:
  /// `stamps`: of our node's NIs of o2ib. `ours`: all its NIDs.
  O2ibTwin(std::map<Nid, uint64_t> stamps, std::vector<Nid> ours)
      : stamps_(std::move(stamps)), ours_(std::move(ours)) {}

  /// A new capture: the kernel's stamps, cookies and handles may be others.
  void restart();
  /// The partner's bytes, as our node has to get them. `mid`: the connection is older than the file, and so are some
  /// credits that come back.
  [[nodiscard]] std::vector<std::byte> to_ours(const O2ibEvent& event, rc::ConnId conn, bool mid);
  struct Place {
    uint32_t key = 0;
    uint64_t address = 0;
  };
  /// Where the partner's write goes in our node.
  [[nodiscard]] Place place_of(const O2ibEvent& write) const;
  /// The same for a handle that an answer echoes.
  void echo(wire::Header& header) const;

  /// Messages that the capture does not have: counts the credits of ours, and of the answer to it.
  void pass_over(rc::ConnId conn, std::span<const std::byte> ours, std::span<const std::byte> answer);

  /// "" if our node did what the kernel did; else the difference.
  [[nodiscard]] std::string difference(const O2ibEvent& kernel, const RcDeed& ours);
  /// The same for an LNet message over tcp.
  [[nodiscard]] std::string difference(const ReplayMessage& kernel, const wire::Header& header,
                                       const std::vector<std::byte>& payload);

 private:
  /// Values of the kernel and ours, one to one.
  struct Pairs {
    std::map<uint64_t, uint64_t> ours, kernels;
    [[nodiscard]] bool same(uint64_t kernel, uint64_t our);
    /// The value itself if it has no partner.
    [[nodiscard]] uint64_t our(uint64_t kernel) const;
  };
  /// Credits of one connection.
  struct Account {
    int owed = 0;  ///< by our node
    int lent = 0;  ///< messages of our node whose credit has not come back
  };
  /// Makes a field of our bytes that of the kernel, if both are the same. The text names the field if not.
  std::string level(Pairs& pairs, std::span<const std::byte> kernel, std::span<std::byte> ours, size_t at,
                    const char* name);
  std::string level_message(std::span<const std::byte> kernel, std::span<std::byte> ours, rc::ConnId conn);
  std::string level_header(const wire::Header& kernel, std::span<const std::byte> kernel_bytes,
                           std::span<std::byte> ours, size_t at);
  void count_theirs(std::span<const std::byte> message, rc::ConnId conn);
  std::string count_ours(std::span<const std::byte> message, rc::ConnId conn);
  void level_memory(std::span<const std::byte> kernel, std::span<std::byte> ours, size_t at);

  const std::map<Nid, uint64_t> stamps_;
  const std::vector<Nid> ours_;
  Pairs handles_;
  std::map<Nid, uint64_t> kernel_stamps_;
  std::map<rc::ConnId, Pairs> cookies_;
  std::map<rc::ConnId, Account> accounts_;
  std::map<std::pair<uint32_t, uint64_t>, Place> memory_;  ///< by the kernel's key and address
};

}  // namespace ulnet::test
