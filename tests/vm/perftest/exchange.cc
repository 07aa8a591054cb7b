#include "tests/vm/perftest/exchange.h"

#include <array>

#include "dataplane/wire/bytes.h"

namespace ulnet::test {
namespace {

constexpr std::array<size_t, 4> kParameterBytes{16, 4, 4, 2};
constexpr size_t kReportBytes = 8;
constexpr unsigned kReports = 5;
// A destination: LID, reads, QPN, PSN and key of 4 bytes each, the address, the GID, and two more numbers.
constexpr size_t kDestinationBytes = 56, kKeyAt = 16, kAddressAt = 24;
static_assert(kDestinationBytes <= kStepBytesMax);

}  // namespace

bool Exchange::is_next(size_t bytes) const {
  if (over_) return false;
  if (parameters_ < kParameterBytes.size()) return bytes == kParameterBytes[parameters_];
  if (bytes == kReportBytes) return with_reports_ && destinations_ > 0 && reports_ < kReports;
  return bytes == kDestinationBytes && (reports_ == 0 || reports_ == kReports);
}

bool Exchange::answer(std::span<std::byte> message, bool all_came) {
  if (!is_next(message.size())) {
    problem_ = "a message of " + std::to_string(message.size()) + " bytes after " + std::to_string(parameters_) +
               " parameters, " + std::to_string(destinations_) + " destinations and " + std::to_string(reports_) +
               " reports";
    return false;
  }
  if (parameters_ < kParameterBytes.size()) {
    ++parameters_;
  } else if (message.size() == kReportBytes) {
    ++reports_;
  } else {
    ++destinations_;
    wire::store<uint32_t>(message.data() + kKeyAt, key_, true);
    wire::store<uint64_t>(message.data() + kAddressAt, address_, true);
    over_ = with_reports_ ? reports_ == kReports : all_came;
  }
  return true;
}

}  // namespace ulnet::test
