// The application above LNet in a captured server of lnet_selftest. The server answers each request as the kernel's
// server answered the same request. The bytes of its answers come from the capture. Their NIDs follow from the
// requests, as docs/wire/selftest.md §1 demands. Single thread.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "control/node.h"
#include "tests/script/replay.h"

namespace ulnet::test {

class SelftestServer {
 public:
  /// `ours`: the addresses of the captured server. `node` outlives it.
  SelftestServer(Node& node, const Capture& capture, const std::vector<IpAddress>& ours);
  ~SelftestServer();
  SelftestServer(const SelftestServer&) = delete;
  SelftestServer& operator=(const SelftestServer&) = delete;

  /// Answers what has come.
  void poll();
  [[nodiscard]] size_t answered() const { return answered_; }

 private:
  struct Request {
    Nid client, self;
    uint64_t reply_bits = 0;
  };
  void request(const Event& event);
  void answer(const Request& request);

  Node& node_;
  Submitter* submitter_ = nullptr;
  EqHandle eq_;
  MdHandle replies_md_, bulk_md_;
  std::map<uint32_t, std::vector<std::byte>> requests_;  // by portal
  std::vector<std::byte> replies_, bulk_;
  std::map<uint64_t, uint32_t> reply_at_;    // by match bits: offset of the kernel's reply in replies_
  std::map<uint64_t, uint32_t> bulk_bytes_;  // by match bits: bytes that the kernel requested
  std::map<uint64_t, Request> fetching_;     // by number of the GET
  uint64_t next_ = 1;
  size_t answered_ = 0;
};

}  // namespace ulnet::test
