// The control socket: requests and answers, streams, and everything a client can do wrong.
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/config/api_server_rig.h"

namespace ulnet::api {
namespace {

TEST_F(ApiServer, request_and_answer) {
  beside(*server, [&] {
    auto client = Client::connect({.path = path, .version = "v7", .timeout = 5s});
    ASSERT_TRUE(client.has_value()) << client.error().descr;
    EXPECT_EQ(client->server().role, "ulnetd");
    EXPECT_EQ(client->server().pid, getpid());
    Request request{.verb = Verb::kShow, .object = "echo"};
    request.args = {{"a", 1}, {"b", {"x", true, nullptr}}};
    auto answer = client->call(request);
    ASSERT_TRUE(answer.has_value()) << answer.error().descr;
    EXPECT_EQ(config::to_json(answer->doc).dump(), R"({"a":1,"b":["x",true,null]})");
  });
  EXPECT_EQ(handler.last.caller.role, "ulnetctl");
  EXPECT_EQ(handler.last.caller.version, "v7");
  EXPECT_EQ(handler.last.caller.pid, getpid());
  EXPECT_EQ(handler.last.caller.uid, getuid());
}

TEST_F(ApiServer, changes_arrive_as_they_were_sent) {
  auto imported = config::load_text(config::golden_text("tcp-mr.export-backup"), "f.yaml");
  Request request{.verb = Verb::kChange, .changes = imported.changes};
  int fd = raw();
  greeted(fd);
  request.id = 1;
  say(fd, frame(config::json_dump(request_to_json(request))));
  turn();
  ASSERT_EQ(handler.last.changes.size(), imported.changes.size());
  for (size_t i = 0; i < imported.changes.size(); ++i) {
    EXPECT_EQ(handler.last.changes[i].change, imported.changes[i].change);
    EXPECT_EQ(handler.last.changes[i].origin.mark.line, imported.changes[i].origin.mark.line);
  }
  server->reply(handler.waiting.at(0),
                answer_change_errors(handler.last.changes, {config::problem_of(-17, "failed to add peer", 2)}));
  EXPECT_EQ(heard(fd), R"x({"id":1,"ok":false,"errors":[{"verb":"add","entity":"peer",)x"
                       R"x("errno":-17,"descr":"failed to add peer (f.yaml:27:7)"}]})x"
                       "\n");
  close(fd);
}

TEST_F(ApiServer, answers_may_come_late_and_in_any_order) {
  int fd = raw();
  EXPECT_EQ(greeted(fd),
            "{\"ulnet\":1,\"role\":\"ulnetd\",\"version\":\"test\",\"pid\":" + std::to_string(getpid()) + "}\n");
  say(fd, frame(R"({"id":5,"verb":"manage","object":"ping","args":{"nids":["10.0.0.1@tcp"]}})") +
              frame(R"({"id":6,"verb":"reset","object":"stats"})"));
  EXPECT_EQ(heard(fd), "");
  ASSERT_EQ(handler.waiting.size(), 2u);
  server->reply(handler.waiting[1], {});
  server->reply(handler.waiting[0], answer_error("manage", "ping", -5, "failed to ping x"));
  server->reply(handler.waiting[0], {});  // a second answer is ignored
  server->reply({99, 1}, {});
  EXPECT_EQ(heard(fd),
            "{\"id\":6,\"ok\":true}\n"
            "{\"id\":5,\"ok\":false,\"errors\":[{\"verb\":\"manage\",\"entity\":\"ping\",\"errno\":-5,\"descr\":"
            "\"failed to ping x\"}]}\n");
  say(fd, frame(R"({"id":7,"verb":"manage","object":"ping","args":{"nids":["10.0.0.1@tcp"]}})"));
  turn();
  close(fd);
  turn();
  EXPECT_EQ(handler.lost, std::vector<RequestId>{handler.waiting[2]});
  EXPECT_EQ(server->client_count(), 0u);
}

// Goal: a long stream flows with bounded memory, at the speed of its reader.
TEST_F(ApiServer, streams_pause_and_go_on) {
  beside(*server, [&] {
    auto client = Client::connect({.path = path, .timeout = 5s});
    ASSERT_TRUE(client.has_value());
    Request request{.verb = Verb::kShow, .object = "stream"};
    request.args = {{"parts", 40}};
    int parts = 0;
    auto answer = client->call(request, [&](const Answer&) { return ++parts < 1000; });
    ASSERT_TRUE(answer.has_value()) << answer.error().descr;
    EXPECT_EQ(parts, 39);
    request.args = {{"parts", 5}};
    answer = client->call(request);
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->doc.find("items")->size(), 5u);
  });
  EXPECT_LE(handler.most_backlog, kOutputLow);
  EXPECT_TRUE(server->flushed());
}

TEST_F(ApiServer, hostile_clients) {
  struct Case {
    std::string bytes;
    const char* answer;
  };
  const std::string hello = frame(hello_json("t", "1").dump());
  const std::vector<Case> cases = {
      {frame("{}"), "the first frame must be a hello: {\\\"ulnet\\\": 1, \\\"role\\\": ..., \\\"version\\\": ...}"},
      {frame(R"({"ulnet":2,"role":"ulnetctl","version":"9"})"),
       "control protocol 1 here, 2 there (ulnetctl 9): use ulnetctl and ulnetd of one version"},
      {std::string("\xff\xff\xff\xff", 4), "a frame of 4294967295 bytes; allowed: 4096"},
      {hello + std::string("\x01\x00\x00\x01", 4), "a frame of 16777217 bytes; allowed: 16777216"},
      {hello + frame("nonsense"), "not valid JSON"},
      {hello + frame(std::string(1000, '[')), "JSON nested too deeply at byte 64"},
      {hello + frame("[]"), "a request must be an object with an 'id' above 0"},
      {hello + frame(R"({"id":-1,"verb":"show"})"), "a request must be an object with an 'id' above 0"},
      {hello + frame(R"({"id":1,"verb":"show","object":"net"})") + frame(R"({"id":1,"verb":"show","object":"net"})"),
       "id 1 is still waiting for its answer"},
  };
  for (const Case& one : cases) {
    int fd = raw();
    say(fd, one.bytes);
    std::string heard_text = heard(fd);
    EXPECT_NE(heard_text.find(one.answer), std::string::npos) << heard_text;
    EXPECT_TRUE(heard_text.ends_with("EOF")) << heard_text;
    close(fd);
  }
  EXPECT_EQ(server->client_count(), 0u);
}

TEST_F(ApiServer, a_wrong_request_does_not_cost_the_connection) {
  int fd = raw();
  greeted(fd);
  say(fd, frame(R"({"id":1,"verb":"dance"})") + frame(R"({"id":2,"verb":"show"})") +
              frame(R"({"id":3,"verb":"show","object":"net","args":[]})") + frame(R"({"id":4,"verb":"change"})") +
              frame(R"({"id":5,"verb":"change","changes":[{"change":"set_routing","enable":1}]})"));
  EXPECT_EQ(
      heard(fd),
      R"({"id":1,"ok":false,"errors":[{"verb":"parser","entity":"request","errno":-22,)"
      R"("descr":"unknown verb 'dance'; known: change, show, manage, reset"}]})"
      "\n"
      R"({"id":2,"ok":false,"errors":[{"verb":"show","entity":"request","errno":-22,"descr":"'object' is missing"}]})"
      "\n"
      R"({"id":3,"ok":false,"errors":[{"verb":"show","entity":"net","errno":-22,"descr":"'args' must be an object"}]})"
      "\n"
      R"({"id":4,"ok":false,"errors":[{"verb":"set","entity":"request","errno":-22,)"
      R"("descr":"'changes' must be a list of 1 to 262144 changes"}]})"
      "\n"
      R"({"id":5,"ok":false,"errors":[{"verb":"set","entity":"change","errno":-22,)"
      R"("descr":"change 0: set_routing: 'enable' has a value that is not allowed there"}]})"
      "\n");
  for (size_t i = 0; i <= kOutstandingMax; ++i)
    say(fd, frame("{\"id\":" + std::to_string(100 + i) + ",\"verb\":\"show\",\"object\":\"net\"}"));
  EXPECT_EQ(heard(fd),
            "{\"id\":164,\"ok\":false,\"errors\":[{\"verb\":\"show\",\"entity\":\"request\",\"errno\":-11,"
            "\"descr\":\"more than 64 requests wait for their answers\"}]}\n");
  close(fd);
}

TEST_F(ApiServer, frames_may_come_in_pieces) {
  int fd = raw();
  std::string bytes =
      frame(hello_json("t", "1").dump()) + frame(R"({"id":1,"verb":"show","object":"echo","args":{"a":1}})");
  for (char c : bytes) {
    say(fd, std::string(1, c));
    server->poll(kNever);
  }
  EXPECT_NE(heard(fd).find("{\"id\":1,\"ok\":true,\"doc\":{\"a\":1}}"), std::string::npos);
  close(fd);
}

// Goal: a client that sends requests and does not read is closed before it takes more memory than the bound.
TEST_F(ApiServer, slow_readers_are_closed) {
  int fd = raw();
  greeted(fd);
  const std::string big =
      R"({"id":1,"verb":"show","object":"echo","args":{"a":")" + std::string(4u << 20, 'x') + "\"}}";
  for (int i = 0; i < 20 && server->client_count() > 0; ++i) pour(fd, frame(big));
  EXPECT_EQ(server->client_count(), 0u);
  close(fd);
}

