// env: datagrams over unix sockets that lie in a directory of ours.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "everstep/env/fd.h"

namespace everstep {

// A new directory that only this user can enter, "/tmp/everstep-run-XXXXXX" or under $TMPDIR if
// sockets in it can have paths as short as the kernel wants them. It goes away with its object;
// what a process that was killed has left, with the next one that is made.
class RuntimeDirectory {
 public:
  static absl::StatusOr<std::unique_ptr<RuntimeDirectory>> Make();
  ~RuntimeDirectory();
  RuntimeDirectory(const RuntimeDirectory&) = delete;
  RuntimeDirectory& operator=(const RuntimeDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  RuntimeDirectory(std::string path, UniqueFd lock)
      : path_(std::move(path)), lock_(std::move(lock)) {}
  const std::string path_;
  const UniqueFd lock_;  // held: somebody lives in it
};

// A socket at `path` (at most 107 bytes) that hears datagrams. Non-blocking, close-on-exec. The
// file stays until it is removed.
absl::StatusOr<UniqueFd> BindDatagram(const std::string& path);

// Takes one datagram into `out` and says how long it was, also when that is more than fits; nothing
// when none waits.
std::optional<size_t> ReceiveDatagram(int socket, absl::Span<char> out);

// Sends without waiting; false when nobody hears it now (no socket there, or its queue is full).
class DatagramSender {
 public:
  explicit DatagramSender(std::string path);
  bool Send(std::string_view text);

 private:
  std::string path_;
  UniqueFd socket_;
};

}  // namespace everstep
