// ulnetctl from its words to what it prints, against a server of the test's own.
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <sstream>
#include <thread>

#include "config/export.h"
#include "config/warn.h"
#include "control/api/client.h"
#include "control/api/server.h"
#include "control/api/show.h"
#include "tests/unit/config/golden.h"
#include "tools/ulnetctl/run.h"

namespace ulnet::ctl {
namespace {

/// Keeps a desired state as ulnetd would and shows its backup for everything.
struct Handler : api::ApiHandler {
  void gone(api::RequestId) override { ++clients_gone; }
  void request(api::RequestId id, const api::Request& request) override {
    api::Answer answer;
    if (request.verb == api::Verb::kChange) {
      if (never_answer) return;
      api::Answer part;
      part.more = true;
      for (const config::PlacedChange& one : request.changes)
        if (std::holds_alternative<config::NetDel>(one.change)) part.notes.emplace_back("it takes a while");
      for (const config::Problem& warning : config::changes_warnings(request.changes, nullptr))
        part.warnings.push_back(config::problem_text(warning));
      if (!part.notes.empty() || !part.warnings.empty()) server->reply(id, part);
      answer = api::answer_change_errors(request.changes, config::changes_apply(state, request.changes));
    } else if (request.object == "export") {
      if (refuse_exports)
        answer = api::answer_error("show", "export", -5, "the list broke off");
      else
        answer.doc = config::export_backup(state);
    } else if (request.object == "udsp") {
      if (config::Doc list = config::export_udsp(state.udsp); list.size() > 0) answer.doc.set("udsp", std::move(list));
    } else if (request.object == "capture") {
      if (request.arg_text("filter") == "bad") {
        answer = api::answer_error("manage", "capture", -22, "bad filter");
      } else {
        api::Answer part;
        part.more = true;
        part.doc.set("capture", api::Doc::map()).set("pcapng", "cGFja2V0cw==");
        server->reply(id, part);
        answer.doc.set("capture", api::Doc::map()).set("written", 1);
      }
    } else if (request.object == "watch") {
      if (request.arg_text("kinds") == "roots") {
        answer = api::answer_error("manage", "watch", -22, "unknown kind 'roots'");
      } else {
        api::Answer part;
        part.more = true;
        api::Doc& lines = part.doc.set("watch", api::Doc::list());
        lines.push(api::Doc::map()).set("event", "now");
        lines.push(api::Doc::map()).set("event", "change");
        server->reply(id, part);
        answer = api::answer_error("manage", "watch", -1, "over");
      }
    } else if (request.object == "ping") {
      answer = api::answer_error("manage", "ping", -113, "failed to ping 10.10.0.77@tcp: No route to host");
      Nid nid = request.arg_nids("nids")->front();
      answer.doc.set("ping", api::Doc::list()).push(api::pinged_doc(nid, true, {nid}));
    } else {
      answer = api::answer_error(verb_text(request.verb), request.object, -95, "this ulnetd does not know it");
    }
    server->reply(id, answer);
  }
  api::Server* server = nullptr;
  config::DesiredState state;
  std::atomic<bool> refuse_exports = false;
  std::atomic<bool> never_answer = false;
  std::atomic<int> clients_gone = 0;
};

class CtlRun : public testing::Test {
 protected:
  CtlRun() : path(std::filesystem::temp_directory_path() / ("ulnet_ctl." + std::to_string(getpid()) + ".sock")) {
    server = std::move(*api::Server::open({.path = path}, handler));
    handler.server = server.get();
    thread = std::thread([this] {
      while (!stop) {
        if (!server->poll(kNever)) usleep(200);
      }
    });
  }
  ~CtlRun() override {
    stop = true;
    thread.join();
  }
  /// "STATUS" and what was printed: out, then after "!" err.
  std::string ctl(const std::string& line) {
    std::vector<std::string> words = *line_split("--socket " + path + " " + line);
    auto program = program_options(words);
    std::ostringstream out, err;
    int status = run(*program, words, {}, out, err);
    return std::to_string(status) + "\n" + out.str() + (err.str().empty() ? "" : "!" + err.str());
  }