TEST_F(ApiServer, too_large_an_answer_is_an_error) {
  int fd = raw();
  greeted(fd);
  say(fd, frame(R"({"id":1,"verb":"show","object":"net"})"));
  turn();
  Answer answer;
  answer.doc = Doc(std::string(kFrameMax, 'x'));
  server->reply(handler.waiting.at(0), answer);
  EXPECT_EQ(heard(fd),
            "{\"id\":1,\"ok\":false,\"errors\":[{\"verb\":\"show\",\"entity\":\"answer\",\"errno\":-7,\"descr\":"
            "\"the answer is too large; ask for a part of it (--net, --nid, less --verbose)\"}]}\n");
  close(fd);
}

TEST_F(ApiServer, a_request_without_memory_is_answered) {
  int fd = raw();
  greeted(fd);
  say(fd, frame(R"({"id":1,"verb":"show","object":"huge"})") + frame(R"({"id":2,"verb":"show","object":"broken"})") +
              frame(R"({"id":3,"verb":"show","object":"echo"})"));
  EXPECT_EQ(heard(fd),
            "{\"id\":1,\"ok\":false,\"errors\":[{\"verb\":\"show\",\"entity\":\"huge\",\"errno\":-12,\"descr\":"
            "\"ulnetd has not enough memory for this request\"}]}\n"
            "{\"id\":2,\"ok\":false,\"errors\":[{\"verb\":\"show\",\"entity\":\"broken\",\"errno\":-5,\"descr\":"
            "\"ulnetd failed: no thread\"}]}\n"
            "{\"id\":3,\"ok\":true,\"doc\":{}}\n");
  close(fd);
}

