// The application and the operator above LNet in a captured node. The puppet sends the PUTs and GETs of lnet_selftest
// that the kernel's application sent, and has the memory that its partners read and write. The bytes come from the
// capture. Pings and discoveries are those of lnetctl. Single thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/node.h"
#include "tests/replay/o2ib_script.h"

namespace ulnet::test {

/// Payload of the LNet message in `event`; of a GET, the bytes that its answer brought. RDMA writes included.
[[nodiscard]] std::vector<std::byte> payload_of(const O2ibScript& script, const O2ibEvent& event);

class O2ibPuppet {
 public:
  explicit O2ibPuppet(Node& node);
  ~O2ibPuppet();
  O2ibPuppet(const O2ibPuppet&) = delete;
  O2ibPuppet& operator=(const O2ibPuppet&) = delete;

  /// Lays memory out for the messages of `script` between `ours` and others. Until ready(), the caller turns the node.
  void prepare(const O2ibScript& script, const std::vector<Nid>& ours);
  [[nodiscard]] bool ready() const { return registered_; }
  /// Attaches the memory for the partners. Requires ready().
  void attach();
  /// Sends the message in `event`: a PUT or GET of the application, a ping, or the first message of a discovery.
  /// `ping`: another NID to ping or discover, if not ANY.
  void send(const O2ibEvent& event, const Nid& ping);
  /// The partner's PUTs and REPLYs left other bytes than in the capture, or an operation failed.
  [[nodiscard]] std::string difference();
  [[nodiscard]] unsigned failed_pings() const { return failed_pings_; }

  /// True for messages that send() is to send, if their source is this node.
  [[nodiscard]] static bool is_request(const wire::Header& header);

 private:
  struct Area {
    size_t at = 0;
    std::vector<std::byte> bytes;  ///< of the capture
    wire::Header header;
    bool comes = false;  ///< the partners bring the bytes
  };
  MdHandle bind(const Area& area, uint32_t options);

  Node& node_;
  Submitter* submitter_ = nullptr;
  EqHandle eq_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> memories_;  ///< of each prepare(): MDs may still refer to it
  std::vector<std::byte>* memory_ = nullptr;
  std::map<const O2ibEvent*, Area> areas_;
  size_t requests_at_ = 0;
  bool registered_ = false;
  bool open_ = false;  ///< the portals
  std::string failures_;
  unsigned failed_pings_ = 0;
};

}  // namespace ulnet::test
