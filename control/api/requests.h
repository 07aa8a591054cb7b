// The daemon's side of the control socket: answers every request to one node. Thread: control, from within
// api::Server::poll() and Node::turn_control(). NodeRequests gets the answers from the node. No function here blocks:
// answers that take time come later. Long lists are sent in parts, as fast as the client reads.
#pragma once
#include <functional>
#include <map>
#include <string>

#include "control/api/server.h"
#include "control/api/show_values.h"
#include "control/api/watch.h"
#include "control/discovery/runner.h"
#include "control/node.h"

namespace ulnet {

class NodeRequests final : public api::ApiHandler {
 public:
  /// A request that another part of the daemon answers.
  struct Served {
    std::function<void(api::RequestId, const api::Request&)> request;
    std::function<void(api::RequestId)> gone;     ///< its client has left; may be empty
    std::function<void(api::RequestId)> drained;  ///< its client has read what was sent; may be empty
  };

  /// `version`: for `show status`.
  NodeRequests(Node& node, std::string version);

  /// Sets where answers go; to call before the first request comes. The server outlives this object, or no request is
  /// under way any more.
  void set_server(api::Server& server) { server_ = &server; }
  /// Hands requests of this kind to another part of the daemon, which answers them by reply().
  void serve(api::Call call, Served served);
  /// Sets a function that adds lines to `show status`.
  void set_status(std::function<void(config::Doc&)> add) { add_status_ = std::move(add); }

  /// Sets the source of the times in the answers of `watch`; without it these times are 0.
  void set_real_time(std::function<uint64_t()> real_time_ns) { real_time_ns_ = std::move(real_time_ns); }
  /// Sets the source of the times in `stats show -v`.
  void set_worker_times(WorkerTimes times) { worker_times_ = std::move(times); }

  /// Answers a request.
  void reply(api::RequestId id, const api::Answer& answer);

  void request(api::RequestId id, const api::Request& request) override;
  void gone(api::RequestId id) override;
  void drained(api::RequestId id) override;

 private:
  /// A list of peers under way to a slow reader.
  struct PeerStream {
    uint32_t next_peer = 0;
    int verbosity = 0;
    bool export_rest = false;  // the sections of `export` that follow the peers
  };
  void handle(api::RequestId id, const api::Request& request);
  void change(api::RequestId id, const api::Request& request);
  void by_others(api::RequestId id, api::Call call, const api::Request& request);
  void unknown(api::RequestId id, const api::Request& request);
  void show_recovery(api::RequestId id, const api::Request& request);
  void show_net(api::RequestId id, const api::Request& request);
  void show_route(api::RequestId id, const api::Request& request);
  void show_peer(api::RequestId id, const api::Request& request);
  void show_cpts(api::RequestId id, const api::Request& request);
  void explain(api::RequestId id, const api::Request& request);
  void dry_run(api::RequestId id, const api::Request& request);
  void show_udsp(api::RequestId id, const api::Request& request);
  void show_fault(api::RequestId id, const api::Request& request);
  void fault_add(api::RequestId id, const api::Request& request);
  void fault_del(api::RequestId id, const api::Request& request);
  void fault_reset(api::RequestId id, const api::Request& request);
  void show_export(api::RequestId id, const api::Request& request);
  void stream_peers(api::RequestId id, PeerStream& stream);
  [[nodiscard]] config::Doc global_doc();
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
  std::map<api::Call, Served> served_;
  std::map<api::RequestId, api::Call> under_way_;  // of `served_`
  std::map<api::RequestId, PeerStream> streams_;
  std::map<api::RequestId, uint64_t> changes_;   // lists under way: their numbers for Applier::withdraw()
  std::map<api::RequestId, uint64_t> previews_;  // dry runs under way: their numbers for Policies
  std::function<void(config::Doc&)> add_status_;
  WorkerTimes worker_times_;
  std::function<uint64_t()> real_time_ns_;
  Watchers watchers_;
};

/// The answers as `lnetctl ping` and `discover` print them, with an error for each NID that did not answer
/// (docs/wire/lnetctl.md §3.6).
/// `connection`: the error of the last connection to a NID; 0 if it did not fail.
using ConnectionError = std::function<int32_t(const Nid&)>;
[[nodiscard]] api::Answer ping_answer(const std::vector<PingAnswer>& answers, const ConnectionError& connection);
[[nodiscard]] api::Answer discover_answer(const std::vector<DiscoverAnswer>& answers,
                                          const ConnectionError& connection);
[[nodiscard]] int32_t connection_error(const Control& control, const Nid& nid);

}  // namespace ulnet
