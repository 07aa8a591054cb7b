// Makes and prints problems: mistakes in something that a user wrote, and changes that cannot be made.
#pragma once
#include <string>

#include "dataplane/base/problem.h"
#include "dataplane/base/result.h"

namespace ulnet::config {

using ulnet::Checked;
using ulnet::Problem;
using ulnet::Problems;

/// A problem without a place.
[[nodiscard]] Problem problem_of(int code, std::string what, size_t index = 0);
/// The same: its words are `doing`, the sentence of the error, and the object.
[[nodiscard]] Problem problem_of(const char* doing, const Error& error);
[[nodiscard]] inline tl::unexpected<Problem> fail(int code, std::string what) {
  return tl::unexpected(problem_of(code, std::move(what)));
}

/// "router.yaml:12:9: net[0].net type: 'tcpx' is not a network; allowed: tcp, tcp1, o2ib3"; parts that are empty are
/// left out.
[[nodiscard]] std::string problem_text(const Problem& problem);

}  // namespace ulnet::config
