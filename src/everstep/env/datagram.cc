// env: datagrams over unix sockets.
#include "everstep/env/datagram.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "everstep/env/file.h"

namespace everstep {
namespace {

// For the name of a socket in the directory: "/" and a number of 16 digits, and the zero.
constexpr size_t kRoomForName = 24;

bool AddressOf(const std::string& path, sockaddr_un* address) {
  *address = {};
  address->sun_family = AF_UNIX;
  if (path.size() >= sizeof address->sun_path) return false;
  memcpy(address->sun_path, path.data(), path.size());
  return true;
}

}  // namespace

absl::StatusOr<std::string> MakeRuntimeDirectory() {
  const char* base = getenv("TMPDIR");
  std::string path = JoinPath(base != nullptr && *base == '/' ? base : "/tmp", "");
  static constexpr char kName[] = "everstep-run-XXXXXX";
  if (path.size() + sizeof kName + kRoomForName > sizeof(sockaddr_un::sun_path)) path = "/tmp/";
  path = JoinPath(path, kName);
  if (mkdtemp(path.data()) == nullptr) {  // mode 0700
    return absl::UnavailableError(
        absl::StrCat("cannot make ", path, ": ", strerror(errno), "; set TMPDIR to a directory"));
  }
  return path;
}

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
