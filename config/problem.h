// A mistake in something that a user wrote: its place, the mistake, and the allowed values. Also the error of a change
// that cannot be. Where no text may be made, Result and Error serve (dataplane/base/result.h).
#pragma once
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "config/doc.h"
#include "dataplane/base/result.h"

namespace ulnet::config {

/// One mistake (or warning). `what` is a sentence without a full stop. `allowed` names the remedy and may be empty.
struct Problem {
  std::string file;  ///< name of the file, "<stdin>", or empty for a command line
  Mark mark;
  std::string path;   ///< e.g. net[0].local NI(s)[1].tunables.peer_credits
  std::string value;  ///< the value at that place; empty if it is not a scalar
  std::string what;
  std::string allowed;
  int code = -EINVAL;  ///< negative errno as lnetctl shows it
  std::string entity;  ///< net, route, peer, ...: under which an error is printed
  std::optional<int64_t> seq_no;
  size_t index = 0;  ///< of a change: its number in the list; placed() has the place (config/change.h)
};

using Problems = std::vector<Problem>;

/// A value or a problem.
template <class T>
using Checked = tl::expected<T, Problem>;

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
