// env: process identities and control groups, as Linux shows them in /proc and /sys.
#include "everstep/env/process_identity.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "everstep/env/environment.h"

namespace everstep {
namespace {

std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

std::string PidNamespace() {
  char text[64];
  const ssize_t n = readlink("/proc/self/ns/pid", text, sizeof text);
  return n > 0 ? std::string(text, n) : std::string();
}

struct ProcessStat {
  char state = '?';
  int64_t start_time = 0;
};

std::optional<ProcessStat> StatOf(int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text, '\0');
  // The name, in parentheses, may hold anything; fields are counted from behind it.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(name_end + 1));
  ProcessStat stat;
  std::string skipped;
  rest >> stat.state;  // field 3
  for (int field = 4; field < 22; ++field) rest >> skipped;
  if (!(rest >> stat.start_time)) return std::nullopt;  // field 22
  return stat;
}

// The number behind "oom_kill" in a file of lines "name number".
std::optional<int64_t> OomKillLine(const std::string& path) {
  std::ifstream file(path);
  std::string name;
  int64_t number = 0;
  while (file >> name >> number) {
    if (name == "oom_kill") return number;
  }
  return std::nullopt;
}

}  // namespace

ProcessIdentity OwnIdentity() {
  ProcessIdentity self;
  self.host = HostName();
  self.boot_id = BootId();
  self.pid_namespace = PidNamespace();
  self.pid = getpid();
  if (const auto stat = StatOf(self.pid)) self.start_time = stat->start_time;
  return self;
}

bool IsKnownGone(const ProcessIdentity& process) {
  if (process.pid <= 0 || process.boot_id.empty() || process.pid_namespace.empty()) return false;
  if (process.host != HostName() || process.boot_id != BootId() ||
      process.pid_namespace != PidNamespace()) {
    return false;
  }
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
  const std::optional<ProcessStat> stat = StatOf(process.pid);
  // Some systems hide the processes of other users.
  if (!stat.has_value()) return false;
  return stat->start_time != process.start_time || stat->state == 'Z' || stat->state == 'X';
}

std::optional<int64_t> OomKills(const std::string& groups_file, const std::string& mount) {
  std::ifstream groups(groups_file);
  std::string line;
  while (std::getline(groups, line)) {
    // "0::/path" of the unified hierarchy, "7:memory:/path" of the old one.
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find(",memory,") == std::string::npos) continue;
    const std::string root = unified ? mount : mount + "/memory";
    const std::string file = unified ? "/memory.events" : "/memory.oom_control";
    // In a container the path may be the host's, and the mount the container's own group.
    for (const std::string& directory : {root + path, root}) {
      if (const auto count = OomKillLine(directory + file)) return count;
    }
  }
  return std::nullopt;
}

}  // namespace everstep