  std::string path;
  Handler handler;
  std::unique_ptr<api::Server> server;
  std::atomic<bool> stop = false;
  std::thread thread;
};

TEST_F(CtlRun, a_life) {
  EXPECT_EQ(ctl("net add --net tcp --if eth0"),
            "234\n!---\nadd:\n-     net:\n      errno: -100\n      descr: ! \"Network is down: LNet is not configured; "
            "run 'lnet configure' first\"\n...\n");
  EXPECT_EQ(ctl("lnet configure"), "0\n");
  EXPECT_EQ(ctl("net add --net tcp --if eth0 --cpt 0"), "0\n");
  EXPECT_EQ(
      ctl("--layout classic net add --net tcp --if eth0"),
      "234\n!add:\n    - net:\n          errno: -17\n          descr: \"cannot add LNet NI: tcp already has eth0\"\n");
  EXPECT_EQ(ctl("net del --net tcp --if eth0"), "0\n!note: it takes a while\n");
  EXPECT_EQ(ctl("net add --net tcp --if eth0 --cpt 0"), "0\n");
  EXPECT_EQ(ctl("set retry_count 1"), "0\n");
  std::string exported = ctl("export --backup");
  EXPECT_EQ(exported.substr(0, 58), "0\nnet:\n-     net type: tcp\n      local NI(s):\n      -     ");
  EXPECT_EQ(ctl("export --json").substr(0, 20), "0\n{\n  \"net\": [\n    {");
}

TEST_F(CtlRun, import_is_whole_or_not_at_all) {
  const std::string file = path + ".yaml";
  ASSERT_EQ(ctl("lnet configure"), "0\n");
  EXPECT_EQ(ctl("import " ULNET_GOLDEN_DIR "/tcp-mr.import-roundtrip.txt"), "0\n");
  EXPECT_EQ(ctl("export --backup " + file), "0\n");
  EXPECT_EQ(config::file_text(file), config::golden_text("tcp-mr.import-roundtrip"));
  std::string again = ctl("import " + file);
  EXPECT_EQ(again.substr(0, 4), "234\n");
  EXPECT_NE(again.find("tcp already has eth0, with other settings; delete it first, or change it with a command (" +
                       file + ":4:13)"),
            std::string::npos)
      << again;
  EXPECT_EQ(ctl("export --backup").substr(2), config::golden_text("tcp-mr.import-roundtrip"));
  std::filesystem::remove(file);
}

// Goal: if a change gets no answer in time, the error says that the change may go on. The client then closes its
// connection, so that ulnetd can withdraw the change. The next request of this client fails.
TEST_F(CtlRun, a_change_that_is_not_answered_in_time) {
  handler.never_answer = true;
  api::ClientOptions options{.path = path};
  auto client = api::Client::connect(options);
  ASSERT_TRUE(client.has_value());
  client->timeout_set(std::chrono::milliseconds(100));
  api::Request change;
  change.verb = api::Verb::kChange;
  change.changes = {{config::SetValue{"retry_count", 1}, {}}};
  const auto answer = client->call(change);
  ASSERT_FALSE(answer.has_value());
  EXPECT_EQ(answer.error().code, -ETIMEDOUT);
  EXPECT_EQ(answer.error().descr,
            path +
                ": waiting for an answer: no answer within 100 ms; a change that has begun goes on: "
                "check with 'show' before you repeat it");
  while (handler.clients_gone == 0) usleep(200);
  api::Request show;
  show.verb = api::Verb::kShow;
  show.object = "export";
  EXPECT_EQ(client->call(show).error().code, -ENOTCONN);
}

/// A folder of its own with one file in it that must be kept.
struct Kept {
  explicit Kept(const std::string& base) : folder(base + ".d"), file(folder + "/keep") {
    std::filesystem::create_directory(folder);
    std::ofstream(file) << "old";
    std::filesystem::permissions(file, std::filesystem::perms(0640));
  }
  ~Kept() { std::filesystem::remove_all(folder); }
  [[nodiscard]] size_t files() const {
    return size_t(std::distance(std::filesystem::directory_iterator(folder), std::filesystem::directory_iterator()));
  }
  std::string folder, file;
};

// Goal: if the answer is an error or does not come, an existing file keeps its content and no other file is left.
TEST_F(CtlRun, an_output_file_is_kept_when_the_command_fails) {
  const Kept kept(path);
  handler.refuse_exports = true;
  EXPECT_EQ(ctl("export --backup " + kept.file).substr(0, 4), "234\n");
  EXPECT_EQ(config::file_text(kept.file), "old");
  EXPECT_EQ(ctl("--socket /nonexistent/s export " + kept.file).substr(0, 4), "234\n");
  EXPECT_EQ(config::file_text(kept.file), "old");
  EXPECT_EQ(ctl("capture --if rail0 --filter bad --output " + kept.file).substr(0, 4), "255\n");
  EXPECT_EQ(config::file_text(kept.file), "old");
  EXPECT_EQ(ctl("--socket /nonexistent/s capture --if rail0 --output " + kept.file).substr(0, 4), "255\n");
  EXPECT_EQ(config::file_text(kept.file), "old");
  EXPECT_EQ(kept.files(), 1u);
}

// Goal: a good answer replaces the file as a whole and keeps its permissions, also through a symbolic link. A device is
// written.
TEST_F(CtlRun, an_output_file_is_replaced_when_the_answer_is_there) {
  const Kept kept(path);
  const std::string link = kept.folder + "/link";
  std::filesystem::create_symlink(kept.file, link);
  EXPECT_EQ(ctl("export --backup " + link), "0\n");
  EXPECT_EQ("0\n" + config::file_text(kept.file), ctl("export --backup"));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_EQ(std::filesystem::status(kept.file).permissions(), std::filesystem::perms(0640));
  EXPECT_EQ(ctl("capture --if rail0 --output " + kept.file), "0\n!capture:\n    written: 1\n");
  EXPECT_EQ(config::file_text(kept.file), "packets");
  EXPECT_EQ(ctl("export --backup " + kept.folder + "/new"), "0\n");
  EXPECT_EQ(kept.files(), 3u);
  EXPECT_EQ(ctl("export /dev/null"), "0\n");
  EXPECT_EQ(ctl("export --backup /nonexistent/x").substr(0, 4), "234\n");
}

// Goal: a change without effect prints a warning on the terminal, with exit status 0. In JSON, the warning is under
// `warnings`.
TEST_F(CtlRun, warnings_are_printed) {
  EXPECT_EQ(ctl("set recovery_interval 3"),
            "0\n!warning: recovery_interval has no effect: Lustre accepts the key and does not use it either\n");
  EXPECT_EQ(ctl("set recovery_interval 3 --json"),
            "0\n"
            "!{\"ok\":true,\"warnings\":[\"recovery_interval has no effect: "
            "Lustre accepts the key and does not use it either\"]}\n");
  EXPECT_EQ(ctl("set numa_range 3"), "0\n");
  EXPECT_EQ(ctl("udsp add --src tcp"), "0\n");
}

// Goal: `policy`, `selection` and `udsp` fill one list. Each `show` prints rules as `udsp`, with their numbers there.
TEST_F(CtlRun, three_ways_to_write_policies) {
  EXPECT_EQ(ctl("selection net show"), "0\n");
  EXPECT_EQ(ctl("policy add --src *@o2ib1 --priority 0"), "0\n");
  EXPECT_EQ(ctl("selection net add --net o2ib* --priority 9"), "0\n");
  EXPECT_EQ(ctl("selection nid add --nid 10.1.1.[5-8]@o2ib --priority 1"), "0\n");
  EXPECT_EQ(ctl("selection peer add --local 10.1.1.1@tcp --remote 10.1.1.2@tcp --priority 2"), "0\n");
  EXPECT_EQ(ctl("udsp add --dst 10.1.1.2@tcp --rte 10.1.1.9@tcp"), "0\n");
  const std::string nets =
      "    - idx: 0\n      src: \"*@o2ib1\"\n      action:\n          priority: 0\n"
      "    - idx: 1\n      src: o2ib*\n      action:\n          priority: 9\n";
  const std::string nids =
      "    - idx: 2\n      src: 10.1.1.[5-8]@o2ib\n      action:\n          priority: 1\n"
      "    - idx: 3\n      dst: 10.1.1.[5-8]@o2ib\n      action:\n          priority: 1\n";
  const std::string pair =
      "    - idx: 4\n      src: 10.1.1.1@tcp\n      dst: 10.1.1.2@tcp\n      action:\n"
      "          priority: 2\n";
  const std::string router = "    - idx: 5\n      dst: 10.1.1.2@tcp\n      rte: 10.1.1.9@tcp\n";
  const std::string head = "0\nudsp:\n";
  EXPECT_EQ(ctl("udsp show"), head + nets + nids + pair + router);
  EXPECT_EQ(ctl("policy show"), head + nets + nids + pair + router);
  EXPECT_EQ(ctl("policy show --dst 10.1.1.2@tcp0"), head + pair + router);
  EXPECT_EQ(ctl("policy show --dst 10.1.1.2@tcp --rte 10.1.1.9@tcp"), head + router);
  EXPECT_EQ(ctl("selection net show"), head + nets);
  EXPECT_EQ(ctl("selection net show --net o2ib1"), head + nets.substr(0, nets.find("    - idx: 1")));
  EXPECT_EQ(ctl("selection net show --net tcp"), "0\n");
  EXPECT_EQ(ctl("selection nid show"), head + nids);
  EXPECT_EQ(ctl("selection nid show --nid 10.1.1.[5,6,7,8]@o2ib"), head + nids);
  EXPECT_EQ(ctl("selection nid show --nid 10.1.1.5@o2ib"), "0\n");
  EXPECT_EQ(ctl("selection peer show"), head + pair);
  EXPECT_EQ(ctl("selection peer show --remote 10.1.1.2@tcp"), head + pair);
  EXPECT_EQ(ctl("selection peer show --local 10.1.1.2@tcp"), "0\n");
  EXPECT_EQ(ctl("selection peer show --json"),
            "0\n{\n  \"udsp\": [\n    {\n      \"idx\": 4,\n      \"src\": \"10.1.1.1@tcp\",\n      \"dst\": "
            "\"10.1.1.2@tcp\",\n      \"action\": {\n        \"priority\": 2\n      }\n    }\n  ]\n}\n");

  EXPECT_EQ(
      ctl("selection net del --net *@o2ib* --id 0"),
      "234\n!---\ndel:\n-     udsp:\n      errno: -22\n      descr: ! \"cannot del udsp: the rule 0 is not the rule "
      "with src *@o2ib*, but with src *@o2ib1\"\n...\n");
  EXPECT_EQ(ctl("selection net del --net *@o2ib* --id 1"), "0\n");
  EXPECT_EQ(ctl("selection nid del --nid 10.1.1.[5-8]@o2ib"), "0\n");
  EXPECT_EQ(ctl("selection peer del --local 10.1.1.1@tcp --remote 10.1.1.2@tcp"), "0\n");
  EXPECT_EQ(ctl("policy del --src o2ib1"), "0\n");
  EXPECT_EQ(ctl("policy show"), head + "    - idx: 0" + router.substr(router.find('\n')));
  EXPECT_EQ(ctl("policy del --idx 0"), "0\n");
  EXPECT_EQ(ctl("udsp show"), "0\n");
}

TEST_F(CtlRun, a_ping_shows_who_answered_and_who_did_not) {
  EXPECT_EQ(ctl("ping 10.0.0.1@tcp,10.10.0.77@tcp"),
            "255\nping:\n- primary nid: 10.0.0.1@tcp\n  Multi-Rail: true\n  peer_ni:\n  - nid: 10.0.0.1@tcp\n"
            "!manage:\n- ping:\n  errno: -113\n  descr: ! 'failed to ping 10.10.0.77@tcp: No route to host'\n");
  EXPECT_EQ(
      ctl("ping 10.0.0.[1,x]@tcp,bogus 10.0.0.1@tcp nonsense@x"),
      "255\nping:\n- primary nid: 10.0.0.1@tcp\n  Multi-Rail: true\n  peer_ni:\n  - nid: 10.0.0.1@tcp\n"
      "!manage:\n- ping:\n  errno: -22\n  descr: ! 'cannot parse NID: ''[1,x]'' is not a list of numbers and ranges "
      "such as [1-5,8] or [2-8/2]'\n"
      "- ping:\n  errno: -22\n  descr: ! 'cannot parse NID: ''bogus'' is not a NID such as 10.0.0.1@tcp'\n"
      "- ping:\n  errno: -22\n  descr: ! 'cannot parse NID: ''nonsense@x'' is not a NID such as 10.0.0.1@tcp'\n"
      "- ping:\n  errno: -113\n  descr: ! 'failed to ping 10.10.0.77@tcp: No route to host'\n");
  EXPECT_EQ(ctl("stats show --json"),
            "234\n!{\"ok\":false,\"errors\":[{\"verb\":\"show\",\"entity\":\"stats\",\"errno\":-95,\"descr\":\"this "
            "ulnetd does not know it\"}]}\n");
}

// Goal: each event is a line of JSON, with and without --json; the end of the stream is a failure.
TEST_F(CtlRun, a_watch_prints_lines) {
  for (const char* line : {"watch", "--json watch"}) {
    const std::string all = ctl(line);
    EXPECT_NE(all.find("\n{\"event\":\"now\"}\n{\"event\":\"change\"}\n!"), std::string::npos) << all;
    EXPECT_FALSE(all.starts_with("0\n")) << all;
  }
  const std::string refused = ctl("watch --kind roots");
  EXPECT_NE(refused.find("unknown kind"), std::string::npos) << refused;
}

TEST_F(CtlRun, lines) {
  std::vector<std::string> words = {"--socket", path};
  auto program = program_options(words);
  auto lines = [&](const std::string& text, bool terminal) {
    std::istringstream in(text);
    std::ostringstream out, err;
    int status = run_lines(*program, in, terminal, {}, out, err);
    return std::to_string(status) + "\n" + out.str() + (err.str().empty() ? "" : "!" + err.str());
  };
  EXPECT_EQ(
      lines("lnet configure\n# a comment\n\nnet add --net tcp --if eth0  # one\nbogus\nset retry_count 1\n", false)
          .substr(0, 37),
      "1\n!ulnetctl: unknown command 'bogus'\n");
  EXPECT_EQ(handler.state.global.retry_count, 2);
  EXPECT_EQ(lines("ignore_errors\nbogus\nset retry_count 1\nquit\nset retry_count 0\n", false).substr(0, 2), "1\n");
  EXPECT_EQ(handler.state.global.retry_count, 1);
  EXPECT_EQ(lines("version\n", true), "0\nulnetctl > ulnetctl \nulnetctl > \n");
  EXPECT_EQ(lines("net add 'x\n", false), "1\n!ulnetctl: a quote that is not closed\n");
}

TEST(CtlProgram, own_options) {
  auto options = [](const std::string& line) {
    std::vector<std::string> words = *line_split(line);
    auto program = program_options(words);
    if (!program) return program.error();
    std::string out = program->socket + (program->json ? " json" : "") + (program->classic ? " classic" : "") + ":";
    for (const std::string& word : words) out += " " + word;
    return out;
  };
  EXPECT_EQ(options("net show"), "/run/ulnet/ulnetd.sock: net show");
  EXPECT_EQ(options("--socket=/x net --json show --layout classic -v"), "/x json classic: net show -v");
  EXPECT_EQ(options("net --socket"), "--socket needs a value");
  EXPECT_EQ(options("--layout modern"), "--layout 'modern'; allowed: classic or upstream");
}

}  // namespace
}  // namespace ulnet::ctl
