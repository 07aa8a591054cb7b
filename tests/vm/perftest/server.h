// The server of one run of perftest over reliable connections. The client makes two connections, one after the other:
// the first for the exchange of parameters, the second for its transfers. Thread: one, for control and worker.
#pragma once
#include <string>
#include <vector>

#include "lnd/rc/rc.h"
#include "tests/vm/perftest/exchange.h"

namespace ulnet::test {

struct ServerConfig {
  rc::Endpoint at;
  bool writes = false;  ///< the client is ib_write_bw; else ib_send_bw
  uint32_t message_bytes = 0;
  uint64_t messages = 0;  ///< of ib_send_bw
};

/// One end of a connection.
class End : public rc::QpUser {
 public:
  explicit End(rc::Worker& at) : worker(at) {}
  void adopt(rc::Qp& what);
  void sent(rc::Qp&, uint64_t, Instant) override {}
  void key_closed(rc::Qp&, rc::RemoteKey&, Instant) override {}
  void broken(rc::Qp&, rc::Cause why, Instant) override { cause = why; }
  void drained(rc::Qp&, Instant) override;

  rc::Worker& worker;
  rc::ConnId conn = 0;  ///< 0: not there yet, or gone
  rc::Qp* qp = nullptr;
  rc::Cause cause = rc::Cause::kNone;  ///< of the end

 protected:
  ~End() = default;
};

/// The end for the transfers.
class TransferEnd final : public End {
 public:
  using End::End;
  void received(rc::Qp& at, uint32_t buffer, uint32_t bytes, Instant) override;
  uint64_t messages = 0, bytes_received = 0;
};

/// The end for parameters.
class ExchangeEnd final : public End {
 public:
  ExchangeEnd(rc::Worker& at, const ServerConfig& config, const TransferEnd& transfers)
      : End(at), exchange(config.writes), config_(config), transfers_(transfers) {}
  void received(rc::Qp& at, uint32_t buffer, uint32_t bytes, Instant) override;
  Exchange exchange;

 private:
  const ServerConfig& config_;
  const TransferEnd& transfers_;
};

class Server {
 public:
  /// `provider` outlives it. Its port has the address.
  Server(rc::Provider& provider, const ServerConfig& config);
  /// Errors: those of Control::listen().
  [[nodiscard]] Result<void> listen();
  /// The control half of a turn; returns work done.
  unsigned turn(Instant now);
  /// The client has left, or the server cannot go on.
  [[nodiscard]] bool done() const { return is_done_; }
  /// Empty while all goes well.
  [[nodiscard]] const std::string& problem() const { return problem_; }
  /// Counts of messages and of written bytes, as fields of JSON.
  [[nodiscard]] std::string report() const;

 private:
  void on(const rc::Event& event, Instant now);
  void requested(rc::ConnId conn, Instant now);
  void ready(const rc::Event& event, Instant now);
  [[nodiscard]] bool open_key();
  void follow(End& end, Instant now);
  void give_up(const std::string& why) {
    problem_ = why;
    is_done_ = true;
  }

  rc::Control& control_;
  const ServerConfig config_;
  std::vector<std::byte> memory_;  ///< of ib_write_bw: the window of its key, with as many bytes before and behind it
  Segment window_;
  rc::RemoteKey key_;
  TransferEnd transfers_;
  ExchangeEnd exchange_;
  unsigned requests_ = 0;
  bool is_done_ = false;
  std::string problem_;
};

}  // namespace ulnet::test
