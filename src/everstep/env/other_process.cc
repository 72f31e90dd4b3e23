// env: others' processes, Linux form.
#include "everstep/env/other_process.h"

#include <limits.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace everstep {

void SignalPidFd(int pid_fd, int signal) {
  syscall(SYS_pidfd_send_signal, pid_fd, signal, nullptr, 0);
}

bool CatchesSignal(pid_t pid, int signal) {
  constexpr char kField[] = "SigCgt:";
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(kField, 0) != 0) continue;
    const uint64_t caught = strtoull(line.c_str() + sizeof kField - 1, nullptr, 16);
    return (caught >> (signal - 1) & 1) != 0;
  }
  return false;
}

void ForbidCoreDump(pid_t pid) {
  rlimit limit{};
  if (prlimit(pid, RLIMIT_CORE, nullptr, &limit) != 0) return;
  limit.rlim_cur = 0;
  prlimit(pid, RLIMIT_CORE, &limit, nullptr);
}

std::optional<std::string> VariableOf(pid_t pid, const std::string& name) {
  const std::string wanted = name + "=";
  std::ifstream file(absl::StrCat("/proc/", pid, "/environ"), std::ios::binary);
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.rfind(wanted, 0) == 0) return entry.substr(wanted.size());
  }
  return std::nullopt;
}

std::string DescriptorOf(pid_t pid, int descriptor) {
  char target[PATH_MAX];
  const ssize_t n =
      readlink(absl::StrCat("/proc/", pid, "/fd/", descriptor).c_str(), target, sizeof target);
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : std::string();
}

}  // namespace everstep
