// The C face of libulnet: conversions only. Events, handles, NIDs and segments have the same layout on both sides, so
// that polling copies nothing twice. No exception leaves a function here.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <new>
#include <vector>

#include "control/lib/md_spec.h"
#include "control/lib/trampoline.h"
#include "control/lib/ulnet.h"
#include "control/lib/ulnet.hh"

/// Lives until no worker can call back any more, which is later than ulnet_submitter_close().
struct ulnet_submitter {
  explicit ulnet_submitter(uint32_t eqs) : trampolines(size_t{eqs} + 1), of_slot(eqs), spare(&trampolines[eqs]) {
    for (uint32_t i = 0; i < eqs; ++i) of_slot[i] = &trampolines[i];
  }
  ulnet::Submitter* submitter = nullptr;
  const char* reason = "";
  // eq_open() needs a trampoline before it returns the slot of the queue, so there is one more trampoline than slots.
  // The spare trampoline is handed over, and the old one of the slot, which no queue calls any more, becomes the spare.
  std::vector<ulnet::Trampoline> trampolines;
  std::vector<ulnet::Trampoline*> of_slot;
  ulnet::Trampoline* spare;
};
struct ulnet_instance {
  void add(std::unique_ptr<ulnet_submitter> submitter) {
    const std::lock_guard lock(mutex);
    submitters.push_back(std::move(submitter));
  }
  void remove(const ulnet_submitter* submitter) {
    const std::lock_guard lock(mutex);
    std::erase_if(submitters, [&](const auto& held) { return held.get() == submitter; });
  }
  std::mutex mutex;
  std::vector<std::unique_ptr<ulnet_submitter>> submitters;  // under mutex
  std::unique_ptr<ulnet::Instance> node;                     // ends before them
};

namespace {

using ulnet::Event;
using ulnet::Nid;

// --- same layout -----------------------------------------------------------------------------------------------------
static_assert(sizeof(ulnet_nid_t) == sizeof(Nid) && alignof(Nid) == alignof(ulnet_nid_t));
static_assert(sizeof(ulnet_md_t) == sizeof(ulnet::MdHandle) && sizeof(ulnet_eq_t) == sizeof(ulnet::EqHandle));
static_assert(offsetof(ulnet_md_t, index) == offsetof(ulnet::MdHandle, index));
static_assert(sizeof(ulnet_segment_t) == sizeof(ulnet::Segment));
static_assert(offsetof(ulnet_segment_t, bytes) == offsetof(ulnet::Segment, bytes));
#define SAME(field) static_assert(offsetof(ulnet_event_t, field) == offsetof(Event, field))
static_assert(sizeof(ulnet_event_t) == sizeof(Event));
SAME(kind);
SAME(final);
SAME(status);
SAME(portal);
SAME(rlength);
SAME(mlength);
SAME(offset);
SAME(initiator_pid);
SAME(match_bits);
SAME(hdr_data);
SAME(user_data);
SAME(user_ptr);
SAME(md);
SAME(initiator);
SAME(source);
SAME(sender);
SAME(target);
#undef SAME
static_assert(ULNET_PUT == int(ulnet::EventKind::kPut) && ULNET_GET == int(ulnet::EventKind::kGet));
static_assert(ULNET_REPLY == int(ulnet::EventKind::kReply) && ULNET_ACK == int(ulnet::EventKind::kAck));
static_assert(ULNET_SEND == int(ulnet::EventKind::kSend) && ULNET_UNLINK == int(ulnet::EventKind::kUnlink));
static_assert(ULNET_MD_PUT == int(ulnet::kMdPut) && ULNET_MD_GET == int(ulnet::kMdGet));
static_assert(ULNET_MD_TRUNCATE == int(ulnet::kMdTruncate) && ULNET_MD_MANAGE_REMOTE == int(ulnet::kMdManageRemote));
static_assert(ULNET_MD_ACK_DISABLE == int(ulnet::kMdAckDisable) && ULNET_MD_NO_TRACK == int(ulnet::kMdNoTrack));
static_assert(ULNET_MD_TRACK == int(ulnet::kMdTrack));
static_assert(ULNET_PORTAL_SINGLE == int(ulnet::PortalMode::kSingle));
static_assert(ULNET_PORTAL_HASHED == int(ulnet::PortalMode::kHashed));
static_assert(ULNET_PORTAL_PER_WORKER == int(ulnet::PortalMode::kPerWorker));
static_assert(ULNET_SOCKETS == int(ulnet::InstanceMode::kSockets) &&
              ULNET_OWN_EAL == int(ulnet::InstanceMode::kOwnEal));
static_assert(ULNET_ATTACH == int(ulnet::InstanceMode::kAttach));
static_assert(ULNET_INFINITE == ulnet::kInfinite && ULNET_PID_LNET == ulnet::kLnetPid);
static_assert(ULNET_PAYLOAD_MAX == ulnet::kMaxPayload && ULNET_SEGMENTS_MAX == ulnet::kMaxSegments);
static_assert(ULNET_PORTALS == ulnet::kPortalCount && ULNET_PID_ANY == ulnet::kAnyPid);

Nid cxx(const ulnet_nid_t& nid) {
  Nid out;
  std::memcpy(static_cast<void*>(&out), &nid, sizeof(out));
  return out;
}
ulnet_nid_t c(const Nid& nid) {
  ulnet_nid_t out;
  std::memcpy(&out, &nid, sizeof(out));
  return out;
}
ulnet::MdHandle cxx(ulnet_md_t md) {
  return {md.worker, md.submitter, md.index, md.generation};
}

void say(char* error, size_t bytes, const std::string& text) {
  if (error == nullptr || bytes == 0) return;
  const size_t length = std::min(bytes - 1, text.size());
  std::memcpy(error, text.data(), length);
  error[length] = 0;
}

/// Runs `work`. An exception becomes a number: ENOMEM for std::bad_alloc, EIO for any other.
template <class F>
int guarded(F&& work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return -ENOMEM;
  } catch (...) {
    return -EIO;
  }
}

