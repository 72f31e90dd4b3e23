// env: datagrams over unix sockets.
#include "everstep/env/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"
#include "everstep/env/file.h"

namespace everstep {
namespace {

constexpr char kName[] = "everstep-run-";
// For six letters, and the name of a socket: "/", a number of 16 digits, and the zero.
constexpr size_t kRoomForName = 32;
// Between making a directory and locking it, it looks as if nobody lived in it.
constexpr double kTakenForLeft = 60;  // seconds

void RemoveLeftOnes(const std::string& base) {
  FileSystem& fs = RealFileSystem();
  for (const std::string& name : fs.List(base).value_or(std::vector<std::string>())) {
    if (name.compare(0, sizeof kName - 1, kName) != 0) continue;
    const std::string path = JoinPath(base, name);
    const UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    struct stat info {};
    if (!fd.valid() || fstat(fd.get(), &info) != 0 || info.st_uid != geteuid()) continue;
    if (WallSeconds() - static_cast<double>(info.st_mtim.tv_sec) < kTakenForLeft) continue;
    if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) (void)fs.RemoveTree(path);
  }
}

bool AddressOf(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof address->sun_path) return false;
  memcpy(address->sun_path, path.data(), path.size());
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RuntimeDirectory>> RuntimeDirectory::Make() {
  const char* tmp = getenv("TMPDIR");
  std::string base = tmp != nullptr && *tmp == '/' ? tmp : "/tmp";
  if (base.size() + sizeof kName + kRoomForName > sizeof(sockaddr_un::sun_path)) base = "/tmp";
  RemoveLeftOnes(base);
  std::string path = JoinPath(base, absl::StrCat(kName, "XXXXXX"));
  if (mkdtemp(path.data()) == nullptr) {  // mode 0700
    return absl::UnavailableError(
        absl::StrCat("cannot make ", path, ": ", strerror(errno), "; set TMPDIR to a directory"));
  }
  UniqueFd lock(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  (void)flock(lock.get(), LOCK_EX | LOCK_NB);
  return std::unique_ptr<RuntimeDirectory>(new RuntimeDirectory(std::move(path), std::move(lock)));
}

RuntimeDirectory::~RuntimeDirectory() { (void)RealFileSystem().RemoveTree(path_); }

absl::StatusOr<UniqueFd> BindDatagram(const std::string& path) {
  sockaddr_un address;
  if (!AddressOf(path, &address)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": too long for a socket"));
  }
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return absl::UnavailableError(absl::StrCat("socket ", path, ": ", strerror(errno)));
  }
  return fd;
}

std::optional<size_t> ReceiveDatagram(int socket, absl::Span<char> out) {
  while (true) {
    const ssize_t n = ::recv(socket, out.data(), out.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (n >= 0) return static_cast<size_t>(n);
    if (errno != EINTR) return std::nullopt;
  }
}

DatagramSender::DatagramSender(std::string path)
    : path_(std::move(path)),
      socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

bool DatagramSender::Send(std::string_view text) {
  sockaddr_un address;
  if (!AddressOf(path_, &address)) return false;
  return ::sendto(socket_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address),
                  sizeof address) == static_cast<ssize_t>(text.size());
}

}  // namespace everstep
