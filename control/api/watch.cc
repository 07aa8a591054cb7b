#include "control/api/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>

namespace ulnet {
namespace {

using api::Answer;
using config::Doc;

/// The kinds of a list such as "ni,route", as bits. Errors: a sentence.
tl::expected<uint32_t, std::string> kinds_parse(std::string_view text) {
  uint32_t bits = 0;
  while (!text.empty()) {
    const std::string_view word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    const auto found = std::find(kStateKinds.begin(), kStateKinds.end(), word);
    if (found == kStateKinds.end())
      return tl::unexpected(
          fmt::format("unknown kind '{}'; known: {}", word, fmt::join(kStateKinds.begin(), kStateKinds.end(), ", ")));
    bits |= 1u << unsigned(found - kStateKinds.begin());
  }
  return bits;
}

Doc line_of(const StateEvent& event, bool present, uint64_t time_us) {
  Doc doc = Doc::map();
  doc.set("event", present ? "now" : "change");
  doc.set("seq", event.sequence);
  doc.set("time_us", time_us);
  doc.set("kind", kStateKinds[size_t(event.kind)]);
  doc.set("object", event.object);
  if (!present) doc.set("from", event.from);
  doc.set("to", event.to);
  if (!present) doc.set("reason", event.reason);
  if (event.health) doc.set("health", *event.health);
  return doc;
}

}  // namespace

bool Watchers::Watcher::wants(const StateEvent& event) const {
  if (kinds != 0 && (kinds & 1u << unsigned(event.kind)) == 0) return false;
  return nids.empty() || std::find(nids.begin(), nids.end(), event.nid) != nids.end();
}

void Watchers::request(api::RequestId id, const api::Request& request) {
  const auto refuse = [&](int code, std::string what) {
    deps_.reply(id, api::answer_error("manage", "watch", code, std::move(what)));
  };
  Watcher watcher;
  const auto kinds = kinds_parse(request.arg_text("kinds"));
  if (!kinds) return refuse(-EINVAL, kinds.error());
  watcher.kinds = *kinds;
  if (request.args.contains("nids")) {
    auto nids = request.arg_nids("nids");
    if (!nids) return refuse(-EINVAL, nids.error());
    watcher.nids = std::move(*nids);
  }
  if (watchers_.size() >= kWatchersMax)
    return refuse(-EAGAIN, fmt::format("{} clients watch, which is the maximum; end one of them", kWatchersMax));
  if (watchers_.empty()) subscription_ = deps_.events.subscribe([this](const StateEvent& event) { happened(event); });
  send_now(id, watchers_[id] = std::move(watcher), Doc::list());
}

void Watchers::gone(api::RequestId id) {
  if (watchers_.erase(id) > 0 && watchers_.empty()) deps_.events.unsubscribe(subscription_);
}

bool Watchers::drained(api::RequestId id) {
  const auto found = watchers_.find(id);
  if (found == watchers_.end()) return false;
  if (found->second.lost == 0) return true;
  Doc lines = Doc::list();
  Doc& line = lines.push(Doc::map());
  line.set("event", "lost");
  line.set("lost", std::exchange(found->second.lost, 0));
  send_now(id, found->second, std::move(lines));
  return true;
}

void Watchers::happened(const StateEvent& event) {
  for (auto& [id, watcher] : watchers_) {
    if (!watcher.wants(event)) continue;
    if (deps_.backlog(id) > api::kOutputLow) {
      ++watcher.lost;  // drained() comes
      continue;
    }
    try {
      Doc lines = Doc::list();
      lines.push(line_of(event, false, time_us()));
      send(id, std::move(lines));
    } catch (const std::bad_alloc&) {  // the change itself goes on
      ++watcher.lost;
    }
  }
}

void Watchers::send_now(api::RequestId id, const Watcher& watcher, Doc lines) const {
  deps_.events.now([&](const StateEvent& event) {
    if (watcher.wants(event)) lines.push(line_of(event, true, time_us()));
  });
  send(id, std::move(lines));
}

void Watchers::send(api::RequestId id, Doc lines) const {
  Answer part;
  part.doc.set("watch", std::move(lines));
  part.more = true;
  deps_.reply(id, part);
}

}  // namespace ulnet
