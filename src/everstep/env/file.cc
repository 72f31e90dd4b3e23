// env: files and directories, POSIX form.
#include "everstep/env/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/base/status.h"

namespace everstep {
namespace {

// One write(2) or read(2) never asks for more: Linux cuts off near 2 GiB anyway.
constexpr size_t kMaxTransfer = size_t{1} << 30;

absl::Status PosixError(const char* what, const std::string& path, int error) {
  char buffer[128];
  std::string message =
      absl::StrCat("cannot ", what, " ", path, ": ", strerror_r(error, buffer, sizeof buffer));
  // Mostly the program was started elsewhere than its user thought.
  if (error == ENOENT && !path.empty() && path.front() != '/') {
    absl::StrAppend(&message, " (relative to ", AbsolutePath("."), ")");
  }
  switch (error) {
    case ENOENT:
    case ENOTDIR:
    case ELOOP:
    case ENAMETOOLONG:
      return absl::NotFoundError(message);
    case EISDIR:
      // What the caller wanted to read is not there, and will not be at another time either.
      return absl::NotFoundError(
          absl::StrCat("cannot ", what, " ", path, ": it is a directory; name a file in it"));
    case EEXIST:
    case ENOTEMPTY:
      return absl::AlreadyExistsError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

// Calls `call` again while a signal cuts it short.
template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class PosixWritableFile : public WritableFile {
 public:
  PosixWritableFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  ~PosixWritableFile() override {
    if (fd_ >= 0) close(fd_);
  }

  absl::Status Append(absl::Span<const std::byte> bytes) override {
    if (fd_ < 0) return Closed();
    while (!bytes.empty()) {
      const size_t want = std::min(bytes.size(), kMaxTransfer);
      const ssize_t n = Retry([&] { return write(fd_, bytes.data(), want); });
      if (n < 0) return PosixError("write", path_, errno);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return absl::OkStatus();
  }

  absl::Status Sync() override {
    if (fd_ < 0) return Closed();
    if (Retry([&] { return fsync(fd_); }) != 0) return PosixError("sync", path_, errno);
    return absl::OkStatus();
  }

  absl::Status Close() override {
    if (fd_ < 0) return Closed();
    // close(2) frees the number even when it fails, EINTR included: never twice.
    if (close(std::exchange(fd_, -1)) != 0 && errno != EINTR) {
      return PosixError("close", path_, errno);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Closed() const {
    return absl::InternalError(absl::StrCat(path_, " is closed already"));
  }

  const std::string path_;
  int fd_;
};

class PosixRandomAccessFile : public RandomAccessFile {
 public:
  PosixRandomAccessFile(std::string path, int fd, int64_t size)
      : path_(std::move(path)), fd_(fd), size_(size) {}
  ~PosixRandomAccessFile() override { close(fd_); }

  int64_t size() const override { return size_; }

  absl::Status ReadAt(int64_t offset, absl::Span<std::byte> out) const override {
    if (offset < 0) return absl::InternalError(absl::StrCat(path_, ": negative offset ", offset));
    while (!out.empty()) {
      const size_t want = std::min(out.size(), kMaxTransfer);
      const ssize_t n = Retry([&] { return pread(fd_, out.data(), want, offset); });
      if (n < 0) return PosixError("read", path_, errno);
      if (n == 0) {
        return absl::DataLossError(
            absl::StrCat(path_, " ends at byte ", offset, ", ", out.size(), " bytes short"));
      }
      out.remove_prefix(static_cast<size_t>(n));
      offset += n;
    }
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const int fd_;
  const int64_t size_;
};

FileSystem::Entry::Kind KindOf(unsigned char type) {
  using Kind = FileSystem::Entry::Kind;
  if (type == DT_DIR) return Kind::kDirectory;
  if (type == DT_LNK) return Kind::kLink;
  return type == DT_UNKNOWN ? Kind::kUnknown : Kind::kOther;
}

class PosixFileSystem : public FileSystem {
 public:
  absl::StatusOr<std::unique_ptr<WritableFile>> OpenForWriting(const std::string& path,
                                                               Create create, int mode) override {
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC;
    if (create == Create::kTruncate) flags |= O_TRUNC;
    if (create == Create::kExclusive) flags |= O_EXCL;
    if (create == Create::kAppend) flags |= O_APPEND;
    const int fd = Retry([&] { return open(path.c_str(), flags, mode); });
    if (fd < 0) return PosixError("open", path, errno);
    return std::make_unique<PosixWritableFile>(path, fd);
  }

  absl::StatusOr<std::unique_ptr<RandomAccessFile>> OpenForReading(
      const std::string& path) override {
    // Not blocking: a pipe that nobody writes to would else hold the caller for ever.
    const int fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); });
    if (fd < 0) return PosixError("open", path, errno);
    struct stat info {};
    if (fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
      const int error = S_ISDIR(info.st_mode) ? EISDIR : errno;
      close(fd);
      return PosixError("read", path, error);
    }
    if (!S_ISREG(info.st_mode)) {
      close(fd);
      return absl::NotFoundError(
          absl::StrCat("cannot read ", path, ": it is not a file but a pipe, socket or device"));
    }
    return std::make_unique<PosixRandomAccessFile>(path, fd, static_cast<int64_t>(info.st_size));
  }

  absl::Status CreateDirectories(const std::string& path) override {
    for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
      const std::string prefix = path.substr(0, slash);
      if (mkdir(prefix.c_str(), 0755) != 0) {
        const int error = errno;
        if (!IsDirectory(prefix)) return PosixError("create directory", prefix, error);
      }
      if (slash == std::string::npos) return absl::OkStatus();
    }
  }

  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    EV_ASSIGN_OR_RETURN(std::vector<Entry> entries, ListEntries(directory));
    std::vector<std::string> names;
    names.reserve(entries.size());
    for (Entry& entry : entries) names.push_back(std::move(entry.name));
    return names;
  }

  absl::StatusOr<std::vector<Entry>> ListEntries(const std::string& directory) override {
    DIR* dir = opendir(directory.c_str());
    if (dir == nullptr) return PosixError("list", directory, errno);
    std::vector<Entry> entries;
    errno = 0;
    while (const dirent* entry = readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") {
        entries.push_back({std::string(name), KindOf(entry->d_type)});
      }
      errno = 0;
    }
    const int error = errno;
    closedir(dir);
    if (error != 0) return PosixError("list", directory, error);
    std::sort(entries.begin(), entries.end(),
              [](const Entry& a, const Entry& b) { return a.name < b.name; });
    return entries;
  }

  absl::Status Rename(const std::string& from, const std::string& to) override {
    if (rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return PosixError("rename", absl::StrCat(from, " to ", to), errno);
  }

  absl::Status Link(const std::string& from, const std::string& to) override {
    if (link(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
    return PosixError("link", absl::StrCat(from, " to ", to), errno);
  }

  absl::Status Remove(const std::string& path) override {
    if (unlink(path.c_str()) == 0) return absl::OkStatus();
    // Linux says EISDIR for a directory, POSIX EPERM.
    if ((errno == EISDIR || errno == EPERM) && rmdir(path.c_str()) == 0) return absl::OkStatus();
    return PosixError("remove", path, errno);
  }

  absl::Status RemoveTree(const std::string& path) override {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) {
      return errno == ENOENT ? absl::OkStatus() : PosixError("remove", path, errno);
    }
    if (S_ISDIR(info.st_mode)) {  // never through a symbolic link
      EV_ASSIGN_OR_RETURN(const std::vector<std::string> names, List(path));
      for (const std::string& name : names) EV_RETURN_IF_ERROR(RemoveTree(JoinPath(path, name)));
    }
    return Remove(path);
  }

  absl::Status SyncDirectory(const std::string& path) override {
    const int fd = Retry([&] { return open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) return PosixError("open", path, errno);
    const int result = Retry([&] { return fsync(fd); });
    const int error = errno;
    close(fd);
    // Some file systems cannot sync directories and say EINVAL; their renames need no sync.
    if (result != 0 && error != EINVAL) return PosixError("sync", path, error);
    return absl::OkStatus();
  }

  bool Exists(const std::string& path) override {
    struct stat info {};
    return stat(path.c_str(), &info) == 0;
  }

  bool IsDirectory(const std::string& path) override {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
  }

  absl::StatusOr<double> ModifiedAt(const std::string& path) override {
    struct stat info {};
    if (stat(path.c_str(), &info) != 0) return PosixError("look at", path, errno);
    return static_cast<double>(info.st_mtim.tv_sec) +
           1e-9 * static_cast<double>(info.st_mtim.tv_nsec);
  }
};

}  // namespace

FileSystem& RealFileSystem() {
  static PosixFileSystem* const fs = new PosixFileSystem;  // outlives every user
  return *fs;
}

absl::StatusOr<double> FileSystem::ModifiedAt(const std::string& path) {
  return absl::UnimplementedError(absl::StrCat(path, ": no times are kept here"));
}

absl::StatusOr<std::vector<FileSystem::Entry>> FileSystem::ListEntries(
    const std::string& directory) {
  EV_ASSIGN_OR_RETURN(std::vector<std::string> names, List(directory));
  std::vector<Entry> entries;
  for (std::string& name : names) entries.push_back({std::move(name), Entry::Kind::kUnknown});
  return entries;
}

absl::StatusOr<std::string> ReadWholeFile(FileSystem& fs, const std::string& path) {
  EV_ASSIGN_OR_RETURN(const std::unique_ptr<RandomAccessFile> file, fs.OpenForReading(path));
  std::string text(static_cast<size_t>(file->size()), '\0');
  EV_RETURN_IF_ERROR(
      file->ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  if (directory.empty()) return std::string(name);
  while (directory.size() > 1 && directory.back() == '/') directory.remove_suffix(1);
  while (!name.empty() && name.front() == '/') name.remove_prefix(1);
  std::string path(directory);
  if (path.back() != '/') path.push_back('/');
  return path.append(name);
}

std::string AbsolutePath(const std::string& path) {
  if (!path.empty() && path.front() == '/') return path;
  char cwd[4096];
  if (getcwd(cwd, sizeof cwd) == nullptr) return path;
  return path.empty() || path == "." ? std::string(cwd) : JoinPath(cwd, path);
}

absl::Status ChangeDirectory(const std::string& path) {
  if (chdir(path.c_str()) != 0) return PosixError("go to", path, errno);
  return absl::OkStatus();
}

}  // namespace everstep
