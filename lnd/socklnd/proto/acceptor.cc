// Connection request codec. The decoder judges the magic as soon as its four bytes are there. A stranger that sends
// less than a request is therefore refused at once, not after a timeout.
#include "lnd/socklnd/proto/acceptor.h"

#include "dataplane/wire/bytes.h"
#include "lnd/socklnd/proto/hello.h"

namespace ulnet::socklnd {

using wire::byte_swap;
using wire::load;
using wire::store;

size_t conn_request_bytes(const Nid& target) {
  return target.fits_u64() ? kConnRequestV1Bytes : kConnRequestV2Bytes;
}

size_t conn_request_encode(const Nid& target, std::span<std::byte> out, bool flip) {
  const size_t bytes = conn_request_bytes(target);
  ULNET_CHECK(out.size() >= bytes);
  store(out.data(), kAcceptorMagic, flip);
  store(out.data() + 4, uint32_t(target.fits_u64() ? 1 : 2), flip);
  if (target.fits_u64())
    store(out.data() + 8, target.to_u64(), flip);
  else
    wire::nid_store16(out.data() + 8, target);
  return bytes;
}

void acceptor_answer_encode(std::span<std::byte, kAcceptorAnswerBytes> out) {
  store(out.data(), kAcceptorMagic);
  store(out.data() + 4, uint32_t{1});
  store(out.data() + 8, uint64_t{0});
}

void ConnRequestDecoder::reset() {
  bytes_.reset(4);
  request_ = {};
  status_ = AcceptStatus::kMore;
}

AcceptStatus ConnRequestDecoder::feed(std::span<const std::byte>& in) {
  while (status_ == AcceptStatus::kMore && bytes_.take(in)) status_ = step();
  return status_;
}

AcceptStatus ConnRequestDecoder::step() {
  const std::byte* at = bytes_.data();
  if (bytes_.have() == 4) {
    const auto magic = load<uint32_t>(at);
    if (magic == kHelloMagic || magic == byte_swap(kHelloMagic)) return AcceptStatus::kAnswerAndClose;
    request_.flip = magic == byte_swap(kAcceptorMagic);
    if (magic != kAcceptorMagic && !request_.flip) return AcceptStatus::kClose;
    bytes_.set_goal(8);
    return AcceptStatus::kMore;
  }
  if (bytes_.have() == 8) {
    request_.version = load<uint32_t>(at + 4, request_.flip);
    if (request_.version != 1 && request_.version != 2) return AcceptStatus::kAnswerAndClose;
    bytes_.set_goal(request_.version == 1 ? kConnRequestV1Bytes : kConnRequestV2Bytes);
    return AcceptStatus::kMore;
  }
  request_.target =
      request_.version == 1 ? wire::nid_from_wire(load<uint64_t>(at + 8, request_.flip)) : wire::nid_load16(at + 8);
  return AcceptStatus::kRequest;
}

}  // namespace ulnet::socklnd
