#include "tools/ulnetctl/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace ulnet::ctl {
namespace {

/// The file that `path` means when it is a symbolic link; else `path`.
std::string followed(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(realpath(path.c_str(), nullptr), &std::free);
  return real ? std::string(real.get()) : path;
}

std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

/// The permissions that a new file gets from the process.
mode_t usual_mode() {
  const mode_t mask = umask(0);
  umask(mask);
  return 0666 & ~mask;
}

}  // namespace

OutputFile::~OutputFile() {
  if (fd_ >= 0) close(fd_);
  if (!beside_.empty()) unlink(beside_.c_str());
}

tl::unexpected<std::string> OutputFile::failed(const char* doing) const {
  return tl::unexpected(path_ + ": " + doing + ": " + std::strerror(errno));
}

tl::expected<void, std::string> OutputFile::open() {
  target_ = followed(path_);
  struct stat old {};
  const bool exists = stat(target_.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) {
    fd_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) return failed("cannot be written");
    return {};
  }
  std::string name = target_ + ".XXXXXX";
  std::vector<char> pattern(name.c_str(), name.c_str() + name.size() + 1);
  fd_ = mkostemp(pattern.data(), O_CLOEXEC);
  if (fd_ < 0) return failed("cannot be written");
  beside_ = pattern.data();
  // The owner can be kept by root only; the permissions always.
  if (exists && fchown(fd_, old.st_uid, old.st_gid) != 0) errno = 0;
  if (fchmod(fd_, exists ? old.st_mode & 07777 : usual_mode()) != 0) return failed("cannot be written");
  return {};
}

tl::expected<void, std::string> OutputFile::write(std::string_view bytes) {
  if (fd_ < 0) {
    if (auto opened = open(); !opened) return opened;
  }
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failed("cannot be written");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return {};
}

tl::expected<void, std::string> OutputFile::put_in_place() {
  if (auto opened = write({}); !opened) return opened;
  if (fsync(fd_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) return failed("cannot be written");
  if (beside_.empty()) return {};
  if (rename(beside_.c_str(), target_.c_str()) != 0) return failed("cannot be replaced");
  beside_.clear();
  const int folder = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    (void)fsync(folder);  // the name; the bytes are on the disk already
    close(folder);
  }
  return {};
}

}  // namespace ulnet::ctl
