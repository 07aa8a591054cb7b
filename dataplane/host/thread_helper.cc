#include "dataplane/host/thread_helper.h"

namespace ulnet {

Result<void> ThreadHelper::open() {
  if (auto opened = runner_.gate().open(); !opened) return opened;
  if (auto started = thread_.start(launcher_, 0); !started) return started;
  if (auto added = thread_.add(runner_); !added) return tl::unexpected(added.error());
  return {};
}

void ThreadHelper::start(Job& job, Instant) {
  ULNET_CHECK(jobs_.push(&job));
  runner_.gate().notify(jobs_);
}

unsigned ThreadHelper::Runner::turn(Instant) {
  Job* job = nullptr;
  if (!all_.jobs_.pop(job)) return 0;
  job->run();
  ULNET_CHECK(all_.ended_.push(job));
  all_.control_.notify(all_.ended_);
  return 1;
}

}  // namespace ulnet
