// The client side of the control socket, for tools: it blocks, with a timeout. One thread at a time.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <tl/expected.hpp>

#include "control/api/schema.h"

namespace ulnet::api {

struct ClientOptions {
  std::string path = kDefaultSocket;
  std::string role = "ulnetctl";
  std::string version;
  std::chrono::milliseconds timeout{30000};              ///< for each wait, not for the whole call; 0 = for ever
  std::function<void(const std::string& note)> on_note;  ///< gets notes of answers as they come; may be empty
};

class Client {
 public:
  /// Connects and says hello. Errors here and in call(), without verb and entity: no server, no permission, no answer
  /// in time, or the connection broke. The text names the socket and the remedy.
  [[nodiscard]] static tl::expected<Client, ApiError> connect(const ClientOptions& options);
  Client(Client&& other) noexcept;
  Client& operator=(Client&& other) noexcept;
  ~Client();

  /// Sends the request (its id is set here) and waits for its final answer. Parts are given to `on_part` when there is
  /// one, otherwise joined to the doc of the answer. `on_part` returns false to stop waiting: then the connection is
  /// closed. If a change is not answered in time, the connection is closed, too: ulnetd then withdraws the change,
  /// unless it has begun.
  using PartFn = std::function<bool(const Answer& part)>;
  [[nodiscard]] tl::expected<Answer, ApiError> call(Request request, const PartFn& on_part = {});
  /// Another timeout for the calls that follow, e.g. for a ping of many NIDs.
  void timeout_set(std::chrono::milliseconds timeout);
  /// The server: role and version from its hello; pid, uid and gid from the kernel.
  [[nodiscard]] const Caller& server() const { return server_; }

 private:
  Client(int fd, ClientOptions options) : fd_(fd), options_(std::move(options)) {}
  [[nodiscard]] tl::expected<void, ApiError> send(const Json& json);
  [[nodiscard]] tl::expected<Json, ApiError> receive();
  [[nodiscard]] ApiError failure(int error, const std::string& what) const;

  int fd_;
  ClientOptions options_;
  Caller server_;
  FrameReader reader_{kFrameMax};
  uint64_t last_id_ = 0;
};

}  // namespace ulnet::api
