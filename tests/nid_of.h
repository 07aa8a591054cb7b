// NIDs of tests, by their text.
#pragma once
#include <string>

#include "dataplane/base/nid_text.h"

namespace ulnet::test {

inline Nid nid(const std::string& text) {
  return nid_parse(text).value();
}

inline Nid tcp_nid(const std::string& address) {
  return nid(address + "@tcp");
}

}  // namespace ulnet::test
