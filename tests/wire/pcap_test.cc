// The capture reader on its own: TCP reassembly from hand-made files with retransmission, overlap, reordering, a reused
// port and a start in the middle.
#include "tests/wire/pcap.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace ulnet::test {
namespace {

constexpr uint8_t kFin = 0x01, kSyn = 0x02, kRst = 0x04, kAck = 0x10;

/// Writes a pcap file of TCP frames between 10.0.0.1:1023 and 10.0.0.2:988; removed at the end of the test.
class PcapFile {
 public:
  PcapFile() : path_(testing::TempDir() + "ulnet_pcap_" + std::to_string(getpid())) {
    for (uint32_t word : {0xA1B2C3D4u, 0x00040002u, 0u, 0u, 65535u, 1u}) le32(word);
  }
  ~PcapFile() { std::remove(path_.c_str()); }
  PcapFile(const PcapFile&) = delete;
  PcapFile& operator=(const PcapFile&) = delete;

  void frame(bool from_dialler, uint8_t flags, uint32_t seq, uint32_t ack, const std::string& payload = "") {
    const uint32_t bytes = uint32_t(14 + 20 + 20 + payload.size());
    for (uint32_t word : {0u, ++time_us_, bytes, bytes}) le32(word);
    bytes_.append(12, '\0');
    be16(0x0800);
    be16(0x4500);
    be16(uint16_t(40 + payload.size()));
    be16(0), be16(0x4000), be16(0x4006), be16(0);
    be32(from_dialler ? 0x0A000001 : 0x0A000002);
    be32(from_dialler ? 0x0A000002 : 0x0A000001);
    be16(from_dialler ? 1023 : 988);
    be16(from_dialler ? 988 : 1023);
    be32(seq), be32(ack);
    be16(uint16_t(0x5000 | flags));
    be16(1000), be16(0), be16(0);
    bytes_ += payload;
  }
  Capture read() const {
    std::ofstream(path_, std::ios::binary) << bytes_;
    return pcap_read(path_);
  }
  void cut(size_t bytes) { bytes_.resize(bytes_.size() - bytes); }

 private:
  void be16(uint16_t v) { bytes_ += {char(v >> 8), char(v)}; }
  void be32(uint32_t v) { be16(uint16_t(v >> 16)), be16(uint16_t(v)); }
  void le32(uint32_t v) { bytes_ += {char(v), char(v >> 8), char(v >> 16), char(v >> 24)}; }
  std::string path_;
  std::string bytes_;
  uint32_t time_us_ = 0;
};

std::string text(const std::vector<std::byte>& bytes) {
  std::string out;
  for (std::byte b : bytes) out += char(b);
  return out;
}

/// "d:SYN p:SYN d:abc p:FIN", one word per event.
std::string trace(const TcpConversation& conversation) {
  std::string out;
  for (const TcpEvent& event : conversation.events) {
    out += (out.empty() ? "" : " ") + std::string(event.from == Side::kDialler ? "d:" : "p:");
    switch (event.kind) {
      case TcpEvent::Kind::kSyn: out += "SYN"; break;
      case TcpEvent::Kind::kData: out += text(event.bytes); break;
      case TcpEvent::Kind::kFin: out += "FIN"; break;
      case TcpEvent::Kind::kRst: out += "RST"; break;
    }
  }
  return out;
}

// Goal: retransmitted, overlapping and early segments give each byte once and in order, across the wrap of the numbers.
TEST(Pcap, reassembles) {
  PcapFile file;
  const uint32_t isn = 0xFFFFFFFC;
  file.frame(true, kSyn, isn, 0);
  file.frame(true, kSyn, isn, 0);
  file.frame(false, kSyn | kAck, 500, isn + 1);
  file.frame(true, kAck, isn + 1, 501);
  file.frame(true, kAck, isn + 1, 501, "abc");
  file.frame(true, kAck, isn + 1, 501, "abc");
  file.frame(true, kAck, isn + 8, 501, "hij");
  file.frame(false, kAck, 501, isn + 4, "xy");
  file.frame(true, kAck, isn + 3, 501, "cdefgh");
  file.frame(true, kAck | kFin, isn + 11, 501);
  file.frame(true, kAck | kFin, isn + 11, 501);
  file.frame(false, kRst, 503, 0);
  const Capture capture = file.read();
  ASSERT_EQ(capture.error, "");
  EXPECT_EQ(capture.frame_count, 12u);
  ASSERT_EQ(capture.conversations.size(), 1u);
  const TcpConversation& c = capture.conversations[0];
  EXPECT_EQ(trace(c), "d:SYN p:SYN d:abc p:xy d:defgh d:ij d:FIN p:RST");
  EXPECT_FALSE(c.opened_mid || c.gap);
  EXPECT_TRUE(c.established);
  EXPECT_EQ(c.dialler.text(), "10.0.0.1:1023");
  EXPECT_EQ(text(c.stream(Side::kDialler)), "abcdefghij");
  EXPECT_EQ(c.events[2].time, 4us);
}

// Goal: if a file begins in the middle of a connection, the reader still finds the dialler. Data counts from the first
// byte on, also after a keepalive probe (one old byte) or a segment that came early.
TEST(Pcap, begins_in_the_middle) {
  PcapFile file;
  file.frame(false, kAck, 700, 300);
  file.frame(true, kAck, 299, 700, "?");
  file.frame(true, kAck, 303, 700, "def");
  file.frame(true, kAck, 300, 700, "abc");
  file.frame(false, kAck, 700, 306, "xyz");
  const Capture capture = file.read();
  ASSERT_EQ(capture.conversations.size(), 1u);
  EXPECT_TRUE(capture.conversations[0].opened_mid);
  EXPECT_EQ(capture.conversations[0].passive.port, 988);
  EXPECT_EQ(trace(capture.conversations[0]), "d:abc d:def p:xyz");
}

// Goal: the same ports after a new SYN are a new conversation. A conversation with a refused SYN is not established.
TEST(Pcap, reused_ports_and_missing_bytes) {
  PcapFile file;
  file.frame(true, kSyn, 100, 0);
  file.frame(false, kRst | kAck, 0, 101);
  file.frame(true, kSyn, 200, 0);
  file.frame(false, kSyn | kAck, 900, 201);
  file.frame(true, kAck, 205, 901, "late");
  const Capture capture = file.read();
  ASSERT_EQ(capture.conversations.size(), 2u);
  EXPECT_EQ(trace(capture.conversations[0]), "d:SYN p:RST");
  EXPECT_FALSE(capture.conversations[0].established);
  EXPECT_EQ(trace(capture.conversations[1]), "d:SYN p:SYN");
  EXPECT_TRUE(capture.conversations[1].gap);
}

// Goal: a missing or incomplete file gives an error, not half a capture.
TEST(Pcap, bad_files) {
  EXPECT_NE(pcap_read("/nonexistent").error, "");
  PcapFile file;
  file.frame(true, kSyn, 100, 0);
  file.cut(1);
  EXPECT_NE(file.read().error.find("ends inside a frame"), std::string::npos);
}

}  // namespace
}  // namespace ulnet::test
