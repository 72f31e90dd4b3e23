// env: stopping threads, by ptrace.
#include "everstep/env/thread_stacks_stop.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "everstep/env/clock.h"

namespace everstep {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<pid_t> Tids(pid_t pid) {
  std::vector<pid_t> tids;
  DIR* directory = opendir(absl::StrCat("/proc/", pid, "/task").c_str());
  if (directory == nullptr) return tids;
  while (const dirent* entry = readdir(directory)) {
    if (const pid_t tid = atoi(entry->d_name); tid > 0) tids.push_back(tid);
  }
  closedir(directory);
  // The main thread first, then by age.
  std::sort(tids.begin(), tids.end(),
            [pid](pid_t a, pid_t b) { return (a == pid) != (b == pid) ? a == pid : a < b; });
  return tids;
}

std::string TaskFile(pid_t pid, pid_t tid, const char* name) {
  return absl::StrCat("/proc/", pid, "/task/", tid, "/", name);
}

char StateOf(pid_t pid, pid_t tid) {
  const std::string line = FirstLine(TaskFile(pid, tid, "stat"));
  const size_t name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '?' : line[name_end + 2];
}

int TracerOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/status"));
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("TracerPid:", 0) == 0) return atoi(line.c_str() + strlen("TracerPid:"));
  }
  return 0;
}

std::string WhyRefused(pid_t pid, int error) {
  const int tracer = TracerOf(pid);
  if (tracer != 0) {
    return absl::StrCat("process ", tracer, " traces it already (a debugger, strace?); end that");
  }
  return absl::StrCat("this system does not let us look into it (ptrace: ", strerror(error),
                      "); in a container allow it by --cap-add SYS_PTRACE");
}

}  // namespace

std::vector<ThreadOfOther> ThreadsOf(pid_t pid) {
  std::vector<ThreadOfOther> threads;
  for (const pid_t tid : Tids(pid)) {
    ThreadOfOther thread;
    thread.tid = tid;
    thread.name = FirstLine(TaskFile(pid, tid, "comm"));
    thread.state = StateOf(pid, tid);
    thread.waiting = FirstLine(TaskFile(pid, tid, "wchan"));
    if (thread.waiting == "0") thread.waiting.clear();
    if (thread.state != '?') threads.push_back(std::move(thread));
  }
  return threads;
}

StoppedThreads::StoppedThreads(pid_t pid, Deadline deadline) : pid_(pid) {
  // Until the running ones have made no more.
  while (Seize() && AwaitStops(deadline)) {
  }
}

bool StoppedThreads::Seize() {
  bool found = false;
  int error = 0;
  for (const pid_t tid : Tids(pid_)) {
    const bool known = std::any_of(held_.begin(), held_.end(),
                                   [tid](const Held& held) { return held.tid == tid; });
    if (known) continue;
    if (ptrace(PTRACE_SEIZE, tid, nullptr, nullptr) != 0) {
      // A thread that has ended is refused, too.
      if (errno != ESRCH && StateOf(pid_, tid) != 'Z') error = errno;
      continue;
    }
    found = true;
    ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    held_.push_back({tid});
  }
  if (held_.empty() && error != 0) refused_ = WhyRefused(pid_, error);
  return found;
}

bool StoppedThreads::AwaitStops(Deadline deadline) {
  while (true) {
    bool all = true;
    for (Held& held : held_) {
      if (held.stopped || held.gone) continue;
      siginfo_t info{};
      // Never its end: that is for whoever is its parent.
      if (waitid(P_PID, held.tid, &info, WSTOPPED | WNOHANG | __WALL) != 0) {
        held.gone = errno == ECHILD;
      } else if (info.si_pid != 0) {
        held.stopped = true;
        const int event = info.si_status >> 8;
        if (event == 0) held.signal = info.si_status;  // it was about to hear it
      } else if (StateOf(pid_, held.tid) == 'Z' || StateOf(pid_, held.tid) == '?') {
        held.gone = true;
      }
      all = all && (held.stopped || held.gone);
    }
    if (all) return true;
    if (RealClock().Now() >= deadline) return false;
    SleepFor(std::chrono::microseconds(200));
  }
}

StoppedThreads::~StoppedThreads() {
  for (const Held& held : held_) {
    if (held.stopped) ptrace(PTRACE_DETACH, held.tid, nullptr, static_cast<long>(held.signal));
  }
}

bool StoppedThreads::IsStopped(pid_t tid) const {
  return std::any_of(held_.begin(), held_.end(),
                     [tid](const Held& held) { return held.tid == tid && held.stopped; });
}

}  // namespace everstep
