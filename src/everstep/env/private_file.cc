// env: files that are one user's alone.
#include "everstep/env/private_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "everstep/env/fd.h"

namespace everstep {
namespace {

absl::Status ErrorOf(const char* what, const std::string& path, int error) {
  char buffer[128];
  const std::string message =
      absl::StrCat("cannot ", what, " ", path, ": ", strerror_r(error, buffer, sizeof buffer));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

}  // namespace

absl::StatusOr<PrivateFile> ReadPrivateFile(const std::string& path) {
  // Without O_NONBLOCK opening a pipe waits for who writes into it.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (fd.get() < 0) return ErrorOf("open", path, errno);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrorOf("look at", path, errno);
  PrivateFile file;
  file.own = info.st_uid == geteuid();
  file.mode = static_cast<int>(info.st_mode & 07777);
  file.is_file = S_ISREG(info.st_mode);
  if (!file.is_file) return file;
  constexpr size_t kMost = 64 << 10;
  char buffer[4096];
  while (file.text.size() < kMost) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrorOf("read", path, errno);
    if (n == 0) break;
    file.text.append(buffer, static_cast<size_t>(n));
  }
  return file;
}

absl::Status MakePrivateDirectory(const std::string& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return ErrorOf("make", path, errno);
}

}  // namespace everstep
