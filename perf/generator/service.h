// `manage perf` on the control socket: lets a running ulnetd generate. Each request runs a job with a submitter of its
// own, on that worker's thread or a thread of its own. Parts with {perf: {progress}} come during the run, and the last
// answer holds {perf: {report}} (job_json.h). If the client goes away, its job stops. Thread: control, except for the
// threads of the jobs. At its begin and end, a job on a worker's thread lets control wait for one turn of that thread.
#pragma once
#include <functional>
#include <list>
#include <memory>
#include <span>

#include "control/api/server.h"
#include "perf/generator/session.h"

namespace ulnet::perf {

inline constexpr size_t kServiceJobsMax = 4;  ///< at once

class Service {
 public:
  struct Deps {
    /// Opens a submitter for a job of its own, and gives it back.
    std::function<Result<Submitter*>(const SubmitterSize&)> submitter_open;
    std::function<void(Submitter&)> submitter_close;
    /// Registers the memory of a job for drivers that need that, and takes it back; the answer may come from within. 0:
    /// no region, as it cannot be registered in one. May be empty, both of them.
    std::function<void(std::span<std::byte>, std::function<void(RegionId)>)> region_add;
    std::function<void(RegionId, std::function<void()>)> region_remove;
    /// The thread of this submitter's worker. May be empty: each job has a thread of its own.
    std::function<WorkerThread(const Submitter&)> worker_thread;
    std::function<uint64_t()> busy_cycles;  ///< may be empty
    /// Makes a reader of the node's counters for one job. This thread destroys the reader, in halt() at the latest. May
    /// be empty.
    std::function<std::function<NodeCounts()>()> counts_reader;
    std::function<void(api::RequestId, const api::Answer&)> reply;
  };
  explicit Service(Deps deps) : deps_(std::move(deps)) {}
  /// Requires: the node is gone, so that no worker uses a job's memory; halt() came before that.
  ~Service() = default;

  /// args: a job as job_json() writes it, and perhaps a `name`; or {stop: NAME}: that job ends with what it has.
  void request(api::RequestId id, const api::Request& request);
  /// The client of this request has gone.
  void gone(api::RequestId id);
  /// Sends progress and results; returns work done.
  unsigned turn(Instant now);
  /// When turn() has something to do; kForever without jobs.
  [[nodiscard]] Instant next_deadline() const;
  /// Stops every job, for the end of the daemon; turn() until idle(). Nothing new is taken.
  void stop();
  /// No thread turns a job any more. Waits for the jobs' own threads, for some seconds at most. After halt(),
  /// submitters are unused. Requires: the threads of the workers run.
  void halt();
  [[nodiscard]] bool idle() const;

 private:
  struct Running {
    api::RequestId id;
    Job job;
    std::string name;
    Submitter* submitter = nullptr;                       // null: closed
    std::unique_ptr<std::function<NodeCounts()>> counts;  // the session calls it until it is finished or halted
    std::unique_ptr<Session> session;
    RegionId region{};
    bool registering = false;  // its memory is being registered or taken back
    Instant told = kNever;
    bool wanted = true;     // the client still waits for the answer
    bool stranded = false;  // over, but a worker still has its memory: kept until the node is gone
  };
  void stop_named(api::RequestId id, const std::string& name);
  void register_memory(Running& running);
  void answer_memory(const Session* session, RegionId region);
  bool end(Running& running);

  Deps deps_;
  std::list<Running> running_;
  Instant look_again_ = kForever;
  bool stopped_ = false;
};

}  // namespace ulnet::perf
