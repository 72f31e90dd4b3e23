// env: processes. Children are held by pidfd; a number is used only for a child that has not been
// reaped, when the kernel cannot have given it away.
//
// A program that spawns must not ignore SIGCHLD nor reap children behind this header's back.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "everstep/base/clock.h"
#include "everstep/env/fd.h"

namespace everstep {

struct SpawnOptions {
  std::vector<std::string> argv;  // argv[0] is looked up as execvp does, in `environment`'s PATH
  // What is executed, whatever argv[0] says; empty: argv[0]. "/proc/self/exe" is what this process
  // runs, though its file may be gone or another's by now.
  std::string executable;
  std::map<std::string, std::string> environment;  // all of it
  std::string working_directory;                   // empty: ours
  bool pipe_output = false;                        // else standard output and error are ours
  // Descriptors to give to the child: ours, and the number it has there (3 or more). Nothing else
  // but 0, 1 and 2 is inherited, whatever its close-on-exec flag says. Standard input is /dev/null.
  std::vector<std::pair<int, int>> descriptors;
  bool own_group = true;
  // Sent to the child when the THREAD that spawned it ends (0: none). So spawn from a thread that
  // lives as long as the process.
  int parent_death_signal = 0;
};

// A child process. Destroying one that has not been waited for kills it, its process group too, and
// reaps it. One thread.
class Process {
 public:
  // Returns when the program runs. kNotFound or kPermissionDenied, naming the program, when it
  // cannot be executed; kResourceExhausted when the system has no room for it. Safe in a process
  // with many threads. The child starts with default signal dispositions and an empty mask.
  static absl::StatusOr<Process> Spawn(const SpawnOptions& options);

  // Runs `body` in a copy of this process, in a group of its own, and ends the copy with the code
  // that it returns; no destructor of the copy's other objects runs. Only while this process has a
  // single thread.
  static absl::StatusOr<Process> Fork(const std::function<int()>& body);

  ~Process();
  Process(Process&& other) noexcept { *this = std::move(other); }
  Process& operator=(Process&& other) noexcept;

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }  // readable once it has exited
  UniqueFd& out() { return out_; }            // read ends, when pipe_output was asked for
  UniqueFd& err() { return err_; }

  void Signal(int signal) const;       // no effect once it has exited
  void SignalGroup(int signal) const;  // also after it has exited, as long as it is not reaped
  bool HasExited() const;              // does not reap

  // Its status as wait(2) gives it, reaping it; nullopt when it still ran at `deadline`.
  std::optional<int> Wait(Deadline deadline);
  std::optional<int> Poll() { return Wait(Deadline::min()); }

 private:
  Process() = default;
  void End();

  pid_t pid_ = 0;  // 0 once reaped
  bool own_group_ = false;
  std::optional<int> status_;
  UniqueFd pidfd_, out_, err_;
};

// The file that execvp would run: kNotFound or kPermissionDenied, naming it, if there is none.
absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path);

std::map<std::string, std::string> CurrentEnvironment();

// Orphans among our descendants become our children, instead of init's.
void BecomeSubreaper();

// A child that has exited and is not reaped yet, else 0.
pid_t ExitedChild();
void ReapChild(pid_t pid);

bool HasChildren();  // living or not reaped

// Kills and reaps every child, and the orphans that this brings, until none is left. False when
// some were still there at `deadline` (asleep in the kernel).
bool KillAllChildren(Deadline deadline);

// For SIGPIPE (a write without a reader is then an error, not the end), SIGXFSZ (the same for a
// file that may not grow) and SIGTTOU (a process in the background may then write to a terminal
// that is set to `tostop`). Children do not inherit it.
void IgnoreSignal(int signal);

// From now on what this process writes to standard error is added to `path`, which is made.
absl::Status RedirectStandardError(const std::string& path);

pid_t ParentPid();
// Sent to this process when its parent ends. False when the parent is not `parent` any more.
bool SetParentDeathSignal(int signal, pid_t parent);

// What wait(2)'s status says: "exited with code 3", "killed by SIGKILL".
std::string DescribeWaitStatus(int status);
bool WasKilled(int status);  // by a signal
// As shells have it: the code, or 128 + the signal.
int ExitCodeOfWaitStatus(int status);

// Blocks `signals` in the calling thread, and so in threads it makes later, and hears them. Make it
// before any other thread runs. Never unblocks: two readers of one signal would share it out. A
// SIGHUP that this process was started to ignore (nohup) stays unheard.
class SignalQueue {
 public:
  explicit SignalQueue(const std::vector<int>& signals);
  int fd() const { return fd_.get(); }  // readable when one waits
  std::optional<int> Next();            // never blocks

 private:
  UniqueFd fd_;
};

}  // namespace everstep
