// The credits of one o2iblnd connection as a space of states. Both sides have the real class Credits; messages, buffers
// and operations are counts and short queues. Each side may begin operations at any time: an IMMEDIATE, a PUT_REQ that
// is accepted or refused, a GET_REQ. The core of a side may hold a request, as a router does. The connection may break.
// There is no clock. The model has two assumptions. The transport keeps the order and completes a send at once, which
// is the worst case for NOOPs. A keepalive is sent only when no NOOP of its sender is unprocessed.
// Source: docs/wire/o2iblnd.md §5.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lnd/o2iblnd/proto/credits.h"
#include "tests/model/search.h"

namespace ulnet::model {

/// Faults that a test plants into the protocol.
enum class CreditMutant : uint8_t {
  kNone,
  kPutAckReturnsCredit,     ///< an accepted PUT_REQ returns its credit with the PUT_ACK, not with its PUT_DONE
  kNakReturnsNoCredit,      ///< a refused PUT_REQ never returns its credit
  kPutDoneReturnsNoCredit,  ///< nor does a PUT_DONE
  kReservedStays,           ///< a response does not end its reservation
  kNothingIsReserved,       ///< requests reserve no room for their responses
  kOwedStays,               ///< credits that were carried are still owed
  kHighWaterIsDepth,        ///< a NOOP is due only when all credits are owed
  kWaitingHeadCarries,      ///< a message that waits for a credit keeps a NOOP back
  kOneQueue,                ///< responses wait behind a message that waits for a credit
  kKeepaliveAnyTime,        ///< a keepalive is sent while NOOPs are unprocessed
  kKeepaliveIsForgotten,    ///< the first NOOP after a keepalive is due at the high water
  kRepostComesLast,         ///< a buffer is posted again only after the answer to its message has left
  kOneBufferLess,
  kCreditsSurviveBreak,  ///< owed credits are kept for the next connection
  kCount
};
[[nodiscard]] const char* name_of(CreditMutant mutant);

/// The limits of one side.
struct CreditSide {
  unsigned operations = 0;         ///< in all
  std::string_view kinds = "ipg";  ///< of operations: IMMEDIATE, PUT_REQ, GET_REQ
  unsigned holds = 0;              ///< requests of the peer that the core may hold at a time
  unsigned keepalives = 0;
  bool late = false;   ///< a GET_DONE may leave before the buffer of its GET_REQ is posted again
  bool early = false;  ///< the buffer of a GET_REQ may be posted again before its GET_DONE is ready
  bool operator==(const CreditSide&) const = default;
};
struct CreditOptions {
  unsigned depth = 2, high_water = 1;
  std::array<CreditSide, 2> sides;
  bool held_forever = false;  ///< nobody may rely on the end of a hold
  unsigned breaks = 0;        ///< of the connection
  CreditMutant mutant = CreditMutant::kNone;
};

class CreditModel {
 public:
  explicit CreditModel(const CreditOptions& options) : options_(options) {}

  /// A short queue.
  struct Queue {
    std::array<uint8_t, 22> items{};
    uint8_t count = 0;
    [[nodiscard]] bool empty() const { return count == 0; }
    void push(uint8_t item);
    uint8_t pop();
  };
  /// All of one side. Message types are offsets to NOOP.
  struct Side {
    o2iblnd::Credits credits;
    uint8_t operations = 0, keepalives = 0;  ///< budgets that are left
    uint8_t head = 0;                        ///< a request that waits for credits; 0: none
    Queue responses;                         ///< that wait to be sent: types
    Queue flights;                           ///< to the peer, in order: type, and carried credits
    std::array<uint8_t, 8> held{};           ///< requests of the peer, by type
    uint8_t accepted = 0;                    ///< PUTs of the peer whose PUT_DONE has not come
    uint8_t answering = 0;                   ///< GETs of the peer that have no GET_DONE yet
    Queue late;                              ///< messages that are answered, with a buffer that is not posted yet
  };
  struct State {
    std::array<Side, 2> sides;
    uint8_t breaks = 0;
    const char* wrong = "";
  };
  struct Step {
    enum class Kind : uint8_t {
      kDeliver,
      kSend,
      kRepost,
      kAnswer,
      kRelease,
      kBegin,
      kKeepalive,
      kBreak
    } kind = Kind::kSend;
    uint8_t side = 0;
    uint8_t type = 0;    ///< of kBegin and kRelease
    uint8_t choice = 0;  ///< of kDeliver and kRelease: a Choice
    bool relied_on = true;
    [[nodiscard]] bool fault() const { return !relied_on; }
  };

  [[nodiscard]] State initial() const;
  [[nodiscard]] std::vector<Step> steps(const State& state) const;
  [[nodiscard]] State take(State state, const Step& step) const;
  /// More messages than buffers, credits that the receiver does not lack, or credits that are lost.
  [[nodiscard]] std::string wrong_in(const State& state);
  /// "" if no work waits, else which.
  [[nodiscard]] std::string not_converged(const State& state) const;
  [[nodiscard]] std::string text_of(const State& state) const;
  [[nodiscard]] std::string text_of(const State& state, const Step& step) const;
  /// If the two sides may do the same, a state and its mirror image count as one.
  template <class Add>
  void hash(const State& state, Add add) const {
    Mark one = mark_of(state.sides[0]), other = mark_of(state.sides[1]);
    if (options_.sides[0] == options_.sides[1] && one.a > other.a) std::swap(one, other);
    for (const Mark& mark : {one, other}) {
      add(mark.a);
      add(mark.b);
    }
    add(uint64_t{state.breaks} << 1 | uint64_t{*state.wrong != 0});
  }
  /// The most buffers that any side has used.
  [[nodiscard]] unsigned buffers_used() const { return buffers_used_; }

 private:
  enum Choice : uint8_t { kNow, kRefuse, kHold, kLateRepost, kLateResponse };
  [[nodiscard]] static Mark mark_of(const Side& side);
  [[nodiscard]] o2iblnd::NextSend next_of(const Side& side) const;
  [[nodiscard]] bool may_keepalive(const Side& side) const;
  void add_arrivals(const State& state, uint8_t side, std::vector<Step>& all) const;
  void send(State& state, uint8_t side, uint8_t type) const;
  void deliver(State& state, uint8_t side, Choice choice) const;
  void process(State& state, uint8_t side, uint8_t type, Choice choice) const;
  void repost(State& state, uint8_t side, uint8_t type, bool refused) const;
  void break_connection(State& state) const;
  [[nodiscard]] std::string lost_credits(const State& state, uint8_t side) const;
  [[nodiscard]] bool is(CreditMutant mutant) const { return options_.mutant == mutant; }
  [[nodiscard]] o2iblnd::Credits fresh_credits() const { return {options_.depth, options_.high_water}; }

  const CreditOptions options_;
  unsigned buffers_used_ = 0;
};

}  // namespace ulnet::model
