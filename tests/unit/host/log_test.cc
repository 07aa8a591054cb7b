// The log's writer over real descriptors that do not take all bytes. Cases: pipes that are not read, pipes without a
// reader, full devices, and files at their limit.
#include "tools/ulnetd/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <optional>
#include <regex>

namespace ulnet::test {
namespace {

constexpr int kLines = 40'000;  // of 100 bytes: more than a pipe and the queue hold

std::string line_of(int number) {
  return fmt::format("{:0100}", number);
}

/// Reads until `text` contains `wanted`, or until the end.
std::string read_until(int fd, const std::string& wanted) {
  std::string text;
  char buffer[65536];
  ssize_t count;
  while (text.find(wanted) == std::string::npos && (count = read(fd, buffer, sizeof buffer)) > 0)
    text.append(buffer, size_t(count));
  return text;
}

std::string whole_file(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  std::string text = read_until(fd, "never");
  close(fd);
  return text;
}

TEST(LogWriter, lines_come_out_in_order) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    LogWriter log(ends[1], "x: ");
    for (int i = 0; i < 100; ++i) log.say(fmt::format("line {}", i));
  }
  close(ends[1]);
  std::string expected;
  for (int i = 0; i < 100; ++i) expected += fmt::format("x: line {}\n", i);
  EXPECT_EQ(read_until(ends[0], "never"), expected);
  close(ends[0]);
}

// Goal: say() returns although the pipe is not read. Each line is either in the log or counted there, in its place.
TEST(LogWriter, a_pipe_that_is_not_read_never_blocks) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  std::optional<LogWriter> log(std::in_place, ends[1], "x: ");
  for (int i = 0; i < kLines; ++i) log->say(line_of(i));
  std::string text;
  int there = 0, missing = 0;
  const std::regex count("x: log lines missing here: ([0-9]+) \\(.*too slow\\)");
  while (there + missing < kLines) {
    char letter;
    ASSERT_EQ(read(ends[0], &letter, 1), 1);
    text += letter;
    if (letter != '\n') continue;
    std::smatch match;
    const std::string line = text.substr(0, text.size() - 1);
    text.clear();
    if (std::regex_match(line, match, count))
      missing += std::stoi(match[1]);
    else
      EXPECT_EQ(line, "x: " + line_of(missing + there++));
  }
  EXPECT_EQ(there + missing, kLines);
  EXPECT_GT(missing, 1000);
  log.reset();
  close(ends[0]);
  close(ends[1]);
}

TEST(LogWriter, the_writer_ends_although_a_pipe_is_never_read) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  {
    LogWriter log(ends[1], "");
    for (int i = 0; i < kLines; ++i) log.say(line_of(i));
  }
  EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
  close(ends[0]);  // the thread that was left behind ends by EPIPE
  close(ends[1]);
}

TEST(LogWriter, full_devices_and_closed_pipes_are_endured) {
  const int full = open("/dev/full", O_WRONLY);
  ASSERT_GE(full, 0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  {
    LogWriter to_full(full, "x: "), to_nobody(ends[1], "x: "), to_closed(-1, "x: ");
    for (int i = 0; i < 100; ++i) {
      to_full.say("line");
      to_nobody.say("line");
      to_closed.say("line");
    }
  }
  close(full);
  close(ends[1]);
}

// Goal: when there is room again, the log reports the number of missing lines, and begins with a whole line.
TEST(LogWriter, lines_that_found_no_room_in_a_file_are_counted_there) {
  char path[] = "/tmp/ulnet-log-XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  rlimit before{}, low{};
  getrlimit(RLIMIT_FSIZE, &before);
  low = before;
  low.rlim_cur = 205;  // the third line of 100 bytes is broken
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &low), 0);
  {
    LogWriter log(fd, "");
    for (int i = 0; i < 5; ++i) log.say(std::string(99, char('a' + i)));
    while (lseek(fd, 0, SEEK_END) < 205) usleep(1000);
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    log.say("back");
  }
  const std::string text = whole_file(path);
  const std::regex form(
      "a{99}\nb{99}\nccccc\nlog lines missing here: ([123]) \\(File too large\\)\n(d{99}\n)?(e{99}\n)?back\n");
  std::smatch match;
  ASSERT_TRUE(std::regex_match(text, match, form)) << text;
  EXPECT_EQ(std::stoi(match[1]) + int(match[2].length() + match[3].length()) / 100, 3) << text;
  close(fd);
  unlink(path);
}

}  // namespace
}  // namespace ulnet::test
