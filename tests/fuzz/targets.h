// Fuzz targets of the decoders for bytes that a peer or an operator can send. Each target takes any bytes, must return,
// and aborts when one of its properties does not hold. Linked twice: into libFuzzer programs (clang, -Dfuzz=true) and
// into fuzz_seeded_test, which runs them on mutated captures with every compiler.
#pragma once
#include <cstddef>
#include <span>

namespace ulnet::fuzz {

using Bytes = std::span<const std::byte>;

void fuzz_header(Bytes in);        ///< an LNet header, both forms
void fuzz_ping_info(Bytes in);     ///< a ping info
void fuzz_acceptor(Bytes in);      ///< a stream that begins with a connection request
void fuzz_hello(Bytes in);         ///< first byte: role; then a stream that begins with a HELLO
void fuzz_frame_stream(Bytes in);  ///< first byte: version and byte order; then frames with payload
void fuzz_nid_text(Bytes in);      ///< a NID as text, and as 20 bytes
void fuzz_o2ib_message(Bytes in);  ///< a message of o2iblnd, also as private data of a CM REQ or REP
void fuzz_o2ib_reject(Bytes in);   ///< private data of a CM REJ
void fuzz_roce_packet(Bytes in);   ///< a RoCE packet behind its UDP header, and the message of the CM in it

struct Target {
  const char* name;
  void (*run)(Bytes);
};
inline constexpr Target kTargets[] = {{"header", fuzz_header},
                                      {"ping_info", fuzz_ping_info},
                                      {"acceptor", fuzz_acceptor},
                                      {"hello", fuzz_hello},
                                      {"frame", fuzz_frame_stream},
                                      {"nid_text", fuzz_nid_text},
                                      {"o2ib_message", fuzz_o2ib_message},
                                      {"o2ib_reject", fuzz_o2ib_reject},
                                      {"roce_packet", fuzz_roce_packet}};

}  // namespace ulnet::fuzz
