#include "perf/generator/target.h"

#include <algorithm>

#include "perf/generator/pattern.h"

namespace ulnet::perf {

Target::Target(Submitter& submitter) : submitter_(submitter), memory_(page_memory(2 * size_t{kTargetBytes})) {
  std::fill_n(memory_.get(), kTargetBytes, std::byte{0});
  pattern_fill({memory_.get() + kTargetBytes, kTargetBytes}, kSourceSeed);
}

Result<void> Target::attach() {
  auto eq = submitter_.eq_open(&Target::on_event, this);
  if (!eq) return tl::unexpected(eq.error());
  eq_ = *eq;
  if (auto done = attach_one(sink_, memory_.get(), kSinkBits, kMdPut | kMdGet); !done) return done;
  return attach_one(source_, memory_.get() + kTargetBytes, kSourceBits, kMdGet);
}

Result<void> Target::attach_one(MdHandle& handle, std::byte* memory, uint64_t match_bits, uint32_t options) {
  const Segment segment{memory, kTargetBytes};
  auto md = submitter_.md_bind({.segments = {&segment, 1}, .options = options | kMdManageRemote, .eq = eq_});
  if (!md) return tl::unexpected(md.error());
  handle = *md;
  ++bound_;
  return submitter_.me_attach(PortalIndex{kTargetPortal}, ProcessId{}, match_bits, 0, MePosition::kTail, handle);
}

Result<void> Target::detach() {
  for (MdHandle* md : {&sink_, &source_}) {
    if (!md->valid()) continue;
    const auto sent = submitter_.unlink(*md);
    if (!sent && sent.error().code == -EAGAIN) return sent;
    *md = {};
  }
  return {};
}

Target::Counts Target::counts() const {
  return {puts_.get(), put_bytes_.get(), gets_.get(), get_bytes_.get(), failed_.get()};
}

/// On the home worker.
void Target::on_event(void* context, const Event& event) {
  Target& target = *static_cast<Target*>(context);
  if (event.kind == EventKind::kUnlink) return target.unlinked_.add();
  if (event.status != 0) return target.failed_.add();
  if (event.kind == EventKind::kPut) {
    target.puts_.add();
    target.put_bytes_.add(event.mlength);
  } else if (event.kind == EventKind::kGet) {
    target.gets_.add();
    target.get_bytes_.add(event.mlength);
  }
}

}  // namespace ulnet::perf