/// The result of a submitter's call as a number; `reason` keeps the sentence.
template <class T>
int answer(ulnet_submitter_t* submitter, const ulnet::Result<T>& result) {
  if (result) return 0;
  submitter->reason = result.error().what;
  return result.error().code;
}

int copy_nids(const std::vector<Nid>& nids, ulnet_nid_t* out, size_t max) {
  for (size_t i = 0; i < nids.size() && i < max; ++i) out[i] = c(nids[i]);
  return int(nids.size());
}

ulnet::PutSpec spec_of(const ulnet_op_t& op) {
  return {.md = cxx(op.md),
          .self = cxx(op.self),
          .target = {cxx(op.target), op.target_pid},
          .portal = op.portal,
          .match_bits = op.match_bits,
          .offset = op.offset,
          .hdr_data = op.hdr_data,
          .ack = op.ack != 0,
          .md_offset = op.md_offset,
          .length = op.length,
          .user_data = op.user_data};
}

}  // namespace

extern "C" {

int ulnet_open(const ulnet_options_t* options, ulnet_t** out, char* error, size_t error_bytes) {
  *out = nullptr;
  return guarded([&] {
    ulnet::InstanceOptions cxx_options;
    if (options != nullptr) {
      if (options->mode < ULNET_SOCKETS || options->mode > ULNET_ATTACH) {
        say(error, error_bytes, "no such mode");
        return -EINVAL;
      }
      if (options->config != nullptr) cxx_options.config = options->config;
      if (options->config_path != nullptr) cxx_options.config_path = options->config_path;
      cxx_options.mode = ulnet::InstanceMode(options->mode);
      if (options->log != nullptr) {
        cxx_options.log = [log = options->log, context = options->log_context](const std::string& line) {
          log(context, line.c_str());
        };
      }
    }
    auto node = ulnet::Instance::open(cxx_options);
    if (!node) {
      say(error, error_bytes, node.error().what);
      return node.error().code;
    }
    auto instance = std::make_unique<ulnet_instance>();
    instance->node = std::move(*node);
    *out = instance.release();
    return 0;
  });
}

void ulnet_stop(ulnet_t* instance) {
  (void)guarded([&] {
    (void)instance->node->close();
    return 0;
  });
}

void ulnet_close(ulnet_t* instance) {
  (void)guarded([&] {
    delete instance;
    return 0;
  });
}

int ulnet_nids(ulnet_t* instance, ulnet_nid_t* out, size_t max) {
  return guarded([&] { return copy_nids(instance->node->nids(), out, max); });
}

unsigned ulnet_workers(const ulnet_t* instance) {
  return instance->node->worker_count();
}

int ulnet_apply(ulnet_t* instance, const char* config, char* error, size_t error_bytes) {
  return guarded([&] {
    const auto applied = instance->node->apply(config);
    if (applied) return 0;
    say(error, error_bytes, applied.error().what);
    return applied.error().code;
  });
}

int ulnet_ping(ulnet_t* instance, const ulnet_nid_t* nid, unsigned timeout_ms, ulnet_nid_t* out, size_t max) {
  return guarded([&] {
    const auto nids = instance->node->ping(cxx(*nid), std::chrono::milliseconds(timeout_ms));
    return nids ? copy_nids(*nids, out, max) : nids.error().code;
  });
}

int ulnet_nid_parse(const char* text, ulnet_nid_t* out) {
  return guarded([&] {
    const auto nid = ulnet::nid_parse(text);
    if (!nid) return nid.error().code;
    *out = c(*nid);
    return 0;
  });
}

int ulnet_nid_text(const ulnet_nid_t* nid, char* out, size_t bytes) {
  return guarded([&] {
    const std::string text = ulnet::nid_text(cxx(*nid));
    if (text.size() >= bytes) return -ENOSPC;
    say(out, bytes, text);
    return 0;
  });
}

ulnet_nid_t ulnet_nid_any(void) {
  return c(ulnet::kAnyNid);
}

int ulnet_submitter_open(ulnet_t* instance, unsigned worker, const ulnet_submitter_size_t* size,
                         ulnet_submitter_t** out) {
  *out = nullptr;
  return guarded([&] {
    ulnet::SubmitterSize wanted;
    if (size != nullptr) wanted = {size->ops, size->mds, size->eqs, size->segment_blocks};
    if (worker >= instance->node->worker_count()) return -EINVAL;
    if (const auto good = ulnet::submitter_size_check(wanted); !good) return good.error().code;
    auto wrapper = std::make_unique<ulnet_submitter>(wanted.eqs);
    const auto opened = instance->node->submitter_open(ulnet::WorkerId{uint16_t(worker)}, wanted);
    if (!opened) return opened.error().code;
    wrapper->submitter = *opened;
    *out = wrapper.get();
    instance->add(std::move(wrapper));
    return 0;
  });
}

void ulnet_submitter_close(ulnet_t* instance, ulnet_submitter_t* submitter) {
  if (submitter == nullptr) return;
  (void)guarded([&] {
    instance->node->submitter_close(*submitter->submitter, [=] { instance->remove(submitter); });
    return 0;
  });
}

const char* ulnet_submitter_reason(const ulnet_submitter_t* submitter) {
  return submitter->reason;
}

int ulnet_portal_open(ulnet_t* instance, ulnet_submitter_t* submitter, unsigned portal, int mode, int lazy) {
  if (mode < ULNET_PORTAL_SINGLE || mode > ULNET_PORTAL_PER_WORKER) return -EINVAL;
  return guarded([&] {
    return answer(submitter, instance->node->portal_open(ulnet::PortalIndex{portal}, submitter->submitter->home(),
                                                         ulnet::PortalMode(mode), lazy != 0));
  });
}

int ulnet_portal_close(ulnet_t* instance, unsigned portal) {
  return guarded([&] {
    const auto closed = instance->node->portal_close(ulnet::PortalIndex{portal});
    return closed ? 0 : closed.error().code;
  });
}

int ulnet_region_add(ulnet_t* instance, void* base, size_t bytes, uint32_t* region, char* error, size_t error_bytes) {
  *region = 0;
  return guarded([&] {
    const auto added = instance->node->region_add({static_cast<std::byte*>(base), bytes});
    if (added) return *region = added->value, 0;
    say(error, error_bytes, added.error().what);
    return added.error().code;
  });
}

int ulnet_region_remove(ulnet_t* instance, uint32_t region, char* error, size_t error_bytes) {
  return guarded([&] {
    const auto removed = instance->node->region_remove(ulnet::RegionId{region});
    if (removed) return 0;
    say(error, error_bytes, removed.error().what);
    return removed.error().code;
  });
}

int ulnet_eq_open(ulnet_submitter_t* submitter, uint32_t size, ulnet_callback_t callback, void* context,
                  ulnet_eq_t* out) {
  return guarded([&] {
    if ((size == 0) == (callback == nullptr)) {
      submitter->reason = "an event queue has either a size or a callback";
      return -EINVAL;
    }
    if (callback == nullptr) {
      const auto eq = submitter->submitter->eq_open(size);
      if (eq) *out = {eq->worker, eq->submitter, eq->index, eq->generation};
      return answer(submitter, eq);
    }
    *submitter->spare = {callback, context};
    const auto eq = submitter->submitter->eq_open(&ulnet::trampoline_event, submitter->spare);
    if (eq) {
      std::swap(submitter->spare, submitter->of_slot[eq->index]);
      *out = {eq->worker, eq->submitter, eq->index, eq->generation};
    }
    return answer(submitter, eq);
  });
}

int ulnet_eq_close(ulnet_submitter_t* submitter, ulnet_eq_t eq) {
  return answer(submitter, submitter->submitter->eq_close(ulnet::eq_handle_of(eq)));
}

int ulnet_eq_poll(ulnet_submitter_t* submitter, ulnet_eq_t eq, ulnet_event_t* out, unsigned max) {
  return int(submitter->submitter->eq_poll(ulnet::eq_handle_of(eq), {reinterpret_cast<Event*>(out), max}));
}

int ulnet_eq_fd(ulnet_submitter_t* submitter, ulnet_eq_t eq) {
  const auto fd = submitter->submitter->eq_fd(ulnet::eq_handle_of(eq));
  return fd ? *fd : answer(submitter, fd);
}

int ulnet_eq_arm(ulnet_submitter_t* submitter, ulnet_eq_t eq) {
  return submitter->submitter->eq_arm(ulnet::eq_handle_of(eq)) ? 1 : 0;
}

int ulnet_eq_wait(ulnet_submitter_t* submitter, ulnet_eq_t eq, ulnet_event_t* out, unsigned max, unsigned timeout_ms) {
  return int(ulnet::eq_wait(*submitter->submitter, ulnet::eq_handle_of(eq), {reinterpret_cast<Event*>(out), max},
                            std::chrono::milliseconds(timeout_ms)));
}

ulnet_md_spec_t ulnet_md_defaults(void) {
  ulnet_md_spec_t spec{};
  spec.threshold = ULNET_INFINITE;
  return spec;
}

int ulnet_md_bind(ulnet_submitter_t* submitter, const ulnet_md_spec_t* spec, ulnet_md_t* out) {
  const auto md = submitter->submitter->md_bind(ulnet::md_spec_of(*spec));
  if (md) *out = {md->worker, md->submitter, md->index, md->generation};
  return answer(submitter, md);
}

int ulnet_unlink(ulnet_submitter_t* submitter, ulnet_md_t md) {
  return answer(submitter, submitter->submitter->unlink(cxx(md)));
}

int ulnet_me_attach(ulnet_submitter_t* submitter, unsigned portal, const ulnet_nid_t* initiator, uint32_t initiator_pid,
                    uint64_t match_bits, uint64_t ignore_bits, int position, ulnet_md_t md) {
  const ulnet::ProcessId who{initiator == nullptr ? ulnet::kAnyNid : cxx(*initiator), initiator_pid};
  const auto where = position == ULNET_HEAD ? ulnet::MePosition::kHead : ulnet::MePosition::kTail;
  return answer(submitter, submitter->submitter->me_attach(ulnet::PortalIndex{portal}, who, match_bits, ignore_bits,
                                                           where, cxx(md)));
}

ulnet_op_t ulnet_op_defaults(void) {
  ulnet_op_t op{};
  op.self = op.target = ulnet_nid_any();
  op.target_pid = ULNET_PID_LNET;
  op.length = ULNET_INFINITE;
  op.ack = 1;
  return op;
}

int ulnet_put(ulnet_submitter_t* submitter, const ulnet_op_t* op) {
  return answer(submitter, submitter->submitter->put(spec_of(*op)));
}

int ulnet_get(ulnet_submitter_t* submitter, const ulnet_op_t* op) {
  return answer(submitter, submitter->submitter->get(spec_of(*op)));
}

unsigned ulnet_turn(ulnet_t* instance, unsigned worker) {
  return instance->node->turn(ulnet::WorkerId{uint16_t(worker)});
}

void ulnet_wait(ulnet_t* instance, unsigned worker, unsigned timeout_ms) {
  instance->node->wait(ulnet::WorkerId{uint16_t(worker)}, std::chrono::milliseconds(timeout_ms));
}

}  // extern "C"
