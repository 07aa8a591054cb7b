#include "tests/replay/o2ib_twin.h"

#include <algorithm>
#include <cstring>

#include "dataplane/base/nid_text.h"
#include "dataplane/wire/bytes.h"
#include "lnd/o2iblnd/proto/credits.h"
#include "tests/wire/hex.h"

namespace ulnet::test {
namespace {

using o2iblnd::MessageType;
using Kind = O2ibEvent::Kind;
using wire::load;
using wire::store;

// Offsets (docs/wire/o2iblnd.md §2, §3, §6.2).
constexpr size_t kCreditsAt = 7, kSrcAt = 16, kSrcStampAt = 24, kDstAt = 32, kDstStampAt = 40, kBodyAt = 48;
constexpr size_t kHandleAt = 32, kBodyOfRequest = kBodyAt + wire::kHeaderNid4Bytes, kRejectStampAt = 8;
constexpr size_t kRejectBlock = 24, kConnect = 56, kPingSequenceAt = 24;

/// The first bytes that differ, if any does.
std::string unlike(std::span<const std::byte> kernel, std::span<const std::byte> ours) {
  const auto [at, our_at] = std::ranges::mismatch(kernel, ours);
  if (at == kernel.end() && our_at == ours.end()) return "";
  const auto hex = [&](std::span<const std::byte> bytes) {
    const size_t from = std::min(bytes.size(), size_t(at - kernel.begin()));
    return hex_text(bytes.subspan(from, std::min<size_t>(bytes.size() - from, 15)));
  };
  return "of " + std::to_string(kernel.size()) + " and " + std::to_string(ours.size()) + " bytes, from " +
         std::to_string(at - kernel.begin()) + " on: kernel " + hex(kernel) + "ulnet " + hex(ours);
}

bool has_own_handle(const wire::Header& header) {
  return header.type == wire::MsgType::kGet || (header.type == wire::MsgType::kPut && !header.put().ack_wmd.is_none());
}

bool has_ping_info(const wire::Header& header) {
  if (header.payload_length < 32) return false;
  if (header.type == wire::MsgType::kPut) return header.put().portal == 0;
  return header.type == wire::MsgType::kReply;
}

/// Bytes of private data or a message that mean something.
std::span<const std::byte> content(Kind kind, std::span<const std::byte> bytes) {
  if (kind == Kind::kRequest || kind == Kind::kReply) return bytes.first(std::min(bytes.size(), kConnect));
  if (kind == Kind::kReject) return bytes.first(std::min(bytes.size(), kRejectBlock));
  return bytes;
}

}  // namespace

// --- Pairs -----------------------------------------------------------------------------------------------------------

bool O2ibTwin::Pairs::same(uint64_t kernel, uint64_t our) {
  const auto [ours_it, fresh] = ours.try_emplace(kernel, our);
  const auto [kernels_it, also_fresh] = kernels.try_emplace(our, kernel);
  return ours_it->second == our && kernels_it->second == kernel && fresh == also_fresh;
}

uint64_t O2ibTwin::Pairs::our(uint64_t kernel) const {
  const auto found = ours.find(kernel);
  return found == ours.end() ? kernel : found->second;
}

void O2ibTwin::restart() {
  handles_ = {};
  kernel_stamps_.clear();
  cookies_.clear();
  memory_.clear();
}

// --- To our node -----------------------------------------------------------------------------------------------------

void O2ibTwin::echo(wire::Header& header) const {
  const bool answer = header.type == wire::MsgType::kReply || header.type == wire::MsgType::kAck;
  if (!answer) return;
  wire::WireHandle handle = header.reply().dst_wmd;
  handle.object_cookie = handles_.our(handle.object_cookie);
  handle.interface_cookie = handles_.our(handle.interface_cookie);
  wire::handle_store(header.body.data(), handle);
}

O2ibTwin::Place O2ibTwin::place_of(const O2ibEvent& write) const {
  const auto found = memory_.find({write.key, write.address});
  return found == memory_.end() ? Place{} : found->second;
}

std::vector<std::byte> O2ibTwin::to_ours(const O2ibEvent& event, rc::ConnId conn, bool mid) {
  std::vector<std::byte> bytes = event.bytes;
  if (event.kind == Kind::kReject) return bytes;
  std::byte* at = bytes.data();
  const Nid our = Nid::from_u64(load<uint64_t>(at + kDstAt));
  const auto stamp = stamps_.find(our);
  if (stamp != stamps_.end() && load<uint64_t>(at + kDstStampAt) != 0) store(at + kDstStampAt, stamp->second);
  if (event.kind != Kind::kMessage) return bytes;
  const auto type = MessageType(uint8_t(bytes[6]));
  if (mid) bytes[kCreditsAt] = std::byte(std::min(int(bytes[kCreditsAt]), accounts_[conn].lent));
  count_theirs(bytes, conn);
  const Pairs& cookies = cookies_[conn];
  switch (type) {
    case MessageType::kPutNak:
    case MessageType::kPutAck:
    case MessageType::kPutDone:
    case MessageType::kGetDone: store(at + kBodyAt, cookies.our(load<uint64_t>(at + kBodyAt))); break;
    case MessageType::kImmediate:
    case MessageType::kPutReq: {
      const wire::Header header = *event.header();
      if (header.type != wire::MsgType::kReply && header.type != wire::MsgType::kAck) break;
      for (const size_t half : {size_t{0}, size_t{8}})
        store(at + kBodyAt + kHandleAt + half, handles_.our(load<uint64_t>(at + kBodyAt + kHandleAt + half)));
      break;
    }
    default: break;
  }
  return bytes;
}

// --- Comparison ------------------------------------------------------------------------------------------------------

std::string O2ibTwin::level(Pairs& pairs, std::span<const std::byte> kernel, std::span<std::byte> ours, size_t at,
                            const char* name) {
  const auto theirs = load<uint64_t>(kernel.data() + at), mine = load<uint64_t>(ours.data() + at);
  if (!pairs.same(theirs, mine)) return std::string(name) + " is another one; ";
  store(ours.data() + at, theirs);
  return "";
}

std::string O2ibTwin::level_header(const wire::Header& kernel, std::span<const std::byte> kernel_bytes,
                                   std::span<std::byte> ours, size_t at) {
  std::string text;
  const bool forwarded = std::find(ours_.begin(), ours_.end(), kernel.src_nid) == ours_.end();
  if (forwarded) return text;
  if (has_own_handle(kernel)) {
    // Both have the same first half in all messages, so pairs of the second half are one to one.
    text += level(handles_, kernel_bytes, ours, at + kHandleAt, "handle");
    text += level(handles_, kernel_bytes, ours, at + kHandleAt + 8, "handle");
  }
  const size_t sequence = at + wire::kHeaderNid4Bytes + kPingSequenceAt;
  if (has_ping_info(kernel) && sequence + 4 <= std::min(ours.size(), kernel_bytes.size()))
    std::copy_n(kernel_bytes.begin() + ptrdiff_t(sequence), 4, ours.begin() + ptrdiff_t(sequence));
  return text;
}

void O2ibTwin::count_theirs(std::span<const std::byte> message, rc::ConnId conn) {
  Account& account = accounts_[conn];
  const auto type = MessageType(uint8_t(message[6]));
  account.lent -= int(message[kCreditsAt]);
  account.owed += type == MessageType::kImmediate || type == MessageType::kGetReq || type == MessageType::kPutDone;
}

std::string O2ibTwin::count_ours(std::span<const std::byte> ours, rc::ConnId conn) {
  Account& account = accounts_[conn];
  const auto type = MessageType(uint8_t(ours[6]));
  account.owed += type == MessageType::kPutNak;
  account.owed -= int(ours[kCreditsAt]);
  account.lent += o2iblnd::uses_credit(type);
  return account.owed < 0 ? "more credits than owed; " : "";
}

void O2ibTwin::pass_over(rc::ConnId conn, std::span<const std::byte> ours, std::span<const std::byte> answer) {
  (void)count_ours(ours, conn);
  count_theirs(answer, conn);
}

/// Key and fragments at `at`: their number and lengths stay to be compared.
void O2ibTwin::level_memory(std::span<const std::byte> kernel, std::span<std::byte> ours, size_t at) {
  const auto count = load<uint32_t>(kernel.data() + at + 4);
  if (count != load<uint32_t>(ours.data() + at + 4) || ours.size() < at + 8 + size_t{count} * 12) return;
  const auto key = load<uint32_t>(kernel.data() + at), our_key = load<uint32_t>(ours.data() + at);
  store(ours.data() + at, key);
  for (size_t one = at + 8; one < at + 8 + size_t{count} * 12; one += 12) {
    const auto address = load<uint64_t>(kernel.data() + one + 4);
    memory_[{key, address}] = {our_key, load<uint64_t>(ours.data() + one + 4)};
    store(ours.data() + one + 4, address);
  }
}

std::string O2ibTwin::level_message(std::span<const std::byte> kernel, std::span<std::byte> ours, rc::ConnId conn) {
  std::string text = count_ours(ours, conn);
  ours[kCreditsAt] = kernel[kCreditsAt];
  if (kernel[6] != ours[6] || kernel.size() != ours.size()) return text;
  o2iblnd::Message decoded;
  if (message_decode(kernel, decoded) != o2iblnd::MessageFault::kNone) return text + "kernel's is damaged; ";
  if (o2iblnd::uses_credit(decoded.type)) text += level_header(decoded.header, kernel, ours, kBodyAt);
  Pairs& cookies = cookies_[conn];
  if (decoded.type == MessageType::kPutReq || decoded.type == MessageType::kGetReq)
    text += level(cookies, kernel, ours, kBodyOfRequest, "cookie");
  if (decoded.type == MessageType::kGetReq) level_memory(kernel, ours, kBodyOfRequest + 8);
  if (decoded.type != MessageType::kPutAck) return text;
  text += level(cookies, kernel, ours, kBodyAt + 8, "cookie");
  level_memory(kernel, ours, kBodyAt + 16);
  return text;
}

std::string O2ibTwin::difference(const O2ibEvent& kernel, const RcDeed& ours) {
  if (ours.kind == RcDeed::Kind::kGiveUp) return "";  // the CM's own REJ, without data of a consumer
  const std::span<const std::byte> expected = content(kernel.kind, kernel.bytes);
  std::vector<std::byte> got = ours.bytes;
  std::string text;
  if (kernel.kind == Kind::kWrite && (kernel.key != ours.key || kernel.address != ours.address))
    text += "written to another place; ";
  if (kernel.kind == Kind::kReject && got.size() == kRejectBlock) {
    const auto stamp = load<uint64_t>(got.data() + kRejectStampAt);
    const bool is_own =
        std::any_of(stamps_.begin(), stamps_.end(), [&](const auto& one) { return one.second == stamp; });
    if (is_own) std::copy_n(expected.begin() + kRejectStampAt, 8, got.begin() + kRejectStampAt);
  }
  const bool has_ends = kernel.kind == Kind::kRequest || kernel.kind == Kind::kReply || kernel.kind == Kind::kMessage;
  if (has_ends && got.size() >= kBodyAt) {
    const Nid our = Nid::from_u64(load<uint64_t>(got.data() + kSrcAt));
    const auto stamp = load<uint64_t>(expected.data() + kSrcStampAt);
    const bool known = stamps_.contains(our) && load<uint64_t>(got.data() + kSrcStampAt) == stamps_.at(our);
    if (!known || kernel_stamps_.try_emplace(our, stamp).first->second != stamp) text += "stamp is another one; ";
    store(got.data() + kSrcStampAt, stamp);
  }
  if (kernel.kind == Kind::kMessage) text += level_message(expected, got, ours.conn);
  return text + unlike(expected, got);
}

std::string O2ibTwin::difference(const ReplayMessage& kernel, const wire::Header& header,
                                 const std::vector<std::byte>& payload) {
  std::vector<std::byte> expected(wire::kHeaderNid4Bytes), got(wire::kHeaderNid4Bytes);
  wire::header_encode_nid4(kernel.decoded, std::span(expected).first<wire::kHeaderNid4Bytes>());
  wire::header_encode_nid4(header, std::span(got).first<wire::kHeaderNid4Bytes>());
  expected.insert(expected.end(), kernel.payload.begin(), kernel.payload.end());
  got.insert(got.end(), payload.begin(), payload.end());
  const std::string text = level_header(kernel.decoded, expected, got, 0);
  return text + unlike(expected, got);
}

}  // namespace ulnet::test
