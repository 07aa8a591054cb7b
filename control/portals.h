// Which portals are open and where they are at home, and the submitters that applications opened. Thread: control. It
// knows nothing of what is attached there: match lists belong to the home workers.
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

  /// Opens a portal. kHashed and kPerWorker spread it over workers; `home` takes what is left. Errors: EINVAL (over
  /// 63), EBUSY (open already).
  [[nodiscard]] Result<void> open(PortalIndex portal, WorkerId home, PortalMode mode, bool lazy);
  /// What arrives from now on is dropped. Attached MDs stay until they are unlinked. Errors: EINVAL, ENOENT.
  [[nodiscard]] Result<void> close(PortalIndex portal);
  /// What waits on the lazy portal is matched once more, then dropped; nothing waits from now on. Errors: EINVAL,
  /// ENOENT.
  [[nodiscard]] Result<void> lazy_off(PortalIndex portal);
  void close_all();
  /// An NI is leaving: what came over it and waits on lazy portals is looked at once more, and given up.
  void retry_lazy();
  /// To call after a view with the changes was published: only then may those who wait be matched for the last time.
  void published();
  [[nodiscard]] std::shared_ptr<const PortalTable> view() const { return std::make_shared<PortalTable>(table_); }
  /// Grows with every change of view().
  [[nodiscard]] uint64_t revision() const { return revision_; }

 private:
  [[nodiscard]] Result<void> check_open(PortalIndex portal) const;
  std::vector<uint32_t> lazy_again_;  // to be matched anew when the view is out
  Outbox& outbox_;
  PortalTable table_;
  uint64_t revision_ = 0;
};

class Submitters {
 public:
  Submitters(Mesh& mesh, Outbox& outbox) : mesh_(mesh), outbox_(outbox) {}

  /// Opens a submitter homed on `worker`. It stays valid until close() of it, or until the node ends. Errors: EINVAL
  /// (no such worker; the size), EAGAIN (kSubmittersMax of that worker, of which some are closing), ENOSPC (as many
  /// are open).
  [[nodiscard]] Result<Submitter*> open(WorkerId worker, const SubmitterSize& size);
  /// Closes it: its MDs are unlinked, and it is freed when the last of their operations has ended. No event comes from
  /// then on, not even that an MD is gone: who wants to know unlinks first. The caller uses it no more. `freed` is
  /// called when no worker uses it any more, not at all if the node ends before.
  void close(Submitter& submitter, std::function<void()> freed = {});
  /// Closes all but one, which may be null. They stay valid for those who hold them.
  void close_all_but(const Submitter* kept);
  /// The worker has let go of it.
  void closed(Submitter& submitter);
  [[nodiscard]] size_t open_count() const;
  /// Every submitter that was asked to has closed.
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
