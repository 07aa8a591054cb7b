// The daemon's side of the control socket: every request to one node, answered. Thread: control, from within
// api::Server::poll() and Node::turn_control(). What it is asked it asks the node; nothing here waits, answers that
// take time come later. Long lists are sent in parts, as fast as their reader reads.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "control/api/server.h"
#include "control/api/show_values.h"
#include "control/discovery/runner.h"
#include "control/node.h"

namespace ulnet {

class NodeRequests final : public api::ApiHandler {
 public:
  using Manage = std::function<void(api::RequestId, const api::Request&)>;

  /// `version`: for `show status`.
  NodeRequests(Node& node, std::string version) : node_(node), c_(node.control()), version_(std::move(version)) {}

  /// Where answers go, before the first request comes. The server outlives this, or no request is under way any more.
  void set_server(api::Server& server) { server_ = &server; }
  /// Takes `manage OBJECT` requests over, e.g. perf. `gone` and `drained` are told for requests of that object.
  void add_manage(const std::string& object, Manage handle, std::function<void(api::RequestId)> gone,
                  std::function<void(api::RequestId)> drained);
  /// Takes `show OBJECT` requests over. Each is answered at once.
  void add_show(const std::string& object, Manage handle) { shows_[object] = std::move(handle); }
  /// More lines of `show status`.
  void set_status(std::function<void(config::Doc&)> add) { add_status_ = std::move(add); }

  /// Where the times of `stats show -v` come from.
  void set_worker_times(WorkerTimes times) { worker_times_ = std::move(times); }

  /// Answers a request; those of add_manage() do so by this, too.
  void reply(api::RequestId id, const api::Answer& answer);

  void request(api::RequestId id, const api::Request& request) override;
  void gone(api::RequestId id) override;
  void drained(api::RequestId id) override;

 private:
  struct Object {
    Manage handle;
    std::function<void(api::RequestId)> gone, drained;
  };
  /// A list of peers under way to a slow reader.
  struct PeerStream {
    uint32_t next_peer = 0;
    int verbosity = 0;
    bool export_rest = false;  // the sections of `export` that follow the peers
  };
  void handle(api::RequestId id, const api::Request& request);
  void change(api::RequestId id, const api::Request& request);
  void show(api::RequestId id, const api::Request& request);
  void show_net(api::RequestId id, const api::Request& request);
  void show_route(api::RequestId id, const api::Request& request);
  void show_peer(api::RequestId id, const api::Request& request);
  void show_cpts(api::RequestId id, const api::Request& request);
  void show_udsp(api::RequestId id, const api::Request& request);
  void show_export(api::RequestId id, const api::Request& request);
  void stream_peers(api::RequestId id, PeerStream& stream);
  [[nodiscard]] config::Doc peer_list_doc();
  [[nodiscard]] config::Doc routing_doc();
  [[nodiscard]] config::Doc export_end_doc();
  [[nodiscard]] config::Doc status_doc();
  void ping(api::RequestId id, const api::Request& request);
  void discover(api::RequestId id, const api::Request& request);

  Node& node_;
  Control& c_;
  const std::string version_;
  api::Server* server_ = nullptr;
  std::map<std::string, Object> objects_;
  std::map<std::string, Manage> shows_;
  std::map<api::RequestId, std::string> managed_;  // requests that an Object has
  std::map<api::RequestId, PeerStream> streams_;
  std::map<api::RequestId, uint64_t> changes_;  // lists under way: their numbers for Applier::withdraw()
  std::function<void(config::Doc&)> add_status_;
  WorkerTimes worker_times_;
};

/// What `lnetctl ping` and `discover` print of answers: those that came, and an error for each that did not
/// (docs/wire/lnetctl.md §3.6).
/// `connection`: why the last connection to a NID failed; 0 if it did not.
using ConnectionError = std::function<int32_t(const Nid&)>;
[[nodiscard]] api::Answer ping_answer(const std::vector<PingAnswer>& answers, const ConnectionError& connection);
[[nodiscard]] api::Answer discover_answer(const std::vector<DiscoverAnswer>& answers,
                                          const ConnectionError& connection);
[[nodiscard]] int32_t connection_error(const Control& control, const Nid& nid);

}  // namespace ulnet
