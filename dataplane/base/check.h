// Assertions about our own mistakes, on in release builds too. Never for actions of a peer, an operator or a device.
#pragma once

namespace ulnet {
/// Prints the sentence with its place to stderr and aborts.
[[noreturn]] void check_failed(const char* expression, const char* file, int line);
}  // namespace ulnet

#define ULNET_CHECK(expression) \
  (__builtin_expect(!!(expression), 1) ? (void)0 : ::ulnet::check_failed(#expression, __FILE__, __LINE__))