/// In a child process: takes all memory but `left` bytes, turns the server and exits with 0.
template <class Turn>
void child_without_memory(size_t left, Turn turn) {
  std::FILE* statm = std::fopen("/proc/self/statm", "r");
  unsigned long pages = 0;
  if (statm == nullptr || std::fscanf(statm, "%lu", &pages) != 1) _exit(3);
  const rlimit limit{pages * 4096 + (8u << 20), pages * 4096 + (8u << 20)};
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(4);
  struct Block {
    Block* next;
    size_t size;
  };
  Block* blocks = nullptr;
  for (const size_t size : {size_t{1} << 16, size_t{1} << 10, sizeof(Block)})
    while (void* memory = std::malloc(size)) blocks = new (memory) Block{blocks, size};
  for (size_t freed = 0; freed < left && blocks != nullptr;) {
    freed += blocks->size;
    std::free(std::exchange(blocks, blocks->next));
  }
  turn();
  _exit(0);
}

// Goal: if memory runs out, a request or its answer fails, or its client is closed. The process does not end.
// Method: a request and an answer of many values, with any amount of memory up to the amount that they need.
TEST_F(ApiServer, no_memory_at_any_point_is_no_abort) {
#ifdef ULNET_SANITIZED
  GTEST_SKIP() << "a sanitizer needs the address space";
#endif
  std::string list = "0";
  for (int i = 0; i < 500; ++i) list += R"(,{"a":[1,2,"a text that does not fit into the string object itself"]})";
  const std::string request = frame(R"({"id":1,"verb":"show","object":"echo","args":{"list":[)" + list + "]}}");
  for (size_t left = 0; left < 2u << 20; left += left < 64u << 10 ? 1u << 10 : 32u << 10) {
    const pid_t child = fork();
    if (child == 0) {
      const int fd = raw();
      greeted(fd);
      say(fd, request);
      child_without_memory(left, [&] { turn(); });
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << " with " << left << " bytes";
  }
}

/// Takes all descriptors that this process may still have, by a low limit; gives them back at the end.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit low = before_;
    low.rlim_cur = 200;
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
    int fd;
    while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0) taken_.push_back(fd);
  }
  ~NoDescriptors() {
    while (!taken_.empty()) give();
    setrlimit(RLIMIT_NOFILE, &before_);
  }
  void give() {
    close(taken_.back());
    taken_.pop_back();
  }

 private:
  rlimit before_{};
  std::vector<int> taken_;
};

