// A control socket with a handler of the test, and clients that send arbitrary bytes.
#pragma once
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "control/api/client.h"
#include "control/api/server.h"
#include "tests/unit/config/golden.h"

namespace ulnet::api {

using namespace std::chrono_literals;

/// Answers `show echo` with its arguments at once. Other requests get parts, throw, or wait in `waiting`.
struct Handler : ApiHandler {
  void request(RequestId id, const Request& request) override {
    last = request;
    if (request.object == "echo") {
      Answer answer;
      answer.doc = config::from_json(request.args);
      server->reply(id, answer);
    } else if (request.object == "stream") {
      remaining = request.arg_integer("parts", 3);
      streaming = id;
      stream_on();
    } else if (request.object == "huge") {
      throw std::bad_alloc();
    } else if (request.object == "broken") {
      throw std::runtime_error("no thread");
    } else {
      waiting.push_back(id);
    }
  }
  void gone(RequestId id) override { lost.push_back(id); }
  void drained(RequestId) override { stream_on(); }

  /// Parts of about 256 KiB until enough wait to be sent.
  void stream_on() {
    while (remaining > 0 && server->backlog(streaming) <= kOutputLow) {
      Answer part;
      part.doc.set("items", Doc::list()).push(std::string(256u << 10, 'x'));
      part.more = --remaining > 0;
      most_backlog = std::max(most_backlog, server->backlog(streaming));
      server->reply(streaming, part);
    }
  }

  Server* server = nullptr;
  Request last;
  std::vector<RequestId> waiting, lost;
  RequestId streaming;
  int64_t remaining = 0;
  size_t most_backlog = 0;
};

class ApiServer : public testing::Test {
 protected:
  ApiServer()
      : folder(std::filesystem::temp_directory_path() / ("ulnet_api." + std::to_string(getpid()))),
        path(folder / "run" / "s.sock") {
    std::filesystem::create_directories(folder);
    auto opened = Server::open({.path = path, .version = "test"}, handler);
    EXPECT_TRUE(opened.has_value()) << (opened ? "" : opened.error());
    server = std::move(*opened);
    handler.server = server.get();
  }
  ~ApiServer() override {
    server.reset();
    std::filesystem::remove_all(folder);
  }

  /// Turns the server until no more events come.
  void turn() {
    for (int i = 0; i < 1000 && server->poll(kNever); ++i) {
    }
  }

  /// A connection that sends arbitrary bytes.
  int raw() {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path.c_str());
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0) << std::strerror(errno);
    return fd;
  }
  static void say(int fd, const std::string& bytes) {
    EXPECT_EQ(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  /// Sends `bytes`, or as much as the server takes before it closes.
  void pour(int fd, std::string_view bytes, Instant now = kNever) {
    while (!bytes.empty()) {
      const ssize_t count = send(fd, bytes.data(), std::min(bytes.size(), size_t{65536}), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (count < 0 && errno != EAGAIN) return;
      if (count > 0) bytes.remove_prefix(size_t(count));
      server->poll(now);
    }
    server->poll(now);
  }
  /// All frames that have come, one to a line; "EOF" when the server closed.
  std::string heard(int fd) {
    turn();
    FrameReader reader(kFrameMax);
    std::string out;
    char buffer[65536];
    while (true) {
      ssize_t count = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
      if (count == 0) out += "EOF";
      if (count <= 0) return out;
      reader.feed({buffer, static_cast<size_t>(count)});
      while (auto body = reader.next().value()) out += *body + "\n";
    }
  }
  std::string greeted(int fd) {
    say(fd, frame(hello_json("test", "1").dump()));
    return heard(fd);
  }

  std::filesystem::path folder;
  std::string path;
  Handler handler;
  std::unique_ptr<Server> server;
};

/// Runs `fn` on a thread of its own while this one turns the server: the client blocks.
template <class Fn>
void beside(Server& server, Fn fn) {
  std::atomic<bool> done = false;
  std::thread thread([&] {
    fn();
    done = true;
  });
  while (!done) {
    pollfd one{server.fd(), POLLIN, 0};
    poll(&one, 1, 10);
    server.poll(kNever);
  }
  thread.join();
}

}  // namespace ulnet::api
