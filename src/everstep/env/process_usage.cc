// env: the meter of what trees of processes use.
#include "everstep/env/process_usage.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "everstep/env/tcp_traffic.h"

namespace everstep {
namespace {

// Of one program: its libraries come some time after its start.
constexpr int kPythonChecks = 4;
// A process is but the wrapper of one that has used so many times its CPU time, and so much of it.
constexpr int64_t kTimesWrapper = 10;
constexpr int64_t kLeastTicks = 10;
constexpr size_t kMaxLabel = 120;

Duration OfTicks(int64_t ticks) {
  static const int64_t per_second = sysconf(_SC_CLK_TCK);
  return std::chrono::nanoseconds(1'000'000'000 / per_second * ticks);
}

bool IsShell(std::string_view program) {
  program.remove_prefix(program.rfind('/') + 1);  // npos + 1 is 0
  for (const char* shell : {"sh", "bash", "dash", "zsh", "ksh", "fish", "busybox"}) {
    if (program == shell) return true;
  }
  return false;
}

std::string LabelOf(pid_t pid) {
  std::string words;
  for (const std::string& word : ArgumentsOf(pid)) {
    if (words.size() > kMaxLabel) break;
    words += (words.empty() ? "" : " ") + word;
  }
  if (words.empty()) words = ProgramOf(pid);
  if (words.size() > kMaxLabel) words.replace(kMaxLabel - 3, std::string::npos, "...");
  for (char& c : words) c = c < ' ' || c > '~' ? '?' : c;
  return "process " + std::to_string(pid) + (words.empty() ? "" : " (" + words + ")");
}

}  // namespace

void UsageMeter::Add(pid_t leader) { trees_[leader] = Tree(); }
void UsageMeter::Remove(pid_t leader) { trees_.erase(leader); }

std::map<pid_t, ProcessUsage> UsageMeter::Look(Scope scope) {
  std::map<pid_t, ProcessUsage> usages;
  if (trees_.empty()) return usages;
  std::vector<ProcessEntry> all;
  std::unordered_map<uint64_t, int64_t> traffic;
  if (scope == Scope::kAll) {
    all = ListProcesses();
    traffic = TcpTraffic();
  }
  for (auto& [leader, tree] : trees_) {
    if (scope == Scope::kAll) {
      Find(leader, all, &tree);
    } else if (!tree.found) {
      tree.seen[leader];
      tree.order = {leader};
    }
    Count(&tree);
    if (scope == Scope::kAll) {
      for (auto& [pid, seen] : tree.seen) CheckPython(pid, &seen);
      CountTraffic(traffic, &tree);
    }
    Judge(leader, &tree);
    usages[leader] = tree.usage;
  }
  return usages;
}

void UsageMeter::Find(pid_t leader, const std::vector<ProcessEntry>& all, Tree* tree) {
  tree->found = true;
  std::vector<pid_t> order;
  for (const ProcessEntry& entry : TreeOf(leader, all)) order.push_back(entry.pid);
  // One whose parent has ended belongs to it still; Count lets it go when it is another.
  for (const auto& [pid, seen] : tree->seen) {
    if (std::find(order.begin(), order.end(), pid) == order.end()) order.push_back(pid);
  }
  for (pid_t pid : order) tree->seen[pid];
  tree->order = std::move(order);
}

// What was reaped shows in its parent's account of children, with all that it had used before: so
// what is known of processes that are gone is taken off what the parents' accounts have gained.
void UsageMeter::Count(Tree* tree) {
  int64_t own = 0, children = 0, gone = 0, read = 0, written = 0;
  for (auto at = tree->seen.begin(); at != tree->seen.end();) {
    Seen& seen = at->second;
    ProcessEntry now;
    const bool same = ReadProcess(at->first, &now) &&
                      (seen.entry.pid == 0 || seen.entry.start_time == now.start_time);
    if (!same) {
      gone += seen.entry.own_ticks + seen.entry.child_ticks;
      read -= seen.bytes.read;
      written -= seen.bytes.written;
      at = tree->seen.erase(at);
      continue;
    }
    const int64_t used = now.own_ticks - seen.entry.own_ticks;
    seen.used_cpu = used > 0;
    own += std::max<int64_t>(used, 0);
    children += now.child_ticks - seen.entry.child_ticks;
    seen.entry = now;
    TransferredBytes bytes;
    if (ReadTransferred(at->first, &bytes)) {
      read += bytes.read - seen.bytes.read;
      written += bytes.written - seen.bytes.written;
      seen.bytes = bytes;
    }
    ++at;
  }
  tree->usage.cpu += OfTicks(own + std::max<int64_t>(children - gone, 0));
  tree->usage.read += std::max<int64_t>(read, 0);
  tree->usage.written += std::max<int64_t>(written, 0);
}

void UsageMeter::Judge(pid_t leader, Tree* tree) {
  ProcessUsage& usage = tree->usage;
  usage.alive = usage.python = false;
  usage.memory = 0;
  usage.pids.clear();
  std::vector<std::pair<pid_t, Seen*>> living;
  for (pid_t pid : tree->order) {
    const auto found = tree->seen.find(pid);
    if (found == tree->seen.end() || !found->second.entry.lives()) continue;
    Seen& seen = found->second;
    usage.pids.push_back(pid);
    usage.memory += seen.entry.resident;
    usage.alive |= pid == leader;
    usage.python |= seen.python;
    seen.stopped = LookWhetherStopped(pid, &seen);
    living.emplace_back(pid, &seen);
  }
  JudgeStop(living, &usage);
}

// Continued and stopped again it has run, though no look may have come in between: its main thread
// was scheduled for that.
bool UsageMeter::LookWhetherStopped(pid_t pid, Seen* seen) {
  const char state = seen->entry.state == 'Z' ? StateOfThreads(pid) : seen->entry.state;
  if (state != 'T') {
    seen->label.clear();
    return false;
  }
  seen->switches = ContextSwitchesOf(pid);
  if (seen->label.empty()) seen->label = LabelOf(pid);
  return true;
}

void UsageMeter::JudgeStop(const std::vector<std::pair<pid_t, Seen*>>& living,
                           ProcessUsage* usage) {
  usage->stopped = false;
  usage->stopped_process.clear();
  if (living.empty()) return;
  auto program = living.front(), busiest = program;
  bool all_stopped = true, others_work = false;
  for (const auto& each : living) {
    const Seen& seen = *each.second;
    if (seen.stopped && usage->stopped_process.empty()) usage->stopped_process = seen.label;
    all_stopped &= seen.stopped;
    others_work |= !seen.stopped && seen.used_cpu;
    if (seen.python && !program.second->python) program = each;  // those below are its helpers
    if (seen.entry.own_ticks > busiest.second->entry.own_ticks) busiest = each;
  }
  const int64_t most = busiest.second->entry.own_ticks;
  const bool wrapped = most >= kLeastTicks && busiest.first != program.first &&
                       most >= kTimesWrapper * program.second->entry.own_ticks;
  if (wrapped) program = busiest;
  const Seen& seen = *program.second;
  // Others may do the work of what is no Python, and of a shell they always do.
  const bool counts =
      wrapped || seen.python || (!others_work && !IsShell(ProgramOf(program.first)));
  usage->stopped = seen.stopped && (counts || all_stopped);
  usage->stop = {program.first, seen.switches};
  if (usage->stopped) usage->stopped_process = seen.label;
}

void UsageMeter::CheckPython(pid_t pid, Seen* seen) {
  std::string program = ProgramOf(pid);
  if (program.empty()) return;
  if (program != seen->program) {
    seen->program = std::move(program);
    seen->checks = 0;
    seen->python = false;
  }
  if (!seen->python && seen->checks++ < kPythonChecks) seen->python = IsPython(pid);
}

void UsageMeter::CountTraffic(const std::unordered_map<uint64_t, int64_t>& traffic, Tree* tree) {
  if (traffic.empty()) return;
  std::unordered_map<uint64_t, int64_t> sockets;
  for (pid_t pid : tree->order) {
    if (tree->seen.count(pid) == 0) continue;
    for (uint64_t socket : SocketsOf(pid)) {
      const auto bytes = traffic.find(socket);
      if (bytes != traffic.end()) sockets[socket] = bytes->second;
    }
  }
  for (const auto& [socket, bytes] : sockets) {
    const auto before = tree->sockets.find(socket);
    tree->usage.network +=
        std::max<int64_t>(bytes - (before == tree->sockets.end() ? 0 : before->second), 0);
  }
  tree->sockets = std::move(sockets);
}

}  // namespace everstep
