#include "control/api/client.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <utility>

namespace ulnet::api {
namespace {

const char* connect_hint(int error) {
  switch (error) {
    case ENOENT:
    case ECONNREFUSED: return "; is ulnetd running? For another socket use --socket PATH";
    case EACCES:
    case EPERM: return "; run as root or as a member of the socket's group";
    default: return "";
  }
}

/// The error of a call that was not made. The caller adds verb and entity.
ApiError no_call(int code, std::string descr) {
  return {.code = code, .descr = std::move(descr)};
}

}  // namespace

ApiError Client::failure(int error, const std::string& what) const {
  if (error == EAGAIN) {
    return no_call(-ETIMEDOUT,
                   fmt::format("{}: {}: no answer within {} ms", options_.path, what, options_.timeout.count()));
  }
  return no_call(-error, fmt::format("{}: {}: {}", options_.path, what, std::strerror(error)));
}

tl::expected<Client, ApiError> Client::connect(const ClientOptions& options) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.path.empty() || options.path.size() >= sizeof address.sun_path) {
    return tl::unexpected(
        no_call(-ENAMETOOLONG, fmt::format("'{}' is not the path of a socket: it must have 1 to {} characters",
                                           options.path, sizeof address.sun_path - 1)));
  }
  std::memcpy(address.sun_path, options.path.c_str(), options.path.size());
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return tl::unexpected(no_call(-errno, fmt::format("socket: {}", std::strerror(errno))));
  Client client(fd, options);
  client.timeout_set(options.timeout);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    int error = errno;
    ApiError failed = client.failure(error, "cannot connect");
    failed.descr += connect_hint(error);
    return tl::unexpected(failed);
  }
  auto sent = client.send(hello_json(options.role, options.version));
  if (!sent && sent.error().code != -EPIPE) return tl::unexpected(sent.error());
  auto json = client.receive();  // also after a broken pipe: the server may have said why it closed
  if (!json) return tl::unexpected(json.error());
  auto hello = hello_read(*json);
  if (!hello) {
    auto refusal = answer_from_json(*json);  // e.g. too many clients
    std::string why = refusal && !refusal->answer.errors.empty() ? refusal->answer.errors[0].descr : hello.error();
    return tl::unexpected(no_call(-EPROTO, options.path + ": " + why));
  }
  client.server_ = *hello;
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    client.server_.pid = credentials.pid;
    client.server_.uid = credentials.uid;
    client.server_.gid = credentials.gid;
  }
  return client;
}

Client::Client(Client&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      options_(std::move(other.options_)),
      server_(std::move(other.server_)),
      reader_(std::move(other.reader_)),
      last_id_(other.last_id_) {}

Client& Client::operator=(Client&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(options_, other.options_);
  std::swap(server_, other.server_);
  std::swap(reader_, other.reader_);
  std::swap(last_id_, other.last_id_);
  return *this;
}

Client::~Client() {
  if (fd_ >= 0) close(fd_);
}

void Client::timeout_set(std::chrono::milliseconds timeout) {
  options_.timeout = timeout;
  timeval value{};
  value.tv_sec = timeout.count() / 1000;
  value.tv_usec = timeout.count() % 1000 * 1000;
  setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
  setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &value, sizeof value);
}

tl::expected<void, ApiError> Client::send(const Json& json) {
  std::string body = config::json_dump(json);
  if (body.size() > kFrameMax) {
    return tl::unexpected(
        no_call(-E2BIG, fmt::format("the request has {} bytes; allowed: {}; split it", body.size(), kFrameMax)));
  }
  std::string bytes = frame(body);
  for (size_t sent = 0; sent < bytes.size();) {
    ssize_t count = ::send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::unexpected(failure(errno, "cannot send"));
    sent += static_cast<size_t>(count);
  }
  return {};
}

tl::expected<Json, ApiError> Client::receive() {
  std::array<char, 65536> buffer;
  while (true) {
    auto body = reader_.next();
    if (!body) return tl::unexpected(no_call(-EPROTO, options_.path + ": " + body.error()));
    if (*body) {
      auto json = config::json_parse(**body);
      if (!json) return tl::unexpected(no_call(-EPROTO, options_.path + ": " + json.error()));
      return std::move(*json);
    }
    ssize_t count = recv(fd_, buffer.data(), buffer.size(), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return tl::unexpected(failure(errno, "waiting for an answer"));
    if (count == 0)
      return tl::unexpected(
          no_call(-ECONNRESET, options_.path + ": ulnetd closed the connection before it answered; see its log"));
    reader_.feed({buffer.data(), static_cast<size_t>(count)});
  }
}

tl::expected<Answer, ApiError> Client::call(Request request, const PartFn& on_part) {
  if (fd_ < 0) return tl::unexpected(no_call(-ENOTCONN, options_.path + ": the connection was closed"));
  request.id = ++last_id_;
  auto sent = send(request_to_json(request));
  if (!sent && sent.error().code != -EPIPE) return tl::unexpected(sent.error());  // else the reason may have come
  Doc whole;
  std::vector<ApiError> errors;
  std::vector<std::string> warnings;
  while (true) {
    auto json = receive();
    if (!json) {
      if (json.error().code == -ETIMEDOUT && request.verb == Verb::kChange) {
        close(std::exchange(fd_, -1));
        json.error().descr += "; a change that has begun goes on: check with 'show' before you repeat it";
      }
      return tl::unexpected(json.error());
    }
    auto frame = answer_from_json(*json);
    if (!frame) return tl::unexpected(no_call(-EPROTO, options_.path + ": " + frame.error()));
    if (frame->id != request.id && frame->id != 0) continue;  // of a call that was given up
    Answer& answer = frame->answer;
    if (options_.on_note)
      for (const std::string& note : answer.notes) options_.on_note(note);
    warnings.insert(warnings.end(), answer.warnings.begin(), answer.warnings.end());
    if (answer.more && answer.doc.is_null() && answer.errors.empty()) continue;  // notes and warnings only
    if (!answer.more || frame->id == 0) {
      answer.more = false;
      doc_join(whole, std::move(answer.doc));
      answer.doc = std::move(whole);
      answer.warnings = std::move(warnings);
      answer.errors.insert(answer.errors.begin(), errors.begin(), errors.end());
      return std::move(answer);
    }
    if (on_part && !on_part(answer)) {
      close(std::exchange(fd_, -1));
      return Answer{};
    }
    if (on_part) continue;
    doc_join(whole, std::move(answer.doc));
    errors.insert(errors.end(), answer.errors.begin(), answer.errors.end());
  }
}

}  // namespace ulnet::api
