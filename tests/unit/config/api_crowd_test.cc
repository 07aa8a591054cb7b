// The control socket with many clients, and with clients that take connection slots or memory from others.
#include "tests/unit/config/api_server_rig.h"

namespace ulnet::api {
namespace {

// Goal: no number of idle clients keeps another client out. Only clients that wait for answers keep their places.
TEST_F(ApiServer, a_new_client_takes_the_place_of_a_silent_or_the_longest_idle_one) {
  std::vector<int> fds;
  for (size_t i = 0; i < kClientsMax; ++i) fds.push_back(raw());
  turn();
  EXPECT_EQ(server->client_count(), kClientsMax);
  int late = raw();
  turn();
  EXPECT_EQ(server->client_count(), kClientsMax);
  EXPECT_TRUE(heard(fds[0]).ends_with("EOF"));
  EXPECT_NE(greeted(late), "");
  for (size_t i = 1; i < kClientsMax; ++i) EXPECT_NE(greeted(fds[i]), "");
  say(late, frame(R"({"id":1,"verb":"show","object":"echo"})"));  // now fds[1] is idle for the longest time
  EXPECT_NE(heard(late), "");
  int next = raw();
  EXPECT_NE(greeted(next).find("\"role\":\"ulnetd\""), std::string::npos);
  const std::string said = heard(fds[1]);
  EXPECT_NE(said.find("closed after a long idle time"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("EOF"));
  EXPECT_EQ(server->client_count(), kClientsMax);
  for (int fd : fds) close(fd);
  close(late);
  close(next);
  turn();
  EXPECT_EQ(server->client_count(), 0u);
}

TEST_F(ApiServer, clients_that_wait_for_answers_keep_their_places) {
  std::vector<int> fds;
  for (size_t i = 0; i < kClientsMax; ++i) {
    fds.push_back(raw());
    EXPECT_NE(greeted(fds[i]), "");
    say(fds[i], frame(R"({"id":1,"verb":"show","object":"net"})"));
    turn();
  }
  beside(*server, [&] {
    auto client = Client::connect({.path = path, .timeout = 5s});
    ASSERT_FALSE(client.has_value());
    EXPECT_EQ(client.error().descr,
              path + ": ulnetd has its maximum number of clients, and all wait for answers; try again later");
  });
  EXPECT_EQ(server->client_count(), kClientsMax);
  for (int fd : fds) close(fd);
  turn();
}

// Goal: clients that request and do not read keep no other client out. The client that has read nothing for the longest
// time is closed.
TEST_F(ApiServer, a_new_client_takes_the_place_of_one_that_does_not_read) {
  const std::string big =
      frame(R"({"id":1,"verb":"show","object":"echo","args":{"a":")" + std::string(600u << 10, 'x') + "\"}}");
  std::vector<int> fds;
  for (size_t i = 0; i < kClientsMax; ++i) {
    fds.push_back(raw());
    greeted(fds[i]);
    pour(fds[i], big);
    turn();
  }
  EXPECT_EQ(server->client_count(), kClientsMax);
  int early = raw();
  EXPECT_NE(heard(early).find("all wait for answers"), std::string::npos) << "all may still be reading";
  server->poll(kNever + 2s);
  int late = raw();
  server->poll(kNever + 2s);
  EXPECT_NE(greeted(late).find("\"role\":\"ulnetd\""), std::string::npos);
  EXPECT_EQ(server->client_count(), kClientsMax);
  EXPECT_TRUE(heard(fds[0]).ends_with("EOF"));
  EXPECT_EQ(handler.lost.size(), 0u) << "its request had its answer";
  for (int fd : fds) close(fd);
  close(early);
  close(late);
  turn();
  EXPECT_EQ(server->client_count(), 0u);
}

// Goal: answers that nobody reads take bounded memory, and a client that reads gets its answer.
TEST_F(ApiServer, unread_answers_are_bounded_together) {
#ifdef ULNET_SANITIZED
  GTEST_SKIP() << "two minutes for 200 MiB; smaller tests run the same code";
#endif
  const auto request = [](int id) {
    return frame(R"({"id":)" + std::to_string(id) + R"(,"verb":"show","object":"echo","args":{"a":")" +
                 std::string(6u << 20, 'x') + "\"}}");
  };
  std::vector<int> fds;
  for (int i = 0; i < 12; ++i) {
    fds.push_back(raw());
    greeted(fds.back());
    for (int id = 1; id <= 3; ++id) pour(fds.back(), request(id), kNever + Duration{i});
  }
  turn();
  EXPECT_LE(server->client_count(), kOutputTotalMax / (18u << 20) + 1);
  std::vector<char> buffer(1u << 20);
  size_t bytes = 0;
  for (ssize_t count = 1; count > 0; server->poll(kNever)) {
    count = recv(fds.back(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    bytes += size_t(std::max(count, ssize_t{0}));
  }
  EXPECT_GT(bytes, 18u << 20) << "the last one is served";
  for (int fd : fds) close(fd);
  turn();
  EXPECT_EQ(server->client_count(), 0u);
}

// Goal: after the server has closed a client, the client's next request fails with the reason.
TEST_F(ApiServer, a_closed_client_gets_the_reason) {
  beside(*server, [&] {
    auto client = Client::connect({.path = path, .timeout = 5s});
    ASSERT_TRUE(client.has_value());
    std::vector<Client> others;
    for (size_t i = 0; i < kClientsMax; ++i) {
      auto other = Client::connect({.path = path, .timeout = 5s});
      ASSERT_TRUE(other.has_value()) << other.error().descr;
      others.push_back(std::move(*other));
    }
    auto answer = client->call({.verb = Verb::kShow, .object = "echo"});
    ASSERT_TRUE(answer.has_value()) << answer.error().descr;
    ASSERT_EQ(answer->errors.size(), 1u);
    EXPECT_EQ(answer->errors[0].descr, "closed after a long idle time: another client needs the connection slot");
  });
}

// Goal: frames that have begun take bounded memory, and a client that goes on sending gets its request through.
TEST_F(ApiServer, unfinished_requests_are_bounded_together) {
  const std::string big =
      frame(R"({"id":1,"verb":"show","object":"echo","args":{"a":")" + std::string(kFrameMax - 4096, 'x') + "\"}}");
  std::vector<int> fds;
  for (int i = 0; i < 40; ++i) {
    fds.push_back(raw());
    EXPECT_NE(greeted(fds.back()), "");
    pour(fds.back(), big.substr(0, big.size() / 2));
  }
  EXPECT_EQ(server->client_count(), kInputTotalMax / kFrameMax);
  const std::string said = heard(fds[0]);
  EXPECT_NE(said.find("this request was not complete in time"), std::string::npos) << said;
  EXPECT_TRUE(said.ends_with("EOF"));
  pour(fds.back(), big.substr(big.size() / 2));
  turn();
  EXPECT_EQ(handler.last.object, "echo");
  for (int fd : fds) close(fd);
  turn();
  EXPECT_EQ(server->client_count(), 0u);
}

}  // namespace
}  // namespace ulnet::api
