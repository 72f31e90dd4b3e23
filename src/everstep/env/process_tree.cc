// env: processes as Linux shows them in /proc.
#include "everstep/env/process_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "everstep/env/fd.h"

namespace everstep {
namespace {

constexpr size_t kMaxText = size_t{8} << 20;  // of one file; maps of a huge process are longer

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

std::string Proc(pid_t pid, std::string_view name) {
  return "/proc/" + std::to_string(pid) + "/" + std::string(name);
}

bool ReadText(const std::string& path, std::string* text) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return false;
  text->clear();
  char buffer[4096];
  ssize_t n = 0;
  while (text->size() < kMaxText && (n = read(fd.get(), buffer, sizeof buffer)) > 0) {
    text->append(buffer, static_cast<size_t>(n));
  }
  return n >= 0;
}

std::string ReadLinkAt(int directory, const char* name) {
  char target[4096];
  const ssize_t n = readlinkat(directory, name, target, sizeof target);
  return n > 0 ? std::string(target, static_cast<size_t>(n)) : std::string();
}

bool ParseNumber(std::string_view text, int64_t* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

bool ParseStat(std::string_view text, ProcessEntry* entry) {
  // The name, in parentheses, may hold anything; fields are counted from behind it.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || text.size() < name_end + 4) return false;
  text.remove_prefix(name_end + 2);
  entry->state = text.front();
  int64_t fields[25] = {};  // by their numbers in proc(5); 4 to 24 are read
  text.remove_prefix(2);
  for (int at = 4; at <= 24; ++at) {
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || !ParseNumber(text.substr(0, space), &fields[at])) {
      return false;
    }
    text.remove_prefix(space + 1);
  }
  static const int64_t page = sysconf(_SC_PAGESIZE);
  entry->parent = static_cast<pid_t>(fields[4]);
  entry->group = static_cast<pid_t>(fields[5]);
  entry->own_ticks = fields[14] + fields[15];
  entry->child_ticks = fields[16] + fields[17];
  entry->threads = static_cast<int>(fields[20]);
  entry->start_time = fields[22];
  entry->resident = fields[24] * page;
  return true;
}

// Its numbered entries: processes, threads, descriptors.
template <typename OnNumber>
int ForEachNumber(const std::string& path, OnNumber on) {
  const Directory directory(opendir(path.c_str()));
  if (directory == nullptr) return -1;
  while (const dirent* entry = readdir(directory.get())) {
    int64_t number = 0;
    if (ParseNumber(entry->d_name, &number)) on(dirfd(directory.get()), entry->d_name, number);
  }
  return 0;
}

// Where its descriptors are: a main thread that has ended has let go of them, the others have not.
std::string DescriptorsOf(pid_t pid, const char* what) {
  ProcessEntry entry;
  if (!ReadProcess(pid, &entry) || entry.state != 'Z') return Proc(pid, what);
  std::string found;
  ForEachNumber(Proc(pid, "task"), [&](int, const char* name, int64_t thread) {
    if (thread != pid) found = Proc(pid, "task/" + std::string(name) + "/" + what);
  });
  return found.empty() ? Proc(pid, what) : found;
}

// The first thread that has not ended: its directory.
std::string FirstLivingThread(pid_t pid, char* state) {
  std::string found = Proc(pid, "task/" + std::to_string(pid));
  ForEachNumber(Proc(pid, "task"), [&](int, const char* name, int64_t) {
    const std::string thread_directory = Proc(pid, "task/" + std::string(name));
    std::string text;
    ProcessEntry thread;
    if (*state != 'Z' || !ReadText(thread_directory + "/stat", &text) ||
        !ParseStat(text, &thread)) {
      return;
    }
    *state = thread.state;
    if (*state != 'Z') found = thread_directory;
  });
  return found;
}

bool IsPythonName(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.substr(0, 6) == "python" || name.substr(0, 4) == "pypy";
}

}  // namespace

bool ReadProcess(pid_t pid, ProcessEntry* entry) {
  std::string text;
  entry->pid = pid;
  return ReadText(Proc(pid, "stat"), &text) && ParseStat(text, entry);
}

char StateOfThreads(pid_t pid) {
  char state = 'Z';
  FirstLivingThread(pid, &state);
  return state;
}

int64_t ContextSwitchesOf(pid_t pid) {
  char state = 'Z';
  std::string text;
  if (!ReadText(FirstLivingThread(pid, &state) + "/status", &text)) return -1;
  int64_t switches = 0;
  for (const char* name : {"\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:"}) {
    const size_t at = text.find(name);
    if (at == std::string::npos) return -1;
    switches += std::strtoll(text.c_str() + at + strlen(name), nullptr, 10);
  }
  return switches;
}

