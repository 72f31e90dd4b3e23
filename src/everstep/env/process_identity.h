// env: which process one is, so that others can find out whether it still lives; and whether the
// kernel killed processes for memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace everstep {

// A number is given to a new process some time after its owner has ended; with the rest it names
// one process for ever.
struct ProcessIdentity {
  std::string host;
  std::string boot_id;        // of the kernel; empty: not known
  std::string pid_namespace;  // in which `pid` counts, "pid:[4026531836]"; empty: not known
  int64_t pid = 0;
  int64_t start_time = 0;  // of the process, in the kernel's ticks since boot
};

ProcessIdentity OwnIdentity();

// Whether the process has certainly ended: it was one of this host, boot and namespace, and its
// number is free, or another's, or waits to be reaped. False also when that cannot be seen from
// here.
bool IsKnownGone(const ProcessIdentity& process);

// How many processes of this process's control group, and of those inside it, the kernel has killed
// for want of memory so far; nothing when it does not tell. The arguments are for tests.
std::optional<int64_t> OomKills(const std::string& groups_file = "/proc/self/cgroup",
                                const std::string& mount = "/sys/fs/cgroup");

}  // namespace everstep
