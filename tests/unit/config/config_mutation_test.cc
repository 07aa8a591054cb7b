// Seeded mutations of real configurations and requests: whatever comes, reading ends, in changes or in errors that name
// a place.
#include <cstdlib>

#include "config/apply.h"
#include "config/export.h"
#include "control/api/schema.h"
#include "dataplane/base/rng.h"
#include "tests/unit/config/golden.h"

namespace ulnet::config {
namespace {

const char* const kTexts[] = {
    "tcp-mr.export-backup", "o2ib-mr.export-backup", "tcp-mr.import-roundtrip", "router.export", "errors",
    "tcp-mr.discover"};

constexpr const char* kUlnet =
    "ulnet:\n  idle: busy\n  cores: 2-5,8\n  unprivileged_ports: true\n  accept_port: 9988\n  socket:\n    mode: "
    "0640\n    group: lnet\n"
    "  memory: {messages_per_worker: 4096, hugepages: no}\n  devices:\n    - {name: a, device: tap}\n"
    "ip2nets:\n  - net-spec: tcp(eth0)\n    ip-range: {0: 192.168.[1-4/2].*}\n"
    "route:\n  - net: tcp[2-3]\n    gateway: 10.1.1.[1-5]@tcp\n    hop: 2\n";

constexpr const char* kPolicies =
    "udsp:\n  - {idx: 0, src: 'tcp[1-3]', action: {priority: 3}}\n  - {dst: 10.1.0.0/16@tcp, rte: 10.9.0.1@o2ib*}\n"
    "policy:\n  - {src: '*@o2ib1', action: [{priority: -1}]}\n  - {src: 'fd00::[1-f]@tcp', dst: '*.*.*.*@tcp'}\n"
    "selection:\n  - {type: net, net: 'o2ib[1,2]', priority: 1}\n  - {type: nid, nid: 10.1.1.*@tcp, priority: 2}\n"
    "  - {type: peer, local: 10.1.1.1@tcp, remote: 10.1.1.[5-8/2]@tcp, priority: 0, id: 4}\n";

constexpr const char* kPieces[] = {"- ",          ": ",
                                   "\n",          "\n  ",
                                   "[",           "]",
                                   "{",           "}",
                                   "'",           "\"",
                                   "! ",          "*x",
                                   "&x ",         "#",
                                   "|",           ">",
                                   "0x",          "-1",
                                   "[1-9]",       "[0-99999999999]",
                                   "@tcp",        "99999999999999999999",
                                   "seq_no: 1\n", "---\n",
                                   "...\n",       "\t",
                                   "\x00\x01",    "\xff\xfe",
                                   "%",           "? ",
                                   "true",        "null",
                                   "\\"};

/// ULNET_SEED, to try other seeds than the fixed one of every build.
uint64_t seed() {
  const char* text = std::getenv("ULNET_SEED");
  return text == nullptr ? 20 : std::strtoull(text, nullptr, 0);
}

std::string mutated(Rng& rng, std::string text) {
  for (uint64_t count = 1 + rng.below(6); count > 0 && !text.empty(); --count) {
    size_t at = rng.below(static_cast<uint32_t>(text.size()));
    size_t length = std::min<size_t>(rng.below(20), text.size() - at);
    switch (rng.below(5)) {
      case 0: text.insert(at, kPieces[rng.below(std::size(kPieces))]); break;
      case 1: text.erase(at, length); break;
      case 2: text[at] = static_cast<char>(rng.below(256)); break;
      case 3: text.insert(at, text.substr(rng.below(static_cast<uint32_t>(text.size())), length)); break;
      default: text.replace(at, length, kPieces[rng.below(std::size(kPieces))]); break;
    }
  }
  return text;
}

// Goal: no text makes the loader fail otherwise than by errors. Text that was read can be written and read again.
TEST(ConfigMutation, files) {
  std::vector<std::string> texts{kUlnet, kPolicies, kPolicies};
  for (const char* name : kTexts) texts.push_back(golden_text(name));
  Rng rng(seed());
  for (int round = 0; round < 600; ++round) {
    const std::string text = mutated(rng, texts[rng.below(static_cast<uint32_t>(texts.size()))]);
    SCOPED_TRACE("ULNET_SEED=" + std::to_string(seed()) + " round " + std::to_string(round));
    for (ImportMode mode : {ImportMode::kAdd, ImportMode::kDel, ImportMode::kExec}) {
      Imported imported = load_text(text, "f", mode);
      for (const Problem& problem : imported.errors) ASSERT_FALSE(problem.what.empty()) << text;
      for (const PlacedChange& change : imported.changes) {
        auto again = change_from_json(change_to_json(change));
        ASSERT_TRUE(again.has_value()) << again.error() << "\n" << json_dump(change_to_json(change));
        ASSERT_EQ(again->change, change.change);
      }
      Problems problems;
      DesiredState state = state_of(imported.changes, problems);
      if (mode != ImportMode::kAdd || !problems.empty() || !state.ip2nets.empty()) continue;
      for (NetConfig& net : state.nets) {
        for (NiConfig& ni : net.nis) ni.lnd_tunables.erase("timeout");  // a backup leaves it out, as lnetctl does
      }
      ASSERT_EQ(state_of(load_text(emit(export_backup(state)), "again").changes, problems), state)
          << emit(export_backup(state));
    }
    YamlText yaml = yaml_read(text, "f");
    if (!yaml.errors.empty()) continue;
    for (const Doc& doc : yaml.documents) {
      if (!doc.is_map()) continue;
      for (Layout layout : {Layout::kClassic, Layout::kNetlink, Layout::kNetlink2}) {
        YamlText again = yaml_read(emit(doc, layout), "again");
        ASSERT_EQ(texts_of(again.errors), "") << emit(doc, layout);
        if (doc.size() == 0) continue;
        ASSERT_EQ(again.documents.at(0), doc) << emit(doc, layout);
      }
    }
  }
}

TEST(ConfigMutation, requests) {
  api::Request request{
      .id = 1, .verb = api::Verb::kChange, .changes = load_text(golden_text("tcp-mr.import-roundtrip"), "f").changes};
  const std::string body = json_dump(request_to_json(request));
  Rng rng(seed());
  for (int round = 0; round < 600; ++round) {
    auto json = json_parse(mutated(rng, body));
    if (!json) continue;
    auto read = api::request_from_json(*json);
    if (!read) {
      ASSERT_FALSE(read.error().error.descr.empty());
      continue;
    }
    for (const PlacedChange& change : read->changes) ASSERT_EQ(change_wrong(change.change), "");
    DesiredState state;
    state.configured = true;
    (void)changes_apply(state, read->changes);
  }
}

}  // namespace
}  // namespace ulnet::config
