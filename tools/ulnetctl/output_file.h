// A file that a command writes. An existing file of that name stays unchanged until put_in_place(). The bytes go to a
// new file beside it, which takes the name when they are on the disk. Thread: one at a time.
#pragma once
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace ulnet::ctl {

class OutputFile {
 public:
  /// Nothing is opened before the first write(). A symbolic link is followed; a device or pipe is written directly.
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  /// Removes the new file if it was not put in place.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Appends. Also after put_in_place(): then the bytes go to the file of that name. Errors: a sentence with the path.
  [[nodiscard]] tl::expected<void, std::string> write(std::string_view bytes);
  /// Waits until all bytes are on the disk and gives the new file the name. The second call only waits for the bytes.
  [[nodiscard]] tl::expected<void, std::string> put_in_place();

 private:
  [[nodiscard]] tl::expected<void, std::string> open();
  [[nodiscard]] tl::unexpected<std::string> failed(const char* doing) const;

  std::string path_;
  std::string target_;  // path_ with symbolic links followed
  std::string beside_;  // the new file while it is not in place; empty: written directly, or in place
  int fd_ = -1;
};

}  // namespace ulnet::ctl
