// env: what processes and all that they started have used, by looking at them from outside.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "everstep/base/clock.h"
#include "everstep/env/process_tree.h"

namespace everstep {

// Of one tree of processes. Amounts are totals that never fall, whatever ends; what a process did
// between the last look and its end may be missing.
struct ProcessUsage {
  bool alive = false;       // the leader is, or a thread of it
  std::vector<pid_t> pids;  // that live; the leader first
  Duration cpu{};
  int64_t memory = 0;   // bytes, resident; shared ones count in each process
  int64_t read = 0;     // bytes by read calls, whatever from
  int64_t written = 0;  // bytes by write calls, whatever to
  int64_t network = 0;  // bytes over TCP, both ways
  // A signal has stopped the program of the tree: the outermost Python or, with none, the leader,
  // unless that is only the wrapper of another process, which has used ten times its CPU time; a
  // wrapper is told as stopped when all of the tree is. A process that is traced is not stopped.
  bool stopped = false;
  // Equal in two looks that both found it stopped: it did not run in between.
  std::pair<pid_t, int64_t> stop;
  // The one that is stopped, the program or else any helper of it, for people and in printable
  // ASCII: "process 77 (sleep 1000)". Empty: none is.
  std::string stopped_process;
  bool python = false;  // one of them runs Python
};

// Looks at any number of trees. One thread.
class UsageMeter {
 public:
  void Add(pid_t leader);  // a child of ours that has not been reaped: its number is its own
  void Remove(pid_t leader);

  // kKnown looks at the processes found before, and costs some 20 us for each; kAll finds new ones
  // too, and asks for network traffic: milliseconds for the whole machine.
  enum class Scope { kKnown, kAll };
  std::map<pid_t, ProcessUsage> Look(Scope scope);

 private:
  struct Seen {
    ProcessEntry entry;
    TransferredBytes bytes;
    std::string program;
    int checks = 0;  // for Python, of this program
    bool python = false;
    bool used_cpu = false;  // since the look before
    bool stopped = false;   // at the last look
    int64_t switches = 0;   // of its threads, when it was last seen stopped
    std::string label;      // made when it was first seen stopped
  };
  struct Tree {
    bool found = false;
    std::map<pid_t, Seen> seen;
    std::vector<pid_t> order;
    std::unordered_map<uint64_t, int64_t> sockets;
    ProcessUsage usage;
  };

  static void Find(pid_t leader, const std::vector<ProcessEntry>& all, Tree* tree);
  static void Count(Tree* tree);
  static void Judge(pid_t leader, Tree* tree);
  static void JudgeStop(const std::vector<std::pair<pid_t, Seen*>>& living, ProcessUsage* usage);
  static bool LookWhetherStopped(pid_t pid, Seen* seen);
  static void CheckPython(pid_t pid, Seen* seen);
  static void CountTraffic(const std::unordered_map<uint64_t, int64_t>& traffic, Tree* tree);

  std::map<pid_t, Tree> trees_;
};

}  // namespace everstep
