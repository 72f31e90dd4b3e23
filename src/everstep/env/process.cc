// env: processes, Linux form.
#include "everstep/env/process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "everstep/base/status.h"
#include "everstep/env/clock.h"
#include "everstep/env/pipe.h"
#include "everstep/env/poll.h"

extern char** environ;

namespace everstep {
namespace {

// Siginfo of waitid in the form of wait(2).
int WaitStatus(const siginfo_t& info) {
  if (info.si_code == CLD_EXITED) return (info.si_status & 0xff) << 8;
  return info.si_status | (info.si_code == CLD_DUMPED ? 0x80 : 0);
}

// False: still running.
bool WaitOn(idtype_t kind, id_t id, int flags, siginfo_t* info) {
  info->si_pid = 0;
  while (waitid(kind, id, info, WEXITED | WNOHANG | flags) != 0) {
    if (errno != EINTR) return false;
  }
  return info->si_pid != 0;
}

bool WaitReadable(int fd, Deadline deadline) {
  PollItem item{fd, true};
  while (!item.readable) {
    const TimePoint now = RealClock().Now();
    if (!::everstep::Poll(absl::MakeSpan(&item, 1), deadline > now ? deadline - now : Duration{})
             .ok())
      return false;
    if (deadline <= now) break;
  }
  return item.readable;
}

std::vector<pid_t> Children() {
  std::vector<pid_t> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return children;
  const std::string self = std::to_string(getpid());
  while (const dirent* entry = readdir(proc)) {
    const pid_t pid = atoi(entry->d_name);
    if (pid <= 0) continue;
    std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
    std::string line;
    std::getline(file, line);
    // "pid (name) state ppid": the name may hold anything, so count from its last parenthesis.
    const size_t close = line.rfind(')');
    if (close == std::string::npos) continue;
    std::istringstream rest(line.substr(close + 1));
    std::string state, parent;
    rest >> state >> parent;
    if (parent == self) children.push_back(pid);
  }
  closedir(proc);
  return children;
}

absl::Status NotExecutable(const std::string& program, int error) {
  const std::string text = absl::StrCat("cannot run '", program, "': ", strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(text);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  if (error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE) {
    return absl::ResourceExhaustedError(text);
  }
  return absl::InvalidArgumentError(text);
}

// Everything the child needs between fork and exec, made before the fork: there, only what is
// async-signal-safe may be called, because other threads may have held any lock.
struct ChildPlan {
  std::string path;
  std::vector<char*> argv, shell_argv, envp;
  std::vector<std::pair<int, int>> descriptors;  // (source, target)
  int first_free = 3;                            // above all targets
  const char* working_directory = nullptr;
  bool own_group = false;
  int parent_death_signal = 0;
  pid_t parent = 0;
  int error_pipe = -1;
};

[[noreturn]] void RunChild(ChildPlan& plan) {
  auto fail = [&plan](int error) {
    [[maybe_unused]] const ssize_t n = write(plan.error_pipe, &error, sizeof error);
    _exit(127);
  };
  if (plan.own_group) setpgid(0, 0);
  if (plan.parent_death_signal != 0) {
    prctl(PR_SET_PDEATHSIG, plan.parent_death_signal);
    if (getppid() != plan.parent) _exit(127);  // it died before the line above
  }
  // First out of the way of all targets, then into place.
  plan.error_pipe = fcntl(plan.error_pipe, F_DUPFD_CLOEXEC, plan.first_free);
  if (plan.error_pipe < 0) _exit(127);
  for (auto& [source, target] : plan.descriptors) {
    source = fcntl(source, F_DUPFD_CLOEXEC, plan.first_free);
    if (source < 0) fail(errno);
  }
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // libraries forget the flag now and then
  for (const auto& [source, target] : plan.descriptors) {
    if (dup2(source, target) < 0) fail(errno);
  }
  if (plan.working_directory != nullptr && chdir(plan.working_directory) != 0) fail(errno);
  // Handlers end with exec by themselves; what was ignored would stay ignored.
  struct sigaction default_action {};
  default_action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &default_action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execve(plan.path.c_str(), plan.argv.data(), plan.envp.data());
  if (errno == ENOEXEC) execve("/bin/sh", plan.shell_argv.data(), plan.envp.data());
  fail(errno);
  _exit(127);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& s : strings) pointers.push_back(const_cast<char*>(s.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// The errno that the child sent, 0 when the pipe closed by exec.
int ExecError(int read_end) {
  int error = 0;
  // A program on a file system that does not answer keeps the child in exec.
  if (!WaitReadable(read_end, After(RealClock(), std::chrono::seconds(60)))) return ETIMEDOUT;
  const ptrdiff_t n = ReadSome(read_end, reinterpret_cast<char*>(&error), sizeof error);
  return n == sizeof error ? error : 0;
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path) {
  if (program.empty()) return absl::InvalidArgumentError("the program's name is empty");
  auto check = [](const std::string& file) {
    struct stat info {};
    if (stat(file.c_str(), &info) != 0) return errno;
    if (S_ISDIR(info.st_mode)) return EISDIR;
    return access(file.c_str(), X_OK) == 0 ? 0 : errno;
  };
  if (program.find('/') != std::string::npos) {
    const int error = check(program);
    if (error == EISDIR) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot run '", program, "': it is a directory"));
    }
    if (error == EACCES) {
      return absl::PermissionDeniedError(
          absl::StrCat("cannot run '", program, "': it is not executable (chmod +x?)"));
    }
    if (error != 0) return NotExecutable(program, error);
    return program;
  }
  bool found = false;
  for (const std::string& directory : std::vector<std::string>(absl::StrSplit(path, ':'))) {
    const std::string file = directory.empty() ? program : absl::StrCat(directory, "/", program);
    const int error = check(file);
    if (error == 0) return file;
    found = found || error == EACCES;
  }
  if (found) {
    return absl::PermissionDeniedError(
        absl::StrCat("cannot run '", program, "': the one in PATH is not executable"));
  }
  return absl::NotFoundError(absl::StrCat("cannot run '", program, "': not found in PATH (write ./",
                                          program, " for a program of this directory)"));
}

absl::StatusOr<Process> Process::Spawn(const SpawnOptions& options) {
  if (options.argv.empty()) return absl::InvalidArgumentError("no program to run");
  const auto path = options.environment.find("PATH");
  ChildPlan plan;
  EV_ASSIGN_OR_RETURN(
      plan.path, FindProgram(options.executable.empty() ? options.argv[0] : options.executable,
                             path == options.environment.end() ? "/bin:/usr/bin" : path->second));
  std::vector<std::string> variables;
  for (const auto& [name, value] : options.environment) {
    variables.push_back(absl::StrCat(name, "=", value));
  }
  plan.argv = Pointers(options.argv);
  plan.shell_argv = plan.argv;
  plan.shell_argv[0] = const_cast<char*>(plan.path.c_str());
  plan.shell_argv.insert(plan.shell_argv.begin(), const_cast<char*>("/bin/sh"));
  plan.envp = Pointers(variables);
  if (!options.working_directory.empty()) {
    plan.working_directory = options.working_directory.c_str();
  }
  plan.own_group = options.own_group;
  plan.parent_death_signal = options.parent_death_signal;
  plan.parent = getpid();

  Process process;
  process.own_group_ = options.own_group;
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe out, err;
  EV_ASSIGN_OR_RETURN(Pipe error, MakePipe());
  if (null.valid()) plan.descriptors.emplace_back(null.get(), 0);
  if (options.pipe_output) {
    EV_ASSIGN_OR_RETURN(out, MakePipe());
    EV_ASSIGN_OR_RETURN(err, MakePipe());
    plan.descriptors.emplace_back(out.write.get(), 1);
    plan.descriptors.emplace_back(err.write.get(), 2);
  }
  for (const auto& mapping : options.descriptors) plan.descriptors.push_back(mapping);
  for (const auto& [source, target] : plan.descriptors) {
    plan.first_free = std::max(plan.first_free, target + 1);
  }
  plan.error_pipe = error.write.get();

  // No handler of ours may run in the child.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  // Without atfork handlers: gRPC's and others' take locks that threads of ours may hold.
  const pid_t pid = _Fork();
  if (pid == 0) RunChild(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) return NotExecutable(options.argv[0], fork_error);

  if (options.own_group) setpgid(pid, pid);  // whoever comes first
  process.pid_ = pid;
  process.pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  error.write.Reset();
  const int exec_error = ExecError(error.read.get());
  if (exec_error != 0) return NotExecutable(options.argv[0], exec_error);  // ~Process reaps
  if (!process.pidfd_.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptor left to watch '", options.argv[0], "' with"));
  }
  process.out_ = std::move(out.read);
  process.err_ = std::move(err.read);
  return process;
}

absl::StatusOr<Process> Process::Fork(const std::function<int()>& body) {
  fflush(nullptr);  // or the copy would write it again
  const pid_t pid = fork();
  if (pid < 0) return NotExecutable("a copy of this program", errno);
  if (pid == 0) {
    setpgid(0, 0);
    const int code = body();
    fflush(nullptr);
    _exit(code);
  }
  setpgid(pid, pid);
  Process process;
  process.pid_ = pid;
  process.own_group_ = true;
  process.pidfd_ = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return process;
}

Process::~Process() { End(); }

Process& Process::operator=(Process&& other) noexcept {
  if (this != &other) {
    End();
    pid_ = std::exchange(other.pid_, 0);
    own_group_ = other.own_group_;
    status_ = other.status_;
    pidfd_ = std::move(other.pidfd_);
    out_ = std::move(other.out_);
    err_ = std::move(other.err_);
  }
  return *this;
}

void Process::End() {
  if (pid_ == 0) return;
  SignalGroup(SIGKILL);
  kill(pid_, SIGKILL);
  siginfo_t info;
  while (waitid(P_PID, pid_, &info, WEXITED) != 0 && errno == EINTR) {
  }
  pid_ = 0;
}

void Process::Signal(int signal) const {
  if (pid_ != 0) syscall(SYS_pidfd_send_signal, pidfd_.get(), signal, nullptr, 0);
}

void Process::SignalGroup(int signal) const {
  if (pid_ == 0) return;
  if (own_group_) {
    kill(-pid_, signal);
  } else {
    Signal(signal);
  }
}

bool Process::HasExited() const {
  siginfo_t info;
  return pid_ == 0 || WaitOn(P_PID, pid_, WNOWAIT, &info);
}

std::optional<int> Process::Wait(Deadline deadline) {
  if (pid_ == 0) return status_;
  siginfo_t info;
  if (!WaitOn(P_PIDFD, pidfd_.get(), 0, &info)) {
    if (deadline == Deadline::min() || !WaitReadable(pidfd_.get(), deadline)) {
      return std::nullopt;
    }
    if (!WaitOn(P_PIDFD, pidfd_.get(), 0, &info)) return std::nullopt;
  }
  pid_ = 0;
  status_ = WaitStatus(info);
  return status_;
}

std::map<std::string, std::string> CurrentEnvironment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

void BecomeSubreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

pid_t ExitedChild() {
  siginfo_t info;
  return WaitOn(P_ALL, 0, WNOWAIT, &info) ? info.si_pid : 0;
}

void ReapChild(pid_t pid) {
  siginfo_t info;
  WaitOn(P_PID, pid, 0, &info);
}

bool HasChildren() {
  siginfo_t info;
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 || errno != ECHILD;
}

bool KillAllChildren(Deadline deadline) {
  while (true) {
    // Children of ours and unreaped: their numbers are theirs.
    for (pid_t child : Children()) kill(child, SIGKILL);
    siginfo_t info;
    while (WaitOn(P_ALL, 0, 0, &info)) {
    }
    if (!HasChildren()) return true;
    if (RealClock().Now() >= deadline) return false;
    SleepFor(std::chrono::milliseconds(1));
  }
}

void IgnoreSignal(int number) { signal(number, SIG_IGN); }

absl::Status RedirectStandardError(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (!fd.valid() || dup2(fd.get(), 2) < 0) {
    return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", strerror(errno)));
  }
  return absl::OkStatus();
}

pid_t ParentPid() { return getppid(); }

bool SetParentDeathSignal(int signal, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, signal);
  return getppid() == parent;
}

std::string DescribeWaitStatus(int status) {
  if (WIFEXITED(status)) return absl::StrCat("exited with code ", WEXITSTATUS(status));
  const char* name = sigabbrev_np(WTERMSIG(status));
  return absl::StrCat("killed by ", name == nullptr ? "signal " : "SIG",
                      name == nullptr ? std::to_string(WTERMSIG(status)) : name);
}

bool WasKilled(int status) { return WIFSIGNALED(status); }

int ExitCodeOfWaitStatus(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

SignalQueue::SignalQueue(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : signals) {
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    // A blocked signal is queued even where it would be ignored.
    if (signal != SIGHUP || now.sa_handler != SIG_IGN) sigaddset(&set, signal);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  fd_ = UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

std::optional<int> SignalQueue::Next() {
  signalfd_siginfo info;
  if (read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace everstep