// Goal: the control socket serves although all descriptors are taken. When its own descriptors are used up, it accepts
// the next client later, by a timer.
TEST_F(ApiServer, clients_are_served_without_free_descriptors) {
#ifdef ULNET_SANITIZED
  GTEST_SKIP() << "UBSan needs a descriptor to look at an object's type";
#endif
  std::vector<int> fds;
  for (size_t i = 0; i <= kSpareDescriptors; ++i) fds.push_back(socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path.c_str());
  NoDescriptors none;
  for (size_t i = 0; i < kSpareDescriptors; ++i) {
    ASSERT_EQ(connect(fds[i], reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_NE(greeted(fds[i]), "") << i;
    say(fds[i], frame(R"({"id":1,"verb":"show","object":"net"})"));
    turn();
  }
  ASSERT_EQ(server->client_count(), kSpareDescriptors);
  EXPECT_EQ(server->next_deadline(), kForever);
  const int late = fds.back();
  ASSERT_EQ(connect(late, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(greeted(late), "");
  const Instant again = server->next_deadline();
  ASSERT_NE(again, kForever);
  none.give();  // one, and no client of the control socket leaves
  server->poll(again);
  EXPECT_EQ(server->next_deadline(), kForever);
  EXPECT_NE(heard(late), "");
  for (int fd : fds) close(fd);
  turn();
  EXPECT_EQ(server->client_count(), 0u);
}

TEST_F(ApiServer, socket_file_and_permissions) {
  struct stat found {};
  ASSERT_EQ(stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777u, 0660u);
  Handler other;
  auto second = Server::open({.path = path}, other);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error(),
            "control socket " + path + ": another ulnetd uses it; stop that ulnetd, or give this one its own socket");
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path));
  EXPECT_TRUE(std::filesystem::is_empty(folder / "run"));
}

TEST_F(ApiServer, open_reports_what_is_at_the_path) {
  Handler other;
  auto error_of = [&](const std::string& where, const std::string& group = "") {
    auto opened = Server::open({.path = where, .group = group}, other);
    return opened ? std::string("none") : opened.error();
  };
  // A socket that a killed ulnetd left behind is replaced.
  const std::string stale = folder / "stale.sock";
  int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, stale.c_str());
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  listen(fd, 1);
  EXPECT_EQ(error_of(stale),
            "control socket " + stale +
                ": another program listens on it; stop that program, or give this ulnetd its own socket");
  close(fd);
  EXPECT_EQ(error_of(stale), "none");
  const std::string file = folder / "file";
  std::ofstream(file) << "x";
  EXPECT_EQ(error_of(file),
            "control socket " + file + ": a file of that name is not a socket; remove it, or use another path");
  EXPECT_EQ(error_of(folder / "g.sock", "no-such-group"),
            "control socket " + (folder / "g.sock").string() + ": there is no group 'no-such-group'");
  EXPECT_FALSE(std::filesystem::exists(folder / "g.sock"));
  EXPECT_EQ(error_of(std::string(200, 'x')),
            "control socket '" + std::string(200, 'x') + "': the path must have 1 to 107 characters");
}

TEST_F(ApiServer, client_failures_say_what_to_do) {
  auto none = Client::connect({.path = folder / "none.sock"});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().descr,
            (folder / "none.sock").string() +
                ": cannot connect: No such file or directory; is ulnetd running? For another socket use --socket PATH");
  EXPECT_EQ(none.error().code, -ENOENT);
  auto silent = Client::connect({.path = path, .timeout = 20ms});  // nobody turns the server
  ASSERT_FALSE(silent.has_value());
  EXPECT_EQ(silent.error().descr, path + ": waiting for an answer: no answer within 20 ms");
}

}  // namespace
}  // namespace ulnet::api
