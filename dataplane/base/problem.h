// A mistake in something that a user wrote or configured: its place, the mistake, and the remedy. Workers return an
// Error instead (result.h), since a Problem takes memory for its text.
#pragma once
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace ulnet {

/// A place in a file, line and column counted from 1; 0 = not from a file.
struct Mark {
  uint32_t line = 0;
  uint32_t column = 0;
};

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

}  // namespace ulnet
