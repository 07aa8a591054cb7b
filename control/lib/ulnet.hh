// libulnet for C++: LNet inside an application. An Instance is a node of its own (threads, NIs, connections); a
// Submitter (dataplane/state/submitter.h) is how one application thread uses it. Model, ownership, threads, events and
// errors: docs/libulnet.md. The C header is ulnet.h.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "control/text_error.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/base/time.h"
#include "dataplane/state/event.h"
#include "dataplane/state/submitter.h"
#include "dataplane/state/view.h"

namespace ulnet {

enum class InstanceMode : uint8_t {
  kSockets,  ///< no DPDK: kernel sockets only
  kOwnEal,   ///< starts DPDK's EAL; once per process
  kAttach,   ///< no worker threads: the caller turns the workers
};

struct InstanceOptions {
  std::string config;       ///< YAML, lnetctl's schema and `ulnet:`; empty = nothing but loopback
  std::string config_path;  ///< or a file of it
  InstanceMode mode = InstanceMode::kSockets;
  std::function<void(const std::string&)> log;  ///< lines for the operator, from the control thread; may be empty
};

/// A node in this process. Threads: any may call, but not from within an event callback or `log`: calls wait for the
/// control thread. Several Instances may live in one process.
class Instance {
 public:
  /// Starts threads and NIs, and returns when the whole configuration is in force. Errors (with a sentence that says
  /// where in the configuration, and how to mend it): EINVAL, EADDRINUSE, EACCES (port below 1024), ENODEV, EAGAIN,
  /// EMFILE.
  [[nodiscard]] static TextResult<std::unique_ptr<Instance>> open(const InstanceOptions& options);
  /// close(), then frees everything. In mode kAttach no other thread may turn a worker any more.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Stops cleanly: nothing new, what is bound is taken back, connections are drained; then the threads end. No event
  /// comes any more: let what is under way end before, and let no thread use a submitter meanwhile, but to poll.
  /// Afterwards all memory is the application's. Blocks, at most 15 s. Returns what was not at rest in time, "" when
  /// all was. A second call returns at once. In mode kAttach, close() turns the workers that the calling thread has
  /// turned, and those that no thread has. Other threads turn theirs until close() returns; close() gives them up 2 s
  /// after their last turn.
  std::string close();

  /// NIDs of this node, the primary first; 0@lo is not among them.
  [[nodiscard]] std::vector<Nid> nids();
  [[nodiscard]] unsigned worker_count() const;
  /// How the node runs: a line each.
  [[nodiscard]] std::vector<std::string> describe() const;

  /// A submitter homed on `worker`: one thread may use it, without waiting for anybody. Valid until submitter_close(),
  /// or as long as the Instance. If all slots are taken, waits up to 5 s for submitters that are being closed;
  /// in mode kAttach, the call does not wait: turn the worker. Errors: EINVAL (no such worker; the size, see
  /// submitter_size_check()), ENOSPC (64 open on this worker), EAGAIN (64, some still being closed), ESHUTDOWN.
  [[nodiscard]] Result<Submitter*> submitter_open(WorkerId worker, const SubmitterSize& size = {});
  /// Ends it at once, without any further event. Bound MDs are unlinked, but no event says when their memory is free:
  /// unlink and wait for kUnlink before. The control thread calls `freed` when no worker uses the submitter any more
  /// and no callback of its queues comes. If the Instance ends before, `freed` is not called.
  void submitter_close(Submitter& submitter, std::function<void()> freed = {});
  /// Opens a portal with its match list on `home` (kSingle). Errors: EINVAL, EBUSY (open already), ESHUTDOWN.
  [[nodiscard]] Result<void> portal_open(PortalIndex portal, WorkerId home, PortalMode mode = PortalMode::kSingle,
                                         bool lazy = false);
  [[nodiscard]] Result<void> portal_close(PortalIndex portal);

  /// LNet ping: the NIDs that the node at `nid` says it has. Waits at most `timeout`. Errors: EIO (no answer), EPROTO,
  /// ESHUTDOWN and what a send can fail with.
  [[nodiscard]] Result<std::vector<Nid>> ping(const Nid& nid, Duration timeout = 1s);
  /// More configuration, YAML: whole or not at all. Errors: with a sentence.
  [[nodiscard]] TextResult<void> apply(const std::string& yaml);

  /// Cycles that the worker threads have spent with work, all together; 0 in mode kAttach.
  [[nodiscard]] uint64_t busy_cycles() const;

  // Mode kAttach: the caller's thread of worker w calls these, and no other thread does, from the first to the last
  // turn of w.

  /// One bounded turn; returns work done. Call again at once while it is not 0. When another thread has turned
  /// this worker, or close() does: does nothing and returns 0, as wait().
  unsigned turn(WorkerId worker);
  /// Sleeps until the worker has something to do, at most `timeout`.
  void wait(WorkerId worker, Duration timeout);

 private:
  struct Impl;
  explicit Instance(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Submitter::eq_poll(), but waits at most `timeout` for the first event; the submitter's own thread. Meant for
/// programs that have nothing else to do: it yields, then naps up to 0.1 ms.
unsigned eq_wait(Submitter& submitter, EqHandle eq, std::span<Event> out, Duration timeout);

}  // namespace ulnet
