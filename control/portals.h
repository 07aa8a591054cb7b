// The open portals with their home workers, and the submitters that applications opened. Thread: control. The match
// lists of portals are not here: they belong to the home workers.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "control/outbox.h"
#include "dataplane/state/submitter.h"
#include "dataplane/state/view.h"

namespace ulnet {

class Portals {
 public:
  explicit Portals(Outbox& outbox) : outbox_(outbox) {}

  /// Opens a portal. kHashed and kPerWorker spread the portal over workers; `home` takes the rest. Errors: EINVAL (over
  /// 63), EBUSY (open already).
  [[nodiscard]] Result<void> open(PortalIndex portal, WorkerId home, PortalMode mode, bool lazy);
  /// Closes a portal: messages that arrive from now on are dropped. Attached MDs stay until they are unlinked. Errors:
  /// EINVAL, ENOENT.
  [[nodiscard]] Result<void> close(PortalIndex portal);
  void close_all();
  /// To call when an NI leaves: messages that came over it and wait on lazy portals are matched once more, then
  /// dropped.
  void retry_lazy();
  /// To call after a view with the changes was published: only then may waiting messages be matched for the last time.
  void published();
  [[nodiscard]] std::shared_ptr<const PortalTable> view() const { return std::make_shared<PortalTable>(table_); }
  /// Grows with every change of view().
  [[nodiscard]] uint64_t revision() const { return revision_; }

 private:
  [[nodiscard]] Result<void> check_open(PortalIndex portal) const;
  std::vector<uint32_t> lazy_again_;  // portals whose waiting messages are matched again when the view is out
  Outbox& outbox_;
  PortalTable table_;
  uint64_t revision_ = 0;
};

class Submitters {
 public:
  Submitters(Mesh& mesh, Outbox& outbox) : mesh_(mesh), outbox_(outbox) {}

  /// Opens a submitter homed on `worker`, which stays valid until close() or the end of the node. Errors: EINVAL (no
  /// such worker; the size), EAGAIN (kSubmittersMax of that worker, of which some are closing), ENOSPC (kSubmittersMax
  /// are open).
  [[nodiscard]] Result<Submitter*> open(WorkerId worker, const SubmitterSize& size);
  /// Closes the submitter: unlinks its MDs, and frees it when the last of their operations has ended. No event comes
  /// from now on, not even for the end of an MD: a caller that needs this event unlinks the MD first. The caller does
  /// not use the submitter any more. `freed` is called when no worker uses the submitter any more, and never if the
  /// node ends before.
  void close(Submitter& submitter, std::function<void()> freed = {});
  /// Closes all submitters except `kept`, which may be null. The closed ones stay valid until close().
  void close_all_but(const Submitter* kept);
  /// The worker has released the submitter.
  void closed(Submitter& submitter);
  [[nodiscard]] size_t open_count() const;
  /// True if no submitter is open or closing.
  [[nodiscard]] bool all_closed() const { return open_count() == 0; }

 private:
  enum class State : uint8_t { kOpen, kClosing, kClosed };
  struct Entry {
    std::unique_ptr<Submitter> submitter;
    State state = State::kOpen;
    bool given_up = false;  // its user called close()
    std::function<void()> freed;
  };
  void ask_close(Entry& entry);
  void forget(std::vector<Entry>::iterator entry);

  Mesh& mesh_;
  Outbox& outbox_;
  std::vector<Entry> entries_;
};

}  // namespace ulnet
