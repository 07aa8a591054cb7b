// libulnet for C++: LNet inside an application. An Instance is a separate node (threads, NIs, connections). A Submitter
// (dataplane/state/submitter.h) is the interface of one application thread to an Instance. Model, ownership, threads,
// events and errors: docs/libulnet.md. The C header is ulnet.h.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "config/problem.h"
#include "dataplane/base/ids.h"
#include "dataplane/base/nid.h"
#include "dataplane/base/nid_text.h"
#include "dataplane/base/node_counts.h"
#include "dataplane/base/time.h"
#include "dataplane/state/event.h"
#include "dataplane/state/submitter.h"
#include "dataplane/state/view.h"

namespace ulnet {

class Turnable;

enum class InstanceMode : uint8_t {
  kSockets,  ///< no DPDK: kernel sockets only
  kOwnEal,   ///< starts DPDK's EAL; once per process
  kAttach,   ///< no worker threads: the caller turns the workers
};

struct InstanceOptions {
  std::string config;       ///< YAML, lnetctl's schema and `ulnet:`; empty = loopback only
  std::string config_path;  ///< or a file with this YAML
  InstanceMode mode = InstanceMode::kSockets;
  std::function<void(const std::string&)> log;  ///< lines for the operator, from the control thread; may be empty
};

/// A node in this process. Threads: any thread may call, but not from an event callback or `log`: calls wait for the
/// control thread. Several Instances may live in one process.
class Instance {
 public:
  /// Starts threads and NIs, and returns when the whole configuration is in force. Errors (with a sentence that has the
  /// place in the configuration and the correction): EINVAL, EADDRINUSE, EACCES (port below 1024), ENODEV, EAGAIN,
  /// EMFILE.
  [[nodiscard]] static config::Checked<std::unique_ptr<Instance>> open(const InstanceOptions& options);
  /// close(), then frees everything. In mode kAttach no other thread may turn a worker during or after this.
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  /// Stops cleanly: takes no new operations, unlinks all MDs, drains connections; then the threads end. After that no
  /// event comes, so wait for the end of your operations first. During the call, threads may only poll their
  /// submitters. Afterwards all memory is the application's. Blocks, at most 15 s. Returns a text that lists unfinished
  /// work, "" if there is none. A second call returns at once. In mode kAttach, close() turns the workers that the
  /// calling thread has turned, and those that no thread has. Other threads turn theirs until close() returns; close()
  /// gives them up 2 s after their last turn.
  std::string close();

  /// NIDs of this node, the primary first; 0@lo is not among them.
  [[nodiscard]] std::vector<Nid> nids();
  [[nodiscard]] unsigned worker_count() const;
  /// Describes how the node runs, one property per line.
  [[nodiscard]] std::vector<std::string> describe() const;

  /// Opens a submitter homed on `worker`: one thread may use it, and no call on it waits. Valid until
  /// submitter_close(), or as long as the Instance. If all slots are taken, waits up to 5 s for submitters that are
  /// being closed. In mode kAttach, the call does not wait: turn the worker. Errors: EINVAL (no such worker; the size,
  /// see submitter_size_check()), ENOSPC (64 open on this worker), EAGAIN (64, some still being closed), ESHUTDOWN.
  [[nodiscard]] Result<Submitter*> submitter_open(WorkerId worker, const SubmitterSize& size = {});
  /// Ends the submitter at once, without any further event. Bound MDs are unlinked, but no event reports when their
  /// memory is free: unlink them before, and wait for kUnlink. When no worker uses the submitter and no callback of its
  /// queues can come, the control thread calls `freed`. If the Instance ends before, `freed` is not called.
  void submitter_close(Submitter& submitter, std::function<void()> freed = {});
  /// Opens a portal with its match list on `home` (kSingle). Errors: EINVAL, EBUSY (open already), ESHUTDOWN.
  [[nodiscard]] Result<void> portal_open(PortalIndex portal, WorkerId home, PortalMode mode = PortalMode::kSingle,
                                         bool lazy = false);
  [[nodiscard]] Result<void> portal_close(PortalIndex portal);

  /// Registers memory once, for drivers with remote writes: an MD in it is bound at once, on each submitter. Without a
  /// region, such a driver registers the memory for each MD again, which is slow. The memory stays the caller's. The
  /// caller keeps it until region_remove() has returned, or the Instance is closed. The result is the number of the
  /// region. Blocks until the device has registered the memory. Errors, with a sentence: EINVAL (no byte, or beyond the
  /// address space), EEXIST (overlaps another region), ENOSPC (1024 regions, of which one is the node's). Also:
  /// ESHUTDOWN, and those of the device, such as ENOMEM.
  [[nodiscard]] config::Checked<RegionId> region_add(std::span<std::byte> memory);
  /// Gives the memory of a region back to the caller. Blocks. Errors, with a sentence: ENOENT (no such region), EBUSY
  /// (an MD lies in it: wait for its kUnlink first), ESHUTDOWN. If no driver needs regions, MDs are not counted.
  [[nodiscard]] config::Checked<void> region_remove(RegionId region);

  /// LNet ping: the NIDs that the node at `nid` reports. Waits at most `timeout`. Errors: EIO (no answer), EPROTO,
  /// ESHUTDOWN and the errors of a send.
  [[nodiscard]] Result<std::vector<Nid>> ping(const Nid& nid, Duration timeout = 1s);
  /// Applies more configuration, YAML: either all of it or nothing. Errors come with a sentence.
  [[nodiscard]] config::Checked<void> apply(const std::string& yaml);

  /// Cycles that the worker threads have spent with work, as a sum; 0 in mode kAttach.
  [[nodiscard]] uint64_t busy_cycles() const;
  /// Makes a function that reads the counters of the NIs that the node has now, and of its workers. Any thread may call
  /// this function, and a callback, too, as long as the Instance lives. The function does not wait. If the Instance was
  /// closed before, it finds no NIs and no workers. The next call frees what dropped functions held.
  [[nodiscard]] std::function<NodeCounts()> counts_reader();

  /// Has the thread of `worker` turn `item` after each turn of the worker, until turn_without(). There, a submitter of
  /// this worker crosses no thread. The item may not wait: all messages of the worker wait with it. Both calls wait
  /// until the thread has made the change, and one thread makes all of them. turn_without() comes before close().
  /// Errors: ENOTSUP (mode kAttach, or no such worker), ESHUTDOWN.
  [[nodiscard]] Result<void> turn_with(WorkerId worker, Turnable& item);
  void turn_without(WorkerId worker, Turnable& item);

  // Mode kAttach: the caller's thread of worker w calls these, and no other thread does, from the first to the last
  // turn of w.

  /// One bounded turn; returns the work done. While the result is not 0, call again at once. If another thread has
  /// turned this worker, or close() turns it, turn() does nothing and returns 0; wait() does nothing, too.
  unsigned turn(WorkerId worker);
  /// Sleeps until the worker has work, at most `timeout`.
  void wait(WorkerId worker, Duration timeout);

 private:
  struct Impl;
  explicit Instance(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// As Submitter::eq_poll(), but waits at most `timeout` for the first event. Thread: the submitter's own, which sleeps
/// until then. To wait for other things, too: Submitter::eq_fd(). A callback queue or a stale handle never has an
/// event.
unsigned eq_wait(Submitter& submitter, EqHandle eq, std::span<Event> out, Duration timeout);

}  // namespace ulnet