std::vector<ProcessEntry> ListProcesses() {
  return ListProcesses([](const ProcessEntry&) {});
}

std::vector<ProcessEntry> ListProcesses(const std::function<void(const ProcessEntry&)>& on_entry) {
  std::vector<ProcessEntry> all;
  ForEachNumber("/proc", [&](int, const char*, int64_t pid) {
    ProcessEntry entry;
    if (!ReadProcess(static_cast<pid_t>(pid), &entry)) return;
    on_entry(entry);
    all.push_back(entry);
  });
  return all;
}

std::vector<ProcessEntry> TreeOf(pid_t leader, const std::vector<ProcessEntry>& all) {
  std::multimap<pid_t, const ProcessEntry*> children;
  std::vector<ProcessEntry> tree;
  std::set<pid_t> known;
  for (const ProcessEntry& entry : all) {
    children.emplace(entry.parent, &entry);
    if (entry.pid == leader) tree.push_back(entry);
  }
  if (tree.empty()) return tree;
  known.insert(leader);
  const auto add_descendants = [&](size_t from) {
    for (size_t i = from; i < tree.size(); ++i) {
      const auto [begin, end] = children.equal_range(tree[i].pid);
      for (auto child = begin; child != end; ++child) {
        if (known.insert(child->second->pid).second) tree.push_back(*child->second);
      }
    }
  };
  add_descendants(0);
  for (const ProcessEntry& entry : all) {  // orphans that stayed in the group
    if (entry.group != leader || !known.insert(entry.pid).second) continue;
    tree.push_back(entry);
    add_descendants(tree.size() - 1);
  }
  return tree;
}

std::vector<pid_t> ProcessTree(pid_t leader) {
  std::vector<pid_t> pids;
  for (const ProcessEntry& entry : TreeOf(leader, ListProcesses())) pids.push_back(entry.pid);
  return pids;
}

bool IsPython(pid_t pid) {
  if (IsPythonName(ProgramOf(pid))) return true;
  std::string maps;
  return ReadText(Proc(pid, "maps"), &maps) && maps.find("/libpython") != std::string::npos;
}

std::string ProgramOf(pid_t pid) { return ReadLinkAt(AT_FDCWD, Proc(pid, "exe").c_str()); }

std::string WorkingDirectoryOf(pid_t pid) { return ReadLinkAt(AT_FDCWD, Proc(pid, "cwd").c_str()); }

std::vector<std::string> ArgumentsOf(pid_t pid) {
  std::vector<std::string> arguments;
  std::string text;
  if (!ReadText(Proc(pid, "cmdline"), &text)) return arguments;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\0', at), text.size());
    arguments.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return arguments;
}

std::vector<OpenFile> OpenFilesOf(pid_t pid) {
  std::vector<OpenFile> files;
  const std::string info = DescriptorsOf(pid, "fdinfo");
  ForEachNumber(DescriptorsOf(pid, "fd"), [&](int directory, const char* name, int64_t) {
    OpenFile file;
    file.path = ReadLinkAt(directory, name);
    static constexpr std::string_view kDeleted = " (deleted)";
    const bool deleted = file.path.size() > kDeleted.size() &&
                         file.path.compare(file.path.size() - kDeleted.size(), kDeleted.size(),
                                           kDeleted.data()) == 0;
    if (file.path.empty() || file.path.front() != '/' || deleted) return;
    std::string text;
    if (ReadText(info + "/" + name, &text)) {
      const size_t flags = text.find("flags:");
      if (flags != std::string::npos) {
        const auto mode = std::strtoul(text.c_str() + flags + 6, nullptr, 8) & O_ACCMODE;
        file.writable = mode == O_WRONLY || mode == O_RDWR;
      }
    }
    files.push_back(std::move(file));
  });
  return files;
}

std::vector<uint64_t> SocketsOf(pid_t pid) {
  std::vector<uint64_t> sockets;
  ForEachNumber(DescriptorsOf(pid, "fd"), [&](int directory, const char* name, int64_t) {
    char target[64];
    const ssize_t n = readlinkat(directory, name, target, sizeof target - 1);
    if (n <= 0) return;
    target[n] = '\0';
    if (strncmp(target, "socket:[", 8) == 0) {
      sockets.push_back(std::strtoull(target + 8, nullptr, 10));
    }
  });
  return sockets;
}

bool ReadTransferred(pid_t pid, TransferredBytes* bytes) {
  std::string text;
  if (!ReadText(Proc(pid, "io"), &text)) return false;
  long long read = 0, written = 0;
  if (sscanf(text.c_str(), "rchar: %lld wchar: %lld", &read, &written) != 2) return false;
  *bytes = {read, written};
  return true;
}

}  // namespace everstep
