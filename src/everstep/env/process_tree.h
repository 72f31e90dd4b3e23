// env: what /proc tells of processes that somebody else started: who belongs to whom, what they are
// and which files they have open. Processes may end while they are looked at: then what was
// seen of them is little or nothing, never an error. Any thread.
//
// Reading arguments or maps waits for the process's memory lock, which a process that is stuck in a
// page fault may hold for long: not for a thread that must not wait.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace everstep {

// One line of the system's list of processes.
struct ProcessEntry {
  pid_t pid = 0, parent = 0, group = 0;
  char state = '?';         // as ps(1) has it: R, S, D, T (stopped), t (traced), Z, ...
  int threads = 0;          // that have not been reaped; a leader that has ended counts until then
  int64_t own_ticks = 0;    // CPU time of its threads, living and ended
  int64_t child_ticks = 0;  // of children that it has reaped, and of theirs
  int64_t start_time = 0;   // ticks since boot; with the number it names one process
  int64_t resident = 0;     // bytes

  // It runs, or its main thread has ended while others run.
  bool lives() const { return (state != 'Z' && state != 'X') || threads > 1; }
};

// False when there is no such process.
bool ReadProcess(pid_t pid, ProcessEntry* entry);
// `threads` > 1 and the main thread has ended: the state of the first one that has not.
char StateOfThreads(pid_t pid);
// How often that thread, else the main one, was put to wait or taken off its CPU. Every stop by a
// signal counts. -1 when it cannot be seen.
int64_t ContextSwitchesOf(pid_t pid);

std::vector<ProcessEntry> ListProcesses();
// `on_entry` is called for each as soon as it was read: what else it wants to know of one that may
// end soon it asks then.
std::vector<ProcessEntry> ListProcesses(const std::function<void(const ProcessEntry&)>& on_entry);

// Of `all`: `leader`, everything in the process group that it leads, and all that these started.
// The leader comes first, every process after its parent.
std::vector<ProcessEntry> TreeOf(pid_t leader, const std::vector<ProcessEntry>& all);
std::vector<pid_t> ProcessTree(pid_t leader);  // the same, now

// It runs a Python interpreter: its program is named so, or has loaded the library. The first look
// after its start may come before the library is there.
bool IsPython(pid_t pid);

// Empty when they cannot be seen.
std::string ProgramOf(pid_t pid);  // path of what it executes
std::string WorkingDirectoryOf(pid_t pid);
std::vector<std::string> ArgumentsOf(pid_t pid);

struct OpenFile {
  std::string path;  // absolute
  bool writable = false;
};
// Those that still have a name, in order of descriptors, devices among them; no pipes and sockets.
std::vector<OpenFile> OpenFilesOf(pid_t pid);
// The inodes of its sockets.
std::vector<uint64_t> SocketsOf(pid_t pid);

// Bytes moved by read and write calls, whatever to and from; reaped children's too.
struct TransferredBytes {
  int64_t read = 0, written = 0;
};
bool ReadTransferred(pid_t pid, TransferredBytes* bytes);

}  // namespace everstep
