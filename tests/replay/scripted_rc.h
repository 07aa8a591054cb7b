// A provider of reliable connections (lnd/rc/rc.h) whose other side is the test. The provider keeps the deeds of the
// node under test: CM messages, messages and writes. The test plays the partners. One worker; operations complete at
// once, unless the partners are silent. Single thread, virtual time.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "lnd/rc/rc.h"

namespace ulnet::test {

/// One thing that the node under test did.
struct RcDeed {
  enum class Kind : uint8_t {
    kRequest,  ///< the node sent a REQ
    kReply,    ///< a REP
    kReject,   ///< a REJ with reason 28
    kGiveUp,   ///< the end of an own attempt that has no answer
    kHangUp,   ///< a DREQ
    kMessage,
    kWrite
  };
  Kind kind = Kind::kMessage;
  rc::ConnId conn = 0;
  rc::IpAddress local, remote;
  std::vector<std::byte> bytes;  ///< private data, message, or bytes written
  uint32_t key = 0;              ///< kWrite
  uint64_t address = 0;          ///< kWrite
};

class ScriptedRc final : public rc::Provider, rc::Control, rc::Worker {
 public:
  rc::Control& control() override { return *this; }
  rc::Worker& worker(WorkerId) override { return *this; }

  // --- For the test: the partners ---
  /// A REQ comes. 0: nothing listens at `to`.
  rc::ConnId request(const rc::IpAddress& from, const rc::IpAddress& to, std::span<const std::byte> private_data);
  /// The REP, or the RTU, comes. False: the connection waits for neither.
  bool established(rc::ConnId id, std::span<const std::byte> private_data);
  /// The attempt fails, or the connection ends.
  void ended(rc::ConnId id, rc::Cause cause, std::span<const std::byte> private_data);
  /// False: the connection is not up, or has no receive buffer.
  bool message(rc::ConnId id, std::span<const std::byte> bytes);
  /// False: no key allows it.
  bool write(rc::ConnId id, uint32_t key, uint64_t address, std::span<const std::byte> bytes);
  /// The connection has its queue pair on the worker, and the peer has not closed it.
  [[nodiscard]] bool is_up(rc::ConnId id) const;

  std::deque<RcDeed> deeds;
  bool silent = false;  ///< no operation completes

 private:
  struct Op {
    uint64_t token = 0;
    rc::RemoteKey* closing = nullptr;
    RcDeed deed;
    bool has_deed = false;
  };
  struct Done {
    enum class Kind : uint8_t { kReceived, kSent, kKeyClosed, kBroken, kDrained } kind;
    uint64_t token = 0;
    uint32_t buffer = 0, bytes = 0;
    rc::RemoteKey* key = nullptr;
    rc::Cause cause = rc::Cause::kNone;
  };
  struct ScriptedQp final : rc::Qp {
    rc::QpUser* user = nullptr;
    std::vector<std::byte> memory;
    std::deque<uint32_t> posted;
    std::deque<Op> ops;
    std::deque<Done> done;
    std::map<uint32_t, std::pair<std::byte*, uint32_t>> open;  ///< windows by key
    uint32_t under_way = 0;                                    ///< operations that do not complete
    bool broken = false;
  };
  enum class State : uint8_t { kAsked, kReady, kRequested, kReplied, kUp, kEnded };
  struct Conn {
    rc::ConnId id = 0;
    State state = State::kReady;
    bool active = false, disconnected = false;
    rc::IpAddress local, remote;
    rc::ListenerId listener = 0;
    Duration answer_max{};
    Instant deadline = kForever;
    std::unique_ptr<ScriptedQp> qp;
  };

  // rc::Control
  Result<rc::ListenerId> listen(const rc::Endpoint& at) override;
  void unlisten(rc::ListenerId id) override { listeners_.erase(id); }
  rc::Device device(rc::ListenerId) const override;
  Result<rc::ConnId> dial(const rc::DialSpec& spec, Instant now) override;
  void prepare(rc::ConnId id, const rc::QpNeeds& needs, Instant now) override;
  void reject(rc::ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void proceed(rc::ConnId id, std::span<const std::byte> private_data, Instant now) override;
  void disconnect(rc::ConnId id, Instant now) override;
  void destroy(rc::ConnId id, Instant now) override;
  Result<void> region_add(RegionId region, std::span<std::byte> memory) override;
  void region_remove(RegionId region) override { regions_.erase(region); }
  unsigned poll(std::span<rc::Event> out, Instant now) override;
  void wait_fds(std::vector<int>&) override {}

  // rc::Worker
  void adopt(rc::Qp& qp, rc::QpUser& user) override;
  void release(rc::Qp& qp) override;
  void receive(rc::Qp& qp, uint32_t buffer) override;
  rc::Posted send(rc::Qp& qp, uint32_t buffer, uint32_t bytes, uint64_t token, rc::Wake) override;
  rc::Posted write(rc::Qp& qp, std::span<const Segment> from, uint32_t key, uint64_t address, uint64_t token) override;
  rc::Posted key_open(rc::Qp& qp, rc::RemoteKey& key, const Payload& window) override;
  rc::Posted key_close(rc::Qp& qp, rc::RemoteKey& key) override;
  uint32_t room(const rc::Qp& qp) const override;
  unsigned poll(unsigned budget, Instant now) override;
  unsigned timers(Instant) override { return 0; }
  void flush(Instant now) override;
  bool pending() override;
  unsigned wait_fds(std::span<int>) override { return 0; }

  /// Both halves.
  Instant next_deadline() override;

  Conn& add(bool active, const rc::IpAddress& local, const rc::IpAddress& remote);
  void make_qp(Conn& conn, const rc::QpNeeds& needs);
  void tell(const Conn& conn, rc::EventKind kind, rc::Cause cause, std::span<const std::byte> private_data);
  void note(const Conn& conn, RcDeed::Kind kind, std::span<const std::byte> bytes = {});
  void break_qp(Conn& conn, rc::Cause cause);
  [[nodiscard]] bool registered(const Segment& segment) const;
  rc::Posted post(rc::Qp& qp, Op op);
  static void report(ScriptedQp& qp, const Done& done, Instant now);

  std::map<rc::ListenerId, rc::Endpoint> listeners_;
  std::map<RegionId, std::span<std::byte>> regions_;
  std::map<rc::ConnId, Conn> conns_;
  std::set<rc::ConnId> adopted_;
  std::deque<rc::Event> events_;
  rc::ConnId last_conn_ = 0;
  rc::ListenerId last_listener_ = 0;
  uint32_t last_key_ = 0;
};

}  // namespace ulnet::test
